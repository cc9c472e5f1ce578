"""Scorers over frozen vectors under EMP's pairwise hinge loss.

    L = max(0, m − s(q, p⁺) + s(q, p⁻))

With m = 0, as EMP prints it, every scorer that gives p⁺ and p⁻ the same score is a minimum, and a pair has no
gradient once s(q, p⁺) ≥ s(q, p⁻) (ReLU's subgradient at 0 is 0). :class:`PairCounts` says how many pairs tie.
Vectors are first scaled to length √D, so that components are near 1 for every encoder.

Legend: B pairs of a batch, T pairs of a pass, N distinct texts, D embedding size, K candidates, H hidden.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from corpora.ranking.questions import Question
from corpora.support.errors import UserError
from senteval_runner.protocol.features import unit
from studies.finetune.config import Concatenation
from studies.finetune.heads import combine, seeded_linear
from studies.passages.config import Feature, RankerConfig, Scorer
from studies.passages.metrics import TIE, mean, measure

SCORE_BATCH = 4096
Rows = NDArray[np.int64]
Vectors = NDArray[np.floating]


def ranking_loss(positive_B: Tensor, negative_B: Tensor, margin: float) -> Tensor:
    """Mean over pairs of max(0, margin − s(q, p⁺) + s(q, p⁻))."""
    return torch.relu(margin - positive_B + negative_B).mean()


class Cosine(nn.Module):
    """uᵀv / D of vectors of length √D: the cosine; nothing to train."""

    def forward(self, u_BD: Tensor, v_BD: Tensor) -> Tensor:
        """Scores [B]."""
        return (u_BD * v_BD).sum(-1) / u_BD.shape[-1]


class Bilinear(nn.Module):
    """uᵀ W v / D.

    Args:
        dim: D.
        seed: of W, Xavier.
        identity: W starts at the identity instead, so that the first scores are cosines.
    """

    def __init__(self, dim: int, seed: int, *, identity: bool) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        start = torch.eye(dim)
        if not identity:
            nn.init.xavier_uniform_(start, generator=generator)
        self.w_DD = nn.Parameter(start)

    def forward(self, u_BD: Tensor, v_BD: Tensor) -> Tensor:
        """Scores [B]."""
        return ((u_BD @ self.w_DD) * v_BD).sum(-1) / u_BD.shape[-1]


class Concatenated(nn.Module):
    """A linear layer, or two with ReLU between, over :func:`studies.finetune.heads.combine`.

    A linear layer over [u; v] ignores the question: s(q, p⁺) − s(q, p⁻) = a·(v⁺ − v⁻) does not contain u.
    """

    def __init__(self, dim: int, feature: Concatenation, hidden: int | None, seed: int) -> None:
        super().__init__()
        self.feature: Concatenation = feature
        width = dim * (4 if feature == "uv-diff-prod" else 2)
        self.layers = nn.Sequential(
            *([seeded_linear(width, hidden, seed), nn.ReLU()] if hidden else []),
            seeded_linear(hidden or width, 1, seed + 1),
        )

    def forward(self, u_BD: Tensor, v_BD: Tensor) -> Tensor:
        """Scores [B]."""
        scores: Tensor = self.layers(combine(u_BD, v_BD, self.feature))[:, 0]
        return scores


def make_scorer(feature: Feature, scorer: Scorer, dim: int, hidden: int, seed: int) -> nn.Module:
    """The scorer of a feature; ``scorer`` matters for concatenations only."""
    if feature == "cosine":
        return Cosine()
    if feature == "uv" or feature == "uv-diff-prod":
        return Concatenated(dim, feature, hidden if scorer == "mlp" else None, seed)
    return Bilinear(dim, seed, identity=feature == "bilinear-identity")


@dataclass(frozen=True)
class Part:
    """The questions of a split with their vectors, scaled to length √D."""

    questions: Sequence[Question]
    question_ND: Tensor
    """One row per question."""
    passage_ND: Tensor
    """One row per passage of the set."""


def scaled(vectors_ND: Vectors) -> Tensor:
    """Rows of length √D; zero rows stay zero."""
    return torch.from_numpy((unit(vectors_ND) * vectors_ND.shape[1] ** 0.5).astype(np.float32))


def score(scorer: nn.Module, part: Part) -> list[NDArray[np.float32]]:
    """Scores of every question's candidates, [K] each."""
    counts = [len(q.candidates) for q in part.questions]
    asked = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
    rows = torch.from_numpy(np.concatenate([q.candidates for q in part.questions]))
    with torch.inference_mode():
        found = [
            scorer(
                part.question_ND[asked[start : start + SCORE_BATCH]],
                part.passage_ND[rows[start : start + SCORE_BATCH]],
            )
            for start in range(0, len(rows), SCORE_BATCH)
        ]
    return np.split(torch.cat(found).numpy(), np.cumsum(counts)[:-1])


