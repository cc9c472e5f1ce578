"""Scores of the tasks of structure, from cosines, without training (:mod:`corpora.senteval.structure`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from corpora.senteval.structure import FILLINGS
from senteval_runner.protocol.correlation import Scores
from senteval_runner.protocol.statistics import interval

TIE = 1e-6
"""A sentence that means the same and is nearer by no more than this is no nearer."""
DRAWS = 1000


def binding_scores(cosines: Mapping[str, Scores], fillings: int = FILLINGS) -> dict[str, float]:
    """Give the per cent of triplets whose anchor is nearer to the sentence that means the same.

    Args:
        cosines: by kind, [2n]: of the anchor with the same and with the other, triplet by triplet.
        fillings: triplets of each frame, which come together.

    Returns:
        ``acc``, the mean over kinds; ``low`` and ``high``, its 95 % interval by resampling frames; and
        ``KIND.acc``.
    """
    frames = {}
    for kind, cosine in cosines.items():
        frames[kind] = 100 * nearer(cosine).reshape(-1, fillings).mean(axis=1)
    drawn = np.random.default_rng(0)
    means = np.mean(
        [drawn.choice(scores, (DRAWS, len(scores))).mean(axis=1) for scores in frames.values()], axis=0
    )
    low, high = interval(means)
    kinds = {f"{kind}.acc": float(scores.mean()) for kind, scores in frames.items()}
    return {"acc": float(np.mean(list(kinds.values()))), "low": low, "high": high, **kinds}


def nearer(cosine: Scores) -> NDArray[np.bool_]:
    """Tell whether each triplet's anchor is nearer to the same than to the other, by cosines [2n]: [n]."""
    same, other = cosine.reshape(-1, 2).T
    return same > other + TIE


def nearest(cosine: Scores) -> NDArray[np.bool_]:
    """Whether the first of each three pairs is the nearest, of their cosines [3n]: [n]."""
    first, *others = cosine.reshape(-1, 3).T
    right: NDArray[np.bool_] = first > np.maximum(*others) + TIE
    return right


def triplet_scores(cosines: Mapping[str, Scores]) -> dict[str, float]:
    """``acc``, the per cent of rows whose first pair is the nearest, mean over splits; and ``SPLIT.acc``."""
    splits = {f"{name}.acc": 100 * float(nearest(cosine).mean()) for name, cosine in cosines.items()}
    return {"acc": float(np.mean(list(splits.values())))} | (splits if len(splits) > 1 else {})


ACCEPTED = 0.9
"""Of the paraphrases."""


def opposite_scores(cosines: Mapping[str, Scores]) -> tuple[dict[str, float], Scores]:
    """How many opposites stay below the threshold that accepts 90 % of the paraphrases.

    Args:
        cosines: of ``paraphrases``, [n], and of opposites by name.

    Returns:
        ``acc``, the per cent of opposites below it, ``accepted``, the others, and ``NAME.accepted``; and of
        each opposite 1 where it is below.
    """
    least = float(np.quantile(cosines["paraphrases"], 1 - ACCEPTED))
    below = {name: cosine < least for name, cosine in cosines.items() if name != "paraphrases"}
    right = np.concatenate(list(below.values())).astype(np.float64)
    accepted = {f"{name}.accepted": 100 - 100 * float(part.mean()) for name, part in below.items()}
    share = 100 * float(right.mean())
    return {"acc": share, "accepted": 100 - share} | accepted, right


def pair_scores(gold: NDArray[np.number], cosine: Scores) -> dict[str, float]:
    """Return the average precision, area under the ROC curve and accuracy at the best threshold, in per cent.

    Args:
        gold: [n], 1 where the two mean the same.
        cosine: [n].
    """
    truth = np.asarray(gold)[np.argsort(-cosine, kind="stable")] == 1
    # The first k pairs are called the same: those of them that are, and the others that are not.
    hits = np.append(0, np.cumsum(truth)) + np.append(np.cumsum(~truth[::-1])[::-1], 0)
    return {
        "ap": 100 * float(average_precision_score(gold, cosine)),
        "auc": 100 * float(roc_auc_score(gold, cosine)),
        "acc": 100 * float(hits.max() / len(truth)),
    }
