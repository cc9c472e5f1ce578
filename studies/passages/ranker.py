"""Scorers over frozen vectors under EMP's pairwise hinge loss, and the metrics of rankings.

    L = max(0, m − s(q, p⁺) + s(q, p⁻))

With m = 0, as EMP prints it, every scorer that gives p⁺ and p⁻ the same score is a minimum, and a pair has no
gradient once s(q, p⁺) ≥ s(q, p⁻) (ReLU's subgradient at 0 is 0). Vectors are first scaled to length √D, so
that components are near 1 for every encoder.

Ties count against a scorer: a relevant candidate ranks behind irrelevant ones with its score, so a scorer
that gives every candidate one score ranks the relevant ones last. Precision divides by k even with fewer than
k candidates; recall and average precision divide by all relevant passages, missed ones included; success is 1
if any of them is among the first k. Questions without a relevant passage score 0.

Legend: B pairs of a batch, T pairs of a pass, P pairs of a question and a candidate, N distinct texts,
D embedding size, K candidates, H hidden.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from corpora.ranking.sets import Question
from runtime.errors import UserError
from runtime.progress import progress
from senteval_runner.protocol.features import unit
from senteval_runner.towers import Concatenation
from studies.finetune.heads import combine, seeded_linear
from studies.passages.config import Feature, Scorer

HIDDEN = 128
"""Units of the MLP scorer."""
NEGATIVES = 4
"""Irrelevant passages drawn for every relevant one in each pass; fewer where a question has fewer."""
BATCH = 64
"""Pairs per step."""
PATIENCE = 8
"""Training stops after this many passes without a better development score."""
WEIGHT_DECAY = 0.01
SELECT = "map"
"""Development score that chooses the pass."""
SCORE_BATCH = 4096
DEPTHS = (1, 5, 10)
METRICS = ("mrr", "map", *(f"{name}@{k}" for name in "prs" for k in DEPTHS))
Scores = Sequence[NDArray[np.floating]]
"""One array per question, one score per candidate; higher is better."""


def ranked(scores_K: NDArray[np.floating], relevant_K: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Order candidates best first, [K]; of equal scores irrelevant ones first, then in the file's order."""
    order: NDArray[np.int64] = np.lexsort((np.arange(len(scores_K)), relevant_K, -scores_K))
    return order


def measure(questions: Sequence[Question], scores: Scores) -> dict[str, NDArray[np.float64]]:
    """Compute every metric of :data:`METRICS` per question, [Q], as fractions."""
    rows = []
    for question, scores_K in zip(questions, scores, strict=True):
        assert len(scores_K) == len(question.candidates)
        right_K = question.relevant[ranked(np.asarray(scores_K), question.relevant)]
        places = np.flatnonzero(right_K) + 1
        total = max(1, len(places) + question.missed)
        hits = [int(right_K[:k].sum()) for k in DEPTHS]
        rows.append(
            [
                1 / places[0] if len(places) else 0.0,
                float((np.arange(1, len(places) + 1) / places).sum()) / total,
                *(n / k for n, k in zip(hits, DEPTHS, strict=True)),
                *(n / total for n in hits),
                *(float(n > 0) for n in hits),
            ]
        )
    return dict(zip(METRICS, np.array(rows, dtype=np.float64).T, strict=True))


