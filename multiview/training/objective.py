"""The contrastive objective: from a sentence in one view, find its neighbours in another (docs/equations.md).

A batch is B successive sentences. For each pair of view positions i < j, ``S = F_i W_ij F_jᵀ`` scores every
sentence in view i (a row, the anchor) against every sentence in view j (a column, the candidate). The
positives of an anchor are the sentences before and after it in its document (Simoulin & Crabbé 2021, section
2.1; Logeswaran & Lee 2018).

:class:`Objective` is the loss of new views. Two terms may be added to it: to find the same sentence in the
other view (as SimCSE does, Gao, Yao & Chen 2021), and to predict a teacher's vectors by a linear map
(EmbedDistill, Kim et al. 2023).

:class:`MeaningObjective` is the loss of training that goes on from a model. It contrasts *meanings*, the
vectors of which cosines are taken, as well as views, and holds each meaning to the one by the start. In place
of neighbours in a text it also takes sentences that a file pairs or grades.

Legend of dimension suffixes: B sentences of a batch, A anchors, D hidden, K size of the teacher's vectors.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, normalize

from multiview.encoders.meaning import Readout
from multiview.model_config import Boundary, Denominator, MeaningConfig, ObjectiveConfig
from parsing.trees.batch import CONST_FALLBACK, DEP_FALLBACK, EMPTY, TOO_LONG

# A sentence in which only bytes were replaced still has real trees, so it stays usable.
UNUSABLE_FLAGS = DEP_FALLBACK | CONST_FALLBACK | TOO_LONG | EMPTY
TEMPERATURE = 0.05
"""Divides the cosines of two views before the softmax, as in SimCSE."""
TEACHER_WEIGHT = 1000.0
"""The weight of the teacher's term, so large that the contrast with neighbours hardly counts."""
RECALL_BLOCK_SENTENCES = 400
"""The number of successive sentences among which :func:`found_neighbours` looks for a neighbour."""
# Finite, because with -inf a row in which every candidate is masked would have a NaN gradient.
MASKED_SCORE = -1e30


@dataclass(frozen=True)
class Positions:
    """Where the sentences of a batch stand in the corpus; all arrays are [B]."""

    sentence: NDArray[np.int64]
    """The number of the sentence in the corpus; the numbers of neighbours differ by one."""
    document: NDArray[np.int64]
    """The number of its document in the corpus."""
    usable: NDArray[np.bool_]
    """False for a sentence that is empty, too long or without real trees: neither anchor nor candidate."""
    content: NDArray[np.int64] | None = None
    """A number that is the same for sentences of the same words; None if copies count as different ones."""


@dataclass(frozen=True)
class Targets:
    """What each sentence of the batch, as a candidate, is to each anchor. Every anchor has a positive."""

    anchor: Tensor
    """int64 [A], each anchor's row in the batch."""
    itself: Tensor
    """bool [A, B]: the candidate is the anchor's own sentence, or a copy of it if contents are known."""
    positive: Tensor
    """bool [A, B]: the candidate is a usable neighbour of the anchor, or its partner in a pair."""
    negative: Tensor
    """bool [A, B]: the candidate is usable and outside the anchor's context.

    The context is the anchor, its neighbours and, if contents are known, the copies of these."""


def neighbour_targets(positions: Positions, boundary: Boundary) -> Targets:
    """Return the targets of a batch, in which every usable sentence that has a usable neighbour is an anchor.

    With the boundary ``document`` neighbours must share a document; with ``none`` they need not.
    """
    distance = positions.sentence[None, :] - positions.sentence[:, None]
    is_neighbour = np.abs(distance) == 1
    if boundary == "document":
        is_neighbour &= positions.document[:, None] == positions.document[None, :]
    is_usable = positions.usable[:, None] & positions.usable[None, :]
    anchor = np.flatnonzero((is_neighbour & is_usable).any(axis=1))
    is_neighbour, is_usable, itself = is_neighbour[anchor], is_usable[anchor], distance[anchor] == 0
    in_context = is_neighbour | itself
    if positions.content is not None:
        has_same_words = positions.content[:, None] == positions.content[None, :]
        itself = has_same_words[anchor]
        # A product of floats is a hundred times faster than one of booleans.
        in_context = in_context.astype(np.float32) @ has_same_words.astype(np.float32) > 0
    positive = is_neighbour & is_usable
    return Targets(
        anchor=torch.from_numpy(anchor),
        itself=torch.from_numpy(itself & is_usable & ~positive),
        positive=torch.from_numpy(positive),
        negative=torch.from_numpy(is_usable & ~in_context),
    )


