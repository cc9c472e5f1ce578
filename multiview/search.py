"""Semantic search: the nearest sentences of a corpus by cosine.

Legend of dimension suffixes: Q queries, N corpus sentences, D embedding size, K results.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Corpus vectors compared at a time: 100k x 4800 float32 is 1.9 GB, a block of it 80 MB.
BLOCK_SENTENCES = 4096


@dataclass(frozen=True)
class Hit:
    """One result."""

    corpus_id: int
    """Row in the corpus."""
    score: float
    """Cosine."""


def semantic_search(
    queries_QD: NDArray[np.floating], corpus_ND: NDArray[np.floating], *, top_k: int = 10
) -> list[list[Hit]]:
    """The ``top_k`` corpus rows nearest to each query by cosine, best first.

    The corpus may be a memory-mapped array; it is read block by block. Equal scores rank by row.

    Args:
        queries_QD: one row per query, or a single vector [D].
        corpus_ND: one row per sentence.
        top_k: results per query, at most N.
    """
    queries = _unit(np.atleast_2d(queries_QD))
    count = min(top_k, len(corpus_ND))
    best_QK = np.full((len(queries), 0), -np.inf, dtype=np.float32)
    rows_QK = np.zeros((len(queries), 0), dtype=np.int64)
    for start in range(0, len(corpus_ND), BLOCK_SENTENCES):
        block = _unit(np.asarray(corpus_ND[start : start + BLOCK_SENTENCES]))
        best_QK = np.hstack([best_QK, queries @ block.T])
        numbers = np.broadcast_to(np.arange(start, start + len(block)), (len(queries), len(block)))
        rows_QK = np.hstack([rows_QK, numbers])
        order = np.argsort(-best_QK, axis=1, kind="stable")[:, :count]
        best_QK = np.take_along_axis(best_QK, order, axis=1)
        rows_QK = np.take_along_axis(rows_QK, order, axis=1)
    return [
        [Hit(int(row), float(score)) for row, score in zip(rows, scores, strict=True)]
        for rows, scores in zip(rows_QK, best_QK, strict=True)
    ]


def _unit(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(norms, 1e-12)).astype(np.float32)
