"""Compute intervals of scores and p-values of differences, by resampling the items of a test set.

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
"""Maps samples [..., N] to the statistic of each row, [...]; it takes the argument ``axis``."""
RESAMPLES = 1000
BLOCK_SIZE = 100
"""Number of resamples that are scored together."""


def resample(
    statistic: Statistic,
    samples: Sequence[NDArray[np.floating]],
    generator: np.random.Generator | np.random.RandomState,
) -> Values:
    """Return the statistic of paired samples [N] on each resample of their items, [R].

    Items are drawn with replacement; an item is the entry of all samples at one place.
    """
    if len(samples[0]) == 1:  # scipy refuses a single item
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
    """Return the ends of the 95 % interval of a statistic, from its values on resamples."""
    low, high = np.quantile(values_R, (0.025, 0.975))
    return float(low), float(high)


def grouped_mean(
    values_N: NDArray[np.floating], group_N: NDArray[np.integer]
) -> tuple[float, tuple[float, float]]:
    """Return the mean of values, and the ends of its 95 % interval from 2,000 resamples.

    Whole groups (books, questions) are drawn, because the items of a group are not independent. How often
    each group is drawn follows a multinomial distribution, and a mean depends on nothing else.
    """
    _, index_N = np.unique(group_N, return_inverse=True)
    count_K = np.bincount(index_N).astype(np.float64)
    sum_K = np.bincount(index_N, weights=values_N)
    K = len(count_K)
    draws_RK = np.random.default_rng(0).multinomial(K, np.full(K, 1 / K), 2000)
    return float(values_N.mean()), interval((draws_RK @ sum_K) / (draws_RK @ count_K))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values that are corrected for their number by Holm's method (1979), in the given order."""
    order = np.argsort(p_values)
    factors = np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.maximum.accumulate(np.asarray(p_values)[order] * factors).clip(max=1)
    return [float(p) for p in corrected]


def _pearson(gold: Values, predictions: Values, axis: int = -1) -> Values:
    """Return Pearson's correlation of each row [..., N], [...]; 0 if one side is constant."""
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
    "spearman": _pearson,  # resample_score replaces values by their ranks
    "ap": lambda gold, predictions, axis=-1: 100 * _average_precision(gold, predictions),
}
"""The statistic of gold and predictions that computes a metric, by the last part of the metric's name."""


@dataclass(frozen=True)
class ResampledScore:
    """A task's score on all items, and on resamples of them."""

    score: float
    resamples_R: Values


def resample_score(result: TaskResult, metric: str) -> ResampledScore:
    """Return a metric of one task on all items and on resamples.

    A metric whose name begins with ``all.`` is the mean over subsets; one that begins with ``concatenated.``
    is computed from the items of all subsets together. All results of a task get the same draws. For rank
    correlations the items are ranked once, before they are drawn, because ranking each resample would take
    seconds for a task, and would move the ends of an interval by less than their own error.
    """
    scope, _, kind = metric.removesuffix(".mean").rpartition(".")
    names = sorted(result.gold)  # the order of splits in a stored result may differ
    names_of_predictions = ["cosine"] if scope == "cosine" else names
    gold = [np.asarray(result.gold[name], np.float64) for name in names]
    predictions = [np.asarray(result.predictions[name], np.float64) for name in names_of_predictions]
    if scope == "concatenated":
        gold, predictions = [np.concatenate(gold)], [np.concatenate(predictions)]
    if kind == "spearman":
        gold = [stats.rankdata(values) for values in gold]
        predictions = [stats.rankdata(values) for values in predictions]
    generator = np.random.RandomState(0)
    pairs = list(zip(gold, predictions, strict=True))
    score = float(np.mean([SCORES[kind](*pair) for pair in pairs]))
    resamples = [resample(SCORES[kind], pair, generator) for pair in pairs]
    return ResampledScore(score, np.mean(resamples, axis=0))


def resample_scores(results: Sequence[TaskResult]) -> dict[str, Values]:
    """Return the metrics of one task on resamples, [R] each, as means over ``results``, one per seed.

    Left out are metrics that cannot be computed from the predictions of independent items: those of single
    subsets, the accuracy at a best threshold, and all of ``Binding``, whose items come in frames.
    """
    first_result = results[0]
    scorer = TASKS[first_result.task].scorer
    scores: dict[str, Values] = {}
    if scorer == "binding":
        return scores
    for metric in first_result.metrics:
        scope, _, kind = metric.removesuffix(".mean").rpartition(".")
        has_cosines = scope == "cosine" and "cosine" in first_result.predictions
        has_items = has_cosines or scope in ("", "all", "concatenated")
        is_best_accuracy = kind == "acc" and scorer == "pairs"
        if kind in SCORES and has_items and not is_best_accuracy:
            scores_of_seeds = [resample_score(result, metric).resamples_R for result in results]
            scores[metric] = np.mean(scores_of_seeds, axis=0)
    return scores


def p_of_difference(a: ResampledScore, b: ResampledScore) -> float:
    """Return the two-sided p-value of the hypothesis that two models have the same score (Koehn 2004).

    ``a`` and ``b`` must be resampled with the same draws. p is twice the share of resamples in which the
    difference does not have the sign that it has on all items.
    """
    difference = a.score - b.score
    if difference == 0:
        return 1.0
    contrary_share = float(((a.resamples_R - b.resamples_R) * np.sign(difference) <= 0).mean())
    return min(1.0, max(2 * contrary_share, 2 / RESAMPLES))
