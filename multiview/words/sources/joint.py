"""``--vectors A+B``: vectors of several sources side by side.

Every part is multiplied by one number, so that the mean squared length of its vectors is that of its weight
(``0.5*B``), and the whole by another, so that the mean square of its numbers is 1. Skip-gram vectors are
first weighted by the root of a / (a + p), halfway between an average, which classifies better, and smooth
inverse frequency, which is nearer in similarity (docs/recipe.md). A word that a part does not have gets
zeros there.

Legend of dimension suffixes: W words, E size of the joined vectors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from corpora.support.errors import UserError
from corpora.support.files import json_digest
from multiview.config import Case
from multiview.vector_names import TRAIN, Part
from multiview.words.vectors import Float, Source, WordVectors
from multiview.words.vocabulary import Vocabulary, corpus_words, inverse_frequency, words_record

if TYPE_CHECKING:
    from multiview.config import TrainConfig
    from parsing.cache.reader import TreeCache


def joined(
    parts: Sequence[Part],
    sources: Sequence[Source],
    opened: Callable[[Source], WordVectors],
    config: TrainConfig,
    trees: TreeCache,
) -> Source:
    """The vectors of all parts, for the words that ``--vocabulary`` lists.

    Args:
        parts: their weights.
        sources: of each part.
        opened: makes or opens the vectors of one.
        config: of the training.
        trees: the corpus.
    """
    weights = [1.0 if part.weight is None else part.weight for part in parts]
    record = {
        "parts": [dict(source.record) for source in sources],
        "weights": weights,
        **words_record(trees, config.vocabulary),
    }
    about = " and ".join(source.about for source in sources)
    return Source(
        config.vectors or "",
        f"joint-{json_digest(record, 8)}",
        record,
        f"{about}, side by side",
        lambda: _rows(parts, weights, [opened(source) for source in sources], config, trees),
    )


def _rows(
    parts: Sequence[Part],
    weights: Sequence[float],
    vectors: Sequence[WordVectors],
    config: TrainConfig,
    trees: TreeCache,
) -> Iterator[tuple[str, Float]]:
    words, counts_W = corpus_words(trees.type_counts(), config.vocabulary)
    frequency_W = np.sqrt(inverse_frequency(counts_W, 1 + len(counts_W))[1:])
    case: Case = "exact" if config.vocabulary.case == "exact" else "backoff"
    blocks = []
    known_W = np.zeros(len(words), np.bool_)
    for part, weight, given in zip(parts, weights, vectors, strict=True):
        row_W = Vocabulary(given.words, case=case).lookup(words).astype(np.int64)
        block_WE: Float = np.asarray(given.vectors[np.maximum(row_W - 1, 0)], dtype=np.float32)
        if part.source.startswith(TRAIN):
            block_WE = (block_WE - block_WE[row_W > 0].mean(axis=0)) * frequency_W[:, None]
        block_WE[row_W == 0] = 0
        known_W |= row_W > 0
        blocks.append(block_WE * (weight / _length(block_WE)))
    if not known_W.any():
        raise UserError(f"--vectors {config.vectors}: has none of the corpus's words")
    whole_WE = np.concatenate(blocks, axis=1)[known_W]
    whole_WE *= np.sqrt(whole_WE.shape[1]) / _length(whole_WE)
    yield from zip((word for word, known in zip(words, known_W, strict=True) if known), whole_WE, strict=True)


def _length(block_WE: Float) -> float:
    """Root of the mean squared length of vectors [W, E]."""
    return max(float(np.sqrt(np.square(block_WE, dtype=np.float64).sum(axis=1).mean())), 1e-12)


def with_size(config: TrainConfig, part: Part) -> TrainConfig:
    """The configuration under which a part is made: it has a size of its own."""
    table = dataclasses.replace(config.table, dim=part.dim or config.table.dim)
    return dataclasses.replace(config, vectors=part.source, table=table)
