"""The numbers of pairs of sentences that :mod:`multiview.judge` reads, for many pairs at once.

What both sentences of a pair have in common is looked up by keys: numbers that two words, or two arcs, share
if they are the same in the same pair.

Legend of dimension suffixes: n pairs, T words of one side of all pairs, M their arcs, K entries of a table, E
size of word vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from multiview.comparison.facts import Flags, Ints, PairFacts, WordClass
from multiview.encoders.poles import poles
from multiview.pretrained import unit_rows
from multiview.words.table import WordTable
from parsing.trees.batch import places_of_ranges
from parsing.trees.role_rules import ROLES

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
NumbersByName = dict[str, NDArray[Any]]
"""The numbers of pairs, [n] each."""
LAST_RANK = 60_000
"""A word of this rank or a later one is as rare as any."""
CHUNK = 1 << 14
"""Pairs of words whose vectors are multiplied at a time."""


class Words:
    """The words [T] of one side: of the first, or of the second, sentence of each pair.

    A word's ``key`` is one number for its pair and its base. ``sign`` is -1 for a word that is denied or a
    negation by itself. ``is_content`` leaves out particles. After :meth:`compare` ``match`` is 1 if the other
    side has the word, -1 if it has it with the other sign only, else 0; ``is_lone`` are content words with 0.
    """

    def __init__(self, pairs: PairFacts, column: int) -> None:
        facts, row_n = pairs.facts, pairs.row_n2[:, column]
        base_number, sign, word_class = pairs.forms.columns()
        self.pair_count, self.base_count = len(row_n), len(pairs.forms.bases)
        self.pair, word_T = _items_of_pairs(facts.word_count, row_n)
        self.form = facts.form[word_T]
        self.base_number = base_number[self.form]
        self.key = self.pair * self.base_count + self.base_number
        self.sign = sign[self.form] * facts.sign[word_T]
        self.word_class = word_class[self.form]
        self.is_first = facts.is_first[word_T]
        self.is_content: Flags = facts.is_content[word_T] & (self.word_class != WordClass.PARTICLE)
        self.is_preposition = facts.is_preposition[word_T]

    def compare(self, other: Words) -> None:
        """Find the words that the other side has."""
        self.match = _match(self.key, self.sign, other.key, other.sign)
        self.is_lone: Flags = self.is_content & (self.match == 0)

    def of_class(self, word_class: int) -> Flags:
        """Choose the content words of a class, [T]; a word that begins a sentence is no name."""
        is_of_class: Flags = self.is_content & (self.word_class == word_class)
        return is_of_class & ~self.is_first if word_class == WordClass.NAME else is_of_class

    def count(self, words: Flags | Ints) -> Floats:
        """Count the given words in each pair, [n]."""
        return np.bincount(self.pair[words], minlength=self.pair_count).astype(np.float64)

    def share(self, part: NDArray[Any], weight: NDArray[Any]) -> Floats:
        """Return the weighted mean over each pair's words of ``part``, a flag or from 0 to 1: [n]."""
        return _weighted_mean(self.pair, self.pair_count, part, weight)


class Arcs:
    """The arcs [M] of one side: of the first, or of the second, sentence of each pair.

    ``slot`` is one number for pair, role and the head's base, ``dependent`` one for pair and the dependent's
    base, ``key`` one for both. ``sign`` is -1 where one of head and dependent is denied.
    """

    def __init__(self, pairs: PairFacts, column: int) -> None:
        facts, row_n = pairs.facts, pairs.row_n2[:, column]
        base_number, sign, _ = pairs.forms.columns()
        base_count = len(pairs.forms.bases)
        self.pair_count = len(row_n)
        self.pair, arc_M = _items_of_pairs(facts.arc_count, row_n)
        head, dependent = facts.head[arc_M], facts.dependent[arc_M]
        self.slot = (self.pair * len(ROLES) + facts.role[arc_M]) * base_count + base_number[head]
        self.dependent = self.pair * base_count + base_number[dependent]
        self.key = self.slot * base_count + base_number[dependent]
        self.sign = facts.arc_sign[arc_M] * sign[head] * sign[dependent]

    def shares(self, other: Arcs) -> NumbersByName:
        """Return shares of these arcs by what the other side has instead."""
        match = _match(self.key, self.sign, other.key, other.sign)
        is_lone_in_other = ~np.isin(other.key, self.key)
        flags = {
            "arcs": match > 0,
            "turned arcs": match < 0,
            "other fillers": (match == 0) & np.isin(self.slot, other.slot),
            "moved": (match == 0) & np.isin(self.dependent, other.dependent[is_lone_in_other]),
        }
        weight = np.ones(len(self.key))
        return {
            name: _weighted_mean(self.pair, self.pair_count, flag, weight) for name, flag in flags.items()
        }


