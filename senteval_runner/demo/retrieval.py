"""Neighbour retrieval on held-out documents: the evaluation that needs no download.

Sentences in running order are cut into blocks of 400 candidates, the batch size of the contrastive
objective. Within a block every sentence ranks all others by cosine; its neighbours (the sentence
before and after it in the same document) are the right answers. Reported are recall@1 (a neighbour
comes first) and MRR (reciprocal rank of the best neighbour), each with a bootstrap interval over
documents, because sentences of one document are not independent.

Legend of dimension suffixes: B sentences of a block, D embedding size, A anchors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from senteval_runner.protocol.features import unit
from senteval_runner.report.significance import Interval, bootstrap

BLOCK_SENTENCES = 400


@dataclass(frozen=True, kw_only=True)
class RetrievalScores:
    """Neighbour retrieval of one encoder; fractions between 0 and 1."""

    recall_at_1: Interval
    mrr: Interval
    anchors: int
    candidates: int
    behind: Interval | None = None
    """How far recall@1 is behind that of the encoder in question, on the same anchors; None of itself."""


def reciprocal_ranks(
    embeddings_ND: NDArray[np.floating] | csr_matrix,
    document_N: NDArray[np.integer],
    block: int = BLOCK_SENTENCES,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Reciprocal rank of each anchor's best neighbour within its block.

    Args:
        embeddings_ND: one row per sentence, in running order; sparse rows are made dense block by block.
        document_N: document number per sentence; neighbours share it.
        block: sentences per block; a last block of one sentence has no anchors.

    Returns:
        Reciprocal ranks [A] and the document of each anchor [A]. Ties count as errors: a candidate with
        exactly the neighbour's similarity ranks before it, so constant vectors score nothing.
    """
    ranks, owners = [], []
    for start in range(0, len(document_N), block):
        rows_BD = embeddings_ND[start : start + block]
        dense_BD = rows_BD if isinstance(rows_BD, np.ndarray) else rows_BD.toarray()
        unit_BD = unit(dense_BD).astype(np.float32)
        document_B = document_N[start : start + block]
        similarity_BB = unit_BD @ unit_BD.T
        np.fill_diagonal(similarity_BB, -np.inf)
        left = np.flatnonzero(document_B[1:] == document_B[:-1])
        positive_BB = np.zeros(similarity_BB.shape, dtype=bool)
        positive_BB[left, left + 1] = positive_BB[left + 1, left] = True
        best_B = np.where(positive_BB, similarity_BB, -np.inf).max(axis=1)
        anchors = np.flatnonzero(positive_BB.any(axis=1))
        before = (similarity_BB >= best_B[:, None]) & ~positive_BB
        ranks.append(1.0 / (1 + before[anchors].sum(axis=1)))
        owners.append(document_B[anchors].astype(np.int64))
    return np.concatenate(ranks), np.concatenate(owners)


def neighbour_retrieval(
    rows: Mapping[str, NDArray[np.floating] | csr_matrix],
    document_N: NDArray[np.integer],
    block: int = BLOCK_SENTENCES,
) -> dict[str, RetrievalScores]:
    """Recall@1 and MRR of several encoders; see the module's docstring for the protocol.

    Args:
        rows: vectors [N, D] of the same sentences by encoder. The first is the one in question; of each other
            the difference to it is taken anchor by anchor, because both meet the same easy and hard ones.
        document_N: document number per sentence.
        block: sentences per block.

    Raises:
        ValueError: rows and documents differ in number, or no sentence has a neighbour.
    """
    scores: dict[str, RetrievalScores] = {}
    first_A: NDArray[np.float64] | None = None
    for name, embeddings_ND in rows.items():
        if embeddings_ND.shape[0] != len(document_N):
            raise ValueError(f"{name}: {embeddings_ND.shape[0]} embeddings for {len(document_N)} sentences")
        reciprocal_A, document_A = reciprocal_ranks(embeddings_ND, document_N, block)
        if not len(reciprocal_A):
            raise ValueError("no two successive sentences of a block share a document: nothing to retrieve")
        hit_A = (reciprocal_A == 1.0).astype(np.float64)
        scores[name] = RetrievalScores(
            recall_at_1=bootstrap(hit_A, document_A),
            mrr=bootstrap(reciprocal_A, document_A),
            anchors=len(reciprocal_A),
            candidates=min(block, len(document_N)) - 1,
            behind=None if first_A is None else bootstrap(first_A - hit_A, document_A),
        )
        first_A = hit_A if first_A is None else first_A
    return scores


def tfidf_embeddings(train: Sequence[Sequence[str]], sentences: Sequence[Sequence[str]]) -> csr_matrix:
    """TF-IDF rows of tokenised ``sentences``, weights fitted on ``train``: [N, words of ``train``]."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(
        tokenizer=list, preprocessor=lambda tokens: [token.lower() for token in tokens], token_pattern=None
    )
    vectorizer.fit(train)
    return csr_matrix(vectorizer.transform(sentences))
