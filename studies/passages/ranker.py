"""Train scorers over frozen vectors and a cross-encoder by EMP's pairwise hinge loss; measure rankings.

    L = max(0, m − s(q, p⁺) + s(q, p⁻))

where s is the score of a passage p for a question q, p⁺ is relevant, p⁻ is not, and m is the margin. Vectors
are first scaled to length √D, so that their components are near 1 for every encoder.

The cross-encoder reads question and passage together. It is fine-tuned on the set, as an upper bound of what
vectors can reach: s(q, p) = MLP(h), where h is the last hidden state at the first position of
"[CLS] q [SEP] p [SEP]" and the MLP has two layers with tanh between. All weights are trained except the word
embeddings.

In a ranking a relevant candidate is behind irrelevant ones with the same score; a scorer that gives all
candidates the same score thus ranks the relevant ones last. Precision at k is divided by k even if there are
fewer candidates. Recall and average precision are divided by the number of all relevant passages, also of
those that are no candidates. Success at k is 1 if a relevant passage is among the first k. Questions without
a relevant passage score 0.

Legend of dimension suffixes: B pairs of a batch, T pairs of a pass, P pairs of a question and a candidate, N
distinct texts, D embedding size, K candidates, Q questions.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from corpora.ranking.sets import PassageSet, Question
from runtime.device import pick_device
from runtime.errors import UserError
from runtime.progress import progress
from runtime.training_state import Values
from runtime.vectors import divide_by_norms
from senteval_runner.towers.transformer import load_tower
from studies.finetune.examples import Examples, Stream, rng
from studies.finetune.training import TrainedTask, TuningConfig, combine, fit, in_batches, seeded_linear
from studies.passages.config import Feature, PassagesConfig

HIDDEN_UNITS = 128
"""Units of the MLP scorer."""
NEGATIVES = 4
"""Number of irrelevant passages that are drawn for every relevant one in a pass, if there are as many."""
RANKER_BATCH, RANKER_SCORE_BATCH = 64, 4096
"""Pairs of a batch in training, and in scoring."""
CROSS_HIDDEN_UNITS = 256
"""Units of the cross-encoder's MLP."""
CROSS_BATCH = 16
"""Pairs of a batch in the training of the cross-encoder."""
CROSS_RATE = 2e-5
"""Peak learning rate of the cross-encoder; 10 % warm-up, then linear decay to 0."""
PATIENCE = 8
"""Training stops after this many passes without a better development score."""
SELECT = "map"
"""The development score that decides which pass is kept."""
DEPTHS = (1, 5, 10)
METRICS = ("mrr", "map", *(f"{name}@{k}" for name in "prs" for k in DEPTHS))
Scores = Sequence[NDArray[np.floating]]
"""One array per question, one score per candidate; higher is better."""


def measure(questions: Sequence[Question], scores: Scores) -> dict[str, NDArray[np.float64]]:
    """Return every metric of :data:`METRICS` for each question, as fractions [Q]."""
    rows = []
    for question, scores_K in zip(questions, scores, strict=True):
        # The highest score is first; of equal scores irrelevant ones are, in the order of the file.
        order_K = np.lexsort((np.arange(len(question.candidates)), question.relevant, -scores_K))
        relevant_K = question.relevant[order_K]
        ranks = np.flatnonzero(relevant_K) + 1
        total = max(1, len(ranks) + question.missed_count)
        hits = np.array([relevant_K[:k].sum() for k in DEPTHS])
        precisions = np.arange(1, len(ranks) + 1) / ranks
        reciprocal_rank = 1 / ranks[0] if len(ranks) else 0.0
        average_precision = precisions.sum() / total
        rows.append([reciprocal_rank, average_precision, *(hits / DEPTHS), *(hits / total), *(hits > 0)])
    return dict(zip(METRICS, np.array(rows, dtype=np.float64).T, strict=True))


def ranking_loss(positive_B: Tensor, negative_B: Tensor, margin: float) -> Tensor:
    """Return the mean of max(0, margin − s(q, p⁺) + s(q, p⁻)) over pairs."""
    return torch.relu(margin - positive_B + negative_B).mean()


