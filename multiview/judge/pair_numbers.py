"""The numbers of pairs of sentences that :mod:`multiview.judge` reads, for many pairs at once.

At the end a table has the formula of each number, over both sides: the first, or second, sentences of all
pairs.

What both sentences of a pair have in common is looked up by keys: numbers that two words, or two arcs, share
if they are the same in the same pair.

Legend of dimension suffixes: n pairs, T words of one side of all pairs, M their arcs, K entries of a table, E
size of word vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from multiview.judge.facts import Flags, Ints, PairFacts, WordClass, all_poles, is_polar
from multiview.pretrained import unit_rows
from multiview.words.table import WordTable
from parsing.trees.batch import concatenated_ranges
from parsing.trees.role_rules import ROLE, ROLES
from runtime.process import cached_property

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
LAST_RANK = 60_000
"""A word of this rank or a later one is as rare as any."""
CHUNK = 1 << 14
"""Pairs of words whose vectors are multiplied at a time."""


class Items:
    """The words, or the arcs, of one side.

    The ``key`` of an item is one number for its pair and for what it says but for its ``sign``. After
    :meth:`compare` ``match`` is 1 if the other side has the item, -1 if it has it with the other sign only,
    else 0.
    """

    pair_count: int
    pair: Ints
    key: Ints
    sign: Ints

    def compare(self, other: Self) -> None:
        """Find the items that the other side has."""
        self.match = _match(self.key, self.sign, other.key, other.sign)

    def share(self, part: NDArray[Any], weight: NDArray[Any] | None = None) -> Floats:
        """Return the weighted mean over each pair's items of ``part``, 0 where there are none: [n]."""
        weight = np.ones(len(self.pair)) if weight is None else weight
        total = np.bincount(self.pair, weight, self.pair_count)
        return np.bincount(self.pair, part * weight, self.pair_count) / np.maximum(total, 1e-9)


class Words(Items):
    """The words [T] of one side. ``is_content`` leaves out particles, which are compared all the same."""

    def __init__(self, pairs: PairFacts, column: int) -> None:
        facts, row_n = pairs.facts, pairs.row_n2[:, column]
        base_number, sign = pairs.forms.columns()
        self.pair_count, self.base_count = len(row_n), len(pairs.forms.bases)
        self.pair, word_T = _items_of_pairs(facts.word_count, row_n)
        self.form = facts.form[word_T]
        self.base_number = base_number[self.form]
        self.key = self.pair * self.base_count + self.base_number
        self.sign = sign[self.form] * facts.sign[word_T]
        self.word_class = facts.word_class[word_T]
        self.is_content: Flags = facts.is_content[word_T] & (self.word_class != WordClass.PARTICLE)
        self.is_compared: Flags = self.is_content | (self.word_class == WordClass.PARTICLE)
        self.is_name: Flags = self.is_content & (self.word_class == WordClass.NAME)
        is_polar_base = np.array([is_polar(base) for base in pairs.forms.bases], bool)
        self.is_polar: Flags = self.is_content | is_polar_base[self.base_number]
        self.is_preposition = facts.is_preposition[word_T]

    def compare(self, other: Self) -> None:
        """Find the words that the other side has, and those that follow the same word there."""
        super().compare(other)
        self.is_lone: Flags = self.is_content & (self.match == 0)
        self.follows_same: Flags = _is_in(self._key_with_word_before(), other._key_with_word_before())

    def _key_with_word_before(self) -> Ints:
        """Number each word together with the word before it, or the begin: [T]."""
        begins = np.append(True, self.pair[1:] != self.pair[:-1])[: len(self.pair)]
        word_before = np.where(begins, self.base_count, np.roll(self.base_number, 1))
        return self.key * (self.base_count + 1) + word_before

    def count(self, words: Flags | Ints) -> Floats:
        """Count the given words in each pair, [n]."""
        return np.bincount(self.pair[words], minlength=self.pair_count).astype(np.float64)


