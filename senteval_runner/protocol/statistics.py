"""Resample the items of a test set with replacement, for all intervals and tests of differences.

Legend of dimension suffixes: N items, K groups of items, R resamples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from corpora.senteval.tasks import TASKS
from senteval_runner.protocol.config import TaskResult
from senteval_runner.protocol.correlation import average_precision

Values = NDArray[np.float64]
Statistic = Callable[..., Values]
"""Maps samples [..., N] to a number for each row, [...]; takes ``axis``."""
RESAMPLES = 1000
BLOCK_SIZE = 100
"""Number of resamples that are scored together."""


def resample(
    statistic: Statistic,
    samples: Sequence[NDArray[np.floating]],
    generator: np.random.Generator | np.random.RandomState,
) -> Values:
    """Return a statistic of paired samples [N] on resamples of their items, [R]."""
    if len(samples[0]) == 1:  # which scipy refuses
        return np.full(RESAMPLES, statistic(*samples, axis=-1))
    distribution: Values = stats.bootstrap(
        samples,
        statistic,
        n_resamples=RESAMPLES,
        batch=BLOCK_SIZE,
        vectorized=True,
        paired=True,
        method="percentile",
        random_state=generator,
    ).bootstrap_distribution
    return distribution


def interval(values_R: Values) -> tuple[float, float]:
    """Return the ends of the 95 % interval of values on resamples."""
    low, high = np.quantile(values_R, (0.025, 0.975))
    return float(low), float(high)


def grouped_mean(
    values_N: NDArray[np.floating], group_N: NDArray[np.integer]
) -> tuple[float, tuple[float, float]]:
    """Return the mean of values and its 95 % interval from 2,000 resamples.

    Whole groups (books, questions) are drawn, because the items of a group are not independent. A mean needs
    no more than how often each group is drawn, which is multinomial.
    """
    _, index_N = np.unique(group_N, return_inverse=True)
    count_K = np.bincount(index_N).astype(np.float64)
    sum_K = np.bincount(index_N, weights=values_N)
    K = len(count_K)
    draws_RK = np.random.default_rng(0).multinomial(K, np.full(K, 1 / K), 2000)
    return float(values_N.mean()), interval((draws_RK @ sum_K) / (draws_RK @ count_K))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values corrected for their number, as they are ordered (Holm 1979)."""
    order = np.argsort(p_values)
    factors = np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.maximum.accumulate(np.asarray(p_values)[order] * factors).clip(max=1)
    return [float(p) for p in corrected]


def _pearson(gold: Values, predictions: Values, axis: int = -1) -> Values:
    """Return Pearson's r of rows; 0 if one side is constant."""
    g = gold - gold.mean(axis, keepdims=True)
    p = predictions - predictions.mean(axis, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        r: Values = (g * p).sum(axis) / np.sqrt((g**2).sum(axis) * (p**2).sum(axis))
    return np.nan_to_num(r)


_average_precision = np.vectorize(average_precision, signature="(n),(n)->()")
SCORES: dict[str, Statistic] = {
    "acc": lambda gold, predictions, axis=-1: 100 * (gold == predictions).mean(axis),
    "f1": lambda gold, predictions, axis=-1: (
        200 * (gold * predictions).sum(axis) / (gold + predictions).sum(axis).clip(1)
    ),
    "mse": lambda gold, predictions, axis=-1: ((gold - predictions) ** 2).mean(axis),
    "pearson": _pearson,
    "spearman": _pearson,  # of ranks
    "ap": lambda gold, predictions, axis=-1: 100 * _average_precision(gold, predictions),
}
"""Statistics of gold and predictions, by the last part of a metric's name."""


@dataclass(frozen=True)
class ResampledScore:
    """A task's score on all items, and on resamples of them."""

    score: float
    resamples_R: Values


def resample_score(result: TaskResult, metric: str) -> ResampledScore:
    """Resample a metric of one task.

    A metric ``all.`` is the mean over subsets, ``concatenated.`` is over all their items. Drawn items keep
    their ranks among all items: to rank every resample anew takes seconds a task and moves an end of an
    interval by less than its own error. All results of a task get the same draws.
    """
    scope, _, kind = metric.removesuffix(".mean").rpartition(".")
    names = sorted(result.gold)  # stored in any order
    names_of_predictions = ["cosine"] if scope == "cosine" else names
    gold = [np.asarray(result.gold[name], np.float64) for name in names]
    predictions = [np.asarray(result.predictions[name], np.float64) for name in names_of_predictions]
    if scope == "concatenated":
        gold, predictions = [np.concatenate(gold)], [np.concatenate(predictions)]
    if kind == "spearman":
        gold, predictions = (list(map(stats.rankdata, side)) for side in (gold, predictions))
    generator = np.random.RandomState(0)
    pairs = list(zip(gold, predictions, strict=True))
    score = float(np.mean([SCORES[kind](*pair) for pair in pairs]))
    return ResampledScore(score, np.mean([resample(SCORES[kind], pair, generator) for pair in pairs], axis=0))


def resample_scores(results: Sequence[TaskResult]) -> dict[str, Values]:
    """Return one task's metrics on resamples, [R] each, as means over the results of several seeds.

    Left out are metrics without predictions of items: those of single subsets, and of results of an earlier
    version; and ``Binding``, whose items come in frames.
    """
    first, *_ = results
    scorer = TASKS[first.task].scorer
    scores = {}
    for metric in first.metrics if scorer != "binding" else ():
        scope, _, kind = metric.removesuffix(".mean").rpartition(".")
        has_items = scope in ("", "all", "concatenated") or (scope == "cosine" and scope in first.predictions)
        if kind in SCORES and has_items and not (kind == "acc" and scorer == "pairs"):
            scores_of_seeds = [resample_score(result, metric).resamples_R for result in results]
            scores[metric] = np.mean(scores_of_seeds, axis=0)
    return scores


def p_of_difference(a: ResampledScore, b: ResampledScore) -> float:
    """Return the two-sided p of "both score the same" for one metric of a task (Koehn 2004).

    The same items are drawn with replacement for both; p is twice the share of resamples in which the
    difference does not have its sign on all items.
    """
    difference = a.score - b.score
    if difference == 0:
        return 1.0
    contrary_share = float(((a.resamples_R - b.resamples_R) * np.sign(difference) <= 0).mean())
    return min(1.0, max(2 * contrary_share, 2 / RESAMPLES))
