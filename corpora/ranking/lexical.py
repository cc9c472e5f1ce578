"""Lexical ranking: BM25 from bm25s, TF-IDF from scikit-learn.

Words are lower-cased and have two letters or more, stop words are kept; Chinese, which has no spaces between
words, is read by character. Statistics are those of the texts that are indexed. Legend: N texts.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from corpora.characters import plain
from runtime.errors import MissingExtraError

Scores = NDArray[np.floating]
_CHINESE = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
WORD = rf"[{_CHINESE}]|[^\W{_CHINESE}]{{2,}}"
"""A word of the tokenizers; without Chinese it is their own ``\\b\\w\\w+\\b``."""


class Bm25:
    """Okapi BM25 in Lucene's variant, idf = log(1 + (N − n + 0.5) / (n + 0.5)), k1 = 1.5, b = 0.75."""

    def __init__(self, texts: Sequence[str]) -> None:
        try:
            import bm25s
        except ImportError:
            raise MissingExtraError("bm25s", "retrieval") from None
        self._tokenize = partial(bm25s.tokenize, show_progress=False, stopwords=None, token_pattern=WORD)
        self.size, self.retriever = len(texts), bm25s.BM25(k1=1.5, b=0.75)
        tokens = self._tokenize([plain(text) for text in texts])
        # Words have two letters or more; the library fails on a collection without one.
        self.empty = not any(len(ids) for ids in tokens.ids)
        if not self.empty:
            self.retriever.index(tokens, show_progress=False)

    def scores(self, query: str) -> Scores:
        """Score every text, [N]; 0 is a text that shares no word with the query."""
        known: list[str] = []
        if not self.empty:
            words = self._tokenize([plain(query)], return_ids=False)[0]
            known = [word for word in words if word in self.retriever.vocab_dict]
        scores_N: Scores = (
            self.retriever.get_scores(known) if known else np.zeros(self.size, dtype=np.float32)
        )
        return scores_N


class Tfidf:
    """Cosine of TF-IDF vectors, whose weights are fitted on the texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.vectorizer = TfidfVectorizer(preprocessor=lambda text: plain(text).lower(), token_pattern=WORD)
        self.size = len(texts)
        words_of = self.vectorizer.build_analyzer()
        self.empty = not any(words_of(text) for text in texts)  # which the library refuses
        if not self.empty:  # words by texts, so that a query only touches the rows of its own words
            self.words = self.vectorizer.fit_transform(texts).T.tocsr()

    def scores(self, query: str) -> Scores:
        """Compute the cosine of every text, [N]."""
        if self.empty:
            return np.zeros(self.size)
        scores_N: Scores = (self.vectorizer.transform([query]) @ self.words).toarray()[0]
        return scores_N