class Arcs(Items):
    """The arcs [M] of one side.

    ``slot`` is one number for pair, role and the head's base, ``dependent`` one for pair and the dependent's
    base. ``sign`` is -1 where one of head and dependent is denied.
    """

    def __init__(self, pairs: PairFacts, column: int) -> None:
        facts, row_n = pairs.facts, pairs.row_n2[:, column]
        base_number, sign = pairs.forms.columns()
        base_count = len(pairs.forms.bases)
        self.pair_count = len(row_n)
        self.pair, arc_M = _items_of_pairs(facts.arc_count, row_n)
        head, dependent = facts.head[arc_M], facts.dependent[arc_M]
        self.slot = (self.pair * len(ROLES) + facts.role[arc_M]) * base_count + base_number[head]
        self.dependent = self.pair * base_count + base_number[dependent]
        self.key = self.slot * base_count + base_number[dependent]
        self.is_comparison: Flags = facts.role[arc_M] == ROLE.THAN
        slot_back = (self.pair * len(ROLES) + facts.role[arc_M]) * base_count + base_number[dependent]
        self.key_back = slot_back * base_count + base_number[head]
        self.sign = facts.arc_sign[arc_M] * sign[head] * sign[dependent]

    def compare(self, other: Self) -> None:
        """Find the arcs that the other side has, and what it has instead of others."""
        super().compare(other)
        is_lone_there = ~_is_in(other.key, self.key)
        self.is_refilled: Flags = (self.match == 0) & _is_in(self.slot, other.slot)
        self.is_turned_comparison: Flags = self.is_comparison & _is_in(self.key_back, other.key)
        self.is_moved: Flags = (self.match == 0) & _is_in(self.dependent, other.dependent[is_lone_there])


def _is_in(key: Ints, others: Ints, *, is_sorted: bool = False) -> Flags:
    """Tell which keys are among others, as np.isin does, faster for keys nearly in order."""
    if not len(others):
        return np.zeros(len(key), bool)
    others = others if is_sorted else np.sort(others)
    place = np.searchsorted(others, key)
    is_in: Flags = others[np.minimum(place, len(others) - 1)] == key
    return is_in


def _items_of_pairs(lengths: Ints, row_n: Ints) -> tuple[Ints, Ints]:
    """Return the pair and the place of each word, or arc, of the sentences ``row_n``."""
    begin = np.cumsum(lengths) - lengths
    pair = np.repeat(np.arange(len(row_n)), lengths[row_n])
    return pair, concatenated_ranges(begin[row_n], lengths[row_n])


def _match(key: Ints, sign: Ints, other_key: Ints, other_sign: Ints) -> Ints:
    """Return 1 where the other side has the key, -1 where it has it with the other sign only, else 0."""
    there = np.sort(2 * other_key + (other_sign > 0))
    has_same, has_other_sign = (
        _is_in(2 * key + (wanted > 0), there, is_sorted=True) for wanted in (sign, -sign)
    )
    return np.where(has_same, 1, -has_other_sign.astype(np.int64))


def _single_words(side: Words) -> tuple[Ints, Ints]:
    """Return key and place of the content words that a sentence has once, in the order of their keys."""
    place = np.flatnonzero(side.is_content)
    key, first, count = np.unique(side.key[place], return_index=True, return_counts=True)
    return key[count == 1], place[first[count == 1]]


def _poles_of_lone_words(
    side: Words, bases: Sequence[str], pole_numbers: dict[str, int]
) -> tuple[Ints, Ints, Ints]:
    """Return word, key (for pair and pole) and sign of each pole of the lone words, [K]; number new poles."""
    rows = []
    for word in np.flatnonzero(side.is_polar & (side.match == 0)).tolist():
        for pole, weight in all_poles(bases[side.base_number[word]]).items():
            rows.append((word, pole_numbers.setdefault(pole, len(pole_numbers)), np.sign(weight)))
    word_K, pole_K, sign_K = np.array(rows, np.int64).reshape(-1, 3).T
    return word_K, pole_K * side.pair_count + side.pair[word_K], sign_K * side.sign[word_K]