class Scorer(nn.Module):
    """The score s(q, p) of a question's vector u and a passage's vector v, both of length √D.

    ``cosine`` is uᵀv / D, in which nothing is trained. ``bilinear`` is uᵀ W v / D, where W [D, D] has
    Xavier's initial weights. The other features are those of :func:`studies.finetune.training.combine`, which
    a linear layer reads, or two layers with ReLU between. A ranking by a linear layer over [u; v] does not
    depend on the question, because s(q, p⁺) − s(q, p⁻) = a·(v⁺ − v⁻) does not contain u.
    """

    def __init__(self, feature: Feature, hidden_units: int | None, dim: int, seed: int) -> None:
        super().__init__()
        self.feature: Feature = feature
        if feature == "bilinear":
            generator = torch.Generator().manual_seed(seed)
            self.w_DD = nn.Parameter(nn.init.xavier_uniform_(torch.empty(dim, dim), generator=generator))
        elif feature != "cosine":
            width = dim * (4 if feature == "uv-diff-prod" else 2)
            first = [seeded_linear(width, hidden_units, seed), nn.ReLU()] if hidden_units else []
            self.layers = nn.Sequential(*first, seeded_linear(hidden_units or width, 1, seed + 1))

    def forward(self, u_BD: Tensor, v_BD: Tensor) -> Tensor:
        """Return the scores of pairs, [B]."""
        if self.feature in ("uv", "uv-diff-prod"):
            scores: Tensor = self.layers(combine(u_BD, v_BD, self.feature))[:, 0]
            return scores
        left_BD = u_BD @ self.w_DD if self.feature == "bilinear" else u_BD
        return (left_BD * v_BD).sum(-1) / u_BD.shape[-1]


@dataclass(frozen=True)
class Split:
    """The questions of a split, with vectors of length √D of these questions and of all passages."""

    questions: Sequence[Question]
    question_ND: Tensor
    """One row per question."""
    passage_ND: Tensor
    """One row per passage of the set."""


def scale_rows(vectors_ND: NDArray[np.floating]) -> Tensor:
    """Return the rows scaled to length √D; zero rows stay zero."""
    return torch.from_numpy((divide_by_norms(vectors_ND) * vectors_ND.shape[1] ** 0.5).astype(np.float32))


def score(scorer: nn.Module, split: Split) -> list[NDArray[np.float32]]:
    """Return the scores of each question's candidates, [K] each."""
    counts = [len(question.candidates) for question in split.questions]
    question_P = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
    passage_P = torch.from_numpy(np.concatenate([question.candidates for question in split.questions]))
    batches = zip(question_P.split(RANKER_SCORE_BATCH), passage_P.split(RANKER_SCORE_BATCH), strict=True)
    with torch.inference_mode():
        scores = [scorer(split.question_ND[rows], split.passage_ND[passages]) for rows, passages in batches]
    return np.split(torch.cat(scores).numpy(), np.cumsum(counts)[:-1])


def mean_scores(questions: Sequence[Question], scores: Scores) -> dict[str, float]:
    """Return the mean of every metric over the questions."""
    return {name: float(values_Q.mean()) for name, values_Q in measure(questions, scores).items()}


def draw_pairs(questions: Sequence[Question], generator: np.random.Generator) -> NDArray[np.int64]:
    """Return triples of a question, a relevant and an irrelevant passage as indices, [T, 3], in random order.

    Every relevant candidate is in four triples with different irrelevant ones of its question, if there are
    as many.
    """
    pairs = []
    for number, question in enumerate(questions):
        wrong_passages = question.candidates[~question.relevant]
        for right in question.candidates[question.relevant]:
            count = min(NEGATIVES, len(wrong_passages))
            sample = generator.choice(wrong_passages, count, replace=False)
            pairs += [(number, right, wrong) for wrong in sample]
    return generator.permutation(np.array(pairs, dtype=np.int64).reshape(-1, 3))


def train_scorer(
    scorer: Scorer, train: Split, dev: Split, *, epochs: int, learning_rate: float, margin: float, seed: int
) -> list[float]:
    """Train a scorer in place with AdamW, and return its development scores.

    There is a score before training and one after each pass. The weights with the best score are kept, also
    if they are those before training. Raises UserError if the loss is not finite.

    Args:
        scorer: the scorer.
        train: questions to learn from.
        dev: questions on which the best weights are chosen.
        epochs: the number of passes.
        learning_rate: of AdamW.
        margin: of the ranking loss.
        seed: of the order of the pairs and of the irrelevant passages.
    """
    generator = np.random.default_rng(seed)
    optimiser = torch.optim.AdamW(scorer.parameters(), lr=learning_rate, weight_decay=0.01)
    curve: list[float] = []
    with progress(total=epochs, unit="pass", description="train scorer") as bar:
        for pass_number in range(epochs + 1):
            if pass_number > 0:
                train_pass(scorer, train, draw_pairs(train.questions, generator), margin, optimiser)
                bar.update(1)
            curve.append(mean_scores(dev.questions, score(scorer, dev))[SELECT])
            best_pass = curve.index(max(curve))
            if best_pass == pass_number:
                best_weights = copy.deepcopy(scorer.state_dict())
            elif pass_number - best_pass >= PATIENCE:
                break
    scorer.load_state_dict(best_weights)
    return curve


