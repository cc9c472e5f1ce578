"""Random vectors of words and of their character n-grams: a baseline that no training precedes.

A word's vector is the sum of the random vectors of its own name and of its n-grams (of those lengths that
fastText has), over the root of their number, so that words which share a spelling are near each other.
Averaged under smooth inverse frequency, it is a strong baseline of similarity (docs/results.md).

Legend of dimension suffixes: N words, E word-vector size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from multiview.words.table import WordTable
from multiview.words.vectors import Float

LENGTHS = (3, 4, 5)
"""Of character n-grams, the marks at both ends of a word included: those of fastText but 6."""

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
