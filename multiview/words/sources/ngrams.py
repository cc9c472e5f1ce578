"""``--vectors ngrams``: random vectors of words and of their character n-grams, weighted by frequency.

A word's vector is the sum of the random vectors of its own name and of its n-grams (of those lengths that
fastText has), over the root of their number, so that words which share a spelling are near each other. No
text is read for it but for the weights, the root of a / (a + p); averaged, it is a strong baseline of
similarity (docs/results.md).

Legend of dimension suffixes: N words, E word-vector size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from corpora.support.errors import UserError
from corpora.support.files import json_digest
from multiview.vector_names import NGRAMS
from multiview.words.table import WordTable
from multiview.words.vectors import Float, Source
from multiview.words.vocabulary import corpus_words, inverse_frequency, words_record

if TYPE_CHECKING:
    from multiview.config import TrainConfig
    from parsing.cache.reader import TreeCache

LENGTHS = (3, 4, 5)
"""Of character n-grams, the marks at both ends of a word included: those of fastText but 6."""
CHUNK = 1024
"""Words at a time."""

Drawn = Callable[[Sequence[str]], Float]
"""Vectors [N, E] of N names."""


def random_vectors(dim: int, seed: int) -> Drawn:
    """A fixed random vector for every name.

    Args:
        dim: E.
        seed: of the vectors.
    """
    table = WordTable.hashed(dim, views=1, seed=seed)

    def drawn(names: Sequence[str]) -> Float:
        rows: Float = table.rows(0, table.vocabulary.lookup(list(names))).detach().numpy()
        return rows

    return drawn


def with_ngrams(drawn: Drawn) -> Drawn:
    """Vectors of words that share what their spellings share.

    Args:
        drawn: a random vector for each name.
    """

    def vectors(tokens: Sequence[str]) -> Float:
        rows = {token: row for row, token in enumerate(dict.fromkeys(tokens))}
        sums = [drawn([token, *ngrams(token)]).sum(0) / np.sqrt(1 + len(ngrams(token))) for token in rows]
        found: Float = np.stack(sums)[[rows[token] for token in tokens]]
        return found

    return vectors


def ngrams(word: str) -> list[str]:
    """Names of a word's character n-grams in lower case: ``<ca``, ``cat``, ``at>``, ``<cat`` … of ``cat``."""
    marked = f"<{word.lower()}>"
    return [f"ngram:{marked[start : start + n]}" for n in LENGTHS for start in range(len(marked) - n + 1)]


def ngrams_of_corpus(config: TrainConfig, trees: TreeCache) -> Source:
    """Vectors of ``--table.dim`` numbers for the words that ``--vocabulary`` lists.

    Args:
        config: of the training.
        trees: the corpus.
    """
    record = {
        **words_record(trees, config.vocabulary),
        "ngrams": list(LENGTHS),
        "dim": config.table.dim,
        "seed": config.seed,
    }
    return Source(
        NGRAMS,
        f"ngrams-{json_digest(record, 8)}",
        record,
        f"random vectors of {config.table.dim} dimensions of words and their character n-grams",
        lambda: _weighted(config, trees),
    )


def _weighted(config: TrainConfig, trees: TreeCache) -> Iterator[tuple[str, Float]]:
    words, counts_W = corpus_words(trees.type_counts(), config.vocabulary)
    if not words:
        raise UserError(f"--vectors {NGRAMS}: {trees.folder} has no word that --vocabulary takes")
    weight_W = np.sqrt(inverse_frequency(counts_W, 1 + len(counts_W))[1:])
    vectors = with_ngrams(random_vectors(config.table.dim, config.seed))
    for start in range(0, len(words), CHUNK):
        chunk = words[start : start + CHUNK]
        yield from zip(chunk, vectors(chunk) * weight_W[start : start + CHUNK, None], strict=True)
