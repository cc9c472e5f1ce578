"""The validation set: the objective's loss on it, and neighbour retrieval by cosine.

Retrieval compares the vectors that users get, all views concatenated, by cosine within blocks of 400
successive sentences. recall@1 is the fraction of sentences whose nearest other sentence is the one before or
after it in its document.

Legend of dimension suffixes: B sentences of a block, D embedding size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from multiview.training.data import Span, Step, StepSource, cut
from multiview.training.network import MultiViewNetwork
from multiview.training.objective import Positions, neighbour_targets, retrieved

BLOCK_SENTENCES = 400


@dataclass(frozen=True, kw_only=True)
class ValidationScores:
    """Metrics on the validation set; recall and accuracy are between 0 and 1."""

    loss: float
    """Mean over anchors."""
    recall_at_1: float
    """Neighbour retrieval by cosine of the concatenated views."""
    pair_accuracy: dict[str, float]
    """Accuracy@1 of the objective's scores, per pair of views."""
    anchors: int

    def as_json(self) -> dict[str, float]:
        """Flat JSON values."""
        pairs = {f"accuracy@1/{name}": value for name, value in self.pair_accuracy.items()}
        return {"loss": self.loss, "recall@1": self.recall_at_1, "anchors": self.anchors, **pairs}


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
    def scores(self, network: MultiViewNetwork, *, autocast: bool = False) -> ValidationScores:
        """Metrics of a network.

        Args:
            network: the network to evaluate.
            autocast: bfloat16 matrix products, as in training.
        """
        if not self.steps:
            return ValidationScores(loss=0.0, recall_at_1=0.0, pair_accuracy={}, anchors=0)
        device = next(network.parameters()).device
        loss, anchors = torch.zeros((), dtype=torch.float64, device=device), 0
        hits: dict[str, Tensor | float] = {}
        embeddings: list[Tensor] = []
        positions: list[Positions] = []
        for step in self.steps:
            step = step.to(device)
            group = step.groups[0]
            words = step.rows.leaves(network.words)
            (batch,) = group.micro_batches
            with torch.autocast(words[0].device.type, torch.bfloat16, enabled=autocast):
                features = network.encode(batch.tokens, batch.plans, words)
            value = network.objective(features, group.targets, teacher=group.teacher)
            loss += value.loss.double()
            anchors += value.anchors
            for name, count in zip(network.objective.names, value.pair_hits, strict=True):
                hits[name] = hits.get(name, 0.0) + count
            embeddings.append(torch.cat([feature.float() for feature in features], dim=1))
            positions.append(group.positions)
        total = max(anchors, 1)
        return ValidationScores(
            loss=float(loss) / total,
            recall_at_1=neighbour_recall(torch.cat(embeddings), Positions.concatenate(positions)),
            pair_accuracy={name: float(count) / total for name, count in hits.items()},
            anchors=anchors,
        )


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
        part = positions[here]
        targets = neighbour_targets(part, part, "document").to(unit_ND.device)
        if not len(targets.anchor):
            continue
        similarity_AB = unit_ND[here][targets.anchor] @ unit_ND[here].T
        hits += int(retrieved(similarity_AB, targets).sum())
        anchors += len(targets.anchor)
    return hits / max(anchors, 1)
