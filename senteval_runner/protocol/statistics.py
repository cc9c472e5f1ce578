"""Resample a test set's items with replacement: every interval and difference rests on that.

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
BLOCK = 100
"""Resamples that are scored together."""
PAIR_TASKS = ("HANS", "PAWS", "MinimalPairs")
"""Tasks of structure whose main metric is average precision."""


def interval(values_R: Values) -> tuple[float, float]:
    """Take the ends of the 95 % interval of what resamples gave."""
    low, high = np.quantile(values_R, (0.025, 0.975))
    return float(low), float(high)


def grouped_mean(
    values_N: NDArray[np.floating], group_N: NDArray[np.integer]
) -> tuple[float, tuple[float, float]]:
    """Take the mean of values and its 95 % interval from 2,000 resamples.

    Whole groups (books, questions) are drawn, because the items of a group are not independent.
    """
    _, index_N = np.unique(group_N, return_inverse=True)
    count_K = np.bincount(index_N).astype(np.float64)
    sum_K = np.bincount(index_N, weights=values_N)
    groups = len(count_K)
    draws_RK = np.random.default_rng(0).multinomial(groups, np.full(groups, 1 / groups), 2000)
    return float(values_N.mean()), interval((draws_RK @ sum_K) / (draws_RK @ count_K))


def _pearson(gold_RN: Values, predicted_RN: Values) -> Values:
    """Return Pearson's r of each resample; a constant side has 0."""
    g_RN, p_RN = (side - side.mean(1, keepdims=True) for side in (gold_RN, predicted_RN))
    with np.errstate(divide="ignore", invalid="ignore"):
        r_R: Values = (g_RN * p_RN).sum(1) / np.sqrt((g_RN**2).sum(1) * (p_RN**2).sum(1))
    return np.nan_to_num(r_R)


SCORES: dict[str, Callable[[Values, Values], Values]] = {
    "acc": lambda gold_RN, predicted_RN: 100 * (gold_RN == predicted_RN).mean(1),
    "f1": lambda gold_RN, predicted_RN: (
        200 * (gold_RN * predicted_RN).sum(1) / (gold_RN + predicted_RN).sum(1).clip(1)
    ),
    "mse": lambda gold_RN, predicted_RN: ((gold_RN - predicted_RN) ** 2).mean(1),
    "pearson": _pearson,
    "spearman": _pearson,  # of ranks
    "ap": lambda gold_RN, predicted_RN: (
        100 * np.array(list(map(average_precision_score, gold_RN, predicted_RN)))
    ),
}
"""Scores [R] of items [R, N], gold and predicted, by the last part of a metric's name."""


def scores_of(result: TaskResult, metric: str, *, draws: int = 0) -> Values:
    """Score a task on all items, [1], or on resamples of them, [draws].

    A metric ``all.`` is the mean over subsets, ``concatenated.`` is over all their items. Drawn items keep
    their ranks among all: to rank every resample anew takes seconds a task and moves an end of an interval by
    less than its own error. The same draws come for every result of a task.
    """
    scope, _, kind = metric.removesuffix(".mean").rpartition(".")
    names = sorted(result.gold)  # stored in any order
    predicted = ["cosine"] if scope == "cosine" else names
    gold = [np.asarray(result.gold[name], np.float64) for name in names]
    predictions = [np.asarray(result.predictions[name], np.float64) for name in predicted]
    if scope == "concatenated":
        gold, predictions = [np.concatenate(gold)], [np.concatenate(predictions)]
    stream, parts = np.random.RandomState(0), []
    for gold_N, predicted_N in zip(gold, predictions, strict=True):
        items, n = [gold_N, predicted_N], len(gold_N)
        if kind == "spearman":
            items = [rankdata(side) for side in items]
        if not draws:
            parts.append(SCORES[kind](*(side[None] for side in items)))
            continue
        blocks = [stream.randint(0, n, (min(BLOCK, draws - at), n)) for at in range(0, draws, BLOCK)]
        parts.append(np.concatenate([SCORES[kind](*(side[rows] for side in items)) for rows in blocks]))
    mean: Values = np.mean(parts, axis=0)
    return mean


def drawn_scores(results: Sequence[TaskResult]) -> dict[str, Values]:
    """Take one task's metrics on resamples, [R] each: means over the results of several seeds.

    Without those that no predictions are kept of: subsets by themselves, ``Binding``, whose items come in
    frames, and results of an earlier version.
    """
    first, drawn = results[0], {}
    for metric in first.metrics if first.task != "Binding" else ():
        scope, _, kind = metric.removesuffix(".mean").rpartition(".")
        has_items = scope in ("", "all", "concatenated") or (scope == "cosine" and scope in first.predictions)
        if kind in SCORES and has_items and not (kind == "acc" and first.task in PAIR_TASKS):
            drawn[metric] = np.mean(
                [scores_of(result, metric, draws=RESAMPLES) for result in results], axis=0
            )
    return drawn


def p_of_difference(a: Callable[..., Values], b: Callable[..., Values], metric: str) -> float:
    """Compute the two-sided p of "they score the same" in a metric of one task (Koehn 2004).

    ``a`` and ``b`` are :func:`scores_of` two results. Items are drawn with replacement, the same for both; p
    is twice the share of resamples in which the difference does not have the sign it has on all items.
    """
    whole = float((a(metric) - b(metric))[0])
    drawn_R = a(metric, draws=RESAMPLES) - b(metric, draws=RESAMPLES)
    against = float((drawn_R * np.sign(whole) <= 0).mean())
    return 1.0 if whole == 0 else min(1.0, max(2 * against, 2 / RESAMPLES))
