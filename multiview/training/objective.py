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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, permutations
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, normalize

from multiview.encoders.meaning import Readout
from multiview.model_config import Denominator, MeaningConfig, ObjectiveConfig
from multiview.training.targets import Grades, Positions, Targets, neighbour_targets

TEMPERATURE = 0.05
"""Divides the cosines of two views before the softmax, as in SimCSE."""
TEACHER_WEIGHT = 1000.0
"""The weight of the teacher's term, so large that the contrast with neighbours hardly counts."""
RECALL_BLOCK_SENTENCES = 400
"""The number of successive sentences among which :func:`found_neighbours` looks for a neighbour."""
# Finite, because with -inf a row in which every candidate is masked would have a NaN gradient.
MASKED_SCORE = -1e30


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


class ViewVectors(NamedTuple):
    """The vectors of a batch by one view."""

    vector_BD: Tensor
    anchor_AD: Tensor
    """The vectors of the anchors."""
    unit_BD: Tensor | None
    """All vectors at length 1; None if no score is a cosine."""


class Contrast(NamedTuple):
    """The result of one contrast, in which one view encodes the anchors and another view the candidates."""

    loss: Tensor
    """The contrastive loss, summed over anchors."""
    hits: Tensor
    """The number of anchors whose best candidate is a positive."""
    same_loss: Tensor | None
    """The loss of the search for the anchor's own sentence, summed over anchors; None without this term."""


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
        self.pairs = list(combinations(range(len(views)), 2))
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
        pair_names = [",".join(pair) for pair in combinations(names, 2)]
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

        The loss is the mean over pairs of views and directions, plus the weighted terms. Nothing waits for
        the device.

        Args:
            view_vectors: the vectors [B, D] of each view; scores are float64 if these are, else float32.
            targets: what each candidate is to each anchor.
            teacher_BK: the teacher's vectors. Their term is 1 − cosine with the predicted vectors.
        """
        views = [self._vectors_of_view(vector_BD, targets) for vector_BD in view_vectors]
        pairs = [self.contrast_pair(number, views, targets) for number in range(len(self.pairs))]
        pair_losses = [_mean(contrast.loss for contrast in pair) for pair in pairs]
        pair_hits = [_mean(contrast.hits.double() for contrast in pair) for pair in pairs]
        contrasts = [contrast for pair in pairs for contrast in pair]
        same_losses = [contrast.same_loss for contrast in contrasts if contrast.same_loss is not None]
        terms = {"same": _mean(same_losses)} if same_losses else {}
        if "teacher" in self.term_weights:
            terms["teacher"] = self.teacher_loss(views, targets, teacher_BK)
        loss = sum(pair_losses, pair_losses[0].new_zeros(())) / len(pairs)
        loss = _add_terms(loss, terms, self.term_weights)
        return loss, _metrics(loss, *pair_losses, *(terms[name] for name in self.term_weights), *pair_hits)

    def _vectors_of_view(self, vector_BD: Tensor, targets: Targets) -> ViewVectors:
        vector_BD = _exact(vector_BD)
        anchor_AD = vector_BD[targets.anchor]
        needs_cosines = self.config.score == "cosine" or "same" in self.term_weights
        return ViewVectors(vector_BD, anchor_AD, normalize(vector_BD, dim=1) if needs_cosines else None)

    def contrast_pair(self, number: int, views: Sequence[ViewVectors], targets: Targets) -> list[Contrast]:
        """Return the contrasts of a pair of views: one, or with the direction ``both`` two.

        ``number`` is the position of the pair in ``pairs``. The second contrast has its anchors in the second
        view; its matrix is W_ijᵀ.
        """
        left, right = (views[position] for position in self.pairs[number])
        weight_DD = self.bilinear[number] if self.config.score == "bilinear" else None
        contrasts = [self.contrast(left, right, weight_DD, targets)]
        if self.config.direction == "both":
            transposed_DD = None if weight_DD is None else weight_DD.T
            contrasts.append(self.contrast(right, left, transposed_DD, targets))
        return contrasts

    def contrast(
        self, left: ViewVectors, right: ViewVectors, weight_DD: Tensor | None, targets: Targets
    ) -> Contrast:
        """Return the contrast of the anchors of one view with all sentences by another view.

        Args:
            left: the vectors of the view that encodes the anchors, F_i.
            right: the vectors of the view that encodes the candidates, F_j.
            weight_DD: the matrix W_ij of a bilinear score; None for other scores.
            targets: what each candidate is to each anchor.
        """
        cosine_AB, same_loss = None, None
        if left.unit_BD is not None and right.unit_BD is not None:
            cosine_AB = left.unit_BD[targets.anchor] @ right.unit_BD.T / TEMPERATURE
        if cosine_AB is not None and "same" in self.term_weights:
            same_targets = replace(targets, positive=targets.itself)
            same_loss = contrastive_losses(cosine_AB, same_targets, "all").sum()
        if cosine_AB is not None and self.config.score == "cosine":
            score_AB = cosine_AB
        elif weight_DD is not None:
            score_AB = left.anchor_AD @ weight_DD @ right.vector_BD.T
        else:
            score_AB = left.anchor_AD @ right.vector_BD.T
        loss = contrastive_losses(score_AB, targets, self.config.denominator).sum()
        return Contrast(loss, best_is_positive(score_AB.detach(), targets).sum(), same_loss)

    def teacher_loss(
        self, views: Sequence[ViewVectors], targets: Targets, teacher_BK: Tensor | None
    ) -> Tensor:
        """Return the sum over anchors of 1 − cosine of the teacher's vector and the predicted one."""
        assert self.to_teacher is not None and teacher_BK is not None
        prediction_AK = self.to_teacher(torch.cat([view.anchor_AD for view in views], dim=1))
        teacher_AK = teacher_BK.to(prediction_AK)[targets.anchor]
        return (1 - cosine_similarity(prediction_AK, teacher_AK)).sum()