def pair_targets(rows: Sequence[Sequence[int]], group_B: NDArray[np.integer]) -> Targets:
    """Return the targets of paired sentences; each sentence of a pair is an anchor, the other its positive.

    ``rows`` are lines of the file: the numbers in the batch of an anchor, its positive and its negatives.
    Pairs connect the sentences of a group, directly or through further sentences; they are no negatives of
    each other unless a line gives them as such.
    """
    size = len(group_B)
    positive, negative = np.zeros((size, size), bool), group_B[:, None] != group_B[None, :]
    for first, second, *others in rows:
        positive[first, second] = positive[second, first] = first != second
        negative[first, others] = True
    anchor = np.flatnonzero(positive.any(axis=1))
    itself = np.eye(size, dtype=bool)
    return Targets(
        anchor=torch.from_numpy(anchor),
        itself=torch.from_numpy(itself[anchor]),
        positive=torch.from_numpy(positive[anchor]),
        negative=torch.from_numpy((negative & ~positive & ~itself)[anchor]),
    )


def contrastive_losses(score_AB: Tensor, targets: Targets, denominator: Denominator) -> Tensor:
    """Return the loss of each anchor [A], from its scores with every candidate, [A, B].

    With the anchor s, its positives p ∈ P(s), its negatives N(s) and the scores S:

    - ``paper``: Σ_p −log( e^{S_sp} / (e^{S_sp} + Σ_{u ∈ N(s)} e^{S_su}) ), each positive separately;
    - ``all``: −1/|P(s)| Σ_p log( e^{S_sp} / Σ_{u ∈ P(s) ∪ N(s)} e^{S_su} ), one softmax over all;
    - ``quickthought``: as ``all``, with the anchor itself in the denominator at score 0, because
      QuickThought's code sets the diagonal to zero instead of removing it.
    """
    in_denominator = targets.negative if denominator == "paper" else targets.negative | targets.positive
    denominator_AB = score_AB.masked_fill(~in_denominator, MASKED_SCORE)
    if denominator == "quickthought":
        denominator_AB = denominator_AB.masked_fill(targets.itself, 0.0)
    log_sum_A1 = denominator_AB.logsumexp(dim=1, keepdim=True)
    if denominator == "paper":
        # −log(e^p / (e^p + e^n)) = softplus(n − p), exact for any size of n and p.
        loss_AB = nn.functional.softplus(log_sum_A1 - score_AB)
        return loss_AB.masked_fill(~targets.positive, 0.0).sum(dim=1)
    loss_AB = (log_sum_A1 - score_AB).masked_fill(~targets.positive, 0.0)
    return loss_AB.sum(dim=1) / targets.positive.sum(dim=1)


def best_is_positive(score_AB: Tensor, targets: Targets) -> Tensor:
    """Return for each anchor whether a positive has the highest score, bool [A], from scores [A, B]."""
    is_candidate_AB = targets.positive | targets.negative
    best_A1 = score_AB.masked_fill(~is_candidate_AB, float("-inf")).argmax(dim=1, keepdim=True)
    return targets.positive.gather(1, best_A1).squeeze(1)


def neighbour_recall(vectors_ND: Tensor, positions: Positions) -> float:
    """Return recall@1: the share of sentences whose nearest in their block of 400 is a neighbour.

    Nearness is the cosine of vectors [N, D]; a neighbour is of the same document. Sentences without a
    neighbour do not count; without any, the share is 0.
    """
    is_found_A, _ = found_neighbours(normalize(vectors_ND.float().cpu(), dim=1), positions)
    return int(is_found_A.sum()) / max(len(is_found_A), 1)


def found_neighbours(unit_ND: Tensor, positions: Positions) -> tuple[Tensor, Tensor]:
    """Return, for each sentence with a neighbour in its block, whether the nearest sentence is one.

    ``unit_ND`` are vectors at length 1. Return bool [A], and the rows of these sentences in ``unit_ND``,
    int64 [A].
    """
    founds, rows = [torch.empty(0, dtype=torch.bool)], [torch.empty(0, dtype=torch.int64)]
    for first in range(0, len(positions.sentence), RECALL_BLOCK_SENTENCES):
        part = slice(first, first + RECALL_BLOCK_SENTENCES)
        block = Positions(positions.sentence[part], positions.document[part], positions.usable[part])
        targets = neighbour_targets(block, "document")
        if len(targets.anchor):
            unit_BD = unit_ND[part]
            founds.append(best_is_positive(unit_BD[targets.anchor] @ unit_BD.T, targets))
            rows.append(first + targets.anchor)
    return torch.cat(founds), torch.cat(rows)


@dataclass(frozen=True)
class Grades:
    """Pairs of sentences of a batch with grades of how alike they are; all arrays are [P]."""

    first: Tensor
    """int64, the number in the batch of the pair's first sentence."""
    second: Tensor
    """int64, that of its second sentence."""
    grade: Tensor
    """The grade, scaled so that the lowest one of the training pairs is 0 and the highest one 1."""

    @property
    def anchor(self) -> Tensor:
        """The anchors, over which metrics are means: the first sentence of each pair."""
        return self.first