def mean(values: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    """Average every metric over the questions."""
    return {name: float(per_question.mean()) for name, per_question in values.items()}


def ranking_loss(positive_B: Tensor, negative_B: Tensor, margin: float) -> Tensor:
    """Average max(0, margin − s(q, p⁺) + s(q, p⁻)) over pairs."""
    return torch.relu(margin - positive_B + negative_B).mean()


class Cosine(nn.Module):
    """uᵀv / D of vectors of length √D: the cosine; nothing to train."""

    def forward(self, u_BD: Tensor, v_BD: Tensor) -> Tensor:
        """Score pairs, [B]."""
        return (u_BD * v_BD).sum(-1) / u_BD.shape[-1]


class Bilinear(nn.Module):
    """uᵀ W v / D; W [D, D] is Xavier's at the start."""

    def __init__(self, dim: int, seed: int) -> None:
        super().__init__()
        self.w_DD = nn.Parameter(torch.empty(dim, dim))
        nn.init.xavier_uniform_(self.w_DD, generator=torch.Generator().manual_seed(seed))

    def forward(self, u_BD: Tensor, v_BD: Tensor) -> Tensor:
        """Score pairs, [B]."""
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
        """Score pairs, [B]."""
        scores: Tensor = self.layers(combine(u_BD, v_BD, self.feature))[:, 0]
        return scores


def make_scorer(feature: Feature, scorer: Scorer | None, dim: int, seed: int) -> nn.Module:
    """Make the scorer of a feature; ``scorer`` matters for concatenations only."""
    if feature == "cosine":
        return Cosine()
    if feature == "bilinear":
        return Bilinear(dim, seed)
    return Concatenated(dim, feature, HIDDEN if scorer == "mlp" else None, seed)


@dataclass(frozen=True)
class Part:
    """The questions of a split with their vectors, scaled to length √D."""

    questions: Sequence[Question]
    question_ND: Tensor
    """One row per question."""
    passage_ND: Tensor
    """One row per passage of the set."""


def scaled(vectors_ND: NDArray[np.floating]) -> Tensor:
    """Scale rows to length √D; zero rows stay zero."""
    return torch.from_numpy((unit(vectors_ND) * vectors_ND.shape[1] ** 0.5).astype(np.float32))


def score(scorer: nn.Module, part: Part) -> list[NDArray[np.float32]]:
    """Score every question's candidates, [K] each."""
    counts = [len(q.candidates) for q in part.questions]
    question_P = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
    passage_P = torch.from_numpy(np.concatenate([q.candidates for q in part.questions]))
    batches = zip(question_P.split(SCORE_BATCH), passage_P.split(SCORE_BATCH), strict=True)
    with torch.inference_mode():
        scores = [scorer(part.question_ND[a], part.passage_ND[b]) for a, b in batches]
    return np.split(torch.cat(scores).numpy(), np.cumsum(counts)[:-1])


def draw_pairs(questions: Sequence[Question], generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw (question's number, relevant passage, irrelevant passage), [T, 3], in random order.

    Every relevant candidate is paired with four different irrelevant ones of its question, or all.
    """
    pairs = []
    for number, question in enumerate(questions):
        wrong = question.candidates[~question.relevant]
        for right in question.candidates[question.relevant]:
            drawn = generator.choice(wrong, min(NEGATIVES, len(wrong)), replace=False)
            pairs += [(number, right, other) for other in drawn]
    return generator.permutation(np.array(pairs, dtype=np.int64).reshape(-1, 3))


def train_scorer(
    scorer: nn.Module, train: Part, dev: Part, *, epochs: int, learning_rate: float, margin: float, seed: int
) -> list[float]:
    """Train in place with AdamW, and keep the pass that is best on dev (the start counts as pass 0).

    Returns:
        The selected score on dev after each pass, the start first.

    Raises:
        UserError: the loss is not finite.
    """
    generator = np.random.default_rng(seed)
    optimiser = torch.optim.AdamW(scorer.parameters(), lr=learning_rate, weight_decay=WEIGHT_DECAY)

    def on_dev() -> float:
        return mean(measure(dev.questions, score(scorer, dev)))[SELECT]

    curve = [on_dev()]
    best = copy.deepcopy(scorer.state_dict())
    with progress(total=epochs, unit="pass", description="train scorer") as bar:
        while len(curve) <= epochs and len(curve) - curve.index(max(curve)) <= PATIENCE:
            for pairs_B3 in torch.from_numpy(draw_pairs(train.questions, generator)).split(BATCH):
                loss = pairs_loss(scorer, train, pairs_B3, margin)
                optimiser.zero_grad(set_to_none=True)
                torch.autograd.backward(loss)
                optimiser.step()
            curve.append(on_dev())
            bar.update(1)
            if curve[-1] > max(curve[:-1]):
                best = copy.deepcopy(scorer.state_dict())
    scorer.load_state_dict(best)
    return curve


def pairs_loss(scorer: nn.Module, train: Part, pairs_B3: Tensor, margin: float) -> Tensor:
    """Compute the loss of pairs as :func:`draw_pairs` gives them.

    Raises:
        UserError: the loss is not finite.
    """
    question_B, right_B, wrong_B = pairs_B3.unbind(1)
    u_BD, passage_ND = train.question_ND[question_B], train.passage_ND
    loss = ranking_loss(scorer(u_BD, passage_ND[right_B]), scorer(u_BD, passage_ND[wrong_B]), margin)
    if not torch.isfinite(loss):
        raise UserError(f"the ranking loss is {loss.item()}; lower --learning-rate")
    return loss
