"""Bootstrap intervals of a mean, and the paired bootstrap test of two models (Koehn 2004)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpora.senteval.tasks import RELATEDNESS_TASKS, STS_SUBSETS
from senteval_runner.protocol.correlation import row_pearsons
from senteval_runner.protocol.results import TaskResult

RESAMPLES, CHUNK = 1000, 100
"""Number of resamples, and how many are in memory at a time."""
Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


def bootstrap(
    values_A: NDArray[np.floating], group_A: NDArray[np.integer], *, samples: int = 2000, seed: int = 0
) -> Interval:
    """A mean with an interval from resampling whole groups, because items of a group are not independent.

    Args:
        values_A: one value per item, [A].
        group_A: group (document, question) of each item, [A].
        samples: number of resamples.
        seed: of the draws.
    """
    _, index_A = np.unique(group_A, return_inverse=True)
    count_K = np.bincount(index_A).astype(np.float64)
    sum_K = np.bincount(index_A, weights=values_A)
    draws = np.random.default_rng(seed).multinomial(
        len(count_K), np.full(len(count_K), 1 / len(count_K)), samples
    )
    means = (draws @ sum_K) / (draws @ count_K)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(mean=float(values_A.mean()), low=float(low), high=float(high))


def paired_bootstrap(a: TaskResult, b: TaskResult, *, seed: int = 0) -> float:
    """Two-sided p of "A and B score the same" on one task: accuracy, or Pearson (mean over STS subsets).

    Items are drawn with replacement, the same for both; p is twice the fraction of resamples in which the
    difference does not have the sign it has on all items.
    """
    assert a.task == b.task
    stream = np.random.RandomState(seed)
    whole, differences = 0.0, np.zeros(RESAMPLES)
    for split in sorted(a.gold):  # sorted because stored results have their subsets in another order
        gold_N, pa_N, pb_N = (
            np.asarray(of[split], dtype=np.float64) for of in (a.gold, a.predictions, b.predictions)
        )
        if a.task in STS_SUBSETS or a.task in RELATEDNESS_TASKS:
            ahead, drawn = _correlations(pa_N, pb_N, gold_N, stream)
        else:
            gain_N = (pa_N == gold_N).astype(float) - (pb_N == gold_N)
            # The mean depends only on how often each of the outcomes is drawn.
            outcomes, times = np.unique(gain_N, return_counts=True)
            n = len(gold_N)
            ahead, drawn = float(gain_N.mean()), stream.multinomial(n, times / n, RESAMPLES) @ outcomes / n
        whole += ahead / len(a.gold)
        differences += drawn / len(a.gold)
    return _two_sided(whole, differences)


def paired_bootstrap_of_all_pairs(a: TaskResult, b: TaskResult, *, seed: int = 0) -> tuple[float, float]:
    """How far A's Spearman correlation over all pairs of an STS task is ahead of B's, and the two-sided p.

    Pairs are drawn with replacement from all subsets together; they keep their ranks among all pairs, because
    ranking every resample anew takes seconds a task and moves p by less than its own error.
    """
    from scipy.stats import rankdata

    gold_N, pa_N, pb_N = (
        rankdata(np.concatenate([of[name] for name in sorted(a.gold)]))
        for of in (a.gold, a.predictions, b.predictions)
    )
    whole, drawn = _correlations(pa_N, pb_N, gold_N, np.random.RandomState(seed))
    return whole, _two_sided(whole, drawn)


def _two_sided(whole: float, differences: Values) -> float:
    """The p of a difference ``whole`` from those of the resamples; never below what they can show."""
    if whole == 0:
        return 1.0
    against = float((differences * np.sign(whole) <= 0).mean())
    return min(1.0, max(2 * against, 2 / RESAMPLES))


def _correlations(
    pa_N: Values, pb_N: Values, gold_N: Values, stream: np.random.RandomState
) -> tuple[float, Values]:
    """How far Pearson of A is ahead of B's: on all items, and on each resample."""

    def ahead(rows_RN: NDArray[np.integer]) -> Values:
        gold_RN = gold_N[rows_RN]
        found: Values = row_pearsons(pa_N[rows_RN], gold_RN) - row_pearsons(pb_N[rows_RN], gold_RN)
        return found

    n = len(gold_N)
    drawn = [ahead(stream.randint(0, n, (CHUNK, n))) for _ in range(RESAMPLES // CHUNK)]
    return float(ahead(np.arange(n)[None])[0]), np.concatenate(drawn)
