"""Word matching by libraries: BM25 of bm25s, TF-IDF of scikit-learn.

Both see lower-cased words of two letters or more (their own tokenizers), no stop words removed, and take
their statistics from the texts they are made of. Legend: Q queries, N texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora.support.errors import MissingExtraError

Scores = NDArray[np.floating]
K1, B = 1.5, 0.75
"""Term saturation and length normalisation of BM25, the library's defaults."""


class Bm25:
    """Okapi BM25 in Lucene's variant, idf = log(1 + (N − n + 0.5) / (n + 0.5)).

    Args:
        texts: the collection.
        k1: how fast repeated words stop counting, above 0.
        b: how much long texts are marked down, 0 to 1.
        tokens: the collection's tokens by :meth:`tokenize`, when several are made of the same texts.
    """

    def __init__(
        self, texts: Sequence[str], *, k1: float = K1, b: float = B, tokens: Any | None = None
    ) -> None:
        bm25s = _library()
        self.size = len(texts)
        self.retriever = bm25s.BM25(k1=k1, b=b)
        indexed = self.tokenize(texts) if tokens is None else tokens
        # Words have two letters or more; the library fails on a collection without one.
        self.empty = not any(len(ids) for ids in indexed.ids)
        if not self.empty:
            self.retriever.index(indexed, show_progress=False)

    @staticmethod
    def tokenize(texts: Sequence[str]) -> Any:
        """What the library indexes."""
        return _library().tokenize(list(texts), show_progress=False, stopwords=None)

    def scores(self, query: str) -> Scores:
        """One score per text, [N]; 0 where no word is shared."""
        if self.empty:
            return np.zeros(self.size, dtype=np.float32)
        tokens = _library().tokenize([query], return_ids=False, show_progress=False, stopwords=None)[0]
        known = [token for token in tokens if token in self.retriever.vocab_dict]
        found: Scores = self.retriever.get_scores(known) if known else np.zeros(self.size, dtype=np.float32)
        return found


class Tfidf:
    """Cosine of TF-IDF rows.

    Args:
        texts: the collection, which the weights are fitted on.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.vectorizer = TfidfVectorizer()
        self.size, self.words = len(texts), None
        words_of = self.vectorizer.build_analyzer()
        if any(words_of(text) for text in texts):  # the library fails on a collection without words
            # Words by texts: a query touches the rows of its own words alone.
            self.words = self.vectorizer.fit_transform(texts).T.tocsr()

    def scores(self, query: str) -> Scores:
        """One cosine per text, [N]."""
        if self.words is None:
            return np.zeros(self.size)
        found: Scores = (self.vectorizer.transform([query]) @ self.words).toarray()[0]
        return found


def _library() -> Any:
    try:
        import bm25s
    except ImportError:
        raise MissingExtraError("bm25s", "retrieval") from None
    return bm25s
