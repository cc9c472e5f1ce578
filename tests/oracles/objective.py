"""The contrastive loss in loops over sentences, read off its definition; gradients by autograd."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from multiview.model_config import ObjectiveConfig
from multiview.training.targets import Positions

TEMPERATURE = 0.05


@dataclass
class Around:
    """What one anchor is compared with: places in the batch."""

    anchor: int
    positives: list[int]
    outside: list[int]
    itself: list[int]


@dataclass
class Losses:
    """Sums over the anchors: of the whole, of each pair of views, of finding oneself; best ones right."""

    anchors: int
    whole: Tensor
    pairs: list[Tensor]
    same: Tensor
    hits: list[float]


def surroundings(positions: Positions, boundary: str) -> list[Around]:
    """Describe what is around every anchor."""
    neighbourhoods, usable, size = [], np.flatnonzero(positions.usable).tolist(), len(positions.sentence)
    content = range(size) if positions.content is None else positions.content
    for s in usable:
        context = [u for u in (s - 1, s + 1) if 0 <= u < size]
        if boundary != "none":
            context = [u for u in context if positions.document[u] == positions.document[s]]
        words = {content[u] for u in (s, *context)}
        others = [u for u in usable if u not in context]
        outside = [u for u in others if u != s and content[u] not in words]
        itself = [u for u in others if content[u] == content[s]]
        if positives := [u for u in context if positions.usable[u]]:
            neighbourhoods.append(Around(s, positives, outside, itself))
    return neighbourhoods


def softmax_loss(positives: Tensor, others: Tensor) -> Tensor:
    """Return the mean over positives of −log of their share in all scores."""
    return (torch.cat([positives, others]).logsumexp(0) - positives).mean()


def context_loss(scores: Tensor, around: Around, denominator: str) -> Tensor:
    """Compute the loss of one anchor from its scores [B]."""
    positives, outside = scores[around.positives], scores[around.outside]
    if denominator == "paper":
        return torch.stack([softmax_loss(one[None], outside) for one in positives]).sum()
    extra = len(around.itself) if denominator == "quickthought" else 0
    return softmax_loss(positives, torch.cat([outside, scores.new_zeros(extra)]))


def cosines(one: Tensor, other: Tensor) -> Tensor:
    """Divide cosines by the temperature, [B, B]."""
    return torch.nn.functional.cosine_similarity(one[:, None], other[None], dim=2) / TEMPERATURE


def losses(
    features: Sequence[Tensor], maps: Sequence[Tensor], positions: Positions, config: ObjectiveConfig
) -> Losses:
    """Compute all losses of features [B, D] of each view; ``maps`` are W of each pair, if it is bilinear."""
    neighbourhoods = surroundings(positions, config.boundary)
    zero = features[0].new_zeros(())
    result = Losses(len(neighbourhoods), zero, [], zero, [])
    pairs = list(itertools.combinations(features, 2))
    for number, (one, other) in enumerate(pairs):
        near = cosines(one, other)
        weight = maps[number] if config.score == "bilinear" else torch.eye(one.shape[1], dtype=one.dtype)
        matrix = near if config.score == "cosine" else one @ weight @ other.T
        ways = [(matrix, near), (matrix.T, near.T)][: 1 + (config.direction == "both")]
        pair, hits = zero, 0
        for (scores, alike), around in itertools.product(ways, neighbourhoods):
            row = scores[around.anchor]
            pair = pair + context_loss(row, around, config.denominator) / len(ways)
            if config.same:
                near_anchor = alike[around.anchor]
                of_itself = softmax_loss(near_anchor[around.itself], near_anchor[around.outside])
                result.same = result.same + of_itself / len(ways) / len(pairs)
            best = max((*around.positives, *around.outside), key=row.tolist().__getitem__)
            hits += best in around.positives
        result.pairs.append(pair)
        result.hits.append(hits / len(ways))
    result.whole = sum(result.pairs, zero) / len(pairs) + config.same * result.same
    return result


def pair_loss(cosines: Tensor, rows: Sequence[Sequence[int]], group: Sequence[int]) -> Tensor:
    """Sum one softmax over positives and others for each sentence that is in a pair, [B, B] scores given."""
    partners: dict[int, set[int]] = {}
    refused: dict[int, set[int]] = {}
    for first, second, *others in rows:
        if first != second:
            partners.setdefault(first, set()).add(second)
            partners.setdefault(second, set()).add(first)
        refused.setdefault(first, set()).update(others)
    total = cosines.new_zeros(())
    for anchor, positives in sorted(partners.items()):
        others = [
            row
            for row in range(len(group))
            if row != anchor
            and row not in positives
            and (group[row] != group[anchor] or row in refused.get(anchor, ()))
        ]
        total = total + softmax_loss(cosines[anchor][sorted(positives)], cosines[anchor][others])
    return total


def going_on_loss(
    views: Sequence[Tensor],
    meaning: Tensor,
    start: Tensor,
    positions: Positions,
    weights: tuple[float, float, float],
    temperature: float,
) -> list[Tensor]:
    """Sum over the anchors the loss, the contrasts of views and of meanings, the distance from the start."""
    around = surroundings(positions, "document")
    zero = meaning.new_zeros(())
    contrasts = []
    matrices = [cosines(one, other) for one, other in itertools.permutations(views, 2)]
    for matrix in (*matrices, cosines(meaning, meaning) * TEMPERATURE / temperature):
        contrasts.append(sum((context_loss(matrix[each.anchor], each, "all") for each in around), zero))
    of_views = sum(contrasts[:-1], zero) / max(len(contrasts) - 1, 1)
    rows = [each.anchor for each in around]
    kept = sum((1 - torch.cosine_similarity(meaning[row], start[row], dim=0) for row in rows), zero)
    parts = [of_views, contrasts[-1], kept]
    return [sum((w * part for w, part in zip(weights, parts, strict=True)), zero), *parts]