class Comparison:
    """Both sides of all pairs, and what several of their numbers need."""

    def __init__(self, pairs: PairFacts, table: WordTable) -> None:
        self.pairs = pairs
        texts = [form.text for form in pairs.forms.forms]
        row_U = table.vocabulary.lookup(texts)
        self.vectors: Vectors = unit_rows(table.rows(0, row_U).float().cpu().numpy())
        rank = row_U.copy()
        for place, text in enumerate(texts):
            if not text.islower():
                rank[place] = table.vocabulary.row(text.lower())
        self.rarity = np.log1p(np.minimum(rank, LAST_RANK)).astype(np.float64)
        self.words = Words(pairs, 0), Words(pairs, 1)
        self.arcs = Arcs(pairs, 0), Arcs(pairs, 1)
        self.words[0].compare(self.words[1])
        self.words[1].compare(self.words[0])
        self.arcs[0].compare(self.arcs[1])
        self.arcs[1].compare(self.arcs[0])

    def weight(self, side: Words) -> Floats:
        """Return the rarity of content words, 0 for others: [T]."""
        weight: Floats = self.rarity[side.form] * side.is_content
        return weight

    def cosine_of_sums(self, weight_of: Callable[[Words], NDArray[Any]]) -> Floats:
        """Return the cosine of the weighted sums of both sides' vectors, 1 where a side has none: [n]."""
        sums = []
        for side in self.words:
            entries = weight_of(side).astype(np.float32), (side.pair, side.form)
            sums.append(unit_rows(csr_array(entries, (side.pair_count, len(self.vectors))) @ self.vectors))
        is_comparable = sums[0].any(axis=1) & sums[1].any(axis=1)
        return np.where(is_comparable, np.einsum("nd,nd->n", *sums), 1)

    @cached_property
    def nearest(self) -> tuple[Floats, Floats]:
        """Each lone word's cosine with the nearest on the other side, or 0; other words have 1: [T]."""
        a, b = self.words
        lone_a, lone_b = np.flatnonzero(a.is_lone), np.flatnonzero(b.is_lone)
        count_b = np.bincount(b.pair[lone_b], minlength=b.pair_count)
        begin_b = np.cumsum(count_b) - count_b
        pair = a.pair[lone_a]
        word_a = np.repeat(lone_a, count_b[pair])
        word_b = lone_b[concatenated_ranges(begin_b[pair], count_b[pair])]
        nearest_a = (~a.is_lone).astype(np.float64)
        nearest_b = (~b.is_lone).astype(np.float64)
        for start in range(0, len(word_a), CHUNK):
            chunk_a, chunk_b = word_a[start : start + CHUNK], word_b[start : start + CHUNK]
            cosine = np.einsum("me,me->m", self.vectors[a.form[chunk_a]], self.vectors[b.form[chunk_b]])
            np.maximum.at(nearest_a, chunk_a, cosine)
            np.maximum.at(nearest_b, chunk_b, cosine)
        return nearest_a, nearest_b

    @cached_property
    def opposed_and_agreeing(self) -> tuple[Floats, Floats]:
        """Count the words that are opposed, and those that agree without being the same.

        What both sides have counts: the smaller number of the two, so that a pair has one either way round.
        """
        bases = list(self.pairs.forms.bases)
        pole_numbers: dict[str, int] = {}
        poles_a, poles_b = (_poles_of_lone_words(side, bases, pole_numbers) for side in self.words)
        counts = []
        for side, own, others in ((self.words[0], poles_a, poles_b), (self.words[1], poles_b, poles_a)):
            match_K = _match(*own[1:], *others[1:])
            opposed, agreeing = (side.count(np.unique(own[0][is_it])) for is_it in (match_K < 0, match_K > 0))
            counts.append((opposed + side.count((side.match < 0) & side.is_compared), agreeing))
        (opposed_a, agreeing_a), (opposed_b, agreeing_b) = counts
        turned = np.maximum(
            *(np.bincount(arcs.pair, arcs.is_turned_comparison, arcs.pair_count) for arcs in self.arcs)
        )  # smaller than the error | larger than the error
        agreeing = np.minimum(agreeing_a, agreeing_b)
        return np.minimum(opposed_a, opposed_b) + turned, np.maximum(agreeing - turned, 0)

    @cached_property
    def moves(self) -> tuple[Floats, Ints]:
        """The inversions and the breaks, [n] each, of the content words that occur once on either side.

        "In May he came home" and "he came home in May" share May, he, came, home, which have the ranks 3, 0,
        1, 2 in the second sentence. Of the six pairs of these words three are in the other order, and
        inversions are 0.5. A break is where the second sentence does not go on as the first does: at the
        begin, where 3 stands for 0, between 3 and 0, and at the end, where 2 stands for 3. A block that moves
        makes three breaks, as here; two that change places without being neighbours make four: a *red* hat on
        a *blue* coat has the ranks 2, 1, 0, 3 in a blue hat on a red coat.
        """
        a, b = self.words
        (key_a, place_a), (key_b, place_b) = _single_words(a), _single_words(b)
        _, index_a, index_b = np.intersect1d(key_a, key_b, assume_unique=True, return_indices=True)
        order = np.argsort(place_a[index_a])
        pair = a.pair[place_a[index_a][order]]
        rank_a = np.arange(len(pair))  # ranks go on from pair to pair, on both sides alike
        rank_b = np.argsort(np.argsort(place_b[index_b][order]))

        count = np.bincount(pair, minlength=a.pair_count)
        is_first = _is_in(rank_a, np.cumsum(count) - count)
        is_last = _is_in(rank_a, np.cumsum(count) - 1)
        goes_on = rank_b == np.append(-2, rank_b[:-1] + 1)[: len(rank_b)]
        breaks_before = np.where(is_first, rank_b != rank_a, ~goes_on)
        breaks_after = is_last & (rank_b != rank_a)
        break_count = np.bincount(pair, breaks_before.astype(np.int64) + breaks_after, a.pair_count)

        inversion_count = np.zeros(a.pair_count)
        for distance in range(1, count.max(initial=0)):
            is_inverted = (pair[distance:] == pair[:-distance]) & (rank_b[distance:] < rank_b[:-distance])
            inversion_count += np.bincount(pair[distance:][is_inverted], minlength=a.pair_count)
        return inversion_count / np.maximum(count * (count - 1) / 2, 1), break_count


