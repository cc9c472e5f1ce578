"""The contrastive objective: from a sentence in one view, find its neighbours in another (docs/equations.md).

A batch is B successive sentences. For each pair of view positions i < j, ``S = F_i W_ij F_jᵀ`` scores every
sentence in view i (a row, the anchor) against every sentence in view j (a column, the candidate). The
positives of an anchor are the sentences before and after it in its document (Simoulin & Crabbé 2021, section
2.1; Logeswaran & Lee 2018).

Two terms may be added: to find the same sentence in the other view (as SimCSE does, Gao, Yao & Chen 2021),
and to come near a teacher's vectors by a linear map (EmbedDistill, Kim et al. 2023).

Legend of dimension suffixes: B sentences of a batch, A anchors, D hidden, K size of the teacher's vectors.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from multiview.config import Boundary, Denominator, ObjectiveConfig
from parsing.trees.batch import CONST_FALLBACK, DEP_FALLBACK, EMPTY, TOO_LONG

# A sentence in which only bytes were replaced still has real trees, so it stays usable.
UNUSABLE_FLAGS = DEP_FALLBACK | CONST_FALLBACK | TOO_LONG | EMPTY
TEMPERATURE = 0.05
"""Divides cosines, as in SimCSE."""
TEACHER = 1000.0
"""Weight of the teacher's term: beside it, neighbours hardly count."""
BLOCK_SENTENCES = 400
"""Among which a neighbour is looked for."""
# Finite: with -inf, a row in which every candidate is masked would have a NaN gradient.
MASKED = -1e30


@dataclass(frozen=True)
class Positions:
    """Tells where the sentences of a batch stand in the corpus; all arrays are [B]."""

    sentence: NDArray[np.int64]
    """Sentence number in the corpus: neighbours differ by one."""
    document: NDArray[np.int64]
    """Document number in the corpus."""
    usable: NDArray[np.bool_]
    """False for flagged sentences, which are neither anchor nor candidate."""
    content: NDArray[np.int64] | None = None
    """Equal for sentences of the same words; None where duplicates count as different sentences."""

    def __len__(self) -> int:
        return len(self.sentence)


@dataclass(frozen=True)
class Targets:
    """How each anchor that has a positive is compared with each sentence of the batch."""

    anchor: Tensor
    """int64 [A], each anchor's place in the batch."""
    itself: Tensor
    """bool [A, B]: the candidate is the anchor's own sentence, or has its words."""
    positive: Tensor
    """bool [A, B]: the candidate is a usable neighbour."""
    negative: Tensor
    """bool [A, B]: the candidate is usable and outside the anchor's context (itself and its neighbours).

    Where contents are known, it also has the words of none of these."""


def neighbour_targets(positions: Positions, boundary: Boundary) -> Targets:
    """Return the targets of every usable sentence that has a positive; ``boundary``: may documents end it?"""
    distance = positions.sentence[None, :] - positions.sentence[:, None]
    near = np.abs(distance) == 1
    if boundary == "document":
        near &= positions.document[:, None] == positions.document[None, :]
    usable = positions.usable[:, None] & positions.usable[None, :]
    keep = np.flatnonzero((near & usable).any(axis=1))
    near, usable, itself = near[keep], usable[keep], distance[keep] == 0
    positive, context = near & usable, near | itself
    if positions.content is not None:
        alike = positions.content[:, None] == positions.content[None, :]
        itself = alike[keep]
        # By floats: a product of booleans is a hundred times slower.
        context = context.astype(np.float32) @ alike.astype(np.float32) > 0
    masks = itself & usable & ~positive, positive, usable & ~context
    return Targets(*(torch.from_numpy(array) for array in (keep, *masks)))


def contrast(score_AB: Tensor, targets: Targets, denominator: Denominator) -> Tensor:
    """Return the loss of each anchor [A], from its scores with every candidate, [A, B].

    With s the anchor, p ∈ P(s) its positives, N(s) the sentences outside its context:

    - ``paper``: Σ_p −log( e^{S_sp} / (e^{S_sp} + Σ_{u ∈ N(s)} e^{S_su}) ), each positive separately;
    - ``all``: −1/|P(s)| Σ_p log( e^{S_sp} / Σ_{u ∈ P(s) ∪ N(s)} e^{S_su} ), one softmax over all;
    - ``quickthought``: the same with the sentence itself in the denominator at score 0, as QuickThought's
      code does by zeroing the diagonal instead of removing it.
    """
    compared = targets.negative if denominator == "paper" else targets.negative | targets.positive
    masked_AB = score_AB.masked_fill(~compared, MASKED)
    if denominator == "quickthought":
        masked_AB = masked_AB.masked_fill(targets.itself, 0.0)
    negatives_A1 = masked_AB.logsumexp(dim=1, keepdim=True)
    if denominator == "paper":
        # −log(e^p / (e^p + e^n)) = softplus(n − p), exact for any size of n and p.
        each_AB = nn.functional.softplus(negatives_A1 - score_AB)
        return each_AB.masked_fill(~targets.positive, 0.0).sum(dim=1)
    each_AB = (negatives_A1 - score_AB).masked_fill(~targets.positive, 0.0)
    return each_AB.sum(dim=1) / targets.positive.sum(dim=1)


def retrieved(score_AB: Tensor, targets: Targets) -> Tensor:
    """Tell whether the best candidate of each anchor is a positive: bool [A], from scores [A, B]."""
    candidates = targets.positive | targets.negative
    best_A1 = score_AB.masked_fill(~candidates, float("-inf")).argmax(dim=1, keepdim=True)
    return targets.positive.gather(1, best_A1).squeeze(1)


