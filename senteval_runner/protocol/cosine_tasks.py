"""Score tasks by the cosines of sentences, without training.

These tasks are STS12-16, the tasks of structure (:mod:`corpora.senteval.structure`) and Neighbours. In
Neighbours each sentence of a book ranks all other sentences of the book; the sentences before and after it
are the right answers.

Legend of dimension suffixes: N sentences of a book, D embedding size.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora.senteval.structure import FILLINGS
from runtime.statistics import area_under_curve
from runtime.vectors import divide_by_norms
from senteval_runner.protocol.correlation import Scores, average_precision, pearson, spearman
from senteval_runner.protocol.features import Float, Int
from senteval_runner.protocol.statistics import grouped_mean, interval, resample

TIE = 1e-6
"""A cosine counts as higher than another only if it is higher by more than this."""
ACCEPTED_SHARE = 0.9
"""Share of the paraphrases that are accepted by the threshold at which opposites are counted."""


Cosines = Mapping[str, Scores]
"""Cosines, or gold scores, of pairs [n] by split."""


def _sts_result(cosines: Cosines, gold: Cosines) -> dict[str, Any]:
    return _result(sts_scores(cosines, gold), cosines, gold)


def _binding_result(cosines: Cosines, gold: Cosines) -> dict[str, Any]:
    return _result(binding_scores(cosines), {kind: is_best_of_two(part) for kind, part in cosines.items()})


def _triplet_result(cosines: Cosines, gold: Cosines) -> dict[str, Any]:
    is_right = {split: is_best_of_three(part) for split, part in cosines.items()}
    return _result(triplet_scores(cosines), is_right)


def _opposite_result(cosines: Cosines, gold: Cosines) -> dict[str, Any]:
    metrics, is_below = opposite_scores(cosines)
    return _result(metrics, {"all": is_below})


def _pair_result(cosines: Cosines, gold: Cosines) -> dict[str, Any]:
    all_gold = np.concatenate([gold[name] for name in gold])
    all_cosines = np.concatenate([cosines[name] for name in gold])
    return _result(pair_scores(all_gold, all_cosines), cosines, gold)


SCORERS: Mapping[str, Callable[[Cosines, Cosines], dict[str, Any]]] = {
    "sts": _sts_result,
    "binding": _binding_result,
    "triplets": _triplet_result,
    "opposites": _opposite_result,
    "pairs": _pair_result,
}
"""The scorer of each task of kind ``cosine``, by name.