def train_pass(
    scorer: nn.Module, split: Split, pairs: NDArray[np.int64], margin: float, adam: torch.optim.Optimizer
) -> None:
    """Train on all pairs of :func:`draw_pairs` once."""
    for pairs_B3 in torch.from_numpy(pairs).split(RANKER_BATCH):
        question_B, right_B, wrong_B = pairs_B3.unbind(1)
        u_BD = split.question_ND[question_B]
        right_score_B = scorer(u_BD, split.passage_ND[right_B])
        wrong_score_B = scorer(u_BD, split.passage_ND[wrong_B])
        loss = ranking_loss(right_score_B, wrong_score_B, margin)
        if not torch.isfinite(loss):
            raise UserError(f"the ranking loss is {loss.item()}; lower --learning-rate")
        adam.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        adam.step()


class CrossRanker(nn.Module):
    """The score s(q, p) of a pair that a tower reads as one text; ``seed`` is that of the MLP's weights."""

    def __init__(self, tower: Any, seed: int) -> None:
        super().__init__()
        self.tower = tower
        tower.model[0].auto_model.get_input_embeddings().weight.requires_grad_(False)
        self.first = seeded_linear(tower.dim, CROSS_HIDDEN_UNITS, seed)
        self.second = seeded_linear(CROSS_HIDDEN_UNITS, 1, seed + 1)

    def forward(self, pairs: Sequence[tuple[str, str]]) -> Tensor:
        """Return the scores of pairs, [B]."""
        scores: Tensor = self.second(torch.tanh(self.first(self.tower.embed(pairs, "cls"))))[:, 0]
        return scores


def ranking_pairs(data: PassageSet, seed: int, pass_index: int) -> Examples:
    """Return the pairs of a pass: question, relevant passage, index of an irrelevant one as target."""
    questions = data.splits["train"]
    pairs = draw_pairs(questions, rng(seed, "ranking", pass_index))
    texts = [questions[number].text for number in pairs[:, 0]]
    return Examples(texts, [data.passages[row] for row in pairs[:, 1]], pairs[:, 2])


def pair_loss(net: CrossRanker, examples: Examples, passages: Sequence[str], margin: float) -> Tensor:
    """Return the ranking loss of a batch; its relevant and irrelevant passages are scored in one batch."""
    wrong_passages = [passages[row] for row in examples.target]
    wrong_pairs = list(zip(examples.first, wrong_passages, strict=True))
    right_B, wrong_B = net(examples.pairs + wrong_pairs).split(len(examples))
    return ranking_loss(right_B, wrong_B, margin)


def cross_scores(
    net: CrossRanker, questions: Sequence[Question], passages: Sequence[str]
) -> list[NDArray[np.float32]]:
    """Return the scores of each question's candidates, [K] each."""
    pairs = [(question.text, passages[row]) for question in questions for row in question.candidates]
    lengths = [len(question) + len(passage) for question, passage in pairs]
    scores = in_batches(lengths, lambda rows: net([pairs[row] for row in rows]))
    return np.split(scores, np.cumsum([len(question.candidates) for question in questions])[:-1])


def fine_tune(
    data: PassageSet, backbone: str, config: PassagesConfig, *, seed: int, folder: Path
) -> tuple[CrossRanker, list[Values]]:
    """Train a cross-encoder on a set, and return it after its best pass on dev, with all development scores.

    Args:
        data: the set, with its questions filtered.
        backbone: a Hugging Face encoder; it reads as many word pieces as it can.
        config: options of the study.
        seed: of the MLP, the pairs and dropout.
        folder: where the state of training is saved; a state that is there is resumed.

    Raises UserError if the backbone cannot be loaded.
    """
    device = pick_device(config.device)
    questions = data.splits["dev"]
    net = CrossRanker(load_tower(backbone, max_length=None, device=device), seed).to(device)
    stream = Stream(partial(ranking_pairs, data, seed), CROSS_BATCH, seed, "ranking")
    tuning = TuningConfig(
        learning_rate=CROSS_RATE,
        steps=max(1, round(config.cross_epochs * stream.batches_per_pass)),
        evaluate_every=stream.batches_per_pass,
        select=SELECT,
        seed=seed,
    )
    task = TrainedTask(stream, lambda batch: pair_loss(net, batch, data.passages, config.margin))

    def evaluate() -> dict[str, float]:
        return mean_scores(questions, cross_scores(net, questions, data.passages))

    return net, fit(net, [task], tuning, evaluate, folder)
