"""Does a vector know its neighbours? Retrieval of the sentences before and after, by cosine.

Each sentence of a book ranks all other sentences of the same book. The right answers are the sentence before
and the one after. Each number of the vectors is first centred and brought to one deviation over all books
together, so that no encoder gains or loses by the scale of its numbers.

Legend of dimension suffixes: N sentences of a book, D embedding size.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from senteval_runner.protocol.features import Float, Int, unit
from senteval_runner.protocol.statistics import grouped_mean


def neighbour_ranks(books: Mapping[str, Float]) -> dict[str, Int]:
    """Return the rank of each sentence's nearest neighbour among all other sentences of its book.

    Args:
        books: vectors [N, D] by title, in running order, N ≥ 2.

    Returns:
        By title [N], 1 where a neighbour is nearest. Ties count as errors: a sentence exactly as near as the
        neighbour ranks before it, so constant vectors find nothing.
    """
    together = np.concatenate(list(books.values()))
    mean_D, deviation_D = together.mean(axis=0), np.maximum(together.std(axis=0), 1e-8)
    return {title: _ranks((rows_ND - mean_D) / deviation_D) for title, rows_ND in books.items()}


def _ranks(vectors_ND: Float) -> Int:
    unit_ND = unit(vectors_ND)
    cosine_NN = unit_ND @ unit_ND.T
    place_N = np.arange(len(cosine_NN))
    distance_NN = np.abs(place_N[:, None] - place_N[None, :])
    nearest_N = np.where(distance_NN == 1, cosine_NN, -np.inf).max(axis=1)
    before_N: Int = ((cosine_NN >= nearest_N[:, None]) & (distance_NN > 1)).sum(axis=1)
    return 1 + before_N


def neighbour_scores(ranks: Mapping[str, Int]) -> dict[str, float]:
    """Give accuracy and mean reciprocal rank in per cent.

    Args:
        ranks: by title [N].

    Returns:
        ``acc``, the share of sentences whose nearest one is a neighbour; ``low`` and ``high``, its 95 %
        interval by resampling books; ``mrr``.
    """
    rank_N = np.concatenate(list(ranks.values()))
    book_N = np.repeat(np.arange(len(ranks)), [len(rank_N) for rank_N in ranks.values()])
    accuracy, (low, high) = grouped_mean(100.0 * (rank_N == 1), book_N)
    return {"acc": accuracy, "low": low, "high": high, "mrr": float((100 / rank_N).mean())}
