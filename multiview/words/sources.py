"""The words of a new model and the vectors that they start from, which ``--vectors`` chooses.

- A file: its words and vectors (:mod:`multiview.words.vectors`).
- ``builtin``: the words of the encoder in the package, with the first principal components of their vectors.
- ``train``: skip-gram vectors of the corpus (Mikolov et al. 2013). One worker of gensim trains them, so that
  the same corpus and options give the same vectors.
- ``distil:MODEL``: the recipe of model2vec (Tulkens & van Dongen 2024,
  https://github.com/MinishLab/model2vec). A sentence encoder encodes each word by itself; then come PCA and
  weights by smooth inverse frequency. Here the words and their frequencies are those of the corpus, and the
  vectors have mean square 1 before they are weighted.

Legend of dimension suffixes: W words, T size of the encoder's vectors, E size of word vectors.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from corpora.characters import normalise_text
from corpora.inputs import input_hash, list_files
from multiview.config import BUILTIN_WORDS, DISTIL, TRAIN, NewViewsConfig
from multiview.libraries.pretrained import encode_texts, encoder_folder, load_pretrained
from multiview.model_config import BUILTIN_FOLDER, InitRule, TableConfig
from multiview.words.compact import FIXED_VECTORS, WEIGHTS, unpack
from multiview.words.table import MEAN_WORDS, WordTable
from multiview.words.vectors import (
    CACHE,
    DEFAULT_WORDS,
    Float,
    WordVectors,
    convert_once,
    load_word_vectors,
    read_words,
)
from multiview.words.vocabulary import UNKNOWN_ROW, Vocabulary, corpus_words, sif_weights
from parsing.trees.cache import TreeCache
from runtime.device import pick_device
from runtime.errors import UserError, extra
from runtime.files import json_digest
from runtime.progress import Bar, progress

SKIP_GRAM = {"window": 5, "negative": 5}
PASSES = {"words": 10_000_000, "least": 3, "most": 20}
"""The number of words that gensim reads in all passes over the corpus, and the limits on the passes."""
BLOCK = 4096
"""The number of words encoded at a time."""
MODEL_SUFFIXES = (".safetensors", ".json", ".txt", ".model", ".npy", ".bin")
"""The suffixes of those files of another library's model that decide its vectors."""