def _worst_partner(both: Comparison) -> Floats:
    worst = np.ones(both.words[0].pair_count)
    for side, cosine in zip(both.words, both.nearest, strict=True):
        np.minimum.at(worst, side.pair, np.where(cosine > 0, cosine, 1))
    return worst


def _content_counts(both: Comparison) -> list[Floats]:
    """Count the content words of both sides, at least 1: [n] each."""
    return [np.maximum(side.count(side.is_content), 1) for side in both.words]


def _lone_of_class(both: Comparison, word_class: int) -> list[Floats]:
    """Count the numbers or names of both sides that the other lacks: [n] each."""
    return [side.count(side.is_lone & (side.word_class == word_class)) for side in both.words]


FORMULAS: Mapping[str, Callable[[Comparison], NDArray[Any]]] = {
    "topic": lambda both: both.cosine_of_sums(lambda side: both.rarity[side.form]),
    "arcs": lambda both: np.mean([arcs.share(arcs.match > 0) for arcs in both.arcs], axis=0),
    "turned arcs": lambda both: np.mean([arcs.share(arcs.match < 0) for arcs in both.arcs], axis=0),
    "other fillers": lambda both: np.mean([arcs.share(arcs.is_refilled) for arcs in both.arcs], axis=0),
    "moved": lambda both: np.mean([arcs.share(arcs.is_moved) for arcs in both.arcs], axis=0),
    "words": lambda both: np.mean(
        [side.share(side.match != 0, side.is_content) for side in both.words], axis=0
    ),
    "every word": lambda both: np.mean([side.share(side.match != 0) for side in both.words], axis=0),
    "rare words": lambda both: np.minimum(
        *(side.share(side.match != 0, both.weight(side)) for side in both.words)
    ),
    "near words": lambda both: np.minimum(
        *(
            side.share(cosine, both.weight(side))
            for side, cosine in zip(both.words, both.nearest, strict=True)
        )
    ),
    "opposites": lambda both: both.opposed_and_agreeing[0],
    "agreeing": lambda both: both.opposed_and_agreeing[1],
    "negation": lambda both: np.diff(both.pairs.facts.negation_count[both.pairs.row_n2] % 2)[:, 0] != 0,
    "numbers": lambda both: np.minimum(*_lone_of_class(both, WordClass.NUMBER)),
    "names": lambda both: np.minimum(*_lone_of_class(both, WordClass.NAME)),
    "missing names": lambda both: (
        np.abs(np.subtract(*_lone_of_class(both, WordClass.NUMBER)))
        + np.abs(np.subtract(*_lone_of_class(both, WordClass.NAME)))
    ),
    "other words": lambda both: both.cosine_of_sums(lambda side: side.is_compared & (side.match == 0)),
    "worst partner": _worst_partner,
    "neighbours": lambda both: np.mean([side.share(side.follows_same) for side in both.words], axis=0),
    "inversions": lambda both: both.moves[0],
    "moves": lambda both: both.moves[1] > 0,
    "exchanges": lambda both: both.moves[1] > 3,
    "prepositions": lambda both: np.minimum(
        *(side.count(side.is_preposition & (side.match == 0)) for side in both.words)
    ),
    "length": lambda both: np.abs(np.log(np.divide(*_content_counts(both)))),
    "words in all": lambda both: np.log(np.multiply(*_content_counts(both))) / 2,
    "names in all": lambda both: np.mean(
        [side.share(side.is_name, side.is_content) for side in both.words], axis=0
    ),
    "words alone": lambda both: np.sqrt(np.add(*(side.count(side.is_lone) for side in both.words))),
    "extra words": lambda both: np.sqrt(
        np.abs(np.subtract(*(np.bincount(side.pair, minlength=side.pair_count) for side in both.words)))
    ),
}
"""How each of :data:`multiview.judge.NUMBERS` is computed, [n]; that says what they mean."""


def compute_numbers(pairs: PairFacts, table: WordTable) -> dict[str, NDArray[Any]]:
    """Return the numbers of pairs, [n] each, by their names."""
    both = Comparison(pairs, table)
    return {name: formula(both) for name, formula in FORMULAS.items()}
