"""Compares the sentences of many pairs: finds once what both have in common and where they differ.

From it the numbers of the pairs are counted (:mod:`multiview.judge.pair_numbers`), their reasons told
(:mod:`multiview.judge.reasons`), and those found of which a rule is certain (:mod:`multiview.judge.certain`).
Each side, the first or second sentences of all pairs, has its words and arcs in columns. What both sentences
of a pair have in common is looked up by keys: numbers that two words, or two arcs, share if they are the same
in the same pair.

Legend of dimension suffixes: n pairs, T words of one side of all pairs, M their arcs, K entries of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from multiview.judge.facts import Flags, Ints, PairFacts, WordClass, all_poles, is_polar
from multiview.judge.typed import DAYS_AND_MONTHS
from multiview.judge.weights import Floats
from parsing.trees.batch import concatenated_ranges
from parsing.trees.role_rules import ROLE, ROLES
from runtime.process import cached_property


class Items:
    """The words, or the arcs, of one side.

    The ``key`` of two items is equal if they are of the same pair and say the same, whatever their ``sign``.
    After :meth:`compare` ``match`` is 1 if the other side has the item, -1 if it has it with the other sign
    only, else 0.
    """

    pair_count: int
    pair: Ints
    """The pair of each item, in order."""
    key: Ints
    sign: Ints

    def compare(self, other: Self) -> None:
        """Find the items that the other side has."""
        self.match = _match(self.key, self.sign, other.key, other.sign)

    def of_pair(self, pair: int) -> slice:
        """Return where the items of a pair are."""
        return slice(*np.searchsorted(self.pair, (pair, pair + 1)).tolist())

    def share(self, part: NDArray[Any], weight: NDArray[Any] | None = None) -> Floats:
        """Return the weighted mean over each pair's items of ``part``, 0 where there are none: [n]."""
        weight = np.ones(len(self.pair)) if weight is None else weight
        total = np.bincount(self.pair, weight, self.pair_count)
        return np.bincount(self.pair, part * weight, self.pair_count) / np.maximum(total, 1e-9)


class Words(Items):
    """The words [T] of one side. ``is_content`` leaves out particles, which are compared all the same.

    ``is_listed`` are those that the parser takes for content, and ``is_polar`` those that a reason may name.
    """

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
        self.is_listed: Flags = facts.is_content[word_T]
        self.is_content: Flags = self.is_listed & (self.word_class != WordClass.PARTICLE)
        self.is_compared: Flags = self.is_content | (self.word_class == WordClass.PARTICLE)
        self.is_name: Flags = self.is_content & (self.word_class == WordClass.NAME)
        is_polar_base = np.array([is_polar(base) for base in pairs.forms.bases], bool)
        self.is_polar: Flags = self.is_content | is_polar_base[self.base_number]
        self.is_preposition = facts.is_preposition[word_T]
        is_date_form = np.array([form.text.lower() in DAYS_AND_MONTHS for form in pairs.forms.forms], bool)
        self.is_value: Flags = (self.word_class == WordClass.NUMBER) | is_date_form[self.form]
        """Numbers, days of the week and months."""

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

    ``arc`` is the index of each in the facts, ``role_key`` one number for pair, role and the head's base,
    ``dependent`` one for pair and the dependent's base. ``sign`` is -1 where one of the two is denied.
    """

    def __init__(self, pairs: PairFacts, column: int) -> None:
        facts, row_n = pairs.facts, pairs.row_n2[:, column]
        base_number, sign = pairs.forms.columns()
        base_count = len(pairs.forms.bases)
        self.pair_count = len(row_n)
        self.pair, arc_M = _items_of_pairs(facts.arc_count, row_n)
        self.arc = arc_M
        head, dependent = facts.head[arc_M], facts.dependent[arc_M]
        self.role_key = (self.pair * len(ROLES) + facts.role[arc_M]) * base_count + base_number[head]
        self.dependent = self.pair * base_count + base_number[dependent]
        self.key = self.role_key * base_count + base_number[dependent]
        self.is_comparison: Flags = facts.role[arc_M] == ROLE.THAN
        role_key_back = (self.pair * len(ROLES) + facts.role[arc_M]) * base_count + base_number[dependent]
        self.key_back = role_key_back * base_count + base_number[head]
        self.sign = facts.arc_sign[arc_M] * sign[head] * sign[dependent]

    def compare(self, other: Self) -> None:
        """Find the arcs that the other side has, and what it has instead of others."""
        super().compare(other)
        is_lone_there = ~_is_in(other.key, self.key)
        self.is_refilled: Flags = (self.match == 0) & _is_in(self.role_key, other.role_key)
        self.is_turned_comparison: Flags = self.is_comparison & _is_in(self.key_back, other.key)
        self.is_moved: Flags = (self.match == 0) & _is_in(self.dependent, other.dependent[is_lone_there])


def _is_in(key: Ints, others: Ints, *, is_sorted: bool = False) -> Flags:
    """Tell which keys are among others, as np.isin does, faster for keys nearly in order."""
    if not len(others):
        return np.zeros(len(key), bool)
    others = others if is_sorted else np.sort(others)
    position = np.searchsorted(others, key)
    is_in: Flags = others[np.minimum(position, len(others) - 1)] == key
    return is_in


def _items_of_pairs(lengths: Ints, row_n: Ints) -> tuple[Ints, Ints]:
    """Return the pair and the index of each word, or arc, of the sentences ``row_n``."""
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
    """Return key and index of the content words that a sentence has once, in the order of their keys."""
    position = np.flatnonzero(side.is_content)
    key, first, count = np.unique(side.key[position], return_index=True, return_counts=True)
    return key[count == 1], position[first[count == 1]]


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
    """Both sides of all pairs, each with what the other has of it."""

    def __init__(self, pairs: PairFacts) -> None:
        self.pairs = pairs
        self.words = Words(pairs, 0), Words(pairs, 1)
        self.arcs = Arcs(pairs, 0), Arcs(pairs, 1)
        self.words[0].compare(self.words[1])
        self.words[1].compare(self.words[0])
        self.arcs[0].compare(self.arcs[1])
        self.arcs[1].compare(self.arcs[0])

    def lone_of_class(self, word_class: int) -> list[Floats]:
        """Count the numbers or names of both sides that the other lacks: [n] each."""
        return [side.count(side.is_lone & (side.word_class == word_class)) for side in self.words]

    @property
    def differ_in_one_thing(self) -> Flags:
        """Which pairs differ by numbers, days and months alone, or by opposites alone: [n].

        Of numbers, days and months either side must have as many that the other lacks.
        """
        lone_n = np.add(*(side.count(side.is_lone) for side in self.words))
        value_n = np.minimum(*(side.count(side.is_lone & side.is_value) for side in self.words))
        opposed_n, agreeing_n = self.opposed_and_agreeing
        are_values_n = (value_n > 0) & (lone_n == 2 * value_n)
        is_turned_n = (opposed_n > 0) & (agreeing_n == 0) & (self.moves[1] <= 0)
        differ_n: Flags = are_values_n | (is_turned_n & ((lone_n == 0) | (lone_n == 2 * opposed_n)))
        return differ_n

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
        (key_a, position_a), (key_b, position_b) = _single_words(a), _single_words(b)
        _, index_a, index_b = np.intersect1d(key_a, key_b, assume_unique=True, return_indices=True)
        order = np.argsort(position_a[index_a])
        pair = a.pair[position_a[index_a][order]]
        rank_a = np.arange(len(pair))  # ranks go on from pair to pair, on both sides alike
        rank_b = np.argsort(np.argsort(position_b[index_b][order]))

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