def neighbour_recall(vectors_ND: Tensor, positions: Positions) -> float:
    """Count how often the nearest of a block of 400 sentences is a neighbour in the document: a fraction."""
    hits = compared = 0
    for start in range(0, len(positions), BLOCK_SENTENCES):
        part = slice(start, start + BLOCK_SENTENCES)
        where = Positions(positions.sentence[part], positions.document[part], positions.usable[part])
        targets = neighbour_targets(where, "document")
        unit_BD = normalize(vectors_ND[part].float().cpu(), dim=1)
        if len(targets.anchor):
            hits += int(retrieved(unit_BD[targets.anchor] @ unit_BD.T, targets).sum())
            compared += len(targets.anchor)
    return hits / max(compared, 1)


@dataclass(frozen=True)
class ObjectiveValue:
    """Sums over the anchors; divide by the number of anchors of the whole step for means.

    The numbers stay on the device: reading one would wait for everything that was queued before it.
    """

    loss: Tensor
    """Scalar with gradient: the mean over pairs of views and directions, and the terms with their weights."""
    anchors: int
    sums: Tensor
    """float64 [M], what :attr:`Objective.metrics` names."""


class Objective(nn.Module):
    """The contrastive loss over all pairs of views; holds W_ij if the score is bilinear.

    ``views`` are the trained ones in order, each of size ``dim``; repeats are allowed. ``width`` is the size
    of all views side by side, those without weights included, ``teacher_dim`` K, 0 without a teacher.
    """

    def __init__(
        self, views: Sequence[str], dim: int, config: ObjectiveConfig, width: int = 0, teacher_dim: int = 0
    ) -> None:
        super().__init__()
        self.config = config
        self.pairs = list(itertools.combinations(range(len(views)), 2))
        self.terms = {"same": config.same} if config.same else {}
        """Weight of each further term."""
        if teacher_dim:
            self.terms["teacher"] = TEACHER
        self.bilinear = nn.ParameterList()
        if config.score == "bilinear":
            weights = (nn.init.xavier_uniform_(torch.empty(dim, dim)) for _ in self.pairs)
            self.bilinear.extend(map(nn.Parameter, weights))
        self.to_teacher = nn.Linear(width, teacher_dim) if teacher_dim else None
        """Maps the views side by side onto the teacher's vectors."""
        named = [f"{position}-{view}" for position, view in enumerate(views)]  # views may repeat
        names = [f"{left},{right}" for left, right in itertools.combinations(named, 2)]
        losses = [f"loss/{name}" for name in (*names, *self.terms)]
        self.metrics = ["loss", *losses, *(f"accuracy@1/{name}" for name in names)]
        """The loss, that of each pair and of each term without its weight, and how often the best candidate
        is a neighbour."""

    def forward(
        self, features: Sequence[Tensor], targets: Targets, teacher_BK: Tensor | None = None
    ) -> ObjectiveValue:
        """Return the loss of a batch, summed over its anchors; scores are computed in at least float32.

        Features are [B, D] for each view, of any floating type; targets are on their device.
        """
        views = [f if f.dtype == torch.float64 else f.float() for f in features]
        anchors = [view_BD[targets.anchor] for view_BD in views]
        wants_cosines = self.config.score == "cosine" or "same" in self.terms
        units = [normalize(view_BD, dim=1) for view_BD in views] if wants_cosines else []
        of_itself = Targets(targets.anchor, targets.itself, targets.itself, targets.negative)
        pair_losses, hits, same = [], [], []
        for pair, (left, right) in enumerate(self.pairs):
            ways = [(left, right), (right, left)] if self.config.direction == "both" else [(left, right)]
            cosines = [units[i][targets.anchor] @ units[j].T / TEMPERATURE for i, j in ways if units]
            scores = cosines if self.config.score == "cosine" else self._products(pair, ways, anchors, views)
            each = [contrast(score, targets, self.config.denominator).sum() for score in scores]
            pair_losses.append(torch.stack(each).mean())
            counts = [retrieved(score.detach(), targets).sum() for score in scores]
            hits.append(torch.stack(counts).double().mean())
            if "same" in self.terms:
                same += [contrast(cosine, of_itself, "all").sum() for cosine in cosines]
        terms = {"same": torch.stack(same).mean()} if same else {}
        if teacher_BK is not None:
            assert self.to_teacher is not None
            taught_AK = self.to_teacher(torch.cat(anchors, dim=1))
            wanted_AK = teacher_BK.to(taught_AK)[targets.anchor]
            terms["teacher"] = (1 - nn.functional.cosine_similarity(taught_AK, wanted_AK)).sum()
        loss = sum(pair_losses, views[0].new_zeros(())) / len(self.pairs)
        for name, weight in self.terms.items():
            loss = loss + weight * terms[name]
        parts = (loss, *pair_losses, *(terms[name] for name in self.terms), *hits)
        sums = torch.stack([value.detach().double() for value in parts])
        return ObjectiveValue(loss, len(targets.anchor), sums)

    def _products(
        self, pair: int, ways: list[tuple[int, int]], anchors: list[Tensor], views: list[Tensor]
    ) -> list[Tensor]:
        """Score the anchors of a view with the sentences of the other, each way: F Fᵀ or F W Fᵀ, [A, B]."""
        if self.config.score == "dot":
            return [anchors[i] @ views[j].T for i, j in ways]
        maps = (self.bilinear[pair], self.bilinear[pair].T)
        return [anchors[i] @ w_DD @ views[j].T for (i, j), w_DD in zip(ways, maps, strict=False)]