def _items_of_pairs(lengths: Ints, row_n: Ints) -> tuple[Ints, Ints]:
    """Return the pair and the place of each word, or arc, of the sentences ``row_n``."""
    begin = np.cumsum(lengths) - lengths
    pair = np.repeat(np.arange(len(row_n)), lengths[row_n])
    return pair, places_of_ranges(begin[row_n], lengths[row_n])


def _weighted_mean(pair: Ints, pair_count: int, part: NDArray[Any], weight: NDArray[Any]) -> Floats:
    """Return the weighted mean of each pair's items, 0 where there are none: [n]."""
    total = np.bincount(pair, weight, pair_count)
    return np.bincount(pair, part * weight, pair_count) / np.maximum(total, 1e-9)


def _match(key: Ints, sign: Ints, other_key: Ints, other_sign: Ints) -> Ints:
    """Return 1 where the other side has the key, -1 where it has it with the other sign only, else 0."""
    if not len(other_key):
        return np.zeros(len(key), np.int64)
    sorted_keys, place = np.unique(other_key, return_index=True)
    nearest = np.minimum(np.searchsorted(sorted_keys, key), len(sorted_keys) - 1)
    return np.where(sorted_keys[nearest] == key, sign * other_sign[place[nearest]], 0)


def compute_numbers(pairs: PairFacts, table: WordTable) -> NumbersByName:
    """Return the numbers of pairs, [n] each, by the names of :data:`multiview.judge.NUMBERS`."""
    texts = [form.text for form in pairs.forms.forms]
    vectors = unit_rows(table.rows(0, table.vocabulary.lookup(texts)).float().cpu().numpy())
    rank = table.vocabulary.lookup([text.lower() for text in texts])
    rarity = np.log1p(np.minimum(rank, LAST_RANK)).astype(np.float64)
    a, b = Words(pairs, 0), Words(pairs, 1)
    a.compare(b)
    b.compare(a)
    arcs_a, arcs_b = Arcs(pairs, 0), Arcs(pairs, 1)
    shares_a, shares_b = arcs_a.shares(arcs_b), arcs_b.shares(arcs_a)
    is_odd_n2 = pairs.facts.negation_count[pairs.row_n2] % 2
    return {
        **_shared_words(a, b, vectors, rarity),
        **{name: np.mean([shares_a[name], shares_b[name]], axis=0) for name in shares_a},
        "negation": is_odd_n2[:, 0] != is_odd_n2[:, 1],
        **_opposites(list(pairs.forms.bases), a, b),
        **_lone_words(a, b),
        **_moves(a, b),
        **_sizes(a, b),
    }


