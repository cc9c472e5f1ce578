"""The cross-encoder: reads question and passage together, fine-tuned on the set, an upper bound for vectors.

s(q, p) = MLP(h), where h is the last hidden state at the first position of "[CLS] q [SEP] p [SEP]" and the
MLP has two layers with tanh between. All weights are trained except the word embeddings. The loss is that of
the frozen vectors. Training is :func:`studies.finetune.training.fit`, so a killed run resumes exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from corpora.ranking.sets import PassageSet, Question
from runtime.device import pick_device
from runtime.progress import progress
from runtime.training_task import Row
from senteval_runner.towers.transformer import load_tower
from studies.finetune.examples import Examples, Stream, rng
from studies.finetune.training import LoopConfig, Task, fit, seeded_linear
from studies.passages.ranker import SELECT, draw_pairs, mean, measure, ranking_loss

if TYPE_CHECKING:
    from studies.passages.__main__ import PassagesConfig

HIDDEN = 256
"""Width of the MLP's hidden layer."""
BATCH, SCORE_BATCH = 16, 64
"""Pairs of a relevant and an irrelevant passage per step of training; pairs that are scored at a time."""
LEARNING_RATE = 2e-5
"""Peak rate; 10 % warm-up, then linear decay to 0."""


class CrossRanker(nn.Module):
    """s(q, p) of the module's docstring over a transformer tower; ``seed`` is that of the MLP's weights."""

    def __init__(self, tower: Any, seed: int) -> None:
        super().__init__()
        self.tower = tower
        tower.model[0].auto_model.get_input_embeddings().weight.requires_grad_(False)
        self.first = seeded_linear(tower.dim, HIDDEN, seed)
        self.second = seeded_linear(HIDDEN, 1, seed + 1)

    def forward(self, pairs: Sequence[tuple[str, str]]) -> Tensor:
        """Score pairs, [B]."""
        scores: Tensor = self.second(torch.tanh(self.first(self.tower.embed(pairs, "cls"))))[:, 0]
        return scores


def ranking_pairs(data: PassageSet, seed: int, pass_index: int) -> Examples:
    """Draw the training pairs of a pass, with fresh negatives.

    ``first`` is the question, ``second`` the relevant passage, ``target`` the irrelevant passage's index.
    """
    questions = data.splits["train"]
    pairs = draw_pairs(questions, rng(seed, "ranking", pass_index))
    texts = [questions[number].text for number in pairs[:, 0]]
    return Examples(texts, [data.passages[row] for row in pairs[:, 1]], pairs[:, 2])


def pair_loss(net: CrossRanker, examples: Examples, passages: Sequence[str], margin: float) -> Tensor:
    """Compute the ranking loss of a batch; both passages of a pair share one forward pass."""
    wrong = [passages[row] for row in examples.target]
    pairs = zip(examples.first * 2, [*(examples.second or ()), *wrong], strict=True)
    right_B, wrong_B = net(list(pairs)).split(len(examples))
    return ranking_loss(right_B, wrong_B, margin)


def cross_scores(
    net: CrossRanker, questions: Sequence[Question], passages: Sequence[str]
) -> list[NDArray[np.float32]]:
    """Score every question's candidates, [K] each."""
    pairs = [(q.text, passages[row]) for q in questions for row in q.candidates]
    # Pairs of similar length share a batch, because padding costs as much as words.
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]) + len(pairs[i][1]))
    scores = np.zeros(len(pairs), dtype=np.float32)
    with torch.inference_mode(), progress(total=len(pairs), unit="pair", description="score") as bar:
        for start in range(0, len(order), SCORE_BATCH):
            rows = order[start : start + SCORE_BATCH]
            scores[rows] = net([pairs[i] for i in rows]).float().cpu().numpy()
            bar.update(len(rows))
    return np.split(scores, np.cumsum([len(q.candidates) for q in questions])[:-1])


def fine_tune(
    data: PassageSet, backbone: str, config: PassagesConfig, *, seed: int, folder: Path
) -> tuple[CrossRanker, list[Row]]:
    """Train on a set of filtered questions and keep the pass that is best on dev.

    A state in ``folder`` is resumed. The backbone, a Hugging Face encoder, reads as many word pieces as it
    can. ``seed`` is that of the MLP, the pairs and dropout. Raises UserError: the backbone cannot be loaded.
    """
    place, questions = pick_device(config.device or "auto"), data.splits["dev"]
    net = CrossRanker(load_tower(backbone, max_length=None, device=place), seed).to(place)
    stream = Stream(partial(ranking_pairs, data, seed), BATCH, seed, "ranking")
    history = fit(
        net,
        [Task(stream, lambda batch: pair_loss(net, batch, data.passages, config.margin))],
        LoopConfig(learning_rate=LEARNING_RATE),
        steps=max(1, round(config.cross_epochs * stream.batches_per_pass)),
        evaluate_every=stream.batches_per_pass,
        select=SELECT,
        evaluate=lambda: mean(measure(questions, cross_scores(net, questions, data.passages))),
        seed=seed,
        folder=folder,
    )
    return net, history
