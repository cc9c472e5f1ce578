"""Score tasks without training, by which sentences are nearer by cosine.

The tasks of structure (:mod:`corpora.senteval.structure`), STS12-16, and Neighbours: each sentence of a book
ranks all other sentences of the book, and the right answers are the sentence before and the one after.

Legend of dimension suffixes: N sentences of a book, D embedding size.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from corpora.senteval.structure import FILLINGS
from corpora.senteval.tasks import STS_SUBSETS, TRIPLET_TASKS
from senteval_runner.protocol.correlation import Scores, pearson, spearman
from senteval_runner.protocol.features import Float, Int, unit
from senteval_runner.protocol.statistics import grouped_mean, interval

TIE = 1e-6
"""A sentence that means the same and is nearer by no more than this is no nearer."""
DRAWS = 1000
ACCEPTED = 0.9
"""Of the paraphrases, where opposites are measured."""


def cosine_result(task: str, cosines: Mapping[str, Scores], gold: Mapping[str, Scores]) -> dict[str, Any]:
    """Score STS12-16 or a task of structure, by cosines and gold [n] of each split.

    Gives ``metrics``, ``predictions`` and ``gold``; items that are right or wrong have a gold of ones.
    """
    if task in STS_SUBSETS:
        return _result(sts_scores(cosines, gold), cosines, gold)
    if task == "Binding":  # one item a triplet
        return _result(binding_scores(cosines), {kind: nearer(part) for kind, part in cosines.items()})
    if task in TRIPLET_TASKS:
        return _result(triplet_scores(cosines), {split: nearest(part) for split, part in cosines.items()})
    if task == "Opposites":
        metrics, below = opposite_scores(cosines)
        return _result(metrics, {"all": below})
    together = (np.concatenate([part[name] for name in gold]) for part in (gold, cosines))
    return _result(pair_scores(*together), cosines, gold)


def neighbour_result(books: Mapping[str, Float]) -> dict[str, Any]:
    """Score Neighbours, by vectors [N, D] of each book: ``metrics``, ``predictions`` and ``gold``."""
    ranks = neighbour_ranks(books)
    return _result(neighbour_scores(ranks), {title: rank_N == 1 for title, rank_N in ranks.items()})


def _result(
    metrics: dict[str, float],
    predicted: Mapping[str, NDArray[Any]],
    gold: Mapping[str, NDArray[Any]] | None = None,
) -> dict[str, Any]:
    gold = gold or {name: np.ones(len(part)) for name, part in predicted.items()}
    listed = (
        {name: part.astype(float).tolist() for name, part in side.items()} for side in (predicted, gold)
    )
    return {"metrics": metrics, **dict(zip(("predictions", "gold"), listed, strict=True))}


def binding_scores(cosines: Mapping[str, Scores], fillings: int = FILLINGS) -> dict[str, float]:
    """Give the per cent of triplets whose anchor is nearer to the sentence that means the same.

    Cosines are by kind, [2n]: of the anchor with the same and with the other, triplet by triplet; the
    ``fillings`` of a frame come together. ``acc`` is the mean over kinds, ``low`` and ``high`` are its 95 %
    interval by resampling frames, and there is ``KIND.acc``.
    """
    frames = {
        kind: 100 * nearer(cosine).reshape(-1, fillings).mean(axis=1) for kind, cosine in cosines.items()
    }
    drawn = np.random.default_rng(0)
    by_kind = [drawn.choice(scores, (DRAWS, len(scores))).mean(axis=1) for scores in frames.values()]
    low, high = interval(np.mean(by_kind, axis=0))
    kinds = {f"{kind}.acc": float(scores.mean()) for kind, scores in frames.items()}
    return {"acc": float(np.mean(list(kinds.values()))), "low": low, "high": high, **kinds}


def nearer(cosine: Scores) -> NDArray[np.bool_]:
    """Tell whether each triplet's anchor is nearer to the same than to the other, by cosines [2n]: [n]."""
    same, other = cosine.reshape(-1, 2).T
    return same > other + TIE


def nearest(cosine: Scores) -> NDArray[np.bool_]:
    """Tell whether the first of each three pairs is the nearest, by their cosines [3n]: [n]."""
    first, *others = cosine.reshape(-1, 3).T
    right: NDArray[np.bool_] = first > np.maximum(*others) + TIE
    return right


def triplet_scores(cosines: Mapping[str, Scores]) -> dict[str, float]:
    """Give the per cent of rows whose first pair is nearest: ``acc``, mean over splits, and ``SPLIT.acc``."""
    splits = {f"{name}.acc": 100 * float(nearest(cosine).mean()) for name, cosine in cosines.items()}
    return {"acc": float(np.mean(list(splits.values())))} | (splits if len(splits) > 1 else {})


