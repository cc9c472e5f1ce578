"""Where the words of a new model come from: the corpus, and the vectors that ``--vectors`` names.

These are a file, the encoder in the package, the corpus itself (gensim), or a sentence encoder.

``builtin`` takes the words of the encoder in the package at their first principal components. They know more
than the words of a small corpus, and their licence (CC BY-SA 4.0) goes with the model.

``train`` is skip-gram (Mikolov et al. 2013) with window 5, 5 negatives and 3 passes, or more over a small
corpus. One worker reads the sentences in order, so the same cache and options give the same vectors; more
workers would race for the rows.

``distil:MODEL`` is model2vec's recipe (Tulkens & van Dongen 2024, https://github.com/MinishLab/model2vec):
the encoder's vector of each word by itself, PCA, and smooth inverse frequency weights. Three things differ.
The words are those of the corpus instead of the encoder's pieces. Their frequencies are counted, not guessed
from ranks by Zipf's law, and a is 1e-3 as in Arora et al. 2017. And before they are weighted, all vectors are
multiplied by one number that makes their mean square 1, the scale that word tables of bags start from.

Legend of dimension suffixes: W words, T size of the encoder's vectors, E size of word vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from corpora.characters import plain
from corpora.inputs import input_hash, list_files
from multiview.config import BUILTIN_FOLDER, BUILTIN_WORDS, DISTIL, TRAIN, Start, TableConfig
from multiview.words.compact import packed_words
from multiview.words.table import (
    MEAN_WORDS,
    UNKNOWN_ROW,
    Vocabulary,
    WordTable,
    corpus_words,
    inverse_frequency,
)
from multiview.words.vectors import (
    CACHE,
    DEFAULT_WORDS,
    Float,
    VectorSource,
    WordVectors,
    converted,
    file_source,
)
from parsing.trees.cache import TreeCache
from runtime.errors import MissingExtraError, UserError
from runtime.files import json_digest
from runtime.progress import Bar, progress

SKIP_GRAM = {"window": 5, "negative": 5}
PASSES = {"words": 10_000_000, "least": 3, "most": 20}
"""Read the corpus until so many words are read, but not less or more often than this."""
BLOCK = 4096
"""Sentences read from the cache at a time, and words encoded."""
MODEL_FILES = (".safetensors", ".json", ".txt", ".model")
"""What of an encoder's folder decides its vectors."""


