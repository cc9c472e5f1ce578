"""Where the words of a new model come from: the corpus, and the vectors that ``--vectors`` names.

- a file (:mod:`multiview.words.vectors`);
- ``builtin``: the words of the encoder in the package, at their first principal components;
- ``train``: skip-grams of the corpus (Mikolov et al. 2013), by one worker of gensim, so that the same corpus
  and options give the same vectors;
- ``distil:MODEL``: model2vec's recipe (Tulkens & van Dongen 2024, https://github.com/MinishLab/model2vec): a
  sentence encoder's vector of each word by itself, PCA, and smooth inverse frequency weights. Here the words
  and their frequencies are those of the corpus, and vectors have mean square 1 before they are weighted.

Legend of dimension suffixes: W words, T size of the encoder's vectors, E size of word vectors.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from corpora.characters import plain
from corpora.inputs import input_hash, list_files
from multiview.config import BUILTIN_FOLDER, BUILTIN_WORDS, DISTIL, TRAIN, TrainConfig
from multiview.pretrained import encode_texts, encoder_folder, load_pretrained
from multiview.words.compact import FIXED, WEIGHTS, unpack
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
    read_words,
)
from parsing.trees.cache import TreeCache
from runtime.device import pick_device
from runtime.errors import MissingExtraError, UserError
from runtime.files import json_digest
from runtime.progress import Bar, progress

SKIP_GRAM = {"window": 5, "negative": 5}
PASSES = {"words": 10_000_000, "least": 3, "most": 20}
"""Read the corpus until so many words are read, but not less or more often than this."""
BLOCK = 4096
"""Words encoded at a time."""
MODEL_FILES = (".safetensors", ".json", ".txt", ".model")
"""What of an encoder's folder decides its vectors."""


def open_vectors(
    config: TrainConfig, trees: TreeCache, cache: Path = CACHE, most: int = DEFAULT_WORDS
) -> WordVectors:
    """Open what ``--vectors`` names, of a file its ``most`` first words; what is made stays in ``cache``."""
    if config.vectors == BUILTIN_WORDS:
        source = _builtin_source(config.table.dim)
    elif config.vectors == TRAIN:
        source = _skip_grams(config, trees)
    elif config.vectors.startswith(DISTIL):
        source = _distilled(config, trees)
    else:
        source = file_source(config.vectors, most)
    return converted(source, cache)


def open_new_words(config: TrainConfig, trees: TreeCache) -> WordVectors:
    """Open vectors that expand trained words: of the ``--table.expand`` first words of a file.

    ``distil:`` encodes as many of the corpus's words, with the rare ones that training leaves out.
    """
    most = config.table.expand
    table = replace(config.table, size=most, buckets=0)
    return open_vectors(replace(config, table=table), trees, most=most)


def _words_of(
    config: TrainConfig, trees: TreeCache
) -> tuple[list[str], NDArray[np.int64], dict[str, object]]:
    """Return the words of a corpus, their counts [W], and what decides both and the size of vectors."""
    table, content = config.table, trees.identity["content_sha256"]
    record = {"trees": content, "words": [table.size, table.min_count, table.case], "dim": table.dim}
    return *corpus_words(trees.type_counts(), table), record


