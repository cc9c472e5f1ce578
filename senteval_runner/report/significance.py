"""Bootstrap intervals of a mean, and the paired bootstrap test of two models (Koehn 2004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpora.senteval.tasks import RELATEDNESS_TASKS, STS_SUBSETS
from senteval_runner.protocol.correlation import row_pearsons, spearman
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
    return paired_bootstrap_of_mean([[a]], [[b]], seed=seed)


def paired_bootstrap_of_all_pairs(a: TaskResult, b: TaskResult, *, seed: int = 0) -> tuple[float, float]:
    """How far A's Spearman correlation over all pairs of an STS task is ahead of B's, and the two-sided p.

    Pairs are drawn with replacement from all subsets together and ranked anew in every resample.
    """
    subsets = sorted(a.gold)
    gold_N, pa_N, pb_N = (
        np.concatenate([np.asarray(of[name], dtype=np.float64) for name in subsets])
        for of in (a.gold, a.predictions, b.predictions)
    )
    n = len(gold_N)
    whole = spearman(pa_N, gold_N) - spearman(pb_N, gold_N)
    if whole == 0:
        return 0.0, 1.0
    stream = np.random.RandomState(seed)
    against = 0
    for _ in range(RESAMPLES // 100):
        # The pairs drawn more than once tie with themselves: ranks follow from how often each was drawn.
        drawn_RN = stream.multinomial(n, np.full(n, 1 / n), 100).astype(np.float64)
        ranked = [_ranks(values, drawn_RN) for values in (pa_N, pb_N, gold_N)]
        of_a, of_b = (_weighted_pearsons(ranks, ranked[2], drawn_RN) for ranks in ranked[:2])
        against += int(((of_a - of_b) * np.sign(whole) <= 0).sum())
    return whole, _two_sided(against / RESAMPLES)


def _two_sided(against: float) -> float:
    """The p of a difference whose sign a fraction of the resamples does not share; never below theirs."""
    return min(1.0, max(2 * against, 2 / RESAMPLES))


def _ranks(values_N: NDArray[np.float64], drawn_RN: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rank of each item (ties: the middle) among a resample that holds it ``drawn`` times, [R, N]."""
    _, group_N = np.unique(values_N, return_inverse=True)
    order = np.argsort(group_N, kind="stable")
    starts = np.flatnonzero(np.diff(group_N[order], prepend=-1))
    drawn_RG = np.add.reduceat(drawn_RN[:, order], starts, axis=1)
    ranks: NDArray[np.float64] = (np.cumsum(drawn_RG, axis=1) - (drawn_RG - 1) / 2)[:, group_N]
    return ranks


def _weighted_pearsons(
    x_RN: NDArray[np.float64], y_RN: NDArray[np.float64], weight_RN: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Pearson row by row where item n counts ``weight`` times, [R]; 0 where a side is constant."""
    total = weight_RN.sum(axis=1, keepdims=True)
    x, y = (of - (of * weight_RN).sum(axis=1, keepdims=True) / total for of in (x_RN, y_RN))
    with np.errstate(divide="ignore", invalid="ignore"):
        r = (weight_RN * x * y).sum(1) / np.sqrt((weight_RN * x**2).sum(1) * (weight_RN * y**2).sum(1))
    found: NDArray[np.float64] = np.nan_to_num(r)
    return found


def paired_bootstrap_of_mean(
    a: Sequence[Sequence[TaskResult]], b: Sequence[Sequence[TaskResult]], *, seed: int = 0
) -> float:
    """The same for the mean over tasks and over trainings with several seeds.

    The items of a task are drawn for all trainings alike, because their errors on an item are not
    independent; so p speaks of other items and of these trainings.

    Args:
        a: results of the first system, one list per task with one result per training.
        b: results of the second, in the same order.
        seed: of the draws.
    """
    stream = np.random.RandomState(seed)
    differences = np.zeros(RESAMPLES)
    whole = 0.0
    for ours, theirs in zip(a, b, strict=True):
        of_task, drawn = _paired_differences(ours, theirs, stream)
        whole += of_task
        differences += drawn
    if whole == 0:
        return 1.0
    return _two_sided(float((differences * np.sign(whole) <= 0).mean()))


def _paired_differences(
    a: Sequence[TaskResult], b: Sequence[TaskResult], stream: np.random.RandomState
) -> tuple[float, NDArray[np.float64]]:
    """How far A is ahead of B on one task, mean over trainings: on all items, and on each resample."""
    task, count = a[0].task, len(a)
    assert all(result.task == task for result in (*a, *b)) and count == len(b)
    is_score = task in STS_SUBSETS or task in RELATEDNESS_TASKS
    differences = np.zeros(RESAMPLES)
    whole = 0.0
    for split in sorted(a[0].gold):  # sorted because stored results have their subsets in another order
        gold = np.asarray(a[0].gold[split], dtype=np.float64)
        pa_SN, pb_SN = (np.array([one.predictions[split] for one in of], dtype=np.float64) for of in (a, b))
        n = len(gold)
        if not is_score:
            gain_N = (pa_SN == gold).sum(axis=0) - (pb_SN == gold).sum(axis=0)
            whole += float(gain_N.mean()) / count
            # The mean depends only on how often each of the outcomes is drawn.
            outcomes = np.arange(-count, count + 1)
            fractions = np.array([(gain_N == value).mean() for value in outcomes])
            counts = stream.multinomial(n, fractions / fractions.sum(), size=RESAMPLES)
            differences += counts @ outcomes / (n * count)
            continue
        whole += float((row_pearsons(pa_SN, gold[None]) - row_pearsons(pb_SN, gold[None])).mean())
        for start in range(0, RESAMPLES, 100):
            rows = stream.randint(0, n, (100, n))
            for pa, pb in zip(pa_SN, pb_SN, strict=True):
                ahead = row_pearsons(pa[rows], gold[rows]) - row_pearsons(pb[rows], gold[rows])
                differences[start : start + 100] += ahead / count
    return whole / len(a[0].gold), differences / len(a[0].gold)
