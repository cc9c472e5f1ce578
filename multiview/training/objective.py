"""The contrastive objective: from a sentence in one view, find its neighbours in another view.

A batch is B successive sentences. For each pair of view positions i < j, ``S = F_i W_ij F_jᵀ`` scores
every sentence in view i (a row, the anchor) against every sentence in view j (a column, the candidate). The
positives of an anchor are the sentences before and after it in its document. Sources: Simoulin & Crabbé
2021, section 3 (the denominator sums over the sentences outside the context); Logeswaran & Lee 2018
(QuickThought: one softmax over all candidates, uniform target over the neighbours).

Legend of dimension suffixes: B sentences of a batch, A anchors, C candidates, D hidden, P pairs of views.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from multiview.config import Boundary, Denominator, ObjectiveConfig, SelfScore
from multiview.engines.transfer import to_device
from parsing.cache.format import CONST_FALLBACK, DEP_FALLBACK, EMPTY, TOO_LONG

# A sentence in which only bytes were replaced still has real trees, so it stays usable.
UNUSABLE_FLAGS = DEP_FALLBACK | CONST_FALLBACK | TOO_LONG | EMPTY
# Finite: with -inf, a row in which every candidate is masked would have a NaN gradient.
MASKED = -1e30


@dataclass(frozen=True)
class Positions:
    """Where the sentences of a batch stand in the corpus; all arrays are [B]."""

    sentence: NDArray[np.int64]
    """Sentence number in the corpus: neighbours differ by one."""
    document: NDArray[np.int64]
    """Document number in the corpus."""
    usable: NDArray[np.bool_]
    """False for flagged sentences, which are neither anchor nor candidate."""

    @classmethod
    def concatenate(cls, parts: Sequence[Positions]) -> Positions:
        """The positions of several batches, in order."""
        return cls(
            np.concatenate([part.sentence for part in parts]),
            np.concatenate([part.document for part in parts]),
            np.concatenate([part.usable for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.sentence)


@dataclass(frozen=True)
class Targets:
    """How each anchor that has a positive is compared with each candidate."""

    anchor: Tensor
    """int64 [A], each anchor's place in the batch."""
    itself: Tensor
    """bool [A, C]: the candidate is the anchor's own sentence."""
    positive: Tensor
    """bool [A, C]: the candidate is a usable neighbour."""
    negative: Tensor
    """bool [A, C]: the candidate is usable and outside the anchor's context (itself and its neighbours)."""

    def to(self, device: torch.device) -> Targets:
        """The same on a device, in one copy."""
        arrays = {name: tensor.numpy() for name, tensor in vars(self).items()}
        return self if device.type == "cpu" else Targets(**to_device(arrays, device))


def neighbour_targets(anchors: Positions, candidates: Positions, boundary: Boundary) -> Targets:
    """The targets of every usable sentence that has a positive.

    Args:
        anchors: sentences of this process.
        candidates: the same sentences, or those of all processes when negatives are gathered.
        boundary: with ``none``, the last sentence of a document and the first of the next are neighbours.
    """
    distance = candidates.sentence[None, :] - anchors.sentence[:, None]
    near = np.abs(distance) == 1
    if boundary == "document":
        near &= anchors.document[:, None] == candidates.document[None, :]
    usable = anchors.usable[:, None] & candidates.usable[None, :]
    keep = np.flatnonzero((near & usable).any(axis=1))
    near, usable, itself = near[keep], usable[keep], distance[keep] == 0
    masks = itself, near & usable, usable & ~near & ~itself
    return Targets(*(torch.from_numpy(array) for array in (keep, *masks)))


def count_anchors(positions: Positions, boundary: Boundary, candidates: Positions | None = None) -> int:
    """Number of anchors.

    Args:
        positions: successive sentences, unless ``candidates`` are given.
        boundary: as for :func:`neighbour_targets`.
        candidates: where the neighbours may be, by default among ``positions``; they need a matrix [B, C].
    """
    if candidates is not None:
        return len(neighbour_targets(positions, candidates, boundary).anchor)
    joined = (np.diff(positions.sentence) == 1) & positions.usable[1:] & positions.usable[:-1]
    if boundary == "document":
        joined &= positions.document[1:] == positions.document[:-1]
    anchor = np.zeros(len(positions), dtype=bool)
    anchor[1:] |= joined
    anchor[:-1] |= joined
    return int(anchor.sum())


