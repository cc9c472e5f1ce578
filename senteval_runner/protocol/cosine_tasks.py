"""Score tasks without training, by the cosines of sentences.

These are the tasks of structure (:mod:`corpora.senteval.structure`), STS12-16, and Neighbours: each sentence
of a book ranks all other sentences of the book; those before and after it are the right answers.

Legend of dimension suffixes: N sentences of a book, D embedding size.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora.senteval.structure import FILLINGS
from runtime.statistics import area_under_curve
from runtime.vectors import unit_rows
from senteval_runner.protocol.correlation import Scores, average_precision, pearson, spearman
from senteval_runner.protocol.features import Float, Int
from senteval_runner.protocol.statistics import grouped_mean, interval, resample

TIE = 1e-6
"""A sentence must be nearer by more than this cosine to count as nearer."""
ACCEPTED_SHARE = 0.9
"""Share of the paraphrases that the threshold accepts at which opposites are counted."""


Cosines = Mapping[str, Scores]
"""Cosines, or gold scores, of pairs [n] by split."""


def _sts_result(cosines: Cosines, gold: Cosines) -> dict[str, Any]:
    return _result(sts_scores(cosines, gold), cosines, gold)


def _binding_result(cosines: Cosines, gold: Cosines) -> dict[str, Any]:
    """Score Binding; an item is a triplet."""
    return _result(binding_scores(cosines), {kind: nearer(part) for kind, part in cosines.items()})


def _triplet_result(cosines: Cosines, gold: Cosines) -> dict[str, Any]:
    return _result(triplet_scores(cosines), {split: nearest(part) for split, part in cosines.items()})


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
"""Scorers of tasks of kind ``cosine``: from cosines and gold they make ``metrics``, ``predictions`` and
``gold``, which is ones if predictions say what is right."""


def neighbour_result(books: Mapping[str, Float]) -> dict[str, Any]:
    """Score Neighbours, from vectors [N, D] of each book: ``metrics``, ``predictions`` and ``gold``."""
    ranks = neighbour_ranks(books)
    return _result(neighbour_scores(ranks), {title: rank_N == 1 for title, rank_N in ranks.items()})


def _result(
    metrics: dict[str, float],
    predictions: Mapping[str, NDArray[Any]],
    gold: Mapping[str, NDArray[Any]] | None = None,
) -> dict[str, Any]:
    gold = gold or {name: np.ones(len(part)) for name, part in predictions.items()}
    return {
        "metrics": metrics,
        "predictions": {name: part.astype(float).tolist() for name, part in predictions.items()},
        "gold": {name: part.astype(float).tolist() for name, part in gold.items()},
    }


def binding_scores(cosines: Mapping[str, Scores], fillings: int = FILLINGS) -> dict[str, float]:
    """Return the per cent of triplets whose anchor is nearer to the paraphrase than to the distractor.

    Cosines are by kind, [2n]: of the anchor with the one and with the other, triplet by triplet; the
    ``fillings`` of a frame come together. ``acc`` is the mean over kinds, ``low`` and ``high`` are its 95 %
    interval from resampled frames, and ``KIND.acc`` is the score of a kind.
    """
    frame_scores = {
        kind: 100 * nearer(cosine).reshape(-1, fillings).mean(axis=1) for kind, cosine in cosines.items()
    }
    generator = np.random.default_rng(0)
    scores_on_resamples = [resample(np.mean, [scores], generator) for scores in frame_scores.values()]
    low, high = interval(np.mean(scores_on_resamples, axis=0))
    kind_scores = {f"{kind}.acc": float(scores.mean()) for kind, scores in frame_scores.items()}
    return {"acc": float(np.mean(list(kind_scores.values()))), "low": low, "high": high, **kind_scores}


def nearer(cosine: Scores) -> NDArray[np.bool_]:
    """Tell of each two pairs whether the first is the nearer one, from their cosines [2n]: [n]."""
    first, second = cosine.reshape(-1, 2).T
    return first > second + TIE


def nearest(cosine: Scores) -> NDArray[np.bool_]:
    """Tell of each three pairs whether the first is the nearest one, from their cosines [3n]: [n]."""
    first, second, third = cosine.reshape(-1, 3).T
    is_nearest: NDArray[np.bool_] = first > np.maximum(second, third) + TIE
    return is_nearest


def triplet_scores(cosines: Mapping[str, Scores]) -> dict[str, float]:
    """Return the per cent of rows whose first pair is nearest, by split and as their mean ``acc``."""
    split_scores = {f"{name}.acc": 100 * float(nearest(cosine).mean()) for name, cosine in cosines.items()}
    mean = {"acc": float(np.mean(list(split_scores.values())))}
    return mean | split_scores if len(split_scores) > 1 else mean


def opposite_scores(cosines: Mapping[str, Scores]) -> tuple[dict[str, float], Scores]:
    """Count the opposites below the threshold that accepts 90 % of the paraphrases.

    Cosines are those of ``paraphrases``, [n], and of opposites by name. Returns metrics, and 1 for each
    opposite that is below. ``acc`` is the per cent below, ``accepted`` and ``NAME.accepted`` are the others.
    """
    threshold = float(np.quantile(cosines["paraphrases"], 1 - ACCEPTED_SHARE))
    is_below = {name: cosine < threshold for name, cosine in cosines.items() if name != "paraphrases"}
    all_below = np.concatenate(list(is_below.values())).astype(np.float64)
    accuracy = 100 * float(all_below.mean())
    metrics = {"acc": accuracy, "accepted": 100 - accuracy}
    metrics |= {f"{name}.accepted": 100 - 100 * float(part.mean()) for name, part in is_below.items()}
    return metrics, all_below


def pair_scores(gold: NDArray[np.number], cosine: Scores) -> dict[str, float]:
    """Return the average precision, area under the ROC curve and accuracy at the best threshold, in per cent.

    ``gold`` [n] is 1 where the two of a pair mean the same.
    """
    is_same = np.asarray(gold)[np.argsort(-cosine, kind="stable")] == 1
    # If the first k pairs are called the same, right are those of them that are, and the others that are not.
    hits = np.append(0, np.cumsum(is_same)) + np.append(np.cumsum(~is_same[::-1])[::-1], 0)
    return {
        "ap": 100 * average_precision(gold, cosine),
        "auc": 100 * area_under_curve(cosine, np.asarray(gold) == 1),
        "acc": 100 * float(hits.max() / len(is_same)),
    }


def sts_scores(cosines: Mapping[str, Scores], gold: Mapping[str, Scores]) -> dict[str, float]:
    """Correlate cosines [n] with human scores [n] of STS12-16, per subset and over subsets.

    ``all.*.mean`` and ``all.*.wmean`` are the original's mean and size-weighted mean over subsets;
    ``concatenated.*`` is one coefficient over all pairs together, as other papers report. The two are not
    comparable.
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
    """Return by title the rank [N] of each sentence's nearer neighbour among the sentences of its book.

    Books are vectors [N, D] in running order, N ≥ 2. Each dimension is first centred and scaled to unit
    variance over all books together, so that no encoder gains or loses by the scale of its numbers. A
    sentence exactly as near as the neighbour ranks before it, so constant vectors find nothing.
    """
    all_rows = np.concatenate(list(books.values()))
    mean_D = all_rows.mean(axis=0)
    deviation_D = np.maximum(all_rows.std(axis=0), 1e-8)
    ranks: dict[str, Int] = {}
    for title, rows_ND in books.items():
        unit_ND = unit_rows((rows_ND - mean_D) / deviation_D)
        cosine_NN = unit_ND @ unit_ND.T
        position_N = np.arange(len(cosine_NN))
        distance_NN = np.abs(position_N[:, None] - position_N[None, :])
        nearest_N = np.where(distance_NN == 1, cosine_NN, -np.inf).max(axis=1)
        ranks[title] = 1 + ((cosine_NN >= nearest_N[:, None]) & (distance_NN > 1)).sum(axis=1)
    return ranks


def neighbour_scores(ranks: Mapping[str, Int]) -> dict[str, float]:
    """Return in per cent ``acc``, how often a neighbour is nearest, and ``mrr``, the mean reciprocal rank.

    ``low`` and ``high`` are the 95 % interval of ``acc`` from resampled books. Ranks [N] are by title.
    """
    rank_N = np.concatenate(list(ranks.values()))
    book_N = np.repeat(np.arange(len(ranks)), [len(rank_N) for rank_N in ranks.values()])
    accuracy, (low, high) = grouped_mean(100.0 * (rank_N == 1), book_N)
    return {"acc": accuracy, "low": low, "high": high, "mrr": float((100 / rank_N).mean())}
