"""Bootstrap intervals of a mean, and the paired bootstrap test of two models (Koehn 2004)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpora.senteval.tasks import RELATEDNESS_TASKS, STS_SUBSETS
from senteval_runner.protocol.correlation import row_pearsons
from senteval_runner.protocol.results import TaskResult

RESAMPLES = 1000


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
    is_score = a.task in STS_SUBSETS or a.task in RELATEDNESS_TASKS
    differences = np.zeros(RESAMPLES)
    whole = 0.0
    for split in sorted(a.gold):  # sorted because stored results have their subsets in another order
        lists = (a.gold[split], a.predictions[split], b.predictions[split])
        gold, pa, pb = (np.asarray(values, dtype=np.float64) for values in lists)
        n = len(gold)
        if not is_score:
            gain = (pa == gold).astype(np.float64) - (pb == gold)
            whole += float(gain.mean())
            # The mean depends only on how often each of the three outcomes is drawn.
            fractions = np.array([(gain == value).mean() for value in (-1.0, 0.0, 1.0)])
            counts = stream.multinomial(n, fractions / fractions.sum(), size=RESAMPLES)
            differences += (counts[:, 2] - counts[:, 0]) / n
            continue
        whole += float((row_pearsons(pa[None], gold[None]) - row_pearsons(pb[None], gold[None]))[0])
        for start in range(0, RESAMPLES, 100):
            rows = stream.randint(0, n, (100, n))
            differences[start : start + 100] += row_pearsons(pa[rows], gold[rows]) - row_pearsons(
                pb[rows], gold[rows]
            )
    if whole == 0:
        return 1.0
    against = float((differences * np.sign(whole) <= 0).mean())
    return min(1.0, max(2 * against, 2 / RESAMPLES))