def _shared_words(a: Words, b: Words, vectors: Vectors, rarity: Floats) -> NumbersByName:
    sides = (a, b)
    rarities = [rarity[side.form] for side in sides]
    content_shares = [side.share(side.match != 0, side.is_content) for side in sides]
    word_shares = [side.share(side.match != 0, np.ones(len(side.pair))) for side in sides]
    rare_shares, near_shares, unmatched_words = [], [], []
    worst_partner = np.ones(a.pair_count)
    for side, cosine in zip(sides, _nearest_cosines(vectors, a, b), strict=True):
        weight = rarity[side.form] * side.is_content
        rare_shares.append(side.share(side.match != 0, weight))
        near_shares.append(side.share(cosine, weight))
        is_compared = side.is_content | (side.word_class == WordClass.PARTICLE)
        unmatched_words.append(is_compared & (side.match == 0))
        np.minimum.at(worst_partner, side.pair, np.where(cosine > 0, cosine, 1))
    return {
        "topic": _cosine_of_sums(vectors, a, b, *rarities),
        "words": np.mean(content_shares, axis=0),
        "every word": np.mean(word_shares, axis=0),
        "rare words": np.minimum(*rare_shares),
        "near words": np.minimum(*near_shares),
        "other words": _cosine_of_sums(vectors, a, b, *unmatched_words),
        "worst partner": worst_partner,
        "neighbours": np.mean([_follower_share(a, b), _follower_share(b, a)], axis=0),
    }


def _lone_words(a: Words, b: Words) -> NumbersByName:
    """Count what one side has and the other lacks, on both sides or on one."""
    sides = (a, b)
    numerals = [side.count(side.is_lone & side.of_class(WordClass.NUMBER)) for side in sides]
    names = [side.count(side.is_lone & side.of_class(WordClass.NAME)) for side in sides]
    prepositions = [side.count(side.is_preposition & (side.match == 0)) for side in sides]
    return {
        "numbers": np.minimum(*numerals),
        "names": np.minimum(*names),
        "missing names": np.abs(numerals[0] - numerals[1]) + np.abs(names[0] - names[1]),
        "prepositions": np.minimum(*prepositions),
        "words alone": np.sqrt(a.count(a.is_lone) + b.count(b.is_lone)),
    }


def _sizes(a: Words, b: Words) -> NumbersByName:
    content_a, content_b = (np.maximum(side.count(side.is_content), 1) for side in (a, b))
    count_a, count_b = (np.bincount(side.pair, minlength=side.pair_count) for side in (a, b))
    name_shares = [side.share(side.of_class(WordClass.NAME), side.is_content) for side in (a, b)]
    return {
        "length": np.abs(np.log(content_a / content_b)),
        "words in all": np.log(content_a * content_b) / 2,
        "names in all": np.mean(name_shares, axis=0),
        "extra words": np.sqrt(np.abs(count_a - count_b)),
    }


def _follower_share(side: Words, other: Words) -> Floats:
    """Return the share of a side's words that follow the same word on the other side, or begin both: [n]."""
    keys = []
    for words in (side, other):
        begins = np.append(True, words.pair[1:] != words.pair[:-1])[: len(words.pair)]
        word_before = np.where(begins, words.base_count, np.roll(words.base_number, 1))
        keys.append(words.key * (words.base_count + 1) + word_before)
    return side.share(np.isin(keys[0], keys[1]), np.ones(len(side.pair)))


