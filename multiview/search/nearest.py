"""Finds the rows of a matrix that are nearest to a vector by cosine; only numpy is imported.

Legend of dimension suffixes: Q queries, N corpus rows, D embedding size, K results.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corpora.sentences import describe_value
from multiview.libraries.arrays import to_array
from runtime.errors import UserError, check_count

BLOCK_QUERIES = 256
"""Queries that are searched for at the same time."""
BLOCK_SCORES = 2**21
"""Cosines that are in memory at the same time; each takes 30 bytes."""
LAST_ROW = 2**32 - 1
"""The largest number of a row."""


class Hit(NamedTuple):
    """One result of a search."""

    corpus_id: int
    """Row in the corpus."""
    score: float
    """Cosine of query and row."""


def semantic_search(
    queries_QD: NDArray[np.floating], corpus_ND: NDArray[np.floating], *, top_k: int = 10
) -> list[list[Hit]]:
    """Return the ``top_k`` corpus rows nearest to each query by cosine, best first.

    Rows of equal cosine are in the order of the corpus. Memory grows with Q x K, not with Q x N.

    >>> import numpy as np
    >>> semantic_search(np.array([1.0, 0.1]), np.eye(2), top_k=1)
    [[Hit(corpus_id=0, score=0.9950371980667114)]]

    Args:
        queries_QD: Vectors [Q, D], or a single vector [D]; an array, a tensor or lists.
        corpus_ND: Vectors [N, D], which may be mapped from a file.
        top_k: K, the number of rows for each query.

    Raises UserError if a vector is not finite, if queries and corpus have different sizes, or if ``top_k`` is
    no whole number from 1.
    """
    top_k = check_count(top_k, "search: top_k")
    queries, corpus = (
        np.atleast_2d(to_array(rows, f"search: a {type(rows).__name__}")) for rows in (queries_QD, corpus_ND)
    )
    shapes = f"{list(queries.shape)} of {queries.dtype} and {list(corpus.shape)} of {corpus.dtype}"
    if queries.ndim + corpus.ndim != 4 or len({queries.shape[1], corpus.shape[1]}) > 1:
        raise UserError(f"search: {shapes} are no vectors of one size")
    lengths_Q, lengths_N = _lengths(queries), _lengths(corpus)
    lengths_N = np.where(lengths_N > 0, lengths_N, 1)
    hits: list[list[Hit]] = []
    for first in range(0, len(queries), BLOCK_QUERIES):
        block = slice(first, first + BLOCK_QUERIES)
        divisor_Q1 = np.where(lengths_Q[block] > 0, lengths_Q[block], 1)[:, None]
        hits += _nearest((queries[block] / divisor_Q1).astype(np.float32), corpus, lengths_N, top_k)
    return hits


def _nearest(
    unit_QD: NDArray[np.float32], corpus_ND: NDArray[Any], lengths_N: NDArray[np.floating], top_k: int
) -> list[list[Hit]]:
    """Return the nearest rows of a block of queries, each of length 1."""
    best_QK = np.empty((len(unit_QD), 0), np.uint64)
    rows_at_once = BLOCK_SCORES // len(unit_QD)
    for first in range(0, len(corpus_ND), rows_at_once):
        block = slice(first, first + rows_at_once)
        scores_QN = (unit_QD @ corpus_ND[block].T / lengths_N[block]).astype(np.float32)
        row_N = np.arange(first, first + scores_QN.shape[1])
        if best_QK.shape[1] == top_k:  # leaves out the many rows that come too late for every query
            is_near_N = (scores_QN > _scores(best_QK.min(axis=1, keepdims=True))).any(axis=0)
            scores_QN, row_N = scores_QN[:, is_near_N], row_N[is_near_N]
        keys_QN = np.concatenate([best_QK, _sort_keys(scores_QN, row_N)], axis=1)
        beyond = max(keys_QN.shape[1] - top_k, 0)
        best_QK = np.partition(keys_QN, beyond, axis=1)[:, beyond:] if beyond else keys_QN
    best_QK = np.sort(best_QK, axis=1)[:, ::-1]
    rows_QK = LAST_ROW - (best_QK & np.uint64(LAST_ROW)).astype(np.int64)
    return [list(map(Hit, *each)) for each in zip(rows_QK.tolist(), _scores(best_QK).tolist(), strict=True)]


def _sort_keys(scores_QN: NDArray[np.float32], row_N: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return distinct integers that sort as the scores do; of equal scores the first row has the largest."""
    bits_QN = (scores_QN + np.float32(0)).view(np.uint32)  # adding 0 turns -0 into it
    bits_QN ^= np.where(bits_QN >> 31, np.uint32(2**32 - 1), np.uint32(2**31))  # in the order of the floats
    return bits_QN.astype(np.uint64) << np.uint64(32) | (LAST_ROW - row_N).astype(np.uint64)


def _scores(keys: NDArray[np.uint64]) -> NDArray[np.float32]:
    """Return the scores, float32, that are in the integers of :func:`_sort_keys`."""
    bits = (keys >> np.uint64(32)).astype(np.uint32)
    return (bits ^ np.where(bits >> 31, np.uint32(2**31), np.uint32(2**32 - 1))).view(np.float32)


def _lengths(rows_ND: NDArray[Any]) -> NDArray[np.floating]:
    """Return the length of each vector, [N]; in float64 if the squares may not fit into float32."""
    if rows_ND.dtype.kind not in "fiu":
        raise UserError(f"search: {describe_value(rows_ND)} is no array of numbers")
    squares_N = np.einsum("nd,nd->n", rows_ND, rows_ND)
    if rows_ND.dtype != np.float32 or not ((squares_N > 1e-30) & (squares_N < 1e30)).all():
        squares_N = np.einsum("nd,nd->n", rows_ND, rows_ND, dtype=np.float64)
    is_finite_N = np.isfinite(squares_N)
    if not is_finite_N.all():
        raise UserError(f"search: vector {is_finite_N.argmin()} has NaN, infinity, or numbers too large")
    lengths_N: NDArray[np.floating] = np.sqrt(squares_N)
    return lengths_N
