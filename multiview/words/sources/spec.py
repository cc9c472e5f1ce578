"""``--vectors``: a file, a model2vec folder, or a way to make them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from multiview.config import TrainConfig
from multiview.vector_names import DISTIL, TAUGHT, TRAIN
from multiview.words.sources.corpus import trained_on_corpus
from multiview.words.sources.distil import distilled_from
from multiview.words.sources.given import given_source
from multiview.words.sources.taught import taught_by
from multiview.words.vectors import CACHE, Source, WordVectors, converted
from parsing.cache.reader import TreeCache


def open_vectors(config: TrainConfig, trees: TreeCache, cache: Path = CACHE) -> WordVectors:
    """The vectors that ``config.vectors`` names, made the first time and kept in ``cache``.

    Args:
        config: of the training; it names vectors.
        trees: the corpus, whose words are encoded or trained.
        cache: where they are kept.

    Raises:
        UserError: what is named is missing or malformed.
    """
    return converted(_source(config, trees), cache)


def _source(config: TrainConfig, trees: TreeCache) -> Source:
    """Where the vectors come from that ``config.vectors`` names."""
    spec = config.vectors or ""
    if spec == TRAIN:
        return trained_on_corpus(config, trees)
    if spec.startswith(DISTIL):
        return distilled_from(spec.removeprefix(DISTIL), config, trees)
    if spec.startswith(TAUGHT):
        return taught_by(spec.removeprefix(TAUGHT), config, trees)
    return given_source(spec, config.vocabulary.vector_words)


def open_new_words(config: TrainConfig, trees: TreeCache, cache: Path = CACHE) -> WordVectors:
    """The vectors that expand the trained words of ``config``: its ``vocabulary.expand`` first ones.

    ``distil:`` encodes words of the corpus, so these are the most frequent words there, with the rare ones
    that training leaves out.

    Args:
        config: of the training; it names vectors.
        trees: the corpus.
        cache: where they are kept.

    Raises:
        UserError: what is named is missing or malformed.
    """
    most = config.vocabulary.expand
    wanted = dataclasses.replace(config.vocabulary, size=most, min_count=1, vector_words=most)
    return open_vectors(dataclasses.replace(config, vocabulary=wanted), trees, cache)
