"""SemEval-2013 5(a) as BURT does it: encoder and classifier are fine-tuned together on the training pairs."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from corpora.pairs.phrases import WordPhrasePairs
from corpora.support.errors import UserError
from senteval_runner.protocol.correlation import accuracy
from senteval_runner.towers.transformer import embed_all
from studies.finetune.examples import Examples, Fixed, Stream
from studies.finetune.heads import PairHead, TowerModule, classification_loss
from studies.finetune.loop import Schedule, Task, fit
from studies.similarity.config import TuneConfig
from studies.similarity.phrases import percent_f1


@dataclass(frozen=True, kw_only=True)
class TunedScores:
    """Test scores in percent."""

    acc: float
    f1: float
    pairs: int
    """Test pairs."""


class PhraseClassifier(TowerModule):
    """A tower and a softmax head on [u; v; |u-v|] of word and phrase.

    Args:
        tower: see :class:`senteval_runner.towers.transformer.Tower`.
        seed: of the head's initial weights.
    """

    def __init__(self, tower: nn.Module, seed: int) -> None:
        super().__init__(tower)
        self.head = PairHead(self.encoder.dim, 2, "uv-diff", seed)

    def loss(self, examples: Examples) -> Tensor:
        """Cross-entropy of the class of each pair."""
        assert examples.second is not None
        u_BD, v_BD = self.encoder.embed(examples.first + examples.second).split(len(examples))
        target = torch.from_numpy(examples.target).to(u_BD.device)
        return classification_loss(self.head(u_BD, v_BD), target)

    def predict(self, examples: Examples) -> np.ndarray:
        """Most probable class per pair, int64 [n]."""
        assert examples.second is not None
        table = torch.from_numpy(embed_all(self.encoder, examples.first + examples.second))
        u_BD, v_BD = table.to(self.head.linear.weight.device).split(len(examples))
        classes: np.ndarray = self.head(u_BD, v_BD).argmax(dim=-1).cpu().numpy()
        return classes


def fine_tuned(
    tower: nn.Module, train: WordPhrasePairs, test: WordPhrasePairs, config: TuneConfig, seed: int
) -> TunedScores:
    """Tune on ``train``, score ``test``; the tower's weights move.

    Args:
        tower: the encoder.
        train: pairs that are trained on.
        test: pairs that are scored.
        config: how long and how.
        seed: of head, batch order and dropout.

    Raises:
        UserError: the training pairs are of one class.
    """
    if len(set(train.same)) < 2:
        raise UserError("SemEval-2013 5(a): the training pairs are of one class")
    net = PhraseClassifier(tower, seed)
    net.encoder.prepare([*train.words, *train.phrases, *test.words, *test.phrases])
    stream = Stream(Fixed(_examples(train)), config.batch_size, seed, "semeval2013")
    steps = max(1, round(config.epochs * stream.batches_per_pass))
    schedule = Schedule(cycle=("semeval2013",), steps=steps, evaluate_every=steps, save_every=steps)
    with tempfile.TemporaryDirectory() as folder:
        tasks = {"semeval2013": Task(stream, net.loss)}
        fit(net, tasks, schedule, config.loop, evaluate=dict, seed=seed, folder=Path(folder))
    examples = _examples(test)
    predicted = net.predict(examples)
    return TunedScores(
        acc=round(100 * accuracy(predicted, examples.target), 2),
        f1=percent_f1(examples.target, predicted),
        pairs=len(test),
    )


def _examples(pairs: WordPhrasePairs) -> Examples:
    return Examples(pairs.words, pairs.phrases, np.array(pairs.same, dtype=np.int64))
