"""Rank the entries of a FAQ table for queries, and measure rankings.

Rankers give one score per query and entry, [Q, N]; higher is better. Lexical rankers are those of
:mod:`corpora.ranking.lexical`. Encoders score by the cosine between the query and the entry's question or
answer. Metrics are those of ir-measures: accuracy is Success@1, MRR is RR. Equal scores rank in table order.

Legend of dimension suffixes: Q queries, N entries, D embedding size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from corpora.ranking.faq import FaqSet
from corpora.ranking.lexical import Bm25, Scores, Tfidf
from corpora.ranking.questions import metrics_library
from senteval_runner.protocol.features import unit
from senteval_runner.vectors.embed import SentenceVectors

Ranker = Callable[[Sequence[str], Sequence[str]], Scores]
"""(queries, texts of the entries) to [Q, N]."""


def bm25(queries: Sequence[str], texts: Sequence[str]) -> Scores:
    """Okapi BM25 [Q, N]."""
    index = Bm25(texts)
    return np.array([index.scores(query) for query in queries])


def tfidf(queries: Sequence[str], texts: Sequence[str]) -> Scores:
    """Cosine of TF-IDF rows [Q, N], weights fitted on the table."""
    index = Tfidf(texts)
    return np.array([index.scores(query) for query in queries])


def cosines(encode: SentenceVectors, queries: Sequence[str], texts: Sequence[str]) -> Scores:
    """Cosine of an encoder's vectors [Q, N]; texts are split at white space."""
    query_QD, text_ND = (unit(encode([text.split() for text in group])) for group in (queries, texts))
    scores: Scores = query_QD @ text_ND.T
    return scores


LEXICAL: Mapping[str, Ranker] = {"TF-IDF": tfidf, "BM25": bm25}


def measure(faq: FaqSet, query_ids: Sequence[str], scores_QN: Scores) -> dict[str, float]:
    """``accuracy`` and ``mrr`` as fractions.

    Args:
        faq: which entries are relevant to which query.
        query_ids: the Q scored queries.
        scores_QN: one score per query and entry.
    """
    library = metrics_library()
    names = [entry.doc_id for entry in faq.entries]
    run = {}
    for query, row in zip(query_ids, scores_QN, strict=True):
        order = np.argsort(-row, kind="stable")
        first = next(place for place, entry in enumerate(order) if names[entry] in faq.relevant[query])
        # Strictly decreasing scores, because the library orders equal ones by name. Entries after the first
        # relevant one change neither metric and would take most of the time.
        run[query] = {names[entry]: float(-place) for place, entry in enumerate(order[: first + 1])}
    qrels = {query: dict.fromkeys(faq.relevant[query], 1) for query in query_ids}
    wanted = {"accuracy": library.Success @ 1, "mrr": library.RR}
    found = library.calc_aggregate(list(wanted.values()), qrels, run)
    return {name: float(found[measure]) for name, measure in wanted.items()}
