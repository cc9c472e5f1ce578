"""Bootstrap intervals of a mean, and the paired bootstrap test of two models (Koehn 2004)."""

from __future__ import annotations

from collections.abc import Sequence
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


def paired_bootstrap(
    a: Sequence[Sequence[TaskResult]], b: Sequence[Sequence[TaskResult]], *, seed: int = 0
) -> float:
    """Two-sided p of "A and B score the same", mean over tasks and over trainings with several seeds.

    A task's score is accuracy, or Pearson (mean over STS subsets). Its items are drawn with replacement, for
    both systems and all trainings alike, because their errors on an item are not independent; so p speaks of
    other items and of these trainings. It is twice the fraction of resamples in which the difference does not
    have the sign it has on all items.

    Args:
        a: results of the first system, one list per task with one result per training.
        b: results of the second, in the same order.
        seed: of the draws.
    """
    stream = np.random.RandomState(seed)
    differences, whole = np.zeros(RESAMPLES), 0.0
    for ours, theirs in zip(a, b, strict=True):
        for split in sorted(
            ours[0].gold
        ):  # sorted because stored results have their subsets in another order
            of_split, drawn = _differences(ours, theirs, split, stream)
            whole += of_split / len(ours[0].gold)
            differences += drawn / len(ours[0].gold)
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
    whole, drawn = _correlations(pa_N[None], pb_N[None], gold_N, np.random.RandomState(seed))
    return whole, _two_sided(whole, drawn)


def _two_sided(whole: float, differences: Values) -> float:
    """The p of a difference ``whole`` from those of the resamples; never below what they can show."""
    if whole == 0:
        return 1.0
    against = float((differences * np.sign(whole) <= 0).mean())
    return min(1.0, max(2 * against, 2 / RESAMPLES))


def _differences(
    a: Sequence[TaskResult], b: Sequence[TaskResult], split: str, stream: np.random.RandomState
) -> tuple[float, Values]:
    """How far A is ahead of B on a split, mean over trainings: on all items, and on each resample."""
    task, count = a[0].task, len(a)
    assert all(result.task == task for result in (*a, *b)) and count == len(b)
    gold_N = np.asarray(a[0].gold[split], dtype=np.float64)
    pa_SN, pb_SN = (np.array([one.predictions[split] for one in of], dtype=np.float64) for of in (a, b))
    n = len(gold_N)
    if task not in STS_SUBSETS and task not in RELATEDNESS_TASKS:
        gain_N = (pa_SN == gold_N).sum(axis=0) - (pb_SN == gold_N).sum(axis=0)
        # The mean depends only on how often each of the outcomes is drawn.
        outcomes, times = np.unique(gain_N, return_counts=True)
        drawn_RO = stream.multinomial(n, times / n, size=RESAMPLES)
        return float(gain_N.mean()) / count, drawn_RO @ outcomes / (n * count)
    return _correlations(pa_SN, pb_SN, gold_N, stream)


def _correlations(
    pa_SN: Values, pb_SN: Values, gold_N: Values, stream: np.random.RandomState
) -> tuple[float, Values]:
    """How far Pearson of A is ahead of B's, mean over S trainings: on all items, and on each resample."""

    def ahead(rows_RN: NDArray[np.integer]) -> Values:
        gold_RN = gold_N[rows_RN]
        pairs = zip(pa_SN, pb_SN, strict=True)
        each = [row_pearsons(pa[rows_RN], gold_RN) - row_pearsons(pb[rows_RN], gold_RN) for pa, pb in pairs]
        found: Values = np.mean(each, axis=0)
        return found

    n = len(gold_N)
    drawn = [ahead(stream.randint(0, n, (CHUNK, n))) for _ in range(RESAMPLES // CHUNK)]
    return float(ahead(np.arange(n)[None])[0]), np.concatenate(drawn)