A scorer takes cosines and gold scores by split, and returns the fields ``metrics``, ``predictions`` and
``gold`` of a ``TaskResult``. Where a prediction is 1 if an item was answered right, gold is all ones.
"""


def neighbour_result(books: Mapping[str, Float]) -> dict[str, Any]:
    """Return ``metrics``, ``predictions`` and ``gold`` of Neighbours, from vectors [N, D] of each book."""
    ranks = neighbour_ranks(books)
    return _result(neighbour_scores(ranks), {title: rank_N == 1 for title, rank_N in ranks.items()})


def _result(
    metrics: dict[str, float],
    predictions: Mapping[str, NDArray[Any]],
    gold: Mapping[str, NDArray[Any]] | None = None,
) -> dict[str, Any]:
    """Return the fields of a result as lists; without ``gold`` it is all ones."""
    gold = gold or {name: np.ones(len(part)) for name, part in predictions.items()}
    return {
        "metrics": metrics,
        "predictions": {name: part.astype(float).tolist() for name, part in predictions.items()},
        "gold": {name: part.astype(float).tolist() for name, part in gold.items()},
    }


def binding_scores(cosines: Mapping[str, Scores], fillings: int = FILLINGS) -> dict[str, float]:
    """Return the percentage of triplets whose anchor is nearer to the paraphrase than to the distractor.

    ``cosines`` has, by kind of triplet, two cosines [2n] per triplet: of the anchor with its paraphrase, and
    with its distractor. Each ``fillings`` successive triplets are fillings of one frame. ``KIND.acc`` is the
    score of a kind, and ``acc`` is the mean over kinds, with the 95 % interval from ``low`` to ``high``, for
    which frames are resampled.
    """
    kind_scores: dict[str, float] = {}
    scores_on_resamples = []
    generator = np.random.default_rng(0)
    for kind, cosine in cosines.items():
        frame_scores = 100 * is_best_of_two(cosine).reshape(-1, fillings).mean(axis=1)
        kind_scores[f"{kind}.acc"] = float(frame_scores.mean())
        scores_on_resamples.append(resample(np.mean, [frame_scores], generator))
    low, high = interval(np.mean(scores_on_resamples, axis=0))
    return {"acc": float(np.mean(list(kind_scores.values()))), "low": low, "high": high, **kind_scores}


def is_best_of_two(cosine: Scores) -> NDArray[np.bool_]:
    """Return for each two cosines of ``cosine`` [2n] whether the first is the higher one, [n]."""
    first, second = cosine.reshape(-1, 2).T
    return first > second + TIE


def is_best_of_three(cosine: Scores) -> NDArray[np.bool_]:
    """Return for each three cosines of ``cosine`` [3n] whether the first is the highest one, [n]."""
    first, second, third = cosine.reshape(-1, 3).T
    is_nearest: NDArray[np.bool_] = first > np.maximum(second, third) + TIE
    return is_nearest


def triplet_scores(cosines: Mapping[str, Scores]) -> dict[str, float]:
    """Return the percentage of rows whose first cosine is the highest of three.

    ``acc`` is the mean over splits; if there are several, ``SPLIT.acc`` is the score of each.
    """
    scores = {f"{name}.acc": 100 * float(is_best_of_three(cosine).mean()) for name, cosine in cosines.items()}
    mean = {"acc": float(np.mean(list(scores.values())))}
    return mean | scores if len(scores) > 1 else mean


def opposite_scores(cosines: Mapping[str, Scores]) -> tuple[dict[str, float], Scores]:
    """Return how many opposites are below the threshold that accepts 90 % of the paraphrases.

    ``cosines`` has the cosines [n] of the pairs of each set, by name: ``paraphrases``, and sets of opposites.
    Returns metrics in percent, and for each opposite 1 if it is below the threshold, else 0. ``acc`` is the
    share of all opposites that are below the threshold, ``accepted`` the share that are not, and
    ``NAME.accepted`` the share of the set ``NAME`` that are not.
    """
    threshold = float(np.quantile(cosines["paraphrases"], 1 - ACCEPTED_SHARE))
    is_below = {name: cosine < threshold for name, cosine in cosines.items() if name != "paraphrases"}
    all_below = np.concatenate(list(is_below.values())).astype(np.float64)
    accuracy = 100 * float(all_below.mean())
    metrics = {"acc": accuracy, "accepted": 100 - accuracy}
    metrics |= {f"{name}.accepted": 100 - 100 * float(part.mean()) for name, part in is_below.items()}
    return metrics, all_below


def pair_scores(gold: NDArray[np.number], cosine: Scores) -> dict[str, float]:
    """Return how well the cosine of two sentences tells whether they mean the same, in percent.

    ``gold`` [n] is 1 for pairs that mean the same. ``ap`` is the average precision, ``auc`` the area under
    the ROC curve, ``acc`` the accuracy at the threshold that is best for these pairs.
    """
    is_same = np.asarray(gold)[np.argsort(-cosine, kind="stable")] == 1
    # At threshold k = 0 ... n the first k pairs are said to mean the same, and the others to differ.
    same_in_first_k = np.append(0, np.cumsum(is_same))
    different_in_others = np.append(np.cumsum(~is_same[::-1])[::-1], 0)
    right_at_k = same_in_first_k + different_in_others
    return {
        "ap": 100 * average_precision(gold, cosine),
        "auc": 100 * area_under_curve(cosine, np.asarray(gold) == 1),
        "acc": 100 * float(right_at_k.max() / len(is_same)),
    }


def sts_scores(cosines: Mapping[str, Scores], gold: Mapping[str, Scores]) -> dict[str, float]:
    """Return the correlations of cosines [n] with human scores [n] of STS12-16, by subset and over subsets.

    ``all.*.mean`` and ``all.*.wmean`` are the mean and the mean weighted by size over subsets, as in the
    original toolkit. ``concatenated.*`` is one coefficient over the pairs of all subsets, as in later papers.
    It cannot be compared with the means.
    """
    metrics: dict[str, float] = {}
    all_cosines = np.concatenate([cosines[name] for name in gold])
    all_gold = np.concatenate([gold[name] for name in gold])
    for kind, correlation in (("pearson", pearson), ("spearman", spearman)):
        values = [correlation(cosines[name], gold[name]) for name in gold]
        metrics |= {f"{name}.{kind}": value for name, value in zip(gold, values, strict=True)}
        metrics[f"all.{kind}.mean"] = float(np.mean(values))
        metrics[f"all.{kind}.wmean"] = float(np.average(values, weights=list(map(len, gold.values()))))
        metrics[f"concatenated.{kind}"] = correlation(all_cosines, all_gold)
    return metrics


def neighbour_ranks(books: Mapping[str, Float]) -> dict[str, Int]:
    """Return for each sentence the rank of its nearer neighbour among the sentences of its book, by title.

    ``books`` are the vectors [N, D] of the sentences of each book in running order, N ≥ 2; ranks are [N],
    from 1. Each dimension is first centred and scaled to unit variance over all books, so that no encoder
    gains or loses by the scale of its numbers. A sentence that is exactly as near as the neighbour counts as
    nearer, so that constant vectors get the worst ranks.
    """
    all_rows = np.concatenate(list(books.values()))
    mean_D = all_rows.mean(axis=0)
    deviation_D = np.maximum(all_rows.std(axis=0), 1e-8)
    ranks: dict[str, Int] = {}
    for title, rows_ND in books.items():
        unit_ND = divide_by_norms((rows_ND - mean_D) / deviation_D)
        cosine_NN = unit_ND @ unit_ND.T
        position_N = np.arange(len(cosine_NN))
        distance_NN = np.abs(position_N[:, None] - position_N[None, :])
        neighbour_cosine_N = np.where(distance_NN == 1, cosine_NN, -np.inf).max(axis=1)
        is_before_neighbour_NN = (cosine_NN >= neighbour_cosine_N[:, None]) & (distance_NN > 1)
        ranks[title] = 1 + is_before_neighbour_NN.sum(axis=1)
    return ranks


def neighbour_scores(ranks: Mapping[str, Int]) -> dict[str, float]:
    """Return the scores of Neighbours in percent, from ranks [N] by title.

    ``acc`` is how often a neighbour is the nearest sentence, ``mrr`` the mean reciprocal rank; ``low`` and
    ``high`` are the ends of the 95 % interval of ``acc``, for which books are resampled.
    """
    rank_N = np.concatenate(list(ranks.values()))
    book_N = np.repeat(np.arange(len(ranks)), list(map(len, ranks.values())))
    accuracy, (low, high) = grouped_mean(100.0 * (rank_N == 1), book_N)
    return {"acc": accuracy, "low": low, "high": high, "mrr": float((100 / rank_N).mean())}
