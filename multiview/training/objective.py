"""The contrastive objective: from a sentence in one view, find its neighbours in another view.

A batch is B successive sentences. For each pair of view positions i < j, ``S = F_i W_ij F_jᵀ`` scores
every sentence in view i (a row, the anchor) against every sentence in view j (a column, the candidate). The
positives of an anchor are the sentences before and after it in its document. Sources: Simoulin & Crabbé
2021, section 3 (the denominator sums over the sentences outside the context); Logeswaran & Lee 2018
(QuickThought: one softmax over all candidates, uniform target over the neighbours).

Two terms may be added. The same-sentence term asks view i of a sentence to find view j of the same sentence
(as SimCSE does with two dropout masks, Gao, Yao & Chen 2021). The teacher is one more view, a frozen matrix
of vectors of the corpus's sentences: each view finds the teacher's vector of its sentence, and the cosines of
the concatenated vectors are drawn to the teacher's (:mod:`multiview.teacher`).

Legend of dimension suffixes: B sentences of a batch, A anchors, C candidates, D hidden, P pairs of views,
K size of the teacher's vectors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from multiview.config import Boundary, Denominator, ObjectiveConfig, SelfScore, TeacherConfig
from multiview.engines.memory import to_device
from parsing.cache.format import CONST_FALLBACK, DEP_FALLBACK, EMPTY, TOO_LONG

# A sentence in which only bytes were replaced still has real trees, so it stays usable.
UNUSABLE_FLAGS = DEP_FALLBACK | CONST_FALLBACK | TOO_LONG | EMPTY
LARGEST_SCALE = 100.0
"""A learned temperature does not fall below a hundredth, as in CLIP (Radford et al. 2021)."""
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

    @classmethod
    def concatenate(cls, parts: Sequence[Positions]) -> Positions:
        """The positions of several batches, in order."""
        return cls(
            np.concatenate([part.sentence for part in parts]),
            np.concatenate([part.document for part in parts]),
            np.concatenate([part.usable for part in parts]),
            _joined([part.content for part in parts]),
        )

    def __getitem__(self, where: slice | NDArray[np.integer]) -> Positions:
        """Some of the sentences."""
        content = None if self.content is None else self.content[where]
        return Positions(self.sentence[where], self.document[where], self.usable[where], content)

    def __len__(self) -> int:
        return len(self.sentence)


@dataclass(frozen=True)
class Targets:
    """How each anchor that has a positive is compared with each candidate."""

    anchor: Tensor
    """int64 [A], each anchor's place in the batch."""
    itself: Tensor
    """bool [A, C]: the candidate is the anchor's own sentence, or has its words."""
    positive: Tensor
    """bool [A, C]: the candidate is a usable neighbour."""
    negative: Tensor
    """bool [A, C]: the candidate is usable and outside the anchor's context (itself and its neighbours).

    Where duplicates are masked, it also has the words of neither."""

    @property
    def of_itself(self) -> Targets:
        """The targets of finding the anchor's own sentence among those outside its context."""
        return Targets(self.anchor, self.itself, self.itself, self.negative)

    def to(self, device: torch.device) -> Targets:
        """The same on a device, in one copy."""
        arrays = {name: tensor.numpy() for name, tensor in vars(self).items()}
        return self if device.type == "cpu" else Targets(**to_device(arrays, device))


@dataclass(frozen=True)
class TeacherVectors:
    """The teacher's vectors of the sentences of a batch; it is never trained."""

    own: Tensor
    """float [B, K], of this process's sentences."""
    candidates: Tensor
    """float [C, K], of all that they are compared with."""

    def to(self, device: torch.device) -> TeacherVectors:
        """The same on a device, in one copy."""
        arrays = {name: tensor.numpy() for name, tensor in vars(self).items()}
        return self if device.type == "cpu" else TeacherVectors(**to_device(arrays, device))


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
    positive, context = near & usable, near | itself
    if anchors.content is not None and candidates.content is not None:
        itself = anchors.content[keep, None] == candidates.content[None, :]
        context |= _has_words_of(context, candidates.content)
    masks = itself & usable & ~positive, positive, usable & ~context
    return Targets(*(torch.from_numpy(array) for array in (keep, *masks)))


