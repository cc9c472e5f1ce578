"""The cross-encoder: reads question and passage together, fine-tuned on the set, an upper bound for vectors.

s(q, p) = MLP(h), where h is the last hidden state at the first position of "[CLS] q [SEP] p [SEP]" and the
MLP has two layers with tanh between. All weights are trained except the word embeddings. The loss is that of
the frozen vectors. Training is :func:`studies.finetune.loop.fit`, so a killed run resumes exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from corpora.ranking.questions import PassageSet, Question
from corpora.support.errors import UserError
from parsing.networks.device import pick_device
from senteval_runner.towers.transformer import load_tower
from senteval_runner.vectors.sources import is_multiview
from studies.finetune.examples import Examples, Stream, rng
from studies.finetune.heads import seeded_linear
from studies.finetune.loop import Row, Task, fit
from studies.passages.config import CrossConfig
from studies.passages.metrics import mean, measure
from studies.passages.ranker import draw_pairs, ranking_loss

SCORE_BATCH = 64


class CrossRanker(nn.Module):
    """s(q, p) of the module's docstring.

    Args:
        tower: a transformer tower of :func:`senteval_runner.towers.transformer.load_tower`.
        hidden: width of the MLP's hidden layer.
        seed: seed of the MLP's initial weights.
    """

    def __init__(self, tower: Any, hidden: int, seed: int) -> None:
        super().__init__()
        self.tower = tower
        words = tower.model[0].auto_model.get_input_embeddings()
        words.weight.requires_grad_(False)
        self.first = seeded_linear(tower.dim, hidden, seed)
        self.second = seeded_linear(hidden, 1, seed + 1)

    def forward(self, pairs: Sequence[tuple[str, str]]) -> Tensor:
        """Scores [B]."""
        scores: Tensor = self.second(torch.tanh(self.first(self.tower.embed_pairs(pairs))))[:, 0]
        return scores


@dataclass(frozen=True)
class RankingPairs:
    """A source of (question, relevant passage, irrelevant passage).

    ``first`` is the question, ``second`` the relevant passage, ``target`` the irrelevant passage's index.
    """

    questions: Sequence[Question]
    passages: Sequence[str]
    negatives: int
    seed: int

    @cached_property
    def _length(self) -> int:
        wrong = [(q, min(self.negatives, int((~q.relevant).sum()))) for q in self.questions]
        return sum(int(q.relevant.sum()) * count for q, count in wrong)

    def __len__(self) -> int:
        return self._length

    def draw(self, pass_index: int) -> Examples:
        """Fresh negatives for every pass."""
        pairs = draw_pairs(self.questions, self.negatives, rng(self.seed, "ranking", pass_index))
        asked = [self.questions[number].text for number in pairs[:, 0]]
        return Examples(asked, [self.passages[row] for row in pairs[:, 1]], pairs[:, 2])


def pair_loss(net: CrossRanker, examples: Examples, passages: Sequence[str], margin: float) -> Tensor:
    """The ranking loss of a batch; both passages of a pair share one forward pass."""
    assert examples.second is not None
    right = list(zip(examples.first, examples.second, strict=True))
    wrong = [(text, passages[row]) for text, row in zip(examples.first, examples.target, strict=True)]
    scores = net([*right, *wrong])
    return ranking_loss(scores[: len(right)], scores[len(right) :], margin)


def cross_scores(
    net: CrossRanker, questions: Sequence[Question], passages: Sequence[str], step: Callable[[int], object]
) -> list[NDArray[np.float32]]:
    """Scores of every question's candidates, [K] each; ``step`` gets the number of pairs of each batch."""
    pairs = [(q.text, passages[row]) for q in questions for row in q.candidates]
    # Pairs of similar length share a batch, because padding costs as much as words.
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]) + len(pairs[i][1]))
    scores = np.zeros(len(pairs), dtype=np.float32)
    with torch.inference_mode():
        for start in range(0, len(order), SCORE_BATCH):
            rows = order[start : start + SCORE_BATCH]
            scores[rows] = net([pairs[i] for i in rows]).float().cpu().numpy()
            step(len(rows))
    return np.split(scores, np.cumsum([len(q.candidates) for q in questions])[:-1])


def fine_tune(
    data: PassageSet,
    backbone: str,
    config: CrossConfig,
    *,
    margin: float,
    select: str,
    seed: int,
    device: str,
    folder: Path,
    report: Callable[[str], None],
) -> tuple[CrossRanker, list[Row]]:
    """Train on the set, resuming a state in ``folder``; keep the weights that are best on dev.

    Args:
        data: see :func:`~corpora.ranking.questions.filtered`.
        backbone: name or folder of a Hugging Face encoder.
        config: see :class:`CrossConfig`.
        margin: margin of the loss.
        select: dev metric that chooses the weights.
        seed: seed of the MLP, the pairs and dropout.
        device: cpu, cuda or auto.
        folder: folder of the saved states.
        report: called with one line per evaluation.

    Raises:
        UserError: the backbone cannot be loaded, or reads no pairs.
    """
    if is_multiview(Path(backbone)):
        raise UserError(f"backbone {backbone!r} reads one sentence at a time; give a Hugging Face encoder")
    place = pick_device(device)
    net = CrossRanker(load_tower(backbone, max_length=config.max_length, device=place), config.hidden, seed)
    net.to(place)
    questions = data.splits["dev"][: config.dev_questions]
    pairs = RankingPairs(data.splits["train"], data.passages, config.negatives, seed)
    task = Task(
        Stream(pairs.draw, config.batch_size, seed, "ranking"),
        lambda examples: pair_loss(net, examples, data.passages, margin),
    )

    def evaluate() -> Row:
        return mean(measure(questions, cross_scores(net, questions, data.passages, lambda count: None)))

    history = fit(
        net,
        {"ranking": task},
        config.loop,
        steps=config.steps,
        evaluate_every=config.evaluate_every,
        select=select,
        evaluate=evaluate,
        seed=seed,
        folder=folder,
        report=report,
    )
    return net, history
