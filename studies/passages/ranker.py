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
D embedding size, K candidates.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from corpora.ranking.sets import Question
from runtime.errors import UserError
from runtime.progress import progress
from senteval_runner.protocol.features import unit
from studies.finetune.training import combine, seeded_linear

if TYPE_CHECKING:
    from studies.passages.__main__ import Feature

HIDDEN = 128
"""Units of the MLP scorer."""
NEGATIVES = 4
"""Irrelevant passages drawn for every relevant one in each pass; fewer where a question has fewer."""
BATCH, SCORE_BATCH = 64, 4096
"""Pairs per step of training, and of scoring."""
PATIENCE = 8
"""Training stops after this many passes without a better development score."""
SELECT = "map"
"""Development score that chooses the pass."""
DEPTHS = (1, 5, 10)
METRICS = ("mrr", "map", *(f"{name}@{k}" for name in "prs" for k in DEPTHS))
Scores = Sequence[NDArray[np.floating]]
"""One array per question, one score per candidate; higher is better."""


def measure(questions: Sequence[Question], scores: Scores) -> dict[str, NDArray[np.float64]]:
    """Compute every metric of :data:`METRICS` per question, [Q], as fractions."""
    rows = []
    for question, scores_K in zip(questions, scores, strict=True):
        # Best first; of equal scores irrelevant ones first, then in the file's order.
        order_K = np.lexsort((np.arange(len(question.candidates)), question.relevant, -scores_K))
        right_K = question.relevant[order_K]
        places = np.flatnonzero(right_K) + 1
        total = max(1, len(places) + question.missed)
        hits = np.array([right_K[:k].sum() for k in DEPTHS])
        precisions = np.arange(1, len(places) + 1) / places
        first = 1 / places[0] if len(places) else 0.0
        rows.append([first, precisions.sum() / total, *(hits / DEPTHS), *(hits / total), *(hits > 0)])
    return dict(zip(METRICS, np.array(rows, dtype=np.float64).T, strict=True))


def mean(values: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    """Average every metric over the questions."""
    return {name: float(per_question.mean()) for name, per_question in values.items()}


def ranking_loss(positive_B: Tensor, negative_B: Tensor, margin: float) -> Tensor:
    """Average max(0, margin − s(q, p⁺) + s(q, p⁻)) over pairs."""
    return torch.relu(margin - positive_B + negative_B).mean()


class Scorer(nn.Module):
    """s(q, p) of vectors u and v of length √D.

    ``cosine`` is uᵀv / D, with nothing to train; ``bilinear`` is uᵀ W v / D, where W [D, D] starts as
    Xavier's; the others are a linear layer, or two with ReLU between, over
    :func:`studies.finetune.training.combine`. A linear layer over [u; v] ignores the question:
    s(q, p⁺) − s(q, p⁻) = a·(v⁺ − v⁻) does not contain u.
    """

    def __init__(self, feature: Feature, hidden: int | None, dim: int, seed: int) -> None:
        super().__init__()
        self.feature: Feature = feature
        if feature == "bilinear":
            generator = torch.Generator().manual_seed(seed)
            self.w_DD = nn.Parameter(nn.init.xavier_uniform_(torch.empty(dim, dim), generator=generator))
        elif feature != "cosine":
            width = dim * (4 if feature == "uv-diff-prod" else 2)
            first = [seeded_linear(width, hidden, seed), nn.ReLU()] if hidden else []
            self.layers = nn.Sequential(*first, seeded_linear(hidden or width, 1, seed + 1))

    def forward(self, u_BD: Tensor, v_BD: Tensor) -> Tensor:
        """Score pairs, [B]."""
        if self.feature in ("uv", "uv-diff-prod"):
            scores: Tensor = self.layers(combine(u_BD, v_BD, self.feature))[:, 0]
            return scores
        turned_BD = u_BD @ self.w_DD if self.feature == "bilinear" else u_BD
        return (turned_BD * v_BD).sum(-1) / u_BD.shape[-1]


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

    Returns the selected score on dev after each pass, the start first. Raises UserError: the loss is not
    finite.
    """
    generator, passage_ND = np.random.default_rng(seed), train.passage_ND
    optimiser = torch.optim.AdamW(scorer.parameters(), lr=learning_rate, weight_decay=0.01)
    curve: list[float] = []
    with progress(total=epochs, unit="pass", description="train scorer") as bar:
        while True:
            curve.append(mean(measure(dev.questions, score(scorer, dev)))[SELECT])
            if curve[-1] > max(curve[:-1], default=-1):
                best = copy.deepcopy(scorer.state_dict())
            if len(curve) > epochs or len(curve) - curve.index(max(curve)) > PATIENCE:
                break
            for pairs_B3 in torch.from_numpy(draw_pairs(train.questions, generator)).split(BATCH):
                question_B, right_B, wrong_B = pairs_B3.unbind(1)
                u_BD = train.question_ND[question_B]
                right_scores_B, wrong_scores_B = (
                    scorer(u_BD, passage_ND[rows]) for rows in (right_B, wrong_B)
                )
                loss = ranking_loss(right_scores_B, wrong_scores_B, margin)
                if not torch.isfinite(loss):
                    raise UserError(f"the ranking loss is {loss.item()}; lower --learning-rate")
                optimiser.zero_grad(set_to_none=True)
                torch.autograd.backward(loss)
                optimiser.step()
            bar.update(1)
    scorer.load_state_dict(best)
    return curve