class MeaningObjective(nn.Module):
    """The loss of training that goes on from a model.

    ``readout`` maps all views to the meaning; if it is None, the meaning is the views side by side.
    ``positions`` are the positions, among all views, of the views that are contrasted with each other.
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

        The loss is a weighted sum of three terms; nothing waits for the device. τ is the temperature.

        - *views*: each two trained views, contrasted in both directions by their cosine over 0.05; there is
          no such term for graded pairs.
        - *meaning*: the meanings, contrasted by their cosine over τ; for graded pairs (e / τ)² / 2, where e
          is the error of the cosine.
        - *kept*: 1 − cosine of an anchor's meaning and its meaning by the start.

        A contrast is one softmax over positives and negatives. ``view_vectors`` are [B, D] for each of all
        views; ``start_BK``, the meanings by the start, must be given.
        """
        meaning_BK = self.meaning(view_vectors)
        assert start_BK is not None
        start_AK = start_BK.to(meaning_BK)[targets.anchor]
        kept = (1 - cosine_similarity(meaning_BK[targets.anchor], start_AK)).sum()
        if isinstance(targets, Grades):
            terms = {"meaning": self.grade_loss(meaning_BK, targets), "kept": kept}
            loss = _add_terms(kept.new_zeros(()), terms, {name: self.term_weights[name] for name in terms})
            return loss, _metrics(loss, *terms.values())
        score_AB = meaning_BK[targets.anchor] @ meaning_BK.T / self.temperature
        terms = {"meaning": contrastive_losses(score_AB, targets, "all").sum(), "kept": kept}
        if "views" in self.term_weights:
            terms["views"] = self.view_loss(view_vectors, targets)
        loss = _add_terms(kept.new_zeros(()), terms, self.term_weights)
        hits = best_is_positive(score_AB.detach(), targets).sum()
        return loss, _metrics(loss, *(terms[name] for name in self.term_weights), hits)

    def grade_loss(self, meaning_BK: Tensor, grades: Grades) -> Tensor:
        """Return the sum over pairs of (e / τ)² / 2, where e is the error of the cosine of meanings."""
        cosine_P = grades.cosines(meaning_BK)
        error_P = (cosine_P - grades.grade.to(cosine_P)) / self.temperature
        return error_P.square().sum() / 2

    def view_loss(self, view_vectors: Sequence[Tensor], targets: Targets) -> Tensor:
        """Return the contrastive loss of cosines, a mean over the ordered pairs of the trained views."""
        units = [normalize(_exact(view_vectors[position]), dim=1) for position in self.positions]
        scores = (left[targets.anchor] @ right.T / TEMPERATURE for left, right in permutations(units, 2))
        return _mean([contrastive_losses(score_AB, targets, "all").sum() for score_AB in scores])


def _exact(view_BD: Tensor) -> Tensor:
    """Return vectors as float64 if they are, else as float32."""
    return view_BD if view_BD.dtype == torch.float64 else view_BD.float()


def _mean(values: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(values)).mean()


def _add_terms(loss: Tensor, terms: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """Return a loss plus its weighted terms, which are added in the order of the weights."""
    return sum((weight * terms[name] for name, weight in weights.items()), start=loss)


def _metrics(*values: Tensor) -> Tensor:
    """Return the values of metrics as one tensor, float64, without gradients."""
    return torch.stack([value.detach().double() for value in values])