def contrast(score_AC: Tensor, targets: Targets, denominator: Denominator, self_score: SelfScore) -> Tensor:
    """Loss of each anchor [A].

    With s the anchor, p ∈ P(s) its positives, N(s) the sentences outside its context:

    - ``paper``: Σ_p −log( e^{S_sp} / (e^{S_sp} + Σ_{u ∈ N(s)} e^{S_su}) ), each positive separately;
    - ``all``: −1/|P(s)| Σ_p log( e^{S_sp} / Σ_{u ∈ P(s) ∪ N(s)} e^{S_su} ), one softmax over all.

    ``self_score="zero"`` adds the sentence itself to the denominator with score 0, as QuickThought's
    code does by zeroing the diagonal instead of removing it.

    Args:
        score_AC: [A, C], S of every anchor with every candidate.
        targets: which candidates count as what.
        denominator: ``paper`` or ``all``.
        self_score: ``minus-inf`` or ``zero``.
    """
    compared = targets.negative if denominator == "paper" else targets.negative | targets.positive
    masked_AC = score_AC.masked_fill(~compared, MASKED)
    if self_score == "zero":
        masked_AC = masked_AC.masked_fill(targets.itself, 0.0)
    negatives_A1 = masked_AC.logsumexp(dim=1, keepdim=True)
    if denominator == "paper":
        # −log(e^p / (e^p + e^n)) = softplus(n − p), exact for any size of n and p.
        each_AC = nn.functional.softplus(negatives_A1 - score_AC)
        return each_AC.masked_fill(~targets.positive, 0.0).sum(dim=1)
    each_AC = (negatives_A1 - score_AC).masked_fill(~targets.positive, 0.0)
    return each_AC.sum(dim=1) / targets.positive.sum(dim=1)


def retrieved(score_AC: Tensor, targets: Targets) -> Tensor:
    """Whether the best candidate of each anchor is a positive: bool [A], from scores [A, C]."""
    candidates = targets.positive | targets.negative
    best_A1 = score_AC.masked_fill(~candidates, float("-inf")).argmax(dim=1, keepdim=True)
    return targets.positive.gather(1, best_A1).squeeze(1)


def pair_names(views: Sequence[str]) -> list[str]:
    """Names of all pairs of view positions i < j: ``0-dep,1-const``; views may repeat."""
    named = [f"{position}-{view}" for position, view in enumerate(views)]
    return [f"{left},{right}" for left, right in itertools.combinations(named, 2)]


@dataclass(frozen=True)
class ObjectiveValue:
    """Sums over the anchors; divide by the number of anchors of the whole step for means.

    The numbers stay on the device: reading one would wait for everything that was queued before it.
    """

    loss: Tensor
    """Scalar with gradient: sum over anchors, mean over pairs of views and directions."""
    anchors: int
    pair_loss: list[Tensor]
    """Scalars: per pair, summed over anchors, mean over directions."""
    pair_hits: list[Tensor]
    """Scalars: per pair, number of anchors whose best candidate is a neighbour, mean over directions."""

    def sums(self) -> Tensor:
        """The loss, that of each pair and the hits of each pair: float64 [1 + 2P]."""
        return torch.stack([v.detach().double() for v in (self.loss, *self.pair_loss, *self.pair_hits)])


class Objective(nn.Module):
    """The contrastive loss over all pairs of views; holds W_ij if the score is bilinear.

    Args:
        views: names of the views in order, repeats allowed.
        dim: hidden size D of each view.
        config: the variant.
    """

    def __init__(self, views: Sequence[str], dim: int, config: ObjectiveConfig) -> None:
        super().__init__()
        self.config = config
        self.pairs = list(itertools.combinations(range(len(views)), 2))
        self.names = pair_names(views)
        self.bilinear = nn.ParameterList()
        if config.score == "bilinear":
            for _ in self.pairs:
                weight = nn.Parameter(torch.empty(dim, dim))
                nn.init.xavier_uniform_(weight)
                self.bilinear.append(weight)

    def forward(
        self,
        features: Sequence[Tensor],
        targets: Targets,
        candidates: Sequence[Tensor] | None = None,
    ) -> ObjectiveValue:
        """The loss of a batch, summed over its anchors.

        Args:
            features: per view [B, D], any floating type; scores are computed in at least float32.
            targets: of the B sentences, on the device of the features.
            candidates: features per view [C, D]; by default the batch itself.
        """
        wide = [_at_least_float32(feature) for feature in features]
        others = [_at_least_float32(other) for other in candidates or wide]
        total = wide[0].new_zeros(())
        losses: list[Tensor] = []
        hits: list[Tensor] = []
        for pair, (left, right) in enumerate(self.pairs):
            weight_DD = self.bilinear[pair] if len(self.bilinear) else None
            scores = [_scores(wide[left][targets.anchor], others[right], weight_DD)]
            if self.config.direction == "both":
                back_DD = None if weight_DD is None else weight_DD.T
                scores.append(_scores(wide[right][targets.anchor], others[left], back_DD))
            each = [contrast(s, targets, self.config.denominator, self.config.self_score) for s in scores]
            loss = torch.stack([value.sum() for value in each]).mean()
            total = total + loss / len(self.pairs)
            losses.append(loss.detach())
            found = [retrieved(s.detach(), targets).sum() for s in scores]
            hits.append(torch.stack(found).double().mean())
        return ObjectiveValue(total, len(targets.anchor), losses, hits)


def _scores(left_AD: Tensor, right_CD: Tensor, weight_DD: Tensor | None) -> Tensor:
    """S = F_i W_ij F_jᵀ, or F_i F_jᵀ without a weight."""
    return (left_AD if weight_DD is None else left_AD @ weight_DD) @ right_CD.T


def _at_least_float32(values: Tensor) -> Tensor:
    return values if values.dtype == torch.float64 else values.float()
