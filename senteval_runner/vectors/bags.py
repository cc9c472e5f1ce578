"""Bags of word vectors: what a sentence encoder has to beat, because order and trees are not in them.

| spec | encoder |
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

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from corpora.support.errors import UserError
from corpora.support.files import sha256_file
from multiview.folder.names import model_folder, near_model
from senteval_runner.protocol.features import Float

if TYPE_CHECKING:
    from parsing.cache.reader import TreeCache

Weighting = Literal["bag", "sif"]
PATTERN = re.compile(r"(?P<weighting>bag|sif):(?P<words>[^?]+)(?:\?corpus=(?P<corpus>.+))?")
RANDOM = re.compile(r"(?P<of>random|ngrams)(?:@(?P<dim>[1-9]\d{0,4}))?")
RANDOM_DIM = 300
SIF_A = 1e-3
SAMPLE = 20_000
"""Corpus sentences from which the direction is computed."""
BLOCK = 100
"""Sentences that are read together."""

Lookup = Callable[[Sequence[str]], tuple[Float, NDArray[np.bool_]]]
"""Vectors [N, E] of words and which of them are known, [N]."""


@dataclass(frozen=True)
class BagSpec:
    """What a spec says."""

    weighting: Weighting
    words: str
    """``random@DIM``, ``ngrams@DIM``, or the path of vectors or of a model folder."""
    corpus: Path | None
    """Tree cache with the frequencies; None for a plain bag."""

    @classmethod
    def parse(cls, spec: str) -> Self:
        """Read a spec.

        Raises:
            UserError: it is none, or names what does not exist.
        """
        found = PATTERN.fullmatch(spec)
        if found is None:
            raise UserError(f"model {spec!r}: expected bag:WORDS or sif:WORDS?corpus=CACHE")
        weighting, corpus = cast(Weighting, found["weighting"]), found["corpus"]
        if weighting == "bag" and corpus is not None:
            raise UserError(f"model {spec!r}: a plain bag needs no corpus; sif: does")
        if weighting != "bag" and corpus is None:
            raise UserError(
                f"model {spec!r}: word frequencies come from a tree cache of training text: "
                f"{weighting}:{found['words']}?corpus=runs/trees/NAME"
            )
        if corpus is not None and not (Path(corpus) / "manifest.json").is_file():
            raise UserError(f"model {spec!r}: {corpus}: no tree cache")
        words = found["words"]
        if not RANDOM.fullmatch(words) and not model_folder(words).exists():
            near = near_model(Path(words)).rstrip()
            raise UserError(
                f"model {spec!r}: {words}: no such file or folder, nor random@DIM, ngrams@DIM"
                f"{near and f'; {near}'}"
            )
        return cls(weighting, words, Path(corpus) if corpus else None)

    @property
    def name(self) -> str:
        """For tables."""
        over = self.words if RANDOM.fullmatch(self.words) else Path(self.words).absolute().name
        return f"{self.weighting}:{over}"

    def key(self, words_key: str) -> str:
        """Hex digest of all that decides the vectors.

        Args:
            words_key: digest of the word vectors.
        """
        corpus = "" if self.corpus is None else sha256_file(self.corpus / "manifest.json")
        return hashlib.sha256(f"{self.weighting} {words_key} {corpus}".encode()).hexdigest()[:16]


def lookup_of(words: str, *, seed: int, cache: Path) -> Lookup:
    """Word vectors by the part of a spec that names them.

    Args:
        words: see :attr:`BagSpec.words`.
        seed: of random vectors.
        cache: folder of converted vector files.
    """
    if found := RANDOM.fullmatch(words):
        from multiview.words.ngrams import random_vectors, with_ngrams

        drawn = random_vectors(int(found["dim"] or RANDOM_DIM), seed)
        vectors = drawn if found["of"] == "random" else with_ngrams(drawn)
        return lambda tokens: _all_known(vectors(tokens))
    if model_folder(words).is_dir():
        from multiview.model import MultiViewEncoder

        model = MultiViewEncoder.load(words, "cpu")
        return lambda tokens: _all_known(model.word_vectors(tokens))
    from multiview.words.vectors import load_word_vectors

    loaded = load_word_vectors(Path(words), cache)
    rows = {word: row for row, word in enumerate(loaded.words)}

    def look_up(tokens: Sequence[str]) -> tuple[Float, NDArray[np.bool_]]:
        found = [rows.get(token, rows.get(token.lower(), -1)) for token in tokens]
        rows_N = np.array(found, np.int64)
        return np.asarray(loaded.vectors[np.maximum(rows_N, 0)]), rows_N >= 0

    return look_up


def _all_known(vectors_NE: Float) -> tuple[Float, NDArray[np.bool_]]:
    return vectors_NE, np.ones(len(vectors_NE), np.bool_)


def sample(trees: TreeCache) -> list[list[str]]:
    """About ``SAMPLE`` sentences of a cache (all of a small one), in blocks spread evenly over it."""
    blocks = max(1, SAMPLE // BLOCK) if len(trees) > SAMPLE else -(-len(trees) // BLOCK)
    starts = [len(trees) * block // blocks for block in range(blocks)]
    ends = [min(start + BLOCK, end) for start, end in zip(starts, [*starts[1:], len(trees)], strict=True)]
    parts = (trees.read(start, end, ("token",)).words() for start, end in zip(starts, ends, strict=True))
    return [words for part in parts for words in part]


class Bag:
    """A weighted mean of word vectors as an encoder; a sentence without a known word is the zero vector.

    Args:
        lookup: the word vectors.
        weighting: bag or sif.
        corpus: tree cache of training text, for sif.
    """

    pretokenized = True

    def __init__(self, lookup: Lookup, weighting: Weighting = "bag", corpus: Path | None = None) -> None:
        self.lookup, self.weighting = lookup, weighting
        self.direction_1E: Float | None = None
        if corpus is not None:
            from parsing.cache.reader import TreeCache

            trees = TreeCache.open(corpus)
            self._count(trees.type_counts())
            self._find_direction(self._means(sample(trees)))

    def _count(self, counts: Counter[str]) -> None:
        """Set probabilities from the corpus's words in lower case."""
        folded: Counter[str] = Counter()
        for word, count in counts.items():
            folded[word.lower()] += count
        total = folded.total()
        self.probability = {word: count / total for word, count in folded.items()}
        self.rarest = min(self.probability.values())

    def weight(self, word: str) -> float:
        """The weight of a word."""
        if self.weighting == "bag":
            return 1.0
        return SIF_A / (SIF_A + self.probability.get(word.lower(), self.rarest))

    def _means(self, sentences: Sequence[Sequence[str]]) -> Float:
        """Weighted means [n, E], the direction still in them."""
        flat = [token for tokens in sentences for token in tokens]
        vectors_NE, known_N = self.lookup(flat)
        weights_N1 = np.array([self.weight(token) for token in flat], np.float32)[:, None]
        means = np.zeros((len(sentences), vectors_NE.shape[1]), np.float32)
        end = 0
        for i, tokens in enumerate(sentences):
            start, end = end, end + len(tokens)
            rows = np.flatnonzero(known_N[start:end]) + start
            if len(rows):
                means[i] = (weights_N1[rows] * vectors_NE[rows]).mean(0)
        return means

    def _find_direction(self, means: Float) -> None:
        """The first right singular vector of sentences, which are not centred."""
        from sklearn.decomposition import TruncatedSVD

        svd = TruncatedSVD(n_components=1, n_iter=7, random_state=0).fit(means)
        self.direction_1E = svd.components_.astype(np.float32)

    def encode(self, sentences: Sequence[str | Sequence[str]]) -> Float:
        """Vectors [n, E] of strings (split at white space) or token lists."""
        tokens = [sentence.split() if isinstance(sentence, str) else sentence for sentence in sentences]
        vectors = self._means(tokens)
        if self.direction_1E is not None:
            vectors -= (vectors @ self.direction_1E.T) @ self.direction_1E
        return vectors
