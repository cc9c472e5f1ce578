"""Computes the features of pairs of sentences that the judge reads, for many pairs at once.

:data:`FORMULAS` has the formula of each feature.

Legend of dimension suffixes: n pairs, T words of one side of all pairs, U distinct words, E size of word
vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from multiview.judge.comparison import Comparison, Words
from multiview.judge.facts import WordClass
from multiview.judge.weights import Floats
from multiview.libraries.arrays import unit_rows
from multiview.words.table import WordTable
from parsing.trees.batch import concatenated_ranges
from runtime.process import cached_property

FormVectors = NDArray[np.float32]
"""A vector for each distinct word, [U, E]."""
LAST_RANK = 60_000
"""The rank by frequency from which on all words count as equally rare."""
WORD_PAIRS_AT_A_TIME = 1 << 14
"""The number of pairs of words whose vectors are multiplied at a time, to bound the memory."""
MAX_DENSE_WEIGHTS = 256
"""The greatest number of elements of a dense matrix of weights [n, U]; larger ones are sparse.

For a matrix this small it takes ten times as long to build a sparse one.
"""


class ComparedWords:
    """The rarity of the words of a comparison, and the cosines of their vectors."""

    def __init__(self, comparison: Comparison, table: WordTable) -> None:
        self.comparison = comparison
        texts = [form.text for form in comparison.pairs.forms.forms]
        row_U = table.vocabulary.lookup(texts)
        self.vectors: FormVectors = unit_rows(table.rows(0, row_U).float().cpu().numpy())
        rank = row_U.copy()
        for index, text in enumerate(texts):
            if not text.islower():
                rank[index] = table.vocabulary.row(text.lower())
        self.rarity = np.log1p(np.minimum(rank, LAST_RANK)).astype(np.float64)
        """The rarity of each distinct word, [U]: the logarithm of its rank by frequency."""

    def weight(self, side: Words) -> Floats:
        """Return the rarity of the content words, 0 for other words: [T]."""
        weight: Floats = self.rarity[side.form] * side.is_content
        return weight

    def cosine_of_sums(self, weight_of: Callable[[Words], NDArray[Any]]) -> Floats:
        """Return the cosine of the weighted sums of the word vectors of both sentences, [n].

        It is 1 if the sum of one of the sentences is zero. ``weight_of`` returns the weights [T] of a side.
        """
        sums = []
        for side in self.comparison.words:
            weight, shape = weight_of(side).astype(np.float32), (side.pair_count, len(self.vectors))
            if math.prod(shape) <= MAX_DENSE_WEIGHTS:
                dense = np.zeros(shape, np.float32)
                np.add.at(dense, (side.pair, side.form), weight)
                sums.append(unit_rows(np.einsum("nu,ue->ne", dense, self.vectors)))
            else:
                sparse = csr_array((weight, (side.pair, side.form)), shape)
                sums.append(unit_rows(sparse @ self.vectors))
        is_comparable = sums[0].any(axis=1) & sums[1].any(axis=1)
        return np.where(is_comparable, np.einsum("nd,nd->n", *sums), 1)

    @cached_property
    def nearest(self) -> tuple[Floats, Floats]:
        """The cosine of each word with the nearest word of the other sentence, for both sides: [T] each.

        Only content words that the other side lacks are compared with each other; their cosines are at least
        0. All other words have 1.
        """
        a, b = self.comparison.words
        unmatched_a, unmatched_b = np.flatnonzero(a.is_unmatched), np.flatnonzero(b.is_unmatched)
        count_b = np.bincount(b.pair[unmatched_b], minlength=b.pair_count)
        begin_b = np.cumsum(count_b) - count_b
        pair = a.pair[unmatched_a]
        word_a = np.repeat(unmatched_a, count_b[pair])
        word_b = unmatched_b[concatenated_ranges(begin_b[pair], count_b[pair])]
        nearest_a = (~a.is_unmatched).astype(np.float64)
        nearest_b = (~b.is_unmatched).astype(np.float64)
        for first in range(0, len(word_a), WORD_PAIRS_AT_A_TIME):
            end = first + WORD_PAIRS_AT_A_TIME
            chunk_a, chunk_b = word_a[first:end], word_b[first:end]
            cosine = np.einsum("me,me->m", self.vectors[a.form[chunk_a]], self.vectors[b.form[chunk_b]])
            np.maximum.at(nearest_a, chunk_a, cosine)
            np.maximum.at(nearest_b, chunk_b, cosine)
        return nearest_a, nearest_b


def _worst_partner(comparison: Comparison, words: ComparedWords) -> Floats:
    """Return the least positive cosine that a word of each pair has in :attr:`ComparedWords.nearest`, [n].

    A word whose nearest word has no positive cosine counts as 1, like a word that has no partner at all,
    because the weights in the package were fitted with this formula.
    """
    worst = np.ones(comparison.words[0].pair_count)
    for side, cosine in zip(comparison.words, words.nearest, strict=True):
        np.minimum.at(worst, side.pair, np.where(cosine > 0, cosine, 1))
    return worst


def _content_counts(comparison: Comparison) -> list[Floats]:
    """Return the number of content words of each side, at least 1: two arrays [n]."""
    return [np.maximum(side.count(side.is_content), 1) for side in comparison.words]


def _mean(sides: Iterable[Floats]) -> Floats:
    mean: Floats = np.mean([*sides], axis=0)
    return mean


def _least(sides: Iterable[Floats]) -> Floats:
    least: Floats = np.minimum(*sides)
    return least


FORMULAS: Mapping[str, Callable[[Comparison, ComparedWords], NDArray[Any]]] = {
    "topic": lambda comparison, words: words.cosine_of_sums(lambda side: words.rarity[side.form]),
    "arcs": lambda comparison, _: _mean(arcs.share(arcs.match > 0) for arcs in comparison.arcs),
    "turned arcs": lambda comparison, _: _mean(arcs.share(arcs.match < 0) for arcs in comparison.arcs),
    "other fillers": lambda comparison, _: _mean(arcs.share(arcs.is_refilled) for arcs in comparison.arcs),
    "moved": lambda comparison, _: _mean(arcs.share(arcs.is_moved) for arcs in comparison.arcs),
    "words": lambda comparison, _: _mean(
        side.share(side.match != 0, side.is_content) for side in comparison.words
    ),
    "every word": lambda comparison, _: _mean(side.share(side.match != 0) for side in comparison.words),
    "rare words": lambda comparison, words: _least(
        side.share(side.match != 0, words.weight(side)) for side in comparison.words
    ),
    "near words": lambda comparison, words: _least(
        side.share(near, words.weight(side))
        for side, near in zip(comparison.words, words.nearest, strict=True)
    ),
    "opposites": lambda comparison, _: comparison.opposed_and_agreeing[0],
    "agreeing": lambda comparison, _: comparison.opposed_and_agreeing[1],
    "negation": lambda comparison, _: (
        np.diff(comparison.pairs.facts.negation_count[comparison.pairs.row_n2] % 2)[:, 0] != 0
    ),
    "numbers": lambda comparison, _: _least(comparison.unmatched_of_class(WordClass.NUMBER)),
    "names": lambda comparison, _: _least(comparison.unmatched_of_class(WordClass.NAME)),
    "missing names": lambda comparison, _: (
        np.abs(np.subtract(*comparison.unmatched_of_class(WordClass.NUMBER)))
        + np.abs(np.subtract(*comparison.unmatched_of_class(WordClass.NAME)))
    ),
    "other words": lambda comparison, words: words.cosine_of_sums(
        lambda side: side.is_compared & (side.match == 0)
    ),
    "worst partner": _worst_partner,
    "neighbours": lambda comparison, _: _mean(side.share(side.follows_same) for side in comparison.words),
    "inversions": lambda comparison, _: comparison.moves[0],
    "moves": lambda comparison, _: comparison.moves[1] > 0,
    "exchanges": lambda comparison, _: comparison.moves[1] > 3,
    "prepositions": lambda comparison, _: _least(
        side.count(side.is_preposition & (side.match == 0)) for side in comparison.words
    ),
    "length": lambda comparison, _: np.abs(np.log(np.divide(*_content_counts(comparison)))),
    "words in all": lambda comparison, _: np.log(np.multiply(*_content_counts(comparison))) / 2,
    "names in all": lambda comparison, _: _mean(
        side.share(side.is_name, side.is_content) for side in comparison.words
    ),
    "words alone": lambda comparison, _: np.sqrt(
        np.add(*(side.count(side.is_unmatched) for side in comparison.words))
    ),
    "extra words": lambda comparison, _: np.sqrt(
        np.abs(np.subtract(*(np.bincount(side.pair, minlength=side.pair_count) for side in comparison.words)))
    ),
}
"""The formula of each feature, by its name; :data:`multiview.judge.FEATURES` says what the features mean."""


def compute_features(comparison: Comparison, table: WordTable) -> dict[str, NDArray[Any]]:
    """Return the features of the pairs of a comparison, by the names in ``FEATURES``: [n] each."""
    words = ComparedWords(comparison, table)
    return {name: formula(comparison, words) for name, formula in FORMULAS.items()}