@dataclass(frozen=True, kw_only=True)
class WordSource:
    """Makes the word table of a new model, from a corpus and the options of words."""

    trees: TreeCache
    """The corpus."""
    vectors_name: str
    """The value of ``--vectors``."""
    mode: Literal["trained", "tuned", "fixed", "both"]
    """The value of ``--words``, or its default."""
    options: TableConfig
    """The values of ``--table``."""
    init: InitRule
    """The rule by which trained tables are filled."""
    seed: int
    """The seed of random word vectors and of skip-grams."""
    device: str = "cpu"
    """The device on which the sentence encoder of ``distil:`` computes."""
    cache: Path = CACHE
    """The folder in which converted vectors are kept."""
    max_words: int = DEFAULT_WORDS
    """The number of words to read from the top of a file."""

    @classmethod
    def of(cls, config: NewViewsConfig, trees: TreeCache, cache: Path = CACHE) -> Self:
        """Return the word source of a configuration, over the corpus of a tree cache."""
        return cls(
            trees=trees,
            vectors_name=config.vectors,
            mode=config.words_mode,
            options=config.table,
            init=config.encoder.init,
            seed=config.seed,
            device=config.device,
            cache=cache,
        )

    def vectors(self) -> WordVectors:
        """Return the words and vectors that ``--vectors`` chooses."""
        if self.vectors_name == BUILTIN_WORDS:
            return _builtin_vectors(self.options.dim, self.cache)
        if self.vectors_name == TRAIN:
            return self._skip_gram_vectors()
        if self.vectors_name.startswith(DISTIL):
            return self._distilled_vectors()
        return load_word_vectors(self.vectors_name, self.cache, self.max_words)

    def new_words(self) -> WordVectors | None:
        """Return the words that are added to trained ones after training, or None if there are none.

        They are the first ``--table.expand`` words of the file in ``--vectors``. With ``distil:`` they are as
        many words of the corpus, the most frequent ones, among them words that are too rare to be trained.
        """
        max_words = self.options.expand
        if not max_words or self.mode == "fixed":
            return None
        options = replace(self.options, size=max_words, buckets=0)  # without buckets rare words count, too
        return replace(self, options=options, max_words=max_words).vectors()

    def new_table(self, tables: int) -> WordTable:
        """Return the word table of a new model; it has ``tables`` tables if its words are trained.

        Raises UserError if the vectors have none of the corpus's words.
        """
        buckets, case = self.options.buckets, self.options.case
        vectors = None if self.mode == "trained" else self.vectors()
        if vectors is not None and self.mode == "fixed":
            vocabulary = Vocabulary(vectors.words, buckets=buckets, case=case)
            word_rows = range(1, 1 + len(vocabulary))  # without the unknown word and the buckets
            if not any(vocabulary.row(word) in word_rows for word in self.trees.type_counts()):
                raise _no_word_in_common(self.vectors_name)
            table = WordTable.with_fixed(vocabulary, vectors.vectors)
            table.origin = f"from {vectors.summary}"
            return table
        words, counts_W = self._corpus_words()
        dim = self.options.dim if vectors is None else vectors.dim
        table = WordTable(Vocabulary(words, buckets=buckets, case=case), dim, views=tables)
        table.initialise(self.init, counts=counts_W if vectors is None else None, seed=self.seed)
        if vectors is not None:
            start_from(table, vectors, self.vectors_name)
        return table

    def _corpus_words(self) -> tuple[list[str], NDArray[np.int64]]:
        """Return the corpus's words that get vectors of their own, and their counts [W]."""
        return corpus_words(self.trees.type_counts(), self.options)

    def _record(self) -> dict[str, object]:
        """Return the values that decide the corpus's words, their counts and the size of their vectors."""
        words = [self.options.size, self.options.min_count, self.options.case]
        return {"trees": self.trees.identity["content_sha256"], "words": words, "dim": self.options.dim}

    def _skip_gram_vectors(self) -> WordVectors:
        """Return the corpus's words with skip-gram vectors, which gensim trains once."""
        words, counts_W = self._corpus_words()
        dim = self.options.dim
        token_count = sum(row.tokens for row in self.trees.rows)
        passes = min(max(PASSES["words"] // max(token_count, 1), PASSES["least"]), PASSES["most"])
        identity = {**self._record(), **SKIP_GRAM, "seed": self.seed, "passes": passes}

        def read() -> Iterator[tuple[str, Float]]:
            if not words:
                reason = f"no word of {self.trees.folder} occurs twice"
                raise UserError(f"--vectors {TRAIN}: {reason}; give --table.buckets 0")
            with extra("vectors"):
                from gensim.models import Word2Vec
            counts = dict(zip(words, counts_W.tolist(), strict=True))
            model = Word2Vec(sg=1, vector_size=dim, min_count=1, seed=self.seed, workers=1, **SKIP_GRAM)
            model.build_vocab_from_freq(counts, corpus_count=len(self.trees))
            with progress(total=passes * len(self.trees), description="word vectors") as bar:
                sentences = _Sentences(self.trees, lower=self.options.case == "lower", bar=bar)
                model.train(sentences, total_examples=len(self.trees), epochs=passes)
            for word in words:
                yield word, np.asarray(model.wv[word], dtype=np.float32)

        summary = f"skip-gram vectors of {dim} dimensions that gensim trained on the same corpus"
        vector_folder = self.cache / f"{TRAIN}-{json_digest(identity, 8)}"
        return convert_once(vector_folder, identity, read, TRAIN, summary)

    def _distilled_vectors(self) -> WordVectors:
        """Return the corpus's words with vectors by a sentence encoder, which are computed once."""
        words, counts_W = self._corpus_words()
        dim = self.options.dim
        model_name = self.vectors_name.removeprefix(DISTIL)
        folder = encoder_folder(model_name)
        digest = input_hash(folder, list_files(folder, MODEL_SUFFIXES))
        identity = {**self._record(), "model": digest}

        def read() -> Iterator[tuple[str, Float]]:
            model = load_pretrained(str(folder), all_modules=True, device=str(pick_device(self.device)))
            width = model.get_embedding_dimension() or 0
            if min(width, len(words)) < dim:
                raise UserError(
                    f"--table.dim {dim}: more than the {width} numbers of {folder.name} or the corpus's "
                    f"{len(words)} words; lower it"
                )
            blocks = []
            with progress(total=len(words), unit="word", description=f"distil {folder.name}") as bar:
                for first in range(0, len(words), BLOCK):
                    blocks.append(encode_texts(model, str(folder), words[first : first + BLOCK], 256))
                    bar.update(len(blocks[-1]))
            yield from zip(words, distilled_vectors(np.concatenate(blocks), counts_W, dim), strict=True)

        summary = (
            f"words of the corpus as `{model_name}` encodes them one by one (SHA-256 {digest[:16]}), PCA to "
            f"{dim} dimensions, weights a / (a + p)"
        )
        vector_folder = self.cache / f"distil-{json_digest(identity, 8)}"
        return convert_once(vector_folder, identity, read, self.vectors_name, summary)


def _builtin_vectors(dim: int, cache: Path) -> WordVectors:
    """Return the words of the encoder in the package, with the first ``dim`` components of their vectors."""
    words = read_words(BUILTIN_FOLDER / "vocab.txt")
    word_vectors = unpack(load_file(BUILTIN_FOLDER / WEIGHTS))[FIXED_VECTORS]
    width = word_vectors.shape[1]
    if dim > width:
        raise UserError(f"--table.dim {dim}: the words of {BUILTIN_WORDS} have {width} numbers; lower it")

    def read() -> Iterator[tuple[str, Float]]:
        vectors_WT = word_vectors[:]
        # The mean is not subtracted, because cosines are about the origin, too, and because the length of a
        # vector is the weight of its word.
        vectors_WE = (vectors_WT @ principal_axes(vectors_WT, dim)).astype(np.float32)
        yield from zip(words, vectors_WE, strict=True)

    summary = f"{len(words):,} words of the encoder in the package, {dim} of {width} components, CC BY-SA 4.0"
    identity = {"model": BUILTIN_FOLDER.name, "dim": dim}
    return convert_once(cache / f"{BUILTIN_FOLDER.name}-{dim}", identity, read, BUILTIN_WORDS, summary)


def start_from(table: WordTable, vectors: WordVectors, vectors_name: str) -> None:
    """Set the words of trained tables to the vectors that ``vectors_name`` names.

    A word takes the vector of its own spelling or, unless the vocabulary's case is ``exact``, that of its
    lower, Capitalised or UPPER case. The unknown word takes the mean vector, as with fixed vectors. Hash
    buckets and words without a vector keep the direction of their random vectors, and get the mean length of
    the vectors. Raises UserError if no word has a vector.
    """
    vocabulary = table.vocabulary
    source = Vocabulary(vectors.words, case="exact" if vocabulary.case == "exact" else "backoff")
    source_rows = source.lookup(vocabulary.words).astype(np.int64)
    has_vector = source_rows != UNKNOWN_ROW
    rows = 1 + np.flatnonzero(has_vector)
    if not len(rows):
        raise _no_word_in_common(vectors_name)
    word_vectors = vectors.vectors[source_rows[has_vector] - 1]
    values = torch.from_numpy(np.asarray(word_vectors, dtype=np.float32))
    mean_E = torch.from_numpy(np.asarray(vectors.vectors[:MEAN_WORDS]).mean(axis=0))
    with torch.no_grad():
        for rows_of_view in table.tables:
            rows_of_view /= rows_of_view.norm(dim=1, keepdim=True)
            rows_of_view *= values.norm(dim=1).mean()
            rows_of_view[UNKNOWN_ROW] = mean_E
            rows_of_view[torch.from_numpy(rows)] = values
    table.origin = f"{len(rows):,} of them starting from {vectors.summary}"


def _no_word_in_common(vectors_name: str) -> UserError:
    """Return the error for vectors that have none of the corpus's words."""
    return UserError(
        f"--vectors {vectors_name}: has none of the corpus's words; use vectors of the same language and case"
    )


def principal_axes(vectors_WT: NDArray[np.floating], dim: int) -> NDArray[np.float64]:
    """Return the first ``dim`` principal axes of vectors about the origin, [T, E], the largest first.

    They are eigenvectors of XᵀX, which are the right singular vectors of X at a fraction of the memory. An
    eigenvector is defined up to its sign, so the number of largest absolute value is made positive.
    """
    axes_TE = np.linalg.eigh(vectors_WT.astype(np.float64).T @ vectors_WT)[1][:, ::-1][:, :dim]
    largest_E = axes_TE[np.abs(axes_TE).argmax(axis=0), np.arange(dim)]
    result: NDArray[np.float64] = axes_TE * np.sign(largest_E)
    return result


@dataclass
class _Sentences:
    """The words of each sentence of the corpus, which gensim reads once in each pass."""

    trees: TreeCache
    lower: bool
    bar: Bar

    def __iter__(self) -> Iterator[list[str]]:
        # A cache is opened anew for each pass, because gensim reads each in a new thread.
        trees_of_thread = TreeCache(self.trees.folder, self.trees.manifest)
        for words in trees_of_thread.words():
            spellings = [normalise_text(word) for word in words]
            yield [word.lower() for word in spellings] if self.lower else spellings
            self.bar.update(1)


def distilled_vectors(encoder_WT: Float, counts_W: NDArray[np.int64], dim: int) -> Float:
    """Return the vectors [W, E] of words, made from a sentence encoder's vectors of them [W, T].

    They are the first E = ``dim`` principal components, scaled to mean square 1, times the smooth inverse
    frequency of each word. ``counts_W`` are the words' counts in the corpus; E is at most W and T.
    """
    offsets_WT = encoder_WT.astype(np.float64)
    offsets_WT -= offsets_WT.mean(axis=0)
    vectors_WE = offsets_WT @ principal_axes(offsets_WT, dim)
    vectors_WE /= np.sqrt(np.mean(vectors_WE**2))
    weight_W = sif_weights(counts_W, 1 + len(counts_W))[1:]
    result: Float = (vectors_WE * weight_W[:, None]).astype(np.float32)
    return result
