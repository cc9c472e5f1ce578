"""Score texts by the words that they share with a query: BM25 from bm25s, TF-IDF from scikit-learn.

Words are lower-cased and have at least two letters; stop words are kept. In Chinese, which has no spaces
between words, each character is a word. Words are counted in the texts that are searched. Legend of dimension
suffixes: N texts.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from corpora.characters import normalise_text
from runtime.errors import extra

Scores = NDArray[np.floating]
_CHINESE = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
WORD = rf"[{_CHINESE}]|[^\W{_CHINESE}]{{2,}}"
"""Matches a word; for text without Chinese it equals the libraries' own ``\\b\\w\\w+\\b``."""


class Bm25:
    """Ranks by Okapi BM25, Lucene's variant: idf = log(1 + (N − n + 0.5) / (n + 0.5)), k1 = 1.5, b = 0.75."""

    def __init__(self, texts: Sequence[str]) -> None:
        with extra("retrieval"):
            import bm25s
        self._tokenize = partial(bm25s.tokenize, show_progress=False, stopwords=None, token_pattern=WORD)
        self.size = len(texts)
        self.retriever = bm25s.BM25(k1=1.5, b=0.75)
        tokens = self._tokenize([normalise_text(text) for text in texts])
        self.has_words = any(len(ids) for ids in tokens.ids)
        if self.has_words:  # the library fails on a collection without words
            self.retriever.index(tokens, show_progress=False)

    def scores(self, query: str) -> Scores:
        """Return the score of every text, [N]; a text that shares no word with the query has 0."""
        scores_N: Scores = np.zeros(self.size, dtype=np.float32)
        if self.has_words:
            words = self._tokenize([normalise_text(query)], return_ids=False)[0]
            indexed_words = [word for word in words if word in self.retriever.vocab_dict]
            if indexed_words:
                scores_N = self.retriever.get_scores(indexed_words)
        return scores_N


class Tfidf:
    """Ranks by the cosine of TF-IDF vectors, whose weights are fitted on the texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        with extra("sklearn", "scikit-learn"):
            from sklearn.feature_extraction.text import TfidfVectorizer

        self.vectorizer = TfidfVectorizer(
            preprocessor=lambda text: normalise_text(text).lower(), token_pattern=WORD
        )
        self.size = len(texts)
        find_words = self.vectorizer.build_analyzer()
        self.has_words = any(find_words(text) for text in texts)
        if self.has_words:  # the library raises an error for a collection without words
            # A row per word, so that a query reads only the rows of its own words.
            self.weights = self.vectorizer.fit_transform(texts).T.tocsr()

    def scores(self, query: str) -> Scores:
        """Return the cosine of every text with the query, [N]."""
        if not self.has_words:
            return np.zeros(self.size)
        scores_N: Scores = (self.vectorizer.transform([query]) @ self.weights).toarray()[0]
        return scores_N
