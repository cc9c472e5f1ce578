"""Lexical ranking: BM25 from bm25s, TF-IDF from scikit-learn.

Both use their own tokenizers (lower-cased words of two letters or more, stop words kept) and take their
statistics from the texts they index. Legend: N texts.
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
        k1: saturation of repeated words, above 0.
        b: length normalisation, 0 to 1.
        tokens: output of :meth:`tokenize`, to index the same texts several times.
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
        """The texts as the library indexes them."""
        return _library().tokenize(list(texts), show_progress=False, stopwords=None)

    def scores(self, query: str) -> Scores:
        """One score per text, [N]; 0 for texts that share no word with the query."""
        if self.empty:
            return np.zeros(self.size, dtype=np.float32)
        tokens = _library().tokenize([query], return_ids=False, show_progress=False, stopwords=None)[0]
        known = [token for token in tokens if token in self.retriever.vocab_dict]
        found: Scores = self.retriever.get_scores(known) if known else np.zeros(self.size, dtype=np.float32)
        return found


class Tfidf:
    """Cosine of TF-IDF vectors.

    Args:
        texts: the collection; the weights are fitted on it.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.vectorizer = TfidfVectorizer()
        self.size, self.words = len(texts), None
        words_of = self.vectorizer.build_analyzer()
        if any(words_of(text) for text in texts):  # the library fails on a collection without words
            # Words by texts, so that a query only touches the rows of its own words.
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