def _has_words_of(marked_AC: NDArray[np.bool_], content_C: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a candidate has the words of one that is marked for the anchor: bool [A, C]."""
    kind_C = np.unique(content_C, return_inverse=True)[1]
    rows, columns = np.nonzero(marked_AC)
    marked_kinds = np.zeros((len(marked_AC), int(kind_C.max(initial=0)) + 1), dtype=np.bool_)
    marked_kinds[rows, kind_C[columns]] = True
    return marked_kinds[:, kind_C]


def _joined(parts: Sequence[NDArray[np.int64] | None]) -> NDArray[np.int64] | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) and known else None


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
    """Scalar with gradient, summed over anchors: the mean over pairs of views and directions, and the terms
    with their weights."""
    anchors: int
    pair_loss: list[Tensor]
    """Scalars: per pair, summed over anchors, mean over directions."""
    pair_hits: list[Tensor]
    """Scalars: per pair, number of anchors whose best candidate is a neighbour, mean over directions."""
    term_loss: list[Tensor]
    """Scalars: each further term without its weight, summed over anchors, in the order of
    :attr:`Objective.terms`."""

    def sums(self) -> Tensor:
        """The loss, that of each pair and each term, the hits of each pair: float64 [1 + 2P + terms]."""
        parts = (self.loss, *self.pair_loss, *self.term_loss, *self.pair_hits)
        return torch.stack([value.detach().double() for value in parts])


class Objective(nn.Module):
    """The contrastive loss over all pairs of views; holds W_ij if the score is bilinear.

    Args:
        views: names of the views in order, repeats allowed.
        dim: hidden size D of each view.
        config: the variant.
        teacher: weights of the teacher's terms.
        teacher_dim: K, size of the teacher's vectors; 0 without a teacher.
    """

    def __init__(
        self,
        views: Sequence[str],
        dim: int,
        config: ObjectiveConfig,
        teacher: TeacherConfig | None = None,
        teacher_dim: int = 0,
    ) -> None:
        super().__init__()
        self.config = config
        self.teacher = teacher or TeacherConfig()
        self.pairs = list(itertools.combinations(range(len(views)), 2))
        self.names = pair_names(views)
        weights = {"same": config.same}
        if teacher_dim:
            weights |= {"teacher": self.teacher.contrast, "similarity": self.teacher.similarity}
        self.terms = {name: weight for name, weight in weights.items() if weight}
        """Weight of each further term."""
        self.bilinear = nn.ParameterList()
        if config.score == "bilinear":
            self.bilinear.extend(_xavier(dim, dim) for _ in self.pairs)
        self.to_teacher = nn.ParameterList()
        """Maps [D, K] of the views onto the teacher's vectors."""
        if "teacher" in self.terms:
            self.to_teacher.extend(_xavier(dim, teacher_dim) for _ in views)
        self.log_scale: nn.Parameter | None = None
        """Scalar: logarithm of 1 / temperature, where it is learned."""
        if config.learn_temperature:
            self.log_scale = nn.Parameter(torch.tensor(-math.log(config.temperature)))

    @property
    def metrics(self) -> list[str]:
        """What the log calls :meth:`ObjectiveValue.sums`, divided by the anchors."""
        losses = [f"loss/{name}" for name in (*self.names, *self.terms)]
        return ["loss", *losses, *(f"accuracy@1/{pair}" for pair in self.names)]

    def forward(
        self,
        features: Sequence[Tensor],
        targets: Targets,
        candidates: Sequence[Tensor] | None = None,
        teacher: TeacherVectors | None = None,
    ) -> ObjectiveValue:
        """The loss of a batch, summed over its anchors.

        Args:
            features: per view [B, D], any floating type; scores are computed in at least float32.
            targets: of the B sentences, on the device of the features.
            candidates: features per view [C, D]; by default the batch itself.
            teacher: the teacher's vectors of the B sentences and of the C candidates.
        """
        anchors = [_at_least_float32(feature)[targets.anchor] for feature in features]
        others = [_at_least_float32(other) for other in candidates or features]
        cosines = _Cosines(anchors, others)
        scale = self._scale()
        total = others[0].new_zeros(())
        losses: list[Tensor] = []
        hits: list[Tensor] = []
        same: list[Tensor] = []
        for pair, (left, right) in enumerate(self.pairs):
            ways = [(left, right), (right, left)] if self.config.direction == "both" else [(left, right)]
            if self.config.score == "cosine":
                scores = [cosines.of(*way) * scale for way in ways]
            elif self.config.score == "dot":
                scores = [anchors[i] @ others[j].T for i, j in ways]
            else:
                maps = (self.bilinear[pair], self.bilinear[pair].T)
                scores = [anchors[i] @ w_DD @ others[j].T for (i, j), w_DD in zip(ways, maps, strict=False)]
            each = [contrast(s, targets, self.config.denominator, self.config.self_score) for s in scores]
            loss = torch.stack([value.sum() for value in each]).mean()
            total = total + loss / len(self.pairs)
            losses.append(loss.detach())
            found = [retrieved(s.detach(), targets).sum() for s in scores]
            hits.append(torch.stack(found).double().mean())
            if "same" in self.terms:
                itself = targets.of_itself
                same += [contrast(cosines.of(*w) * scale, itself, "all", "minus-inf").sum() for w in ways]
        terms: dict[str, Tensor] = {}
        if same:
            terms["same"] = torch.stack(same).mean()
        if teacher is not None:
            terms |= self._teacher_terms(anchors, others, targets, teacher)
        for name, value in terms.items():
            total = total + self.terms[name] * value
        found_terms = [terms[name].detach() for name in self.terms]
        return ObjectiveValue(total, len(targets.anchor), losses, hits, found_terms)

    def _scale(self) -> Tensor | float:
        """1 / temperature."""
        if self.log_scale is None:
            return 1.0 / self.config.temperature
        return self.log_scale.exp().clamp(max=LARGEST_SCALE)

    def _teacher_terms(
        self,
        anchors: Sequence[Tensor],
        others: Sequence[Tensor],
        targets: Targets,
        teacher: TeacherVectors,
    ) -> dict[str, Tensor]:
        """The teacher's terms, summed over anchors.

        - ``teacher``: each view, mapped to K dimensions, finds the teacher's vector of its sentence among
          those of the sentences outside the context; mean over views.
        - ``similarity``: squared difference between the cosine of two sentences' concatenated views and that
          of the teacher's vectors, mean over all candidates that are usable.
        """
        own_AK = nn.functional.normalize(teacher.own.to(anchors[0])[targets.anchor], dim=1)
        all_CK = nn.functional.normalize(teacher.candidates.to(anchors[0]), dim=1)
        terms = {}
        if "teacher" in self.terms:
            each = []
            for view_AD, map_DK in zip(anchors, self.to_teacher, strict=True):
                mapped_AK = nn.functional.normalize(view_AD @ map_DK, dim=1)
                score_AC = mapped_AK @ all_CK.T / self.teacher.temperature
                each.append(contrast(score_AC, targets.of_itself, "all", "minus-inf").sum())
            terms["teacher"] = torch.stack(each).mean()
        if "similarity" in self.terms:
            joined_A = nn.functional.normalize(torch.cat(list(anchors), dim=1), dim=1)
            joined_C = nn.functional.normalize(torch.cat(list(others), dim=1), dim=1)
            squared_AC = (joined_A @ joined_C.T - own_AK @ all_CK.T).square()
            compared = targets.negative | targets.positive
            counts_A = compared.sum(dim=1).clamp(min=1)
            terms["similarity"] = (squared_AC.masked_fill(~compared, 0.0).sum(dim=1) / counts_A).sum()
        return terms


def _xavier(rows: int, columns: int) -> nn.Parameter:
    weight = nn.Parameter(torch.empty(rows, columns))
    nn.init.xavier_uniform_(weight)
    return weight


def _at_least_float32(values: Tensor) -> Tensor:
    return values if values.dtype == torch.float64 else values.float()


class _Cosines:
    """Cosines [A, C] between the anchors of one view and the candidates of another, each computed once.

    Args:
        anchors: per view [A, D].
        candidates: per view [C, D].
    """

    def __init__(self, anchors: Sequence[Tensor], candidates: Sequence[Tensor]) -> None:
        self.anchors, self.candidates = anchors, candidates
        self._known: dict[tuple[int, int], Tensor] = {}

    def of(self, left: int, right: int) -> Tensor:
        """Of view ``left``'s anchors with view ``right``'s candidates."""
        if (left, right) not in self._known:
            unit_AD = nn.functional.normalize(self.anchors[left], dim=1)
            unit_CD = nn.functional.normalize(self.candidates[right], dim=1)
            self._known[left, right] = unit_AD @ unit_CD.T
        return self._known[left, right]