def _moves(a: Words, b: Words) -> NumbersByName:
    """Say how the content words moved that occur exactly once on either side.

    "In May he came home" and "he came home in May" share May, he, came, home, which have the ranks 3, 0, 1, 2
    in the second sentence. Of the six pairs of these words three are in the other order: *inversions* is 0.5.
    A break is where the second sentence does not go on as the first does: at the begin, where 3 stands for 0,
    between 3 and 0, and at the end, where 2 stands for 3. A block that moves makes three breaks, as here; two
    that change places without being neighbours make four: a *red* hat on a *blue* coat has the ranks 2, 1, 0,
    3 in a blue hat on a red coat.
    """
    (key_a, place_a), (key_b, place_b) = _single_words(a), _single_words(b)
    _, index_a, index_b = np.intersect1d(key_a, key_b, assume_unique=True, return_indices=True)
    order = np.argsort(place_a[index_a])
    pair = a.pair[place_a[index_a][order]]
    rank_a = np.arange(len(pair))  # ranks go on from pair to pair, on both sides alike
    rank_b = np.argsort(np.argsort(place_b[index_b][order]))

    count = np.bincount(pair, minlength=a.pair_count)
    is_first = np.isin(rank_a, np.cumsum(count) - count)
    is_last = np.isin(rank_a, np.cumsum(count) - 1)
    goes_on = rank_b == np.append(-2, rank_b[:-1] + 1)[: len(rank_b)]
    breaks_before = np.where(is_first, rank_b != rank_a, ~goes_on)
    breaks_after = is_last & (rank_b != rank_a)
    break_count = np.bincount(pair, breaks_before.astype(np.int64) + breaks_after, a.pair_count)

    inversion_count = np.zeros(a.pair_count)
    for distance in range(1, count.max(initial=0)):
        is_inverted = (pair[distance:] == pair[:-distance]) & (rank_b[distance:] < rank_b[:-distance])
        inversion_count += np.bincount(pair[distance:][is_inverted], minlength=a.pair_count)
    inversions = inversion_count / np.maximum(count * (count - 1) / 2, 1)
    return {"inversions": inversions, "moves": break_count > 0, "exchanges": break_count > 3}


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
    for word in np.flatnonzero(side.is_lone).tolist():
        for pole, weight in poles(bases[side.base_number[word]]).items():
            rows.append((word, pole_numbers.setdefault(pole, len(pole_numbers)), np.sign(weight)))
    word_K, pole_K, sign_K = np.array(rows, np.int64).reshape(-1, 3).T
    return word_K, pole_K * side.pair_count + side.pair[word_K], sign_K * side.sign[word_K]


def _opposites(bases: Sequence[str], a: Words, b: Words) -> NumbersByName:
    """Count the words of each pair that are opposed, and those that agree without being the same."""
    pole_numbers: dict[str, int] = {}
    word_K, key_a, sign_a = _poles_of_lone_words(a, bases, pole_numbers)
    _, key_b, sign_b = _poles_of_lone_words(b, bases, pole_numbers)
    match_K = _match(key_a, sign_a, key_b, sign_b)
    opposed_words = np.unique(word_K[match_K < 0])
    agreeing_words = np.unique(word_K[match_K > 0])
    is_turned = (a.match < 0) & (a.is_content | (a.word_class == WordClass.PARTICLE))
    return {"opposites": a.count(opposed_words) + a.count(is_turned), "agreeing": a.count(agreeing_words)}


def _cosine_of_sums(
    vectors: Vectors, a: Words, b: Words, weight_a: NDArray[Any], weight_b: NDArray[Any]
) -> Floats:
    """Return the cosine of the weighted sums of both sides' vectors, 1 where a side has none: [n]."""
    sums = []
    for side, weight in ((a, weight_a), (b, weight_b)):
        entries = weight.astype(np.float32), (side.pair, side.form)
        sums.append(unit_rows(csr_array(entries, (side.pair_count, len(vectors))) @ vectors))
    is_comparable = sums[0].any(axis=1) & sums[1].any(axis=1)
    return np.where(is_comparable, np.einsum("nd,nd->n", *sums), 1)


def _nearest_cosines(vectors: Vectors, a: Words, b: Words) -> tuple[Floats, Floats]:
    """Return each lone word's cosine with the nearest on the other side, or 0; other words have 1: [T]."""
    lone_a, lone_b = np.flatnonzero(a.is_lone), np.flatnonzero(b.is_lone)
    count_b = np.bincount(b.pair[lone_b], minlength=b.pair_count)
    begin_b = np.cumsum(count_b) - count_b
    pair = a.pair[lone_a]
    word_a = np.repeat(lone_a, count_b[pair])
    word_b = lone_b[places_of_ranges(begin_b[pair], count_b[pair])]
    nearest_a = (~a.is_lone).astype(np.float64)
    nearest_b = (~b.is_lone).astype(np.float64)
    for start in range(0, len(word_a), CHUNK):
        chunk_a, chunk_b = word_a[start : start + CHUNK], word_b[start : start + CHUNK]
        cosine = np.einsum("me,me->m", vectors[a.form[chunk_a]], vectors[b.form[chunk_b]])
        np.maximum.at(nearest_a, chunk_a, cosine)
        np.maximum.at(nearest_b, chunk_b, cosine)
    return nearest_a, nearest_b
