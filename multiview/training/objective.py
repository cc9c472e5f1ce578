"""The contrastive objective: from a sentence in one view, find its neighbours in another view.

A batch is B successive sentences. For each pair of view positions i < j, ``S = F_i W_ij F_jᵀ`` scores
every sentence in view i (a row, the anchor) against every sentence in view j (a column, the candidate). The
positives of an anchor are the sentences before and after it in its document. Sources: Simoulin & Crabbé
2021, section 2.1 (the denominator sums over the sentences outside the context); Logeswaran & Lee 2018
(QuickThought: one softmax over all candidates, uniform target over the neighbours).

Three terms may be added. The same-sentence term asks view i of a sentence to find view j of the same sentence
(as SimCSE does with two dropout masks, Gao, Yao & Chen 2021). The teacher is one more view, a frozen matrix
of vectors of the corpus's sentences: each view finds the teacher's vector of its sentence, and the cosines of
the concatenated vectors are drawn to the teacher's. The exchange term asks view i of a sentence to be nearer
to view j of it than to view j of the same words with two exchanged (:mod:`multiview.training.exchange`).

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
CONTRAST, SIMILARITY = 1.0, 1000.0
"""Weights of the teacher's terms: squared differences of cosines are a thousandth of a contrast's loss."""
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

    @property
    def of_itself(self) -> Targets:
        """The targets of finding the anchor's own sentence among those outside its context."""
        return Targets(self.anchor, self.itself, self.itself, self.negative)


def neighbour_targets(positions: Positions, boundary: Boundary) -> Targets:
    """The targets of every usable sentence that has a positive.

    Args:
        positions: of the batch.
        boundary: with ``none``, the last sentence of a document and the first of the next are neighbours.
    """
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


def count_anchors(positions: Positions, boundary: Boundary) -> int:
    """Number of anchors among successive sentences.

    Args:
        positions: of the sentences.
        boundary: as for :func:`neighbour_targets`.
    """
    joined = (np.diff(positions.sentence) == 1) & positions.usable[1:] & positions.usable[:-1]
    if boundary == "document":
        joined &= positions.document[1:] == positions.document[:-1]
    anchor = np.zeros(len(positions), dtype=bool)
    anchor[1:] |= joined
    anchor[:-1] |= joined
    return int(anchor.sum())


