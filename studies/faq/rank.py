"""Ranking the entries of a FAQ table for queries, and scores of a ranking.

Rankers give one score per query and entry, [Q, N]; higher is better. Lexical ones are libraries': BM25 of
bm25s (Lucene's variant, k1 1.5, b 0.75, lower case, no stop words removed) and scikit-learn's TF-IDF with
cosine. Encoders score by cosine between the query and the entry's question (``question``), or its answer.
Metrics are those of ir-measures: accuracy is Success@1, MRR is RR. Equal scores rank in the table's order.

Legend of dimension suffixes: Q queries, N entries, D embedding size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from corpora.ranking.faq import FaqSet
from corpora.ranking.lexical import Bm25, Scores, Tfidf
from corpora.ranking.queries import metrics_library
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


LEXICAL: Mapping[str, Ranker] = {"BM25": bm25, "TF-IDF": tfidf}


def measure(faq: FaqSet, query_ids: Sequence[str], scores_QN: Scores) -> dict[str, float]:
    """``accuracy`` and ``mrr`` as fractions.

    Args:
        faq: who is relevant to whom.
        query_ids: the rows of the scores.
        scores_QN: one row per query, one column per entry.
    """
    library = metrics_library()
    names = [entry.doc_id for entry in faq.entries]
    run = {}
    for query, row in zip(query_ids, scores_QN, strict=True):
        order = np.argsort(-row, kind="stable")
        first = next(place for place, entry in enumerate(order) if names[entry] in faq.relevant[query])
        # Strictly falling scores, for the library would order equal ones by name; what follows the first
        # relevant entry changes neither metric, and 719 entries a query took most of the time.
        run[query] = {names[entry]: float(-place) for place, entry in enumerate(order[: first + 1])}
    qrels = {query: dict.fromkeys(faq.relevant[query], 1) for query in query_ids}
    wanted = {"accuracy": library.Success @ 1, "mrr": library.RR}
    found = library.calc_aggregate(list(wanted.values()), qrels, run)
    return {name: float(found[measure]) for name, measure in wanted.items()}