def draw_pairs(questions: Sequence[Question], negatives: int, generator: np.random.Generator) -> Rows:
    """(question's number, relevant passage, irrelevant passage), [T, 3], in random order.

    Every relevant candidate is paired with ``negatives`` different irrelevant ones of its question, or all.
    """
    pairs = []
    for number, question in enumerate(questions):
        wrong = question.candidates[~question.relevant]
        for right in question.candidates[question.relevant]:
            drawn = generator.choice(wrong, min(negatives, len(wrong)), replace=False)
            pairs += [(number, right, other) for other in drawn]
    return generator.permutation(np.array(pairs, dtype=np.int64).reshape(-1, 3))


def pair_scores(scorer: nn.Module, part: Part, pairs_T3: Rows) -> tuple[Tensor, Tensor]:
    """Scores of the relevant and the irrelevant passages of pairs, [T] each."""
    asked, right, wrong = torch.from_numpy(pairs_T3).unbind(1)
    u_BD = part.question_ND[asked]
    return scorer(u_BD, part.passage_ND[right]), scorer(u_BD, part.passage_ND[wrong])


@dataclass(frozen=True, kw_only=True)
class PairCounts:
    """Counts over the pairs of the first pass; all but ``pairs`` and ``loss`` are fractions."""

    pairs: int
    tied: float
    """Scores differ by at most 1e-6; with margin 0 these pairs have no gradient."""
    satisfied: float
    """s(q, p⁺) ≥ s(q, p⁻) + margin: the loss is 0."""
    loss: float


def count_pairs(scorer: nn.Module, part: Part, pairs_T3: Rows, margin: float) -> PairCounts:
    """See :class:`PairCounts`."""
    with torch.inference_mode():
        blocks = [
            pair_scores(scorer, part, pairs_T3[start : start + SCORE_BATCH])
            for start in range(0, len(pairs_T3), SCORE_BATCH)
        ]
    right, wrong = (torch.cat(side) for side in zip(*blocks, strict=True))
    return PairCounts(
        pairs=len(pairs_T3),
        tied=float(((right - wrong).abs() <= TIE).float().mean()),
        satisfied=float((right - wrong >= margin).float().mean()),
        loss=float(ranking_loss(right, wrong, margin)),
    )


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A trained scorer and its training curve."""

    scorer: nn.Module
    dev: float
    """Selected score on dev."""
    epoch: int
    """Pass after which it was reached; 0 is before training."""
    curve: list[float] = field(default_factory=list)
    """Selected score on dev after each pass, the start first."""
    before: PairCounts
    after: PairCounts


def train_scorer(
    scorer: nn.Module,
    train: Part,
    dev: Part,
    config: RankerConfig,
    *,
    margin: float,
    select: str,
    seed: int,
    step: Callable[[], object] = lambda: None,
) -> Fit:
    """Train in place and keep the pass that is best on dev (the start counts as pass 0).

    Args:
        scorer: (u, v) to scores.
        train: questions with a relevant and an irrelevant candidate each.
        dev: questions that select the pass.
        config: see :class:`RankerConfig`.
        margin: margin of the loss.
        select: dev metric that selects the pass.
        seed: seed of pairs and order.
        step: called after every pass.

    Raises:
        UserError: the loss is not finite.
    """
    generator = np.random.default_rng(seed)
    first = draw_pairs(train.questions, config.negatives, generator)
    before = count_pairs(scorer, train, first, margin)
    optimiser = torch.optim.AdamW(
        scorer.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
    )
    curve = [mean(measure(dev.questions, score(scorer, dev)))[select]]
    best, best_epoch, kept = curve[0], 0, copy.deepcopy(scorer.state_dict())
    for epoch in range(1, config.epochs + 1):
        pairs = first if epoch == 1 else draw_pairs(train.questions, config.negatives, generator)
        for start in range(0, len(pairs), config.batch_size):
            loss = ranking_loss(*pair_scores(scorer, train, pairs[start : start + config.batch_size]), margin)
            if not torch.isfinite(loss):
                raise UserError(f"the ranking loss is {loss.item()}; lower --ranker.learning-rate")
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            optimiser.step()
        curve.append(mean(measure(dev.questions, score(scorer, dev)))[select])
        step()
        if curve[-1] > best:
            best, best_epoch, kept = curve[-1], epoch, copy.deepcopy(scorer.state_dict())
        elif epoch - best_epoch >= config.patience:
            break
    scorer.load_state_dict(kept)
    after = count_pairs(scorer, train, first, margin)
    return Fit(scorer=scorer, dev=best, epoch=best_epoch, curve=curve, before=before, after=after)
