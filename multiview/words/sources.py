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

import dataclasses
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from corpora.characters import plain
from corpora.inputs import input_hash, list_files
from multiview.config import BUILTIN_FOLDER, BUILTIN_WORDS, DISTIL, TRAIN, TrainConfig
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
    Source,
    WordVectors,
    converted,
    given_source,
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


def new_table(config: TrainConfig, trees: TreeCache, cache: Path = CACHE, *, tables: int = 0) -> WordTable:
    """The words of a new model.

    Raises:
        UserError: the vectors are missing or malformed, or have none of the corpus's words.
    """
    wanted = config.table
    if config.words_mode == "fixed":
        vectors = open_vectors(config, trees, cache)
        listed = Vocabulary(vectors.words, buckets=wanted.buckets, case=wanted.case)
        if not any(0 < listed.row(word) <= len(listed) for word in trees.type_counts()):
            raise _no_word_in_common(config)
        fixed = WordTable.with_fixed(listed, vectors.vectors)
        fixed.origin = f"from {vectors.about}"
        return fixed
    words, counts_W = corpus_words(trees.type_counts(), wanted)
    vocabulary = Vocabulary(words, buckets=wanted.buckets, case=wanted.case)
    tables = tables or len(config.view_list)
    if config.words_mode == "tuned":
        return tuned_table(config, vocabulary, open_vectors(config, trees, cache), tables)
    table = WordTable(vocabulary, wanted.dim, views=tables)
    table.initialise(config.encoder.start, counts=counts_W, seed=config.seed)
    return table


def tuned_table(config: TrainConfig, vocabulary: Vocabulary, vectors: WordVectors, tables: int) -> WordTable:
    """Trained tables whose words start from given vectors.

    A word takes the vector of its own spelling, or else (unless the vocabulary's case is ``exact``) of its
    lower, Capitalised or UPPER case. The unknown word starts from the mean vector, as with fixed vectors.
    Hash buckets and words without a vector start at random, as long as the given vectors are on average.

    Raises:
        UserError: no word has a vector.
    """
    given = Vocabulary(vectors.words, case="exact" if vocabulary.case == "exact" else "backoff")
    places = given.lookup(vocabulary.words).astype(np.int64) - 1  # row 0 is the unknown word
    rows = 1 + np.flatnonzero(places >= 0)
    if not len(rows):
        raise _no_word_in_common(config)
    values = torch.from_numpy(np.asarray(vectors.vectors[places[rows - 1]], dtype=np.float32))
    mean_E = torch.from_numpy(np.asarray(vectors.vectors[:MEAN_WORDS]).mean(axis=0))
    table = WordTable(vocabulary, vectors.dim, views=tables)
    table.initialise(config.encoder.start, seed=config.seed)
    with torch.no_grad():
        for rows_of_view in table.tables:
            rows_of_view /= rows_of_view.norm(dim=1, keepdim=True)
            rows_of_view *= values.norm(dim=1).mean()
            rows_of_view[UNKNOWN_ROW] = mean_E
            rows_of_view[torch.from_numpy(rows)] = values
    table.origin = f"{len(rows):,} of them starting from {vectors.about}"
    return table


def _no_word_in_common(config: TrainConfig) -> UserError:
    return UserError(
        f"--vectors {config.vectors}: has none of the corpus's words; use vectors of the same language and "
        "case"
    )


def open_vectors(
    config: TrainConfig, trees: TreeCache, cache: Path = CACHE, *, new_words: bool = False
) -> WordVectors:
    """The vectors that ``config.vectors`` names, made the first time and kept in ``cache``.

    Args:
        config: of the training; it names vectors.
        trees: the corpus, whose words are encoded or trained.
        cache: where they are kept.
        new_words: those that expand the trained words, the ``table.expand`` first ones. ``distil:`` encodes
            the corpus's most frequent words, with the rare ones that training leaves out.

    Raises:
        UserError: what is named is missing or malformed.
    """
    spec, table, limit = config.vectors, config.table, DEFAULT_WORDS
    if new_words:
        limit = table.expand
        table = dataclasses.replace(table, size=limit, buckets=0)
    if not config.makes_vectors:
        return converted(given_source(spec, limit), cache)
    if spec == BUILTIN_WORDS:
        return converted(_builtin_source(table.dim), cache)
    words, counts_W = corpus_words(trees.type_counts(), table)
    record: dict[str, object] = {
        "trees": trees.identity["content_sha256"],
        "words": [table.size, table.min_count, table.case],
        "dim": table.dim,
    }
    if spec == TRAIN:
        tokens = sum(row.tokens for row in trees.rows)
        passes = min(max(PASSES["words"] // max(tokens, 1), PASSES["least"]), PASSES["most"])
        record |= {**SKIP_GRAM, "seed": config.seed, "passes": passes}
        about = f"skip-gram vectors of {table.dim} dimensions that gensim trained on the same corpus"
        read = partial(_skip_grams, config, trees, passes, words, counts_W)
    else:
        from multiview.pretrained import encoder_folder

        folder = encoder_folder(spec.removeprefix(DISTIL))
        record["model"] = input_hash(folder, list_files(folder, MODEL_FILES))
        about = (
            f"words of the corpus as `{spec.removeprefix(DISTIL)}` encodes them one by one (SHA-256 "
            f"{str(record['model'])[:16]}), PCA to {table.dim} dimensions, weights a / (a + p)"
        )
        read = partial(_distilled, config, folder, words, counts_W)
    name = f"{spec.partition(':')[0]}-{json_digest(record, 8)}"
    return converted(Source(spec, name, record, about, read), cache)


def _builtin_source(dim: int) -> Source:
    """The words of the encoder in the package at their first ``dim`` principal components.

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
    return Source(BUILTIN_WORDS, f"{BUILTIN_FOLDER.name}-{dim}", record, about, read)


def _skip_grams(
    config: TrainConfig, trees: TreeCache, passes: int, words: list[str], counts_W: NDArray[np.int64]
) -> Iterator[tuple[str, Float]]:
    try:
        from gensim.models import Word2Vec
    except ImportError:
        raise MissingExtraError("gensim", "vectors") from None
    if not words:
        raise UserError(f"--vectors {TRAIN}: no word of {trees.folder} occurs twice; give --table.buckets 0")
    model = Word2Vec(
        sg=1, vector_size=config.table.dim, min_count=1, seed=config.seed, workers=1, **SKIP_GRAM
    )
    model.build_vocab_from_freq(dict(zip(words, counts_W.tolist(), strict=True)), corpus_count=len(trees))
    with progress(total=passes * len(trees), description="word vectors") as bar:
        sentences = _Sentences(trees, lower=config.table.case == "lower", bar=bar)
        model.train(sentences, total_examples=len(trees), epochs=passes)
    for word in words:
        yield word, np.asarray(model.wv[word], dtype=np.float32)


@dataclasses.dataclass
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


def _distilled(
    config: TrainConfig, folder: Path, words: list[str], counts_W: NDArray[np.int64]
) -> Iterator[tuple[str, Float]]:
    from multiview.pretrained import encoded, whole_model
    from runtime.device import pick_device

    dim = config.table.dim
    model = whole_model(str(folder), str(pick_device(config.device)))
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
    yield from zip(words, reduced(np.concatenate(parts), counts_W, dim), strict=True)


def reduced(encoded_WT: Float, counts_W: NDArray[np.int64], dim: int) -> Float:
    """Vectors [W, E] of words: PCA, mean square 1, times the words' weights.

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
