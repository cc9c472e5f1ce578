"""The validation set: the objective's loss on it, and neighbour retrieval by cosine.

Retrieval compares the vectors that users get, all views concatenated, by cosine within blocks of 400
successive sentences. recall@1 is the fraction of sentences whose nearest other sentence is the one before or
after it in its document.

Legend of dimension suffixes: B sentences of a block, D embedding size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from multiview.training.data import Span, Step, StepSource, cut
from multiview.training.gradient import MultiViewNetwork
from multiview.training.objective import Positions, neighbour_targets, retrieved

BLOCK_SENTENCES = 400


class ValidationSet:
    """The validation sentences, read and planned once, so that only the loader thread uses the cache later.

    Args:
        source: reads and plans.
        spans: the sentences.
        batch: sentences contrasted with each other, as in training.
    """

    def __init__(self, source: StepSource, spans: Sequence[Span], batch: int) -> None:
        pieces = [piece for span in spans for piece in cut(*span, batch, least=2)]
        self.steps: list[Step] = [source.prepare([piece]) for piece in pieces]
        self.sentences = sum(step.sentences for step in self.steps)

    @torch.no_grad()
    def scores(self, network: MultiViewNetwork, *, autocast: bool = False) -> dict[str, float]:
        """Metrics of a network: ``anchors``, ``recall@1``, and per anchor the objective's own metrics.

        Args:
            network: the network to evaluate.
            autocast: bfloat16 matrix products, as in training.
        """
        device = next(network.parameters()).device
        sums, anchors = torch.zeros(len(network.objective.metrics), dtype=torch.float64, device=device), 0
        embeddings: list[Tensor] = []
        positions: list[Positions] = []
        for step in self.steps:
            step = step.to(device)
            segment = step.segments[0]
            words = step.rows.leaves(network.words)
            (batch,) = segment.micro_batches
            with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
                features = network.encode(batch.tokens, batch.plans, words)
            value = network.objective(features, segment.targets, segment.teacher)
            sums, anchors = sums + value.sums, anchors + value.anchors
            embeddings.append(torch.cat([feature.float() for feature in features], dim=1))
            positions.append(segment.positions)
        if not anchors:
            return {"anchors": 0}
        recall = neighbour_recall(torch.cat(embeddings), Positions.concatenate(positions))
        means = zip(network.objective.metrics, (sums / anchors).tolist(), strict=True)
        return {"anchors": anchors, "recall@1": recall, **dict(means)}


def neighbour_recall(embeddings_ND: Tensor, positions: Positions, block: int = BLOCK_SENTENCES) -> float:
    """Fraction of sentences whose nearest other sentence of their block, by cosine, is a neighbour.

    Args:
        embeddings_ND: [N, D], one row per sentence, in the order of the corpus.
        positions: of the N sentences.
        block: sentences compared with each other.
    """
    unit_ND = torch.nn.functional.normalize(embeddings_ND, dim=1)
    hits, anchors = 0, 0
    for start in range(0, len(positions), block):
        here = slice(start, start + block)
        targets = neighbour_targets(positions[here], "document").to(unit_ND.device)
        if len(targets.anchor):
            similarity_AB = unit_ND[here][targets.anchor] @ unit_ND[here].T
            hits += int(retrieved(similarity_AB, targets).sum())
            anchors += len(targets.anchor)
    return hits / max(anchors, 1)
