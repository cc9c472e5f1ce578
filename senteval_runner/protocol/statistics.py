"""Resample the items of a test set with replacement, for all intervals and tests of differences.

Legend of dimension suffixes: N items, K groups of items, R resamples.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score

from senteval_runner.protocol.config import TaskResult

Values = NDArray[np.float64]
RESAMPLES = 1000
BLOCK_SIZE = 100
"""Number of resamples that are scored together."""
PAIR_TASKS = ("HANS", "PAWS", "MinimalPairs")
"""Tasks of structure whose main metric is average precision."""


def interval(values_R: Values) -> tuple[float, float]:
    """Return the ends of the 95 % interval of values on resamples."""
    low, high = np.quantile(values_R, (0.025, 0.975))
    return float(low), float(high)


def grouped_mean(
    values_N: NDArray[np.floating], group_N: NDArray[np.integer]
) -> tuple[float, tuple[float, float]]:
    """Return the mean of values and its 95 % interval from 2,000 resamples.

    Whole groups (books, questions) are drawn, because the items of a group are not independent.
    """
    _, index_N = np.unique(group_N, return_inverse=True)
    count_K = np.bincount(index_N).astype(np.float64)
    sum_K = np.bincount(index_N, weights=values_N)
    K = len(count_K)
    draws_RK = np.random.default_rng(0).multinomial(K, np.full(K, 1 / K), 2000)
    return float(values_N.mean()), interval((draws_RK @ sum_K) / (draws_RK @ count_K))


def _pearson(gold_RN: Values, predictions_RN: Values) -> Values:
    """Return Pearson's r of each resample, [R]; 0 if one side is constant."""
    g_RN = gold_RN - gold_RN.mean(1, keepdims=True)
    p_RN = predictions_RN - predictions_RN.mean(1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        r_R: Values = (g_RN * p_RN).sum(1) / np.sqrt((g_RN**2).sum(1) * (p_RN**2).sum(1))
    return np.nan_to_num(r_R)


SCORES: dict[str, Callable[[Values, Values], Values]] = {
    "acc": lambda gold_RN, predictions_RN: 100 * (gold_RN == predictions_RN).mean(1),
    "f1": lambda gold_RN, predictions_RN: (
        200 * (gold_RN * predictions_RN).sum(1) / (gold_RN + predictions_RN).sum(1).clip(1)
    ),
    "mse": lambda gold_RN, predictions_RN: ((gold_RN - predictions_RN) ** 2).mean(1),
    "pearson": _pearson,
    "spearman": _pearson,  # of ranks
    "ap": lambda gold_RN, predictions_RN: (
        100 * np.array(list(map(average_precision_score, gold_RN, predictions_RN)))
    ),
}
"""Functions from gold and predictions [R, N] to scores [R], by the last part of a metric's name."""


def scores_of(result: TaskResult, metric: str, *, draws: int = 0) -> Values:
    """Return a task's score on all items, [1], or on that many resamples of them, [draws].

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
    generator = np.random.RandomState(0)
    scores_of_subsets = []
    for gold_N, predictions_N in zip(gold, predictions, strict=True):
        if kind == "spearman":
            gold_N, predictions_N = rankdata(gold_N), rankdata(predictions_N)
        N = len(gold_N)
        blocks = [np.arange(N)[None]]
        if draws:
            sizes = [min(BLOCK_SIZE, draws - start) for start in range(0, draws, BLOCK_SIZE)]
            blocks = [generator.randint(0, N, (size, N)) for size in sizes]
        scores = [SCORES[kind](gold_N[rows_RN], predictions_N[rows_RN]) for rows_RN in blocks]
        scores_of_subsets.append(np.concatenate(scores))
    mean: Values = np.mean(scores_of_subsets, axis=0)
    return mean


def resample_scores(results: Sequence[TaskResult]) -> dict[str, Values]:
    """Return one task's metrics on resamples, [R] each, as means over the results of several seeds.

    Left out are metrics without predictions of items: those of single subsets, and of results of an earlier
    version; and ``Binding``, whose items come in frames.
    """
    first, *_ = results
    scores = {}
    for metric in first.metrics if first.task != "Binding" else ():
        scope, _, kind = metric.removesuffix(".mean").rpartition(".")
        has_items = scope in ("", "all", "concatenated") or (scope == "cosine" and scope in first.predictions)
        if kind in SCORES and has_items and not (kind == "acc" and first.task in PAIR_TASKS):
            scores_of_seeds = [scores_of(result, metric, draws=RESAMPLES) for result in results]
            scores[metric] = np.mean(scores_of_seeds, axis=0)
    return scores


def p_of_difference(a: Callable[..., Values], b: Callable[..., Values], metric: str) -> float:
    """Return the two-sided p of "both score the same" in a metric of one task (Koehn 2004).

    ``a`` and ``b`` are :func:`scores_of` for two results. The same items are drawn with replacement for both;
    p is twice the share of resamples in which the difference does not have its sign on all items.
    """
    difference = float((a(metric) - b(metric))[0])
    if difference == 0:
        return 1.0
    differences_R = a(metric, draws=RESAMPLES) - b(metric, draws=RESAMPLES)
    contrary_share = float((differences_R * np.sign(difference) <= 0).mean())
    return min(1.0, max(2 * contrary_share, 2 / RESAMPLES))
