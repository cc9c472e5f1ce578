"""SemEval-2013 task 5(a): does a phrase mean a word? By frozen vectors and by a fine-tuned encoder.

Frozen: a classifier on [|u - v|, u ∗ v] of word and phrase, its L2 weight chosen by cross-validation on the
training pairs, as SentEval does for MRPC; and the cosine with the best accuracy on the training pairs as a
threshold. Fine-tuned, as BURT does it: encoder and softmax head on [u; v; |u-v|] together. BURT gives no
settings; batch, length and optimiser are those of its pre-training. Tested on hand-made files only.
Scores are of the test pairs, in percent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score
from torch import nn

from corpora.pairs.phrases import WordPhrasePairs
from corpora.support.errors import UserError
from senteval_runner.protocol.classify import kfold
from senteval_runner.protocol.config import get_protocol
from senteval_runner.protocol.correlation import accuracy, cosines
from senteval_runner.protocol.features import design, pair_blocks
from senteval_runner.vectors.embed import SentenceVectors
from studies.finetune.config import LoopConfig
from studies.finetune.examples import Examples, Stream, fixed
from studies.finetune.heads import PairHead, Siamese
from studies.finetune.loop import Task, fit

EPOCHS = 2
BATCH = 16
MAX_LENGTH = 128
"""Word pieces per text."""


def frozen_scores(
    vectors: SentenceVectors, train: WordPhrasePairs, test: WordPhrasePairs, seed: int
) -> dict[str, float]:
    """Accuracy and F1 of the classifier and of the threshold, tuned on ``train``.

    Raises:
        UserError: a class has fewer training pairs than there are folds.
    """
    protocol = get_protocol("default")
    both = [
        tuple(vectors([text.split() for text in side]) for side in (part.words, part.phrases))
        for part in (train, test)
    ]
    y = np.array(train.same + test.same)
    fewest = min(train.same.count(0), train.same.count(1))
    if fewest < protocol.kfold:
        raise UserError(
            f"SemEval-2013 5(a): {fewest} training pairs of a class, the folds need {protocol.kfold}"
        )
    x = design(
        [np.concatenate(columns) for columns in zip(*(pair_blocks(u, v) for u, v in both), strict=True)]
    )
    rows = np.arange(len(y))
    outcome = kfold(x, y, rows[: len(train)], rows[len(train) :], 2, protocol, seed)
    by_threshold = cosines(*both[1]) >= best_threshold(cosines(*both[0]), train.same)
    gold = np.array(test.same)
    return {
        "frozen": outcome.acc,
        "frozen F1": percent_f1(gold, outcome.predictions),
        "threshold": round(100 * float(np.mean(by_threshold == gold)), 2),
        "threshold F1": percent_f1(gold, by_threshold),
    }


def best_threshold(similarity: NDArray[np.float64], same: Sequence[int]) -> float:
    """The smallest t for which ``similarity >= t`` [n] is right most often; +inf means "never the same"."""
    order = np.argsort(similarity, kind="stable")
    gold = np.asarray(same)[order]
    values = similarity[order]
    # With the threshold at position i, the i lowest are called different and the others the same.
    right = np.concatenate([[0], np.cumsum(gold == 0)]) + np.concatenate([np.cumsum(gold[::-1])[::-1], [0]])
    possible = np.concatenate([[True], values[1:] > values[:-1], [True]])  # equal values are on one side
    best = int(np.argmax(np.where(possible, right, -1)))
    return float(values[best]) if best < len(values) else float("inf")


def percent_f1(gold: NDArray[np.integer], predicted: NDArray[np.generic]) -> float:
    """F1 of the positive class in percent; both [n] of 0 and 1."""
    return round(100 * float(f1_score(gold, predicted, zero_division=0)), 2)


def tuned_scores(
    tower: nn.Module,
    train: WordPhrasePairs,
    test: WordPhrasePairs,
    *,
    folder: Path,
    seed: int,
    learning_rate: float,
    epochs: float = EPOCHS,
) -> dict[str, float]:
    """Accuracy and F1 of tower and head, trained on ``train``; the tower's weights move.

    Args:
        tower: the encoder.
        train: pairs that are trained on.
        test: pairs that are scored.
        folder: of the training's states; one found there is resumed.
        seed: of head, batch order and dropout.
        learning_rate: its peak.
        epochs: passes over the training pairs.

    Raises:
        UserError: the training pairs are of one class.
    """
    if len(set(train.same)) < 2:
        raise UserError("SemEval-2013 5(a): the training pairs are of one class")
    net = Siamese(tower, {"same": PairHead(tower.dim, 2, "uv-diff", seed)})  # type: ignore[arg-type]
    fitted, scored = (
        Examples(pairs.words, pairs.phrases, np.array(pairs.same, dtype=np.int64)) for pairs in (train, test)
    )
    net.encoder.prepare([*fitted.texts(), *scored.texts()])
    stream = Stream(fixed(fitted), BATCH, seed, "semeval2013")
    steps = max(1, round(epochs * stream.batches_per_pass))
    fit(
        net,
        {"same": Task(stream, lambda examples: net.loss("same", examples))},
        dataclasses.replace(LoopConfig(), learning_rate=learning_rate),
        steps=steps,
        evaluate=dict,
        seed=seed,
        folder=folder,
    )
    predicted = net.predict("same", scored)
    acc = round(100 * accuracy(predicted, scored.target), 2)
    return {"fine-tuned": acc, "fine-tuned F1": percent_f1(scored.target, predicted)}