class Objective(nn.Module):
    """The contrastive loss over all pairs of views, with the matrices W_ij if the score is bilinear.

    Args:
        views: the names of the trained views in order; a name may be repeated.
        dim: the size of each view's vectors.
        config: the score, the denominator, the directions and the weight of the same-sentence term.
        width: the size of all views side by side, including views without weights.
        teacher_dim: K, the size of the teacher's vectors; 0 without a teacher.
    """

    def __init__(
        self, views: Sequence[str], dim: int, config: ObjectiveConfig, width: int = 0, teacher_dim: int = 0
    ) -> None:
        super().__init__()
        self.config = config
        self.pairs = list(itertools.combinations(range(len(views)), 2))
        self.term_weights = {"same": config.same} if config.same else {}
        """The weight of each term that is added to the contrast of the views."""
        if teacher_dim:
            self.term_weights["teacher"] = TEACHER_WEIGHT
        self.bilinear = nn.ParameterList()
        if config.score == "bilinear":
            weights = (nn.init.xavier_uniform_(torch.empty(dim, dim)) for _ in self.pairs)
            self.bilinear.extend(map(nn.Parameter, weights))
        self.to_teacher = nn.Linear(width, teacher_dim) if teacher_dim else None
        """The linear map that predicts the teacher's vectors from all views side by side."""
        names = [f"{position}-{view}" for position, view in enumerate(views)]  # views may repeat
        pair_names = [",".join(pair) for pair in itertools.combinations(names, 2)]
        losses = [f"loss/{name}" for name in (*pair_names, *self.term_weights)]
        self.metrics = ["loss", *losses, *(f"accuracy@1/{name}" for name in pair_names)]
        """The names of the metrics: the loss, the loss of each pair of views, that of each term without its
        weight, and for each pair of views how often the best candidate is a neighbour."""

    def metrics_of(self, _: Targets | Grades) -> list[str]:
        """Return the names of the metrics of a batch, which are the same for all targets."""
        return self.metrics

    def forward(
        self, view_vectors: Sequence[Tensor], targets: Targets, teacher_BK: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch, with its gradient, and the ``metrics``, float64; all sum over anchors.

        The loss is the mean over pairs of views and directions, plus the weighted terms. The teacher's term
        is 1 − cosine of the teacher's vector and the predicted one. ``view_vectors`` are [B, D] for each
        view, of any floating type; scores are computed in float32, or in float64 if the vectors are. Nothing
        waits for the device.
        """
        views = list(map(_exact, view_vectors))
        anchors = [view_BD[targets.anchor] for view_BD in views]
        needs_cosines = self.config.score == "cosine" or "same" in self.term_weights
        units = [normalize(view_BD, dim=1) for view_BD in views] if needs_cosines else []
        same_targets = replace(targets, positive=targets.itself)
        pair_losses, pair_hits, same_losses = [], [], []
        for pair, (left, right) in enumerate(self.pairs):
            ways = [(left, right), (right, left)] if self.config.direction == "both" else [(left, right)]
            losses, hits = [], []
            for i, j in ways:
                if needs_cosines:
                    cosine_AB = units[i][targets.anchor] @ units[j].T / TEMPERATURE
                if "same" in self.term_weights:
                    same_losses.append(contrastive_losses(cosine_AB, same_targets, "all").sum())
                if self.config.score == "cosine":
                    score_AB = cosine_AB
                else:
                    score_AB = self._products(anchors[i], views[j], pair, transposed=i != left)
                losses.append(contrastive_losses(score_AB, targets, self.config.denominator).sum())
                hits.append(best_is_positive(score_AB.detach(), targets).sum())
            pair_losses.append(torch.stack(losses).mean())
            pair_hits.append(torch.stack(hits).double().mean())
        term_losses = {"same": torch.stack(same_losses).mean()} if same_losses else {}
        if teacher_BK is not None and self.to_teacher is not None:
            prediction_AK = self.to_teacher(torch.cat(anchors, dim=1))
            teacher_AK = teacher_BK.to(prediction_AK)[targets.anchor]
            term_losses["teacher"] = (1 - cosine_similarity(prediction_AK, teacher_AK)).sum()
        loss = sum(pair_losses, views[0].new_zeros(())) / len(self.pairs)
        loss = sum((weight * term_losses[name] for name, weight in self.term_weights.items()), start=loss)
        values = (loss, *pair_losses, *(term_losses[name] for name in self.term_weights), *pair_hits)
        return loss, torch.stack([value.detach().double() for value in values])

    def _products(self, anchor_AD: Tensor, view_BD: Tensor, pair: int, *, transposed: bool) -> Tensor:
        """Return the scores of each anchor with each candidate, [A, B]: dot products or bilinear.

        A bilinear score uses the matrix W of a pair of views, ``transposed`` if anchors are in its second.
        """
        if self.config.score == "dot":
            return anchor_AD @ view_BD.T
        weight_DD: Tensor = self.bilinear[pair]
        return anchor_AD @ (weight_DD.T if transposed else weight_DD) @ view_BD.T


class MeaningObjective(nn.Module):
    """The loss of training that goes on from a model.

    ``readout`` makes the meaning from all views; if it is None, the meaning is the views side by side.
    ``positions`` are those, among all views, of the views that are contrasted with each other.
    """

    def __init__(self, readout: Readout | None, positions: Sequence[int], config: MeaningConfig) -> None:
        super().__init__()
        self.readout, self.positions = readout, list(positions)
        assert config.keep is not None and config.temperature is not None
        self.temperature = config.temperature
        has_pairs = len(self.positions) > 1 and config.views > 0
        self.term_weights = {"views": config.views} if has_pairs else {}
        """The weight of each term."""
        self.term_weights |= {"meaning": config.meaning, "kept": config.keep}
        self.metrics = ["loss", *(f"loss/{name}" for name in self.term_weights), "accuracy@1/meaning"]
        """The names of the metrics: the loss, each term without its weight, and how often the best candidate
        by meaning is a positive."""

    def metrics_of(self, targets: Targets | Grades) -> list[str]:
        """Return the names of the metrics of a batch with these targets; graded pairs have fewer."""
        return ["loss", "loss/grades", "loss/kept"] if isinstance(targets, Grades) else self.metrics

    def meaning(self, view_vectors: Sequence[Tensor]) -> Tensor:
        """Return the meanings, [B, K], each at length 1, from the vectors [B, D] of each view."""
        side_by_side = torch.cat([_exact(vectors_BD) for vectors_BD in view_vectors], dim=1)
        if self.readout is None:
            return normalize(side_by_side, dim=1)
        meaning_BK: Tensor = self.readout(side_by_side)
        return meaning_BK

    def forward(
        self, view_vectors: Sequence[Tensor], targets: Targets | Grades, start_BK: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch, with its gradient, and its metrics, float64; all are sums over anchors.

        The loss is a weighted sum of three terms. *views* contrasts each two trained views in both directions
        by their cosine over 0.05, and *meaning* contrasts the meanings by their cosine over the temperature,
        each with one softmax over positives and negatives. *kept* is 1 − cosine of an anchor's meaning and
        that of the start. For graded pairs there is no *views*, and *meaning* is (e / τ)² / 2, where e is
        the error of the cosine and τ the temperature. ``view_vectors`` are [B, D] for each of all views;
        ``start_BK``, the meanings by the start, must be given. Nothing waits for the device.
        """
        meaning_BK = self.meaning(view_vectors)
        assert start_BK is not None
        start_AK = start_BK.to(meaning_BK)[targets.anchor]
        kept = (1 - cosine_similarity(meaning_BK[targets.anchor], start_AK)).sum()
        if isinstance(targets, Grades):
            cosine_P = (meaning_BK[targets.first] * meaning_BK[targets.second]).sum(dim=1)
            error_P = (cosine_P - targets.grade.to(cosine_P)) / self.temperature
            squares = error_P.square().sum() / 2
            loss = self.term_weights["meaning"] * squares + self.term_weights["kept"] * kept
            return loss, torch.stack([value.detach().double() for value in (loss, squares, kept)])
        score_AB = meaning_BK[targets.anchor] @ meaning_BK.T / self.temperature
        terms = {"meaning": contrastive_losses(score_AB, targets, "all").sum(), "kept": kept}
        if "views" in self.term_weights:
            units = [normalize(_exact(view_vectors[position]), dim=1) for position in self.positions]
            scores = (
                one[targets.anchor] @ other.T / TEMPERATURE for one, other in itertools.permutations(units, 2)
            )
            losses = [contrastive_losses(score, targets, "all").sum() for score in scores]
            terms["views"] = torch.stack(losses).mean()
        loss = sum(
            (weight * terms[name] for name, weight in self.term_weights.items()), score_AB.new_zeros(())
        )
        hits = best_is_positive(score_AB.detach(), targets).sum()
        values = (loss, *(terms[name] for name in self.term_weights), hits)
        return loss, torch.stack([value.detach().double() for value in values])


def _exact(view_BD: Tensor) -> Tensor:
    """Return vectors as float64 if they are, else as float32."""
    return view_BD if view_BD.dtype == torch.float64 else view_BD.float()