@dataclass(frozen=True, kw_only=True)
class NamedVectors:
    """Makes or opens what ``--vectors`` names, for the words of a corpus."""

    spec: str
    """``builtin``, ``train``, ``distil:MODEL`` or a file."""
    trees: TreeCache
    """The corpus, whose words are trained or encoded."""
    words: TableConfig
    """Which of its words, and the size of vectors that are made."""
    seed: int = 0
    device: str = "auto"
    """Where a sentence encoder encodes them."""
    cache: Path = CACHE
    """Where vectors that were made are kept."""

    def open(self) -> WordVectors:
        """Open the vectors, which are made the first time.

        Raises:
            UserError: what is named is missing or malformed.
        """
        return self._open(DEFAULT_WORDS)

    def open_new_words(self) -> WordVectors:
        """Open vectors that expand trained words: of the ``expand`` first words of a file.

        ``distil:`` encodes as many of the corpus's words, with the rare ones that training leaves out.
        """
        most = self.words.expand
        return replace(self, words=replace(self.words, size=most, buckets=0))._open(most)

    def _open(self, most: int) -> WordVectors:
        """Open the vectors, of a file those of its ``most`` first words."""
        if self.spec == BUILTIN_WORDS:
            return converted(_builtin_source(self.words.dim), self.cache)
        if self.spec != TRAIN and not self.spec.startswith(DISTIL):
            return converted(file_source(self.spec, most), self.cache)
        words, counts_W = corpus_words(self.trees.type_counts(), self.words)
        record = {
            "trees": self.trees.identity["content_sha256"],
            "words": [self.words.size, self.words.min_count, self.words.case],
            "dim": self.words.dim,
        }
        make = self._skip_grams if self.spec == TRAIN else self._distilled
        return converted(make(words, counts_W, record), self.cache)

    def _skip_grams(
        self, words: list[str], counts_W: NDArray[np.int64], record: Mapping[str, object]
    ) -> VectorSource:
        tokens, dim = sum(row.tokens for row in self.trees.rows), self.words.dim
        passes = min(max(PASSES["words"] // max(tokens, 1), PASSES["least"]), PASSES["most"])
        about = f"skip-gram vectors of {dim} dimensions that gensim trained on the same corpus"
        whole = {**record, **SKIP_GRAM, "seed": self.seed, "passes": passes}

        def read() -> Iterator[tuple[str, Float]]:
            if not words:
                folder = self.trees.folder
                raise UserError(
                    f"--vectors {TRAIN}: no word of {folder} occurs twice; give --table.buckets 0"
                )
            counts = dict(zip(words, counts_W.tolist(), strict=True))
            lower = self.words.case == "lower"
            yield from train_skip_grams(self.trees, counts, dim, passes, seed=self.seed, lower=lower)

        return VectorSource(TRAIN, f"{TRAIN}-{json_digest(whole, 8)}", whole, about, read)

    def _distilled(
        self, words: list[str], counts_W: NDArray[np.int64], record: Mapping[str, object]
    ) -> VectorSource:
        from multiview.pretrained import encoder_folder

        model, dim = self.spec.removeprefix(DISTIL), self.words.dim
        folder = encoder_folder(model)
        digest = input_hash(folder, list_files(folder, MODEL_FILES))
        about = (
            f"words of the corpus as `{model}` encodes them one by one (SHA-256 {digest[:16]}), PCA to {dim} "
            "dimensions, weights a / (a + p)"
        )
        whole = {**record, "model": digest}

        def read() -> Iterator[tuple[str, Float]]:
            encoded_WT = encode_words(folder, words, dim, self.device)
            yield from zip(words, reduced(encoded_WT, counts_W, dim), strict=True)

        return VectorSource(self.spec, f"distil-{json_digest(whole, 8)}", whole, about, read)


def new_table(vectors: NamedVectors, mode: str, start: Start, tables: int) -> WordTable:
    """Make the words of a new model.

    Args:
        vectors: what its words are or start from, where they do not start at random.
        mode: ``trained``, ``tuned`` (trained from the vectors on) or ``fixed``.
        start: how trained words begin.
        tables: how many the trained views have.

    Raises:
        UserError: the vectors are missing or malformed, or have none of the corpus's words.
    """
    wanted = vectors.words
    if mode == "fixed":
        fixed = vectors.open()
        listed = Vocabulary(fixed.words, buckets=wanted.buckets, case=wanted.case)
        if not any(0 < listed.row(word) <= len(listed) for word in vectors.trees.type_counts()):
            raise _no_word_in_common(vectors.spec)
        table = WordTable.with_fixed(listed, fixed.vectors)
        table.origin = f"from {fixed.about}"
        return table
    words, counts_W = corpus_words(vectors.trees.type_counts(), wanted)
    vocabulary = Vocabulary(words, buckets=wanted.buckets, case=wanted.case)
    opened = vectors.open() if mode == "tuned" else None
    table = WordTable(vocabulary, wanted.dim if opened is None else opened.dim, views=tables)
    table.initialise(start, counts=counts_W if opened is None else None, seed=vectors.seed)
    if opened is not None:
        start_from(table, opened, vectors.spec)
    return table


def start_from(table: WordTable, vectors: WordVectors, spec: str) -> None:
    """Let the words of trained tables start from the vectors that ``spec`` names.

    A word takes the vector of its own spelling, or else (unless the vocabulary's case is ``exact``) of its
    lower, Capitalised or UPPER case. The unknown word starts from the mean vector, as with fixed vectors.
    Hash buckets and words without a vector start at random, as long as the vectors are on average.

    Raises:
        UserError: no word has a vector.
    """
    vocabulary = table.vocabulary
    listed = Vocabulary(vectors.words, case="exact" if vocabulary.case == "exact" else "backoff")
    places = listed.lookup(vocabulary.words).astype(np.int64) - 1  # row 0 is the unknown word
    rows = 1 + np.flatnonzero(places >= 0)
    if not len(rows):
        raise _no_word_in_common(spec)
    values = torch.from_numpy(np.asarray(vectors.vectors[places[rows - 1]], dtype=np.float32))
    mean_E = torch.from_numpy(np.asarray(vectors.vectors[:MEAN_WORDS]).mean(axis=0))
    with torch.no_grad():
        for rows_of_view in table.tables:
            rows_of_view /= rows_of_view.norm(dim=1, keepdim=True)
            rows_of_view *= values.norm(dim=1).mean()
            rows_of_view[UNKNOWN_ROW] = mean_E
            rows_of_view[torch.from_numpy(rows)] = values
    table.origin = f"{len(rows):,} of them starting from {vectors.about}"


def _no_word_in_common(spec: str) -> UserError:
    return UserError(
        f"--vectors {spec}: has none of the corpus's words; use vectors of the same language and case"
    )


def _builtin_source(dim: int) -> VectorSource:
    """Return the words of the encoder in the package at their first ``dim`` principal components.

    Raises:
        UserError: ``dim`` is more than they have.
    """
    listed, packed = packed_words(BUILTIN_FOLDER)
    width = packed.shape[1]
    if dim > width:
        raise UserError(f"--table.dim {dim}: the words of {BUILTIN_WORDS} have {width} numbers; lower it")

    def read() -> Iterator[tuple[str, Float]]:
        vectors_WE = packed[:]
        # About the origin, as cosines are; their lengths hold the words' weights.
        axes_EE = np.linalg.eigh(vectors_WE.astype(np.float64).T @ vectors_WE)[1][:, ::-1]
        axes_EE = axes_EE * np.sign(axes_EE[np.abs(axes_EE).argmax(axis=0), np.arange(len(axes_EE))])
        yield from zip(listed, (vectors_WE @ axes_EE[:, :dim]).astype(np.float32), strict=True)

    about = f"{len(listed):,} words of the encoder in the package, {dim} of {width} components, CC BY-SA 4.0"
    record = {"model": BUILTIN_FOLDER.name, "dim": dim}
    return VectorSource(BUILTIN_WORDS, f"{BUILTIN_FOLDER.name}-{dim}", record, about, read)


def train_skip_grams(
    trees: TreeCache, counts: Mapping[str, int], dim: int, passes: int, *, seed: int, lower: bool
) -> Iterator[tuple[str, Float]]:
    """Train the vectors of these words, most frequent first, on a corpus; ``lower`` folds its case.

    Raises:
        MissingExtraError: gensim is not installed.
    """
    try:
        from gensim.models import Word2Vec
    except ImportError:
        raise MissingExtraError("gensim", "vectors") from None
    model = Word2Vec(sg=1, vector_size=dim, min_count=1, seed=seed, workers=1, **SKIP_GRAM)
    model.build_vocab_from_freq(dict(counts), corpus_count=len(trees))
    with progress(total=passes * len(trees), description="word vectors") as bar:
        sentences = _Sentences(trees, lower=lower, bar=bar)
        model.train(sentences, total_examples=len(trees), epochs=passes)
    for word in counts:
        yield word, np.asarray(model.wv[word], dtype=np.float32)


@dataclass
class _Sentences:
    """The words of every sentence, as often as gensim asks."""

    trees: TreeCache
    lower: bool
    bar: Bar

    def __iter__(self) -> Iterator[list[str]]:
        # gensim reads each pass in a new thread; a cache belongs to one.
        own = TreeCache(self.trees.folder, self.trees.manifest)
        for start in range(0, len(own), BLOCK):
            for words in own.read(start, min(start + BLOCK, len(own)), ("token",)).words():
                seen = map(plain, words)
                yield [word.lower() for word in seen] if self.lower else list(seen)
                self.bar.update(1)


def encode_words(folder: Path, words: Sequence[str], dim: int, device: str) -> Float:
    """Return a sentence encoder's vectors of words, one by one: [W, T].

    Raises:
        UserError: fewer words, or fewer numbers, than ``dim``, to which they are reduced later.
    """
    from multiview.pretrained import encoded, whole_model
    from runtime.device import pick_device

    model = whole_model(str(folder), str(pick_device(device)))
    width = model.get_embedding_dimension() or 0
    if min(width, len(words)) < dim:
        raise UserError(
            f"--table.dim {dim}: more than the {width} numbers of {folder.name} or the corpus's {len(words)} "
            "words; lower it"
        )
    parts = []
    with progress(total=len(words), unit="word", description=f"distil {folder.name}") as bar:
        for start in range(0, len(words), BLOCK):
            chunk = words[start : start + BLOCK]
            parts.append(encoded(model, str(folder), chunk, 256))
            bar.update(len(chunk))
    return np.concatenate(parts)


def reduced(encoded_WT: Float, counts_W: NDArray[np.int64], dim: int) -> Float:
    """Return the vectors [W, E] of words: PCA, mean square 1, times the words' weights.

    Args:
        encoded_WT: float32 [W, T], a sentence encoder's vectors of the words.
        counts_W: int64 [W], how often each occurs in the corpus.
        dim: E, at most W and T.
    """
    centred_WT = encoded_WT.astype(np.float64)
    centred_WT -= centred_WT.mean(axis=0)
    # The eigenvectors of the covariance are the right singular vectors, at a fraction of the SVD's memory.
    axes_TE = np.linalg.eigh(centred_WT.T @ centred_WT)[1][:, ::-1][:, :dim]
    # An axis may point either way; the largest of its numbers is to be positive.
    axes_TE = axes_TE * np.sign(axes_TE[np.abs(axes_TE).argmax(axis=0), np.arange(dim)])
    projected_WE = centred_WT @ axes_TE
    projected_WE /= np.sqrt(np.mean(projected_WE**2))
    weight_W = inverse_frequency(counts_W, 1 + len(counts_W))[1:]
    result: Float = (projected_WE * weight_W[:, None]).astype(np.float32)
    return result
