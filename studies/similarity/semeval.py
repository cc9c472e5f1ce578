"""SemEval-2013 task 5(a): does a phrase mean a word? Accuracy on the test pairs in percent.

Frozen vectors: a classifier on [|u - v|, u ∗ v] of word and phrase, its L2 weight chosen by cross-validation
on the training pairs, as SentEval does for MRPC. Fine-tuned, as BURT does it: encoder and softmax head on
[u; v; |u-v|] together. BURT gives no settings; batch, length and optimiser are those of its pre-training.
Tested on hand-made files only.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from corpora.pairs.similarity import WordPhrasePairs
from corpora.support.errors import UserError
from senteval_runner.protocol.classify import kfold
from senteval_runner.protocol.config import get_protocol
from senteval_runner.protocol.correlation import accuracy
from senteval_runner.protocol.features import design, pair_blocks
from senteval_runner.towers.transformer import Tower
from senteval_runner.vectors.embed import SentenceVectors
from studies.finetune.examples import Examples, Stream, fixed
from studies.finetune.heads import PairHead, Siamese
from studies.finetune.loop import LoopConfig, Task, fit

EPOCHS = 2
BATCH = 16
MAX_LENGTH = 128
"""Word pieces per text."""


def frozen_accuracy(
    vectors: SentenceVectors, train: WordPhrasePairs, test: WordPhrasePairs, seed: int
) -> float:
    """Accuracy of the classifier tuned on ``train``.

    Raises:
        UserError: a class has fewer training pairs than there are folds.
    """
    protocol = get_protocol("default")
    fewest = min(train.same.count(0), train.same.count(1))
    if fewest < protocol.kfold:
        raise UserError(f"SemEval-2013 5(a): {fewest} training pairs of a class, folds need {protocol.kfold}")
    u, v = (
        vectors([text.split() for text in side])
        for side in (train.words + test.words, train.phrases + test.phrases)
    )
    y, rows = np.array(train.same + test.same), np.arange(len(train) + len(test))
    x = design(list(pair_blocks(u, v)))
    return kfold(x, y, rows[: len(train)], rows[len(train) :], 2, protocol, seed).acc


def tuned_accuracy(
    tower: Tower,
    train: WordPhrasePairs,
    test: WordPhrasePairs,
    *,
    folder: Path,
    seed: int,
    learning_rate: float,
    epochs: float = EPOCHS,
) -> float:
    """Accuracy of tower and head, trained on ``train``; the tower's weights move.

    Seed: of head, batch order and dropout. A state of training found in ``folder`` is resumed.

    Raises:
        UserError: the training pairs are of one class.
    """
    if len(set(train.same)) < 2:
        raise UserError("SemEval-2013 5(a): the training pairs are of one class")
    net = Siamese(tower, {"same": PairHead(tower.dim, 2, "uv-diff", seed)})
    fitted, scored = (
        Examples(pairs.words, pairs.phrases, np.array(pairs.same, dtype=np.int64)) for pairs in (train, test)
    )
    stream = Stream(fixed(fitted), BATCH, seed, "semeval2013")
    fit(
        net,
        {"same": Task(stream, lambda examples: net.loss("same", examples))},
        LoopConfig(learning_rate=learning_rate),
        steps=max(1, round(epochs * stream.batches_per_pass)),
        evaluate=dict,
        seed=seed,
        folder=folder,
    )
    return round(100 * accuracy(net.predict("same", scored), scored.target), 2)
