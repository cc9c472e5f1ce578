"""SemEval-2013 task 5(a) on frozen vectors: a classifier tuned on its training pairs, and a cosine threshold.

The classifier sees [|u - v|, u ∗ v] of word and phrase; its L2 weight is chosen by cross-validation on the
training pairs, as SentEval does for MRPC. The threshold is the one with the best accuracy on the training
pairs. Tested on hand-made files only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score

from corpora.pairs.phrases import WordPhrasePairs
from corpora.support.errors import UserError
from senteval_runner.protocol.classify import kfold
from senteval_runner.protocol.config import get_protocol
from senteval_runner.protocol.correlation import cosines
from senteval_runner.protocol.features import design, pair_blocks
from senteval_runner.vectors.embed import SentenceVectors


@dataclass(frozen=True, kw_only=True)
class PhraseScores:
    """Test scores in percent."""

    devacc: float
    """Cross-validated accuracy of the classifier on the training pairs."""
    acc: float
    f1: float
    threshold: float
    """Pairs with at least this cosine count as the same; chosen on the training pairs."""
    threshold_acc: float
    threshold_f1: float
    pairs: int
    """Test pairs."""


def score_phrases(
    vectors: SentenceVectors,
    train: WordPhrasePairs,
    test: WordPhrasePairs,
    *,
    nhid: int = 0,
    seed: int = 1111,
) -> PhraseScores:
    """Tune on ``train``, score ``test``; ``nhid`` > 0 makes the classifier an MLP.

    Raises:
        UserError: a class has fewer training pairs than there are folds.
    """
    protocol = get_protocol("default", nhid=nhid)
    both = [_encoded(vectors, part) for part in (train, test)]
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
    threshold = best_threshold(cosines(*both[0]), train.same)
    by_threshold = cosines(*both[1]) >= threshold
    gold = np.array(test.same)
    return PhraseScores(
        devacc=outcome.devacc,
        acc=outcome.acc,
        f1=percent_f1(gold, outcome.predictions),
        threshold=threshold,
        threshold_acc=round(100 * float(np.mean(by_threshold == gold)), 2),
        threshold_f1=percent_f1(gold, by_threshold),
        pairs=len(test),
    )


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


def _encoded(
    vectors: SentenceVectors, part: WordPhrasePairs
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    return vectors([word.split() for word in part.words]), vectors([text.split() for text in part.phrases])


def percent_f1(gold: NDArray[np.integer], predicted: NDArray[np.generic]) -> float:
    """F1 of the positive class in percent.

    Args:
        gold: [n] of 0 and 1.
        predicted: [n] of 0 and 1.
    """
    return round(100 * float(f1_score(gold, predicted, zero_division=0)), 2)