def contrast(score_AB: Tensor, targets: Targets, denominator: Denominator) -> Tensor:
    """Loss of each anchor [A].

    With s the anchor, p ∈ P(s) its positives, N(s) the sentences outside its context:

    - ``paper``: Σ_p −log( e^{S_sp} / (e^{S_sp} + Σ_{u ∈ N(s)} e^{S_su}) ), each positive separately;
    - ``all``: −1/|P(s)| Σ_p log( e^{S_sp} / Σ_{u ∈ P(s) ∪ N(s)} e^{S_su} ), one softmax over all;
    - ``quickthought``: the same with the sentence itself in the denominator at score 0, as QuickThought's
      code does by zeroing the diagonal instead of removing it.

    Args:
        score_AB: [A, B], S of every anchor with every candidate.
        targets: which candidates count as what.
        denominator: see above.
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
    """Whether the best candidate of each anchor is a positive: bool [A], from scores [A, B]."""
    candidates = targets.positive | targets.negative
    best_A1 = score_AB.masked_fill(~candidates, float("-inf")).argmax(dim=1, keepdim=True)
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
    """Scalar with gradient: the mean over pairs of views and directions, and the terms with their weights."""
    anchors: int
    sums: Tensor
    """float64 [M], what :attr:`Objective.metrics` names."""


class Objective(nn.Module):
    """The contrastive loss over all pairs of views; holds W_ij if the score is bilinear.

    Args:
        views: names of the views in order, repeats allowed.
        dim: hidden size D of each view.
        config: the variant.
        teacher_dim: K, size of the teacher's vectors; 0 without a teacher.
    """

    def __init__(self, views: Sequence[str], dim: int, config: ObjectiveConfig, teacher_dim: int = 0) -> None:
        super().__init__()
        self.config = config
        self.pairs = list(itertools.combinations(range(len(views)), 2))
        self.views = len(views)
        weights = {"same": config.same, "exchange": config.exchange}
        self.terms = {name: weight for name, weight in weights.items() if weight}
        """Weight of each further term."""
        if teacher_dim:
            self.terms |= {"teacher": CONTRAST, "similarity": SIMILARITY}
        self.bilinear = nn.ParameterList()
        if config.score == "bilinear":
            self.bilinear.extend(_xavier(dim, dim) for _ in self.pairs)
        self.to_teacher = nn.ParameterList(_xavier(dim, teacher_dim) for _ in views if teacher_dim)
        """Maps [D, K] of the views onto the teacher's vectors."""
        names = pair_names(views)
        losses = [f"loss/{name}" for name in (*names, *self.terms)]
        self.metrics = ["loss", *losses, *(f"accuracy@1/{name}" for name in names)]
        """The loss, that of each pair and of each term without its weight, and how often the best candidate
        is a neighbour."""

    def forward(
        self,
        features: Sequence[Tensor],
        targets: Targets,
        teacher_BK: Tensor | None = None,
        exchanged_B: Tensor | None = None,
    ) -> ObjectiveValue:
        """The loss of a batch, summed over its anchors.

        Args:
            features: per view [B, D], any floating type; scores are computed in at least float32. With
                the exchange term, as many follow of the exchanged sentences.
            targets: of the B sentences, on the device of the features.
            teacher_BK: the teacher's vectors of the sentences.
            exchanged_B: bool, the sentences of which two words were exchanged.
        """
        others = [f if f.dtype == torch.float64 else f.float() for f in features]
        others, exchanged = others[: self.views], others[self.views :]
        anchors = [other[targets.anchor] for other in others]
        wants_cosines = self.config.score == "cosine" or "same" in self.terms
        units = [normalize(other, dim=1) for other in others] if wants_cosines else []
        pair_losses, hits, same = [], [], []
        for pair, (left, right) in enumerate(self.pairs):
            ways = [(left, right), (right, left)] if self.config.direction == "both" else [(left, right)]
            cosines = [units[i][targets.anchor] @ units[j].T / TEMPERATURE for i, j in ways if units]
            if self.config.score == "cosine":
                scores = cosines
            elif self.config.score == "dot":
                scores = [anchors[i] @ others[j].T for i, j in ways]
            else:
                maps = (self.bilinear[pair], self.bilinear[pair].T)
                scores = [anchors[i] @ w_DD @ others[j].T for (i, j), w_DD in zip(ways, maps, strict=False)]
            each = [contrast(score, targets, self.config.denominator).sum() for score in scores]
            pair_losses.append(torch.stack(each).mean())
            found = [retrieved(score.detach(), targets).sum() for score in scores]
            hits.append(torch.stack(found).double().mean())
            if "same" in self.terms:
                same += [contrast(cosine, targets.of_itself, "all").sum() for cosine in cosines]
        terms = {"same": torch.stack(same).mean()} if same else {}
        if exchanged_B is not None:
            terms["exchange"] = self._exchange_term(others, exchanged, targets, exchanged_B)
        if teacher_BK is not None:
            terms |= self._teacher_terms(anchors, others, targets, teacher_BK.to(others[0]))
        loss = sum(pair_losses, others[0].new_zeros(())) / len(self.pairs)
        for name, weight in self.terms.items():
            loss = loss + weight * terms[name]
        parts = (loss, *pair_losses, *(terms[name] for name in self.terms), *hits)
        sums = torch.stack([value.detach().double() for value in parts])
        return ObjectiveValue(loss, len(targets.anchor), sums)

    def _exchange_term(
        self, others: Sequence[Tensor], exchanged: Sequence[Tensor], targets: Targets, exchanged_B: Tensor
    ) -> Tensor:
        """The exchange term, summed over anchors: mean over pairs of views and directions.

        With s' the exchanged sentence, c the cosine over τ of view i of the first with view j of the second:
        ½ softplus(c(s, s') − c(s, s)) + ½ softplus(c(s', s) − c(s', s')). Both, since otherwise a view could
        tell exchanged sentences by their being unlikely, whatever the anchor says. Anchors without an
        exchange count as 0.
        """
        wanted = exchanged_B[targets.anchor]
        units, turned = (
            [normalize(view[targets.anchor], dim=1) / TEMPERATURE**0.5 for view in views]
            for views in (others, exchanged)
        )
        each = []
        for left, right in self.pairs:
            for i, j in [(left, right), (right, left)][: 2 if self.config.direction == "both" else 1]:
                apart_AD = units[j] - turned[j]
                for view, sign in ((units[i], -1), (turned[i], 1)):
                    each.append(nn.functional.softplus(sign * (view * apart_AD).sum(dim=1)))
        return torch.stack(each).mean(dim=0).masked_fill(~wanted, 0.0).sum()

    def _teacher_terms(
        self, anchors: Sequence[Tensor], others: Sequence[Tensor], targets: Targets, teacher_BK: Tensor
    ) -> dict[str, Tensor]:
        """The teacher's terms, summed over anchors.

        - ``teacher``: each view, mapped to K dimensions, finds the teacher's vector of its sentence among
          those of the sentences outside the context; mean over views.
        - ``similarity``: squared difference between the cosine of two sentences' concatenated views and that
          of the teacher's vectors, mean over all candidates that are usable.
        """
        teacher_BK = normalize(teacher_BK, dim=1)
        each = []
        for view_AD, map_DK in zip(anchors, self.to_teacher, strict=True):
            score_AB = normalize(view_AD @ map_DK, dim=1) @ teacher_BK.T / TEMPERATURE
            each.append(contrast(score_AB, targets.of_itself, "all").sum())
        joined_A, joined_B = (normalize(torch.cat(list(views), dim=1), dim=1) for views in (anchors, others))
        squared_AB = (joined_A @ joined_B.T - teacher_BK[targets.anchor] @ teacher_BK.T).square()
        compared = targets.negative | targets.positive
        each_A = squared_AB.masked_fill(~compared, 0.0).sum(dim=1) / compared.sum(dim=1).clamp(min=1)
        return {"teacher": torch.stack(each).mean(), "similarity": each_A.sum()}


def _xavier(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(rows, columns)))
