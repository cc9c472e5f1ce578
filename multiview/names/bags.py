"""Bags of word vectors: what a sentence encoder has to beat, because order and trees are not in them.

| name | encoder |
|---|---|
| ``FILE``, ``bag:FILE`` | mean of pre-trained vectors (GloVe, word2vec) of the known words |
| ``bag:random``, ``bag:random@300`` | mean of random vectors, a fixed one for each word |
| ``bag:ngrams``, ``bag:ngrams@300`` | the same, a word's vector the sum of its own and its n-grams' |
| ``bag:MODEL`` | mean of a model's word vectors, trained tables side by side |
| ``sif:WORDS?corpus=CACHE`` | smooth inverse frequency (Arora, Liang & Ma 2017); WORDS is any of the above |

SIF weights a word by a / (a + p(w)), a = 1e-3, and takes off the first principal direction of sentences.
Frequencies and the direction come from ``CACHE``, a tree cache of training text, never from the sentences
that are scored; a word that the corpus lacks counts as rare as its rarest.

Shape suffixes: n sentences, N words, E word-vector size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from corpora.characters import places_of, plain
from multiview.encoders.scale import spread
from multiview.folder.files import model_folder
from multiview.model import MultiViewEncoder
from multiview.pretrained import Float
from multiview.words.table import WordTable
from multiview.words.vectors import load_word_vectors
from parsing.trees.cache import TreeCache

RANDOM_DIM = 300
SIF_A = 1e-3
SAMPLE, BLOCK = 20_000, 100
"""Corpus sentences from which the direction is computed, and how many are read together."""
LENGTHS = (3, 4, 5)
"""Of character n-grams, the marks at both ends of a word included: those of fastText but 6."""
Lookup = Callable[[Sequence[str]], tuple[Float, NDArray[np.bool_]]]
"""Vectors [N, E] of words and which of them are known, [N]."""


def lookup_of(words: str, dim: int | None = None, *, seed: int = 0) -> Lookup:
    """Open word vectors: ``random`` or ``ngrams`` (of ``dim`` and ``seed``), a file, or a model folder."""
    if words in ("random", "ngrams"):
        vectors = random_vectors(dim or RANDOM_DIM, seed, spelling=words == "ngrams")
    elif model_folder(words).is_dir():
        vectors = MultiViewEncoder.load(words, "cpu").word_vectors
    else:
        loaded = load_word_vectors(model_folder(words))
        rows = places_of(loaded.words)

        def look_up(tokens: Sequence[str]) -> tuple[Float, NDArray[np.bool_]]:
            places = [rows.get(token, rows.get(token.lower(), -1)) for token in map(plain, tokens)]
            rows_N = np.array(places, np.int64)
            return np.asarray(loaded.vectors[np.maximum(rows_N, 0)]), rows_N >= 0

        return look_up
    return lambda tokens: (vectors(tokens), np.ones(len(tokens), np.bool_))


def random_vectors(dim: int, seed: int, *, spelling: bool) -> Callable[[Sequence[str]], Float]:
    """Return the fixed random vectors of words, [N, E] of N words.

    With ``spelling`` words share what their spellings share: a word's vector is the sum of those of its own
    name and of its n-grams, over the root of their number.
    """
    table = WordTable.hashed(dim, views=1, seed=seed)

    def drawn(names: Sequence[str]) -> Float:
        vectors: Float = table.rows(0, table.vocabulary.lookup(list(names))).detach().numpy()
        return vectors

    def spelt(tokens: Sequence[str]) -> Float:
        rows = {token: row for row, token in enumerate(dict.fromkeys(tokens))}
        sums = [drawn([token, *ngrams(token)]).sum(0) / np.sqrt(1 + len(ngrams(token))) for token in rows]
        vectors: Float = np.stack(sums)[[rows[token] for token in tokens]]
        return vectors

    return spelt if spelling else drawn


def ngrams(word: str) -> list[str]:
    """Names of a word's character n-grams in lower case: ``<ca``, ``cat``, ``at>``, ``<cat`` … of ``cat``."""
    marked = f"<{plain(word).lower()}>"
    return [f"ngram:{marked[start : start + n]}" for n in LENGTHS for start in range(len(marked) - n + 1)]


def sample(trees: TreeCache, most: int = SAMPLE, block: int = BLOCK) -> list[list[str]]:
    """Read about ``most`` sentences of a cache (all of a small one), in blocks spread evenly over it."""
    parts = (trees.read(*span, ("token",)).words() for span in spread([(0, len(trees))], most, block))
    return [words for part in parts for words in part]


class Bag:
    """A mean of word vectors as an encoder; a sentence without a known word is the zero vector.

    Args:
        lookup: the word vectors.
        corpus: tree cache of training text, for SIF; None is the plain mean.
    """

    def __init__(self, lookup: Lookup, corpus: Path | None = None) -> None:
        self.lookup = lookup
        self.probability: dict[str, float] = {}
        self.direction_1E: Float | None = None
        if corpus is not None:
            from sklearn.decomposition import TruncatedSVD

            trees = TreeCache.open(corpus)
            folded: Counter[str] = Counter()
            for word, count in trees.type_counts().items():
                folded[plain(word).lower()] += count
            total = folded.total()
            self.probability = {word: count / total for word, count in folded.items()}
            self.rarest = min(self.probability.values())
            # The first right singular vector of sentences, which are not centred.
            svd = TruncatedSVD(n_components=1, n_iter=7, random_state=0).fit(self._means(sample(trees)))
            self.direction_1E = svd.components_.astype(np.float32)

    def weight(self, word: str) -> float:
        """Give the weight of a word."""
        if not self.probability:
            return 1.0
        return SIF_A / (SIF_A + self.probability.get(plain(word).lower(), self.rarest))

    def _means(self, sentences: Sequence[Sequence[str]]) -> Float:
        """Return the weighted means [n, E], the direction still in them."""
        flat = [token for tokens in sentences for token in tokens]
        vectors_NE, known_N = self.lookup(flat)
        weights_N = np.array([self.weight(token) for token in flat], np.float32) * known_N
        ends = np.cumsum([0, *map(len, sentences)])
        words_nN = csr_array((weights_N, np.arange(len(flat)), ends), shape=(len(sentences), len(flat)))
        known_n1 = np.diff(np.cumsum([0, *known_N])[ends])[:, None]
        means: Float = ((words_nN @ vectors_NE) / np.maximum(known_n1, 1)).astype(np.float32)
        return means

    def encode(self, sentences: Sequence[str | Sequence[str]]) -> Float:
        """Return the vectors [n, E] of strings (split at white space) or token lists."""
        tokens = [sentence.split() if isinstance(sentence, str) else sentence for sentence in sentences]
        vectors = self._means(tokens)
        if self.direction_1E is not None:
            vectors -= (vectors @ self.direction_1E.T) @ self.direction_1E
        return vectors
