"""Compares the two sentences of each of many pairs: which words and arcs both have, and which only one has.

Three modules read a comparison: :mod:`multiview.judge.pair_features` computes the features of the pairs,
:mod:`multiview.judge.reasons` finds the reasons, and :mod:`multiview.judge.limits` finds the pairs that a
rule settles. A *side* is the first, or the second, sentences of all pairs; its words and arcs are columns.
Words, or arcs, of the two sides are matched by keys: integers that are equal if the words, or the arcs, are
the same in the same pair.

Legend of dimension suffixes: n pairs, T words of one side of all pairs, M their arcs, K entries of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from multiview.judge.facts import Flags, Ints, PairFacts, WordClass, all_poles, has_judge_poles
from multiview.judge.one_form import DAYS_AND_MONTHS
from multiview.judge.weights import Floats
from parsing.trees.batch import concatenated_ranges
from parsing.trees.role_rules import ROLE, ROLES
from runtime.process import cached_property


class WordKeys(NamedTuple):
    """The words [T] of one side, with the keys by which they are looked up on the other side."""

    pair: Ints
    """The pair of each word, in ascending order."""
    word: Ints
    """The index of each word in the facts."""
    base_index: Ints
    key: Ints
    """One integer for pair and base."""
    key_with_word_before: Ints
    """One integer for pair, base, and base of the word before, or the beginning of the sentence."""
    sign: Ints

    @classmethod
    def of(cls, pairs: PairFacts, column: int) -> Self:
        """Return the words of the first (``column`` 0) or of the second sentences of the pairs."""
        facts, base_count = pairs.facts, len(pairs.forms.bases)
        pair, word = _items_of_pairs(facts.word_count, pairs.row_n2[:, column])
        base_index_U, sign_U = pairs.forms.columns()
        base_index = base_index_U[facts.form[word]]
        key = pair * base_count + base_index
        is_first = np.append(True, pair[1:] != pair[:-1])[: len(pair)]
        base_before = np.where(is_first, base_count, np.roll(base_index, 1))
        key_with_word_before = key * (base_count + 1) + base_before
        sign = sign_U[facts.form[word]] * facts.sign[word]
        return cls(pair, word, base_index, key, key_with_word_before, sign)


class ArcKeys(NamedTuple):
    """The arcs [M] of one side, with the keys by which they are looked up on the other side."""

    pair: Ints
    """The pair of each arc, in ascending order."""
    arc: Ints
    """The index of each arc in the facts."""
    key: Ints
    """One integer for pair, role, base of the head and base of the dependent."""
    reversed_key: Ints
    """The key of the arc whose head and dependent are exchanged."""
    role_key: Ints
    """One integer for pair, role and base of the head."""
    dependent_key: Ints
    """One integer for pair and base of the dependent."""
    sign: Ints

    @classmethod
    def of(cls, pairs: PairFacts, column: int) -> Self:
        """Return the arcs of the first (``column`` 0) or of the second sentences of the pairs."""
        facts, base_count = pairs.facts, len(pairs.forms.bases)
        pair, arc = _items_of_pairs(facts.arc_count, pairs.row_n2[:, column])
        base_index_U, sign_U = pairs.forms.columns()
        head, dependent = facts.head[arc], facts.dependent[arc]
        pair_and_role = pair * len(ROLES) + facts.role[arc]
        role_key = pair_and_role * base_count + base_index_U[head]
        reversed_role_key = pair_and_role * base_count + base_index_U[dependent]
        return cls(
            pair=pair,
            arc=arc,
            key=role_key * base_count + base_index_U[dependent],
            reversed_key=reversed_role_key * base_count + base_index_U[head],
            role_key=role_key,
            dependent_key=pair * base_count + base_index_U[dependent],
            sign=facts.arc_sign[arc] * sign_U[head] * sign_U[dependent],
        )


class Items:
    """The words, or the arcs, of one side, compared with those of the other side.

    Two items have the same ``key`` if they are of the same pair and have the same bases, whatever their
    ``sign`` is. ``match`` is 1 if the other side has the item, -1 if it has it with the other sign only, and
    0 if it does not have it.
    """

    def __init__(self, pair_count: int, own: WordKeys | ArcKeys, other: WordKeys | ArcKeys) -> None:
        self.pair_count = pair_count
        self.pair, self.key, self.sign = own.pair, own.key, own.sign
        self.match = _match(own.key, own.sign, other.key, other.sign)

    def of_pair(self, pair: int) -> slice:
        """Return the slice of the items that belong to a pair."""
        return slice(*np.searchsorted(self.pair, (pair, pair + 1)).tolist())

    def share(self, part: NDArray[Any], weight: NDArray[Any] | None = None) -> Floats:
        """Return the weighted mean of ``part`` over the items of each pair, 0 if a pair has none: [n]."""
        weight = np.ones(len(self.pair)) if weight is None else weight
        total = np.bincount(self.pair, weight, self.pair_count)
        return np.bincount(self.pair, part * weight, self.pair_count) / np.maximum(total, 1e-9)


class Words(Items):
    """The words [T] of one side, compared with those of the other side."""

    def __init__(self, pairs: PairFacts, own: WordKeys, other: WordKeys) -> None:
        super().__init__(len(pairs.row_n2), own, other)
        facts = pairs.facts
        self.base_index = own.base_index
        self.form = facts.form[own.word]
        self.word_class = facts.word_class[own.word]
        self.is_parsed_as_content: Flags = facts.is_content[own.word]
        """Which words the parser takes for content words."""
        self.is_content: Flags = self.is_parsed_as_content & (self.word_class != WordClass.PARTICLE)
        """Which words are content words but no particles."""
        self.is_compared: Flags = self.is_content | (self.word_class == WordClass.PARTICLE)
        self.is_name: Flags = self.is_content & (self.word_class == WordClass.NAME)
        has_poles = np.array([has_judge_poles(base) for base in pairs.forms.bases], bool)
        self.is_content_or_has_poles: Flags = self.is_content | has_poles[self.base_index]
        """Which words a reason may name: content words, and function words with poles for the judge alone."""
        self.is_preposition = facts.is_preposition[own.word]
        is_date_form = np.array([form.text.lower() in DAYS_AND_MONTHS for form in pairs.forms.forms], bool)
        self.is_value: Flags = (self.word_class == WordClass.NUMBER) | is_date_form[self.form]
        """Which words are numbers, days of the week or months."""
        self.is_unmatched: Flags = self.is_content & (self.match == 0)
        """Which content words the other side lacks."""
        self.follows_same: Flags = _is_in(own.key_with_word_before, other.key_with_word_before)
        """Which words have the same word before them on the other side."""

    def count(self, words: Flags | Ints) -> Floats:
        """Return how many of the given words each pair has, [n]."""
        return np.bincount(self.pair[words], minlength=self.pair_count).astype(np.float64)


class Arcs(Items):
    """The arcs [M] of one side, compared with those of the other side."""

    def __init__(self, pairs: PairFacts, own: ArcKeys, other: ArcKeys) -> None:
        super().__init__(len(pairs.row_n2), own, other)
        self.arc = own.arc
        """The index of each arc in the facts."""
        self.is_refilled: Flags = (self.match == 0) & _is_in(own.role_key, other.role_key)
        """Which arcs the other side lacks, although it has another dependent in the same role of the head."""
        is_comparison = pairs.facts.role[own.arc] == ROLE.THAN
        self.is_turned_comparison: Flags = is_comparison & _is_in(own.reversed_key, other.key)
        """Which arcs are comparisons that the other side has with exchanged words."""
        is_unmatched_there = ~_is_in(other.key, own.key)
        self.is_moved: Flags = (self.match == 0) & _is_in(
            own.dependent_key, other.dependent_key[is_unmatched_there]
        )
        """Which arcs the other side lacks, although it has the dependent in an arc that this side lacks."""


def _is_in(key: Ints, others: Ints, *, is_sorted: bool = False) -> Flags:
    """Return which keys are among others, as np.isin does, but faster for keys that are nearly sorted."""
    if not len(others):
        return np.zeros(len(key), bool)
    others = others if is_sorted else np.sort(others)
    position = np.searchsorted(others, key)
    is_in: Flags = others[np.minimum(position, len(others) - 1)] == key
    return is_in


def _items_of_pairs(lengths: Ints, row_n: Ints) -> tuple[Ints, Ints]:
    """Return the pair and the index of each word, or arc, of the sentences ``row_n``.

    ``lengths`` [S] has the number of words, or arcs, of every sentence.
    """
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
    """Return key and index of the content words that occur once in their sentence, sorted by key."""
    position = np.flatnonzero(side.is_content)
    key, first, count = np.unique(side.key[position], return_index=True, return_counts=True)
    return key[count == 1], position[first[count == 1]]


def _poles_of_unmatched_words(
    side: Words, bases: Sequence[str], pole_indices: dict[str, int]
) -> tuple[Ints, Ints, Ints]:
    """Return word, key (one integer for pair and pole) and sign of each pole of the unmatched words, [K].

    Poles that ``pole_indices`` does not have yet are added to it.
    """
    rows = []
    for word in np.flatnonzero(side.is_content_or_has_poles & (side.match == 0)).tolist():
        for pole, weight in all_poles(bases[side.base_index[word]]).items():
            rows.append((word, pole_indices.setdefault(pole, len(pole_indices)), np.sign(weight)))
    word_K, pole_K, sign_K = np.array(rows, np.int64).reshape(-1, 3).T
    return word_K, pole_K * side.pair_count + side.pair[word_K], sign_K * side.sign[word_K]


class Comparison:
    """The words and the arcs of both sides of all pairs, compared with each other."""

    def __init__(self, pairs: PairFacts) -> None:
        self.pairs = pairs
        first_words, second_words = WordKeys.of(pairs, 0), WordKeys.of(pairs, 1)
        first_arcs, second_arcs = ArcKeys.of(pairs, 0), ArcKeys.of(pairs, 1)
        self.words = Words(pairs, first_words, second_words), Words(pairs, second_words, first_words)
        self.arcs = Arcs(pairs, first_arcs, second_arcs), Arcs(pairs, second_arcs, first_arcs)

    def unmatched_of_class(self, word_class: int) -> list[Floats]:
        """Return how many words of a class, such as names, each side has that the other lacks: two of [n]."""
        return [side.count(side.is_unmatched & (side.word_class == word_class)) for side in self.words]

    @property
    def differ_in_one_thing(self) -> Flags:
        """Whether each pair differs by numbers, days and months alone, or by opposites alone: [n].

        Both sides must have the same number of numbers, days and months that the other side lacks.
        """
        unmatched_n = np.add(*(side.count(side.is_unmatched) for side in self.words))
        value_n = np.minimum(*(side.count(side.is_unmatched & side.is_value) for side in self.words))
        opposed_n, agreeing_n = self.opposed_and_agreeing
        are_values_n = (value_n > 0) & (unmatched_n == 2 * value_n)
        is_turned_n = (opposed_n > 0) & (agreeing_n == 0) & (self.moves[1] <= 0)
        differ_n: Flags = are_values_n | (is_turned_n & ((unmatched_n == 0) | (unmatched_n == 2 * opposed_n)))
        return differ_n

    @cached_property
    def opposed_and_agreeing(self) -> tuple[Floats, Floats]:
        """Return how many words are opposed, and how many other words agree by their poles: [n] each.

        Both are counted on each side, and the smaller count is taken, so that the order of the two sentences
        does not matter.
        """
        bases = list(self.pairs.forms.bases)
        pole_indices: dict[str, int] = {}
        poles_a, poles_b = (_poles_of_unmatched_words(side, bases, pole_indices) for side in self.words)
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
        """The share of inversions and the number of breaks, [n] each, of the words that both sides have once.

        Only content words are counted.

        "In May he came home" and "he came home in May" share May, he, came, home, which have the ranks 3, 0,
        1, 2 in the second sentence. Of the six pairs of these words three are in the other order, and
        inversions are 0.5. A break is a place where the next rank of the second sentence is not one more than
        the rank before: here at the beginning (3 in place of 0), between 3 and 0, and at the end (2 in place
        of 3). A block that moves makes three breaks, as here. Two blocks that change places without being
        neighbours make four: the words of "a red hat on a blue coat" have the ranks 2, 1, 0, 3 in "a blue hat
        on a red coat".
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