def opposite_scores(cosines: Mapping[str, Scores]) -> tuple[dict[str, float], Scores]:
    """Count the opposites that stay below the threshold that accepts 90 % of the paraphrases.

    Cosines are of ``paraphrases``, [n], and of opposites by name. ``acc`` is the per cent of opposites below
    the threshold, ``accepted`` and ``NAME.accepted`` are of the others; then come the opposites, 1 if below.
    """
    least = float(np.quantile(cosines["paraphrases"], 1 - ACCEPTED))
    below = {name: cosine < least for name, cosine in cosines.items() if name != "paraphrases"}
    right = np.concatenate(list(below.values())).astype(np.float64)
    accepted = {f"{name}.accepted": 100 - 100 * float(part.mean()) for name, part in below.items()}
    share = 100 * float(right.mean())
    return {"acc": share, "accepted": 100 - share} | accepted, right


def pair_scores(gold: NDArray[np.number], cosine: Scores) -> dict[str, float]:
    """Return the average precision, area under the ROC curve and accuracy at the best threshold, in per cent.

    ``gold`` [n] is 1 where the two of a pair mean the same.
    """
    truth = np.asarray(gold)[np.argsort(-cosine, kind="stable")] == 1
    # The first k pairs are called the same: those of them that are, and the others that are not.
    hits = np.append(0, np.cumsum(truth)) + np.append(np.cumsum(~truth[::-1])[::-1], 0)
    return {
        "ap": 100 * float(average_precision_score(gold, cosine)),
        "auc": 100 * float(roc_auc_score(gold, cosine)),
        "acc": 100 * float(hits.max() / len(truth)),
    }


def sts_scores(predicted: Mapping[str, Scores], gold: Mapping[str, Scores]) -> dict[str, float]:
    """Correlate cosines [n] with human scores [n] of STS12-16, per subset and over subsets.

    ``all.*.mean`` and ``all.*.wmean`` are the original's mean and size-weighted mean over subsets;
    ``concatenated.*`` is one coefficient over all pairs together, as other papers report. The two are not
    comparable.
    """
    metrics: dict[str, float] = {}
    together = [np.concatenate([side[name] for name in gold]) for side in (predicted, gold)]
    for kind, correlation in (("pearson", pearson), ("spearman", spearman)):
        values = [correlation(predicted[name], gold[name]) for name in gold]
        metrics |= {f"{name}.{kind}": value for name, value in zip(gold, values, strict=True)}
        metrics[f"all.{kind}.mean"] = float(np.mean(values))
        metrics[f"all.{kind}.wmean"] = float(np.average(values, weights=list(map(len, gold.values()))))
        metrics[f"concatenated.{kind}"] = correlation(*together)
    return metrics


def neighbour_ranks(books: Mapping[str, Float]) -> dict[str, Int]:
    """Rank each sentence's nearest neighbour among all other sentences of its book, by title [N].

    Books are vectors [N, D] in running order, N ≥ 2. Each number is first centred and brought to one
    deviation over all books together, so that no encoder gains or loses by the scale of its numbers. A
    sentence exactly as near as the neighbour ranks before it, so constant vectors find nothing.
    """
    together = np.concatenate(list(books.values()))
    mean_D, deviation_D = together.mean(axis=0), np.maximum(together.std(axis=0), 1e-8)
    ranks: dict[str, Int] = {}
    for title, rows_ND in books.items():
        unit_ND = unit((rows_ND - mean_D) / deviation_D)
        cosine_NN = unit_ND @ unit_ND.T
        place_N = np.arange(len(cosine_NN))
        distance_NN = np.abs(place_N[:, None] - place_N[None, :])
        nearest_N = np.where(distance_NN == 1, cosine_NN, -np.inf).max(axis=1)
        ranks[title] = 1 + ((cosine_NN >= nearest_N[:, None]) & (distance_NN > 1)).sum(axis=1)
    return ranks


def neighbour_scores(ranks: Mapping[str, Int]) -> dict[str, float]:
    """Give in per cent ``acc``, how often a neighbour is nearest, and ``mrr``, the mean reciprocal rank.

    ``low`` and ``high`` are the 95 % interval of ``acc`` by resampling books. Ranks [N] are by title.
    """
    rank_N = np.concatenate(list(ranks.values()))
    book_N = np.repeat(np.arange(len(ranks)), [len(rank_N) for rank_N in ranks.values()])
    accuracy, (low, high) = grouped_mean(100.0 * (rank_N == 1), book_N)
    return {"acc": accuracy, "low": low, "high": high, "mrr": float((100 / rank_N).mean())}