def _skip_grams(config: TrainConfig, trees: TreeCache) -> VectorSource:
    words, counts_W, record = _words_of(config, trees)
    tokens, dim = sum(row.tokens for row in trees.rows), config.table.dim
    passes = min(max(PASSES["words"] // max(tokens, 1), PASSES["least"]), PASSES["most"])
    about = f"skip-gram vectors of {dim} dimensions that gensim trained on the same corpus"
    whole = {**record, **SKIP_GRAM, "seed": config.seed, "passes": passes}

    def read() -> Iterator[tuple[str, Float]]:
        if not words:
            place = f"no word of {trees.folder} occurs twice"
            raise UserError(f"--vectors {TRAIN}: {place}; give --table.buckets 0")
        try:
            from gensim.models import Word2Vec
        except ImportError:
            raise MissingExtraError("gensim", "vectors") from None
        counts = dict(zip(words, counts_W.tolist(), strict=True))
        model = Word2Vec(sg=1, vector_size=dim, min_count=1, seed=config.seed, workers=1, **SKIP_GRAM)
        model.build_vocab_from_freq(counts, corpus_count=len(trees))
        with progress(total=passes * len(trees), description="word vectors") as bar:
            sentences = _Sentences(trees, lower=config.table.case == "lower", bar=bar)
            model.train(sentences, total_examples=len(trees), epochs=passes)
        yield from ((word, np.asarray(model.wv[word], dtype=np.float32)) for word in words)

    return VectorSource(TRAIN, f"{TRAIN}-{json_digest(whole, 8)}", whole, about, read)


def _distilled(config: TrainConfig, trees: TreeCache) -> VectorSource:
    words, counts_W, record = _words_of(config, trees)
    name, dim = config.vectors.removeprefix(DISTIL), config.table.dim
    folder = encoder_folder(name)
    digest = input_hash(folder, list_files(folder, MODEL_FILES))
    about = (
        f"words of the corpus as `{name}` encodes them one by one (SHA-256 {digest[:16]}), PCA to {dim} "
        "dimensions, weights a / (a + p)"
    )
    whole = {**record, "model": digest}

    def read() -> Iterator[tuple[str, Float]]:
        model = load_pretrained(str(folder), all_modules=True, device=str(pick_device(config.device)))
        width = model.get_embedding_dimension() or 0
        if min(width, len(words)) < dim:
            raise UserError(
                f"--table.dim {dim}: more than the {width} numbers of {folder.name} or the corpus's "
                f"{len(words)} words; lower it"
            )
        parts = []
        with progress(total=len(words), unit="word", description=f"distil {folder.name}") as bar:
            for start in range(0, len(words), BLOCK):
                parts.append(encode_texts(model, str(folder), words[start : start + BLOCK], 256))
                bar.update(len(parts[-1]))
        yield from zip(words, reduced(np.concatenate(parts), counts_W, dim), strict=True)

    return VectorSource(config.vectors, f"distil-{json_digest(whole, 8)}", whole, about, read)


def new_table(config: TrainConfig, trees: TreeCache, tables: int) -> WordTable:
    """Make the words of a new model, with so many ``tables`` if they are trained.

    Vectors that have none of the corpus's words are a UserError.
    """
    wanted, mode = config.table, config.words_mode
    if mode == "fixed":
        fixed = open_vectors(config, trees)
        listed = Vocabulary(fixed.words, buckets=wanted.buckets, case=wanted.case)
        if not any(0 < listed.row(word) <= len(listed) for word in trees.type_counts()):
            raise _no_word_in_common(config.vectors)
        table = WordTable.with_fixed(listed, fixed.vectors)
        table.origin = f"from {fixed.about}"
        return table
    words, counts_W = corpus_words(trees.type_counts(), wanted)
    vocabulary = Vocabulary(words, buckets=wanted.buckets, case=wanted.case)
    opened = open_vectors(config, trees) if mode == "tuned" else None
    table = WordTable(vocabulary, wanted.dim if opened is None else opened.dim, views=tables)
    table.initialise(config.encoder.start, counts=counts_W if opened is None else None, seed=config.seed)
    if opened is not None:
        start_from(table, opened, config.vectors)
    return table


def start_from(table: WordTable, vectors: WordVectors, spec: str) -> None:
    """Let the words of trained tables start from the vectors that ``spec`` names.

    A word takes the vector of its own spelling, or else (unless the vocabulary's case is ``exact``) of its
    lower, Capitalised or UPPER case. The unknown word starts from the mean vector, as with fixed vectors.
    Hash buckets and words without a vector start at random, as long as the vectors are on average.
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
    listed = read_words(BUILTIN_FOLDER / "vocab.txt")
    packed = unpack(load_file(BUILTIN_FOLDER / WEIGHTS))[FIXED]
    width = packed.shape[1]
    if dim > width:
        raise UserError(f"--table.dim {dim}: the words of {BUILTIN_WORDS} have {width} numbers; lower it")

    def read() -> Iterator[tuple[str, Float]]:
        vectors_WE = packed[:]
        # About the origin, as cosines are; their lengths hold the words' weights.
        axes_TE = principal_axes(vectors_WE, dim)
        yield from zip(listed, (vectors_WE @ axes_TE).astype(np.float32), strict=True)

    about = f"{len(listed):,} words of the encoder in the package, {dim} of {width} components, CC BY-SA 4.0"
    record = {"model": BUILTIN_FOLDER.name, "dim": dim}
    return VectorSource(BUILTIN_WORDS, f"{BUILTIN_FOLDER.name}-{dim}", record, about, read)


def principal_axes(vectors_WT: NDArray[np.floating], dim: int) -> NDArray[np.float64]:
    """Return the axes [T, E] along which vectors are longest, the longest first.

    The eigenvectors of XᵀX are the right singular vectors, at a fraction of the SVD's memory. An axis may
    point either way; the largest of its numbers is to be positive.
    """
    axes_TE = np.linalg.eigh(vectors_WT.astype(np.float64).T @ vectors_WT)[1][:, ::-1][:, :dim]
    result: NDArray[np.float64] = axes_TE * np.sign(axes_TE[np.abs(axes_TE).argmax(axis=0), np.arange(dim)])
    return result


@dataclass
class _Sentences:
    """The words of every sentence, as often as gensim asks."""

    trees: TreeCache
    lower: bool
    bar: Bar

    def __iter__(self) -> Iterator[list[str]]:
        # gensim reads each pass in a new thread; a cache belongs to one.
        own = TreeCache(self.trees.folder, self.trees.manifest)
        for words in own.words():
            seen = map(plain, words)
            yield [word.lower() for word in seen] if self.lower else list(seen)
            self.bar.update(1)


def reduced(encoded_WT: Float, counts_W: NDArray[np.int64], dim: int) -> Float:
    """Return the vectors [W, E] of words: PCA, mean square 1, times the words' weights.

    Their ``counts_W`` are those in the corpus; E is ``dim``, at most W and T.
    """
    centred_WT = encoded_WT.astype(np.float64)
    centred_WT -= centred_WT.mean(axis=0)
    projected_WE = centred_WT @ principal_axes(centred_WT, dim)
    projected_WE /= np.sqrt(np.mean(projected_WE**2))
    weight_W = inverse_frequency(counts_W, 1 + len(counts_W))[1:]
    result: Float = (projected_WE * weight_W[:, None]).astype(np.float32)
    return result
