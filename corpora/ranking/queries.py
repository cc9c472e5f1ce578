"""Measure search: the ranks of the relevant sentences of queries, by vectors or by shared words.

A file of queries has the columns ``query`` and ``relevant``, or another form of :mod:`corpora.training_pairs`
without grades, and a row for each relevant sentence. Each query is ranked against all sentences of a
collection, which is a corpus, or all sentences of the file that are not queries.

- *P@1*: share of queries whose highest-ranked sentence is relevant.
- *MRR*: mean of 1 / rank of the first relevant sentence.
- *recall@10*: share of the relevant sentences of a query among the first ten; mean over queries.

Legend of dimension suffixes: Q queries, B of a block, N sentences of the collection, D numbers of a vector.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.lexical import Bm25, Scores, Tfidf
from corpora.training_pairs import read_training_pairs, text_key
from runtime.errors import MissingExtraError, UserError
from runtime.vectors import divide_by_norms

FloatArray = NDArray[np.floating]
METRICS = ("P@1", "MRR", "recall@10")
LEXICAL: Mapping[str, type[Bm25] | type[Tfidf]] = {"TF-IDF": Tfidf, "BM25": Bm25}
RECALL_AT = 10
"""The number of highest-ranked sentences that count for recall."""
BLOCK = 256
"""The number of queries that are ranked at a time."""


@dataclass(frozen=True)
class QuerySet:
    """Queries, the texts of a collection, and the indices of each query's relevant texts in ``texts``."""

    queries: list[str]
    texts: list[str]
    relevant: list[NDArray[np.int64]]

    def ranks_by_vectors(self, query_QD: FloatArray, text_ND: FloatArray) -> list[NDArray[np.int64]]:
        """Return the ranks of each query's relevant sentences by cosine; a zero vector has cosine 0."""
        unit_QD, unit_ND = (divide_by_norms(vectors.astype(np.float32)) for vectors in (query_QD, text_ND))
        blocks = (unit_QD[first : first + BLOCK] @ unit_ND.T for first in range(0, len(unit_QD), BLOCK))
        return self._ranks(scores_N for scores_BN in blocks for scores_N in scores_BN)

    def score_vectors(self, query_QD: FloatArray, text_ND: FloatArray) -> dict[str, float]:
        """Return the metrics of the ranking by the cosine of vectors."""
        return ranking_metrics(self.ranks_by_vectors(query_QD, text_ND))

    def score_words(self) -> dict[str, dict[str, float]]:
        """Return the metrics of each lexical method whose library is installed."""
        scores = {}
        for name, method in LEXICAL.items():
            try:
                index = method(self.texts)
            except (MissingExtraError, ImportError):
                continue
            scores[name] = ranking_metrics(self._ranks(map(index.scores, self.queries)))
        return scores

    def _ranks(self, scores: Iterable[Scores]) -> list[NDArray[np.int64]]:
        return [ranks_of(scores_N, indices) for scores_N, indices in zip(scores, self.relevant, strict=True)]


def ranking_metrics(ranks: Sequence[NDArray[np.int64]]) -> dict[str, float]:
    """Return the means of the metrics, from 0 to 1, given the ranks of each query's relevant sentences."""
    values = [[each.min() == 1, 1 / each.min(), (each <= RECALL_AT).mean()] for each in ranks]
    return dict(zip(METRICS, np.mean(values, axis=0).tolist(), strict=True))


def ranks_of(scores_N: Scores, indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ranks, from 1, of some sentences by score; among equal ones the first is ahead."""
    ranks = []
    for index in indices:
        is_ahead_N = scores_N > scores_N[index]
        is_ahead_N[:index] |= scores_N[:index] == scores_N[index]
        ranks.append(1 + int(is_ahead_N.sum()))
    return np.array(ranks, dtype=np.int64)


def read_queries(path: Path, corpus: Sequence[str] | None = None) -> QuerySet:
    """Read a file of queries; the collection is ``corpus``, or the sentences of the file if that is None.

    Raises UserError if the file has grades, or if ``corpus`` does not have a relevant sentence.
    """
    pairs = read_training_pairs([path], may_repeat=True)
    if pairs.is_graded:
        raise UserError(f"{path}: has grades; a file of queries has the columns query and relevant")
    relevant_of_query: dict[str, dict[str, None]] = {}
    for example in pairs.examples:
        relevant_of_query.setdefault(example.sentences[0], {})[text_key(example.sentences[1])] = None
    queries = set(map(text_key, relevant_of_query))
    is_wanted = {text for found in relevant_of_query.values() for text in found}
    if corpus is None:
        candidates = {text_key(text): text for text in reversed(pairs.sentences())}
        texts = [text for key, text in candidates.items() if key in is_wanted or key not in queries][::-1]
    else:
        texts = list(corpus)
    indices: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        indices.setdefault(text_key(text), []).append(index)
    for text in is_wanted - indices.keys():
        raise UserError(f"{path}: the corpus lacks the relevant sentence {text!r:.100}")
    relevant = [
        np.array(sorted(index for text in found for index in indices[text]), dtype=np.int64)
        for found in relevant_of_query.values()
    ]
    return QuerySet(list(relevant_of_query), texts, relevant)


def report_lines(
    data: QuerySet, vectors: Mapping[str, tuple[FloatArray, FloatArray]]
) -> Iterator[tuple[str, str]]:
    """Yield the lines of a report, as name and text: the sizes of the set, then the metrics of each method.

    Metrics are in per cent. The methods are the encoders, whose ``vectors`` are those of the queries [Q, D]
    and of the collection [N, D], and then the lexical methods.
    """
    yield "queries", f"{len(data.queries):,} among {len(data.texts):,} sentences; per cent:"
    scores = {name: data.score_vectors(*both) for name, both in vectors.items()}
    for name, metrics in {**scores, **data.score_words()}.items():
        yield name, ", ".join(f"{metric} {100 * value:.1f}" for metric, value in metrics.items())
