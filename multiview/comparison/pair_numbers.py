"""The numbers of pairs of sentences that :mod:`multiview.judge` reads, of many pairs at once.

Words and arcs of each side are keys that hold the pair, so that what two sentences have in common is a search
in sorted keys.

Legend of dimension suffixes: n pairs, T words of one side of all pairs, M their arcs, E size of word vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from multiview.comparison.facts import Flags, Ints, ReadPairs, WordClass
from multiview.encoders.poles import poles
from multiview.pretrained import unit_rows
from multiview.words.table import WordTable
from parsing.trees.batch import places_of_ranges
from parsing.trees.role_rules import ROLES

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
Numbers = dict[str, NDArray[Any]]
"""The numbers of pairs, [n] each, by name."""
RARE = 60_000
"""Rank of a word that counts as rare as any."""
CHUNK = 1 << 14
"""Pairs of words whose vectors are multiplied at a time."""


class PairSide:
    """Holds the words [T] and arcs [M] of one sentence of each pair.

    A key is a number that two sides share if they share what it stands for in the same pair.
    """

    pairs: int
    """n."""
    bases: int
    """How many bases all sentences have."""
    odd: Ints
    """[n], 1 of a sentence that denies an odd number of words."""
    pair: Ints
    """[T], the pair that a word is of."""
    word: Ints
    """[T], the place of its form."""
    base: Ints
    """[T], the number of its base."""
    key: Ints
    """[T], of pair and base."""
    sign: Ints
    """[T], -1 of a word that is denied or a negation by itself."""
    word_class: Ints
    """[T], a :class:`WordClass` or 0."""
    first: Flags
    """[T], whether it begins its sentence."""
    content: Flags
    """[T], whether it is a content word, and no particle."""
    preposition: Flags
    match: Ints
    """[T], 1 of a word that the other side has, -1 of one that it has with another sign alone, else 0."""
    lone: Flags
    """[T], the content words that the other side does not have."""
    arc_pair: Ints
    """[M], the pair that an arc is of."""
    slot: Ints
    """[M], the key of a role and its head."""
    filler: Ints
    """[M], the key of the dependent's base."""
    arc: Ints
    """[M], the key of slot and filler."""
    arc_sign: Ints
    """[M], -1 where one of the two is denied."""

    def __init__(self, read: ReadPairs, column: int) -> None:
        facts, row_n, self.bases = read.facts, read.rows[:, column], len(read.forms.bases)
        base, sign, word_class = np.array([form[2:] for form in read.forms.listed], np.int64).reshape(-1, 3).T
        self.pairs, self.odd = len(row_n), facts.negations[row_n] % 2
        self.pair, item = _expanded(facts.words, row_n)
        self.word, self.first, self.preposition = facts.word[item], facts.first[item], facts.preposition[item]
        self.base, self.sign = base[self.word], sign[self.word] * facts.denied[item]
        self.key, self.word_class = self.pair * self.bases + self.base, word_class[self.word]
        self.content = facts.content[item] & (self.word_class != WordClass.PARTICLE)
        self.arc_pair, arc = _expanded(facts.arcs, row_n)
        head, dependent = facts.head[arc], facts.dependent[arc]
        self.slot = (self.arc_pair * len(ROLES) + facts.role[arc]) * self.bases + base[head]
        self.filler = self.arc_pair * self.bases + base[dependent]
        self.arc = self.slot * self.bases + base[dependent]
        self.arc_sign = facts.turned[arc] * sign[head] * sign[dependent]

    def compare(self, other: PairSide) -> None:
        """Find the words that the other side has."""
        self.match = _matched(self.key, other.key, self.sign, other.sign)
        self.lone = self.content & (self.match == 0)

    def count(self, chosen: Flags | Ints) -> Floats:
        """Count the words of each pair that are chosen, [n]."""
        return np.bincount(self.pair[chosen], minlength=self.pairs).astype(np.float64)

    def of_class(self, word_class: int) -> Flags:
        """Choose the content words of a class, [T]; a word that begins a sentence is no name."""
        chosen: Flags = self.content & (self.word_class == word_class)
        return chosen & ~self.first if word_class == WordClass.NAME else chosen

    def share(self, chosen: NDArray[Any], weight: NDArray[Any]) -> Floats:
        """Return the share of each pair's words that is chosen, by weight, 0 where there are none: [n]."""
        return _share(self.pair, self.pairs, chosen, weight)


def _share(pair: Ints, pairs: int, chosen: NDArray[Any], weight: NDArray[Any]) -> Floats:
    part, whole = (np.bincount(pair, of, pairs) for of in (chosen * weight, weight))
    return part / np.maximum(whole, 1e-9)


def _expanded(lengths: Ints, row_n: Ints) -> tuple[Ints, Ints]:
    """Return the pair and the place of each item of each pair's sentence."""
    begin = np.cumsum(lengths) - lengths
    return np.repeat(np.arange(len(row_n)), lengths[row_n]), places_of_ranges(begin[row_n], lengths[row_n])


def _matched(key: Ints, others: Ints, sign: Ints, other_sign: Ints) -> Ints:
    """Give 1 where the key is among the others, -1 where it is with another sign alone, else 0."""
    if not len(others):
        return np.zeros(len(key), np.int64)
    sorted_keys, place = np.unique(others, return_index=True)
    nearest = np.minimum(np.searchsorted(sorted_keys, key), len(sorted_keys) - 1)
    return np.where(sorted_keys[nearest] == key, sign * other_sign[place[nearest]], 0)


def numbers(read: ReadPairs, words: WordTable) -> Numbers:
    """Return the numbers of pairs, [n] each, by the names of :data:`multiview.judge.NUMBERS`."""
    types = [form.text for form in read.forms.listed]
    vectors = unit_rows(words.rows(0, words.vocabulary.lookup(types)).float().cpu().numpy())
    rank = np.minimum(words.vocabulary.lookup([word.lower() for word in types]), RARE)
    a, b = PairSide(read, 0), PairSide(read, 1)
    a.compare(b)
    b.compare(a)
    return {
        **_shared_words(a, b, vectors, np.log1p(rank).astype(np.float64)),
        **_arcs(a, b),
        **_opposites(list(read.forms.bases), a, b),
        **_lone_words(a, b),
        **_moves(a, b),
        **_sizes(a, b),
    }


def _shared_words(a: PairSide, b: PairSide, vectors: Vectors, rarity: Floats) -> Numbers:
    sides = a, b
    rare = [rarity[side.word] * side.content for side in sides]
    near = _nearest(vectors, a, b)
    worst = np.ones(a.pairs)
    for side, nearness in zip(sides, near, strict=True):
        np.minimum.at(worst, side.pair, np.where(nearness > 0, nearness, 1))  # 0: no partner
    others = [(side.lone | (side.word_class == WordClass.PARTICLE)) & (side.match == 0) for side in sides]
    followers = [_followers(a, b), _followers(b, a)]
    return {
        "topic": _cosine(vectors, a, b, *(rarity[side.word] for side in sides)),
        "words": np.mean([side.share(side.match != 0, side.content) for side in sides], axis=0),
        "every word": np.mean(
            [side.share(side.match != 0, np.ones(len(side.pair))) for side in sides], axis=0
        ),
        "rare words": np.minimum(*(x.share(x.match != 0, own) for x, own in zip(sides, rare, strict=True))),
        "near words": np.minimum(*(x.share(n, own) for x, n, own in zip(sides, near, rare, strict=True))),
        "other words": _cosine(vectors, a, b, *others),
        "worst partner": worst,
        "neighbours": np.mean(followers, axis=0),
    }


def _arcs(a: PairSide, b: PairSide) -> Numbers:
    """Compare the arcs, as shares of those of a side, the mean of both sides."""
    shares: list[list[Floats]] = []
    for side, other in ((a, b), (b, a)):
        match = _matched(side.arc, other.arc, side.arc_sign, other.arc_sign)
        filled = (match == 0) & np.isin(side.slot, other.slot)
        moved_fillers = (match == 0) & np.isin(side.filler, other.filler[~np.isin(other.arc, side.arc)])
        chosen = (match > 0, match < 0, filled, moved_fillers)
        shares.append([_share(side.arc_pair, side.pairs, arcs, np.ones(len(match))) for arcs in chosen])
    both, turned_arcs, filled_otherwise, of_moved = np.mean(shares, axis=0)
    return {"arcs": both, "turned arcs": turned_arcs, "other fillers": filled_otherwise, "moved": of_moved}


def _lone_words(a: PairSide, b: PairSide) -> Numbers:
    """Count what one side has and the other lacks, on both sides or on one."""
    sides = a, b
    numerals = [side.count(side.lone & side.of_class(WordClass.NUMBER)) for side in sides]
    names = [side.count(side.lone & side.of_class(WordClass.NAME)) for side in sides]
    return {
        "negation": a.odd != b.odd,
        "numbers": np.minimum(*numerals),
        "names": np.minimum(*names),
        "missing names": np.abs(numerals[0] - numerals[1]) + np.abs(names[0] - names[1]),
        "prepositions": np.minimum(*(side.count(side.preposition & (side.match == 0)) for side in sides)),
        "words alone": np.sqrt(a.count(a.lone) + b.count(b.lone)),
    }


def _sizes(a: PairSide, b: PairSide) -> Numbers:
    sides = a, b
    content = [np.maximum(side.count(side.content), 1) for side in sides]
    every = [np.bincount(side.pair, minlength=side.pairs) for side in sides]
    names = [side.share(side.of_class(WordClass.NAME), side.content) for side in sides]
    return {
        "length": np.abs(np.log(content[0] / content[1])),
        "words in all": np.log(content[0] * content[1]) / 2,
        "names in all": np.mean(names, axis=0),
        "extra words": np.sqrt(np.abs(every[0] - every[1])),
    }


def _followers(side: PairSide, other: PairSide) -> Floats:
    """Return the share of a side's words that follow the same word, or begin, on the other side, too: [n]."""
    keys = []
    for x in (side, other):
        begins = np.append(True, x.pair[1:] != x.pair[:-1])[: len(x.pair)]
        before = np.where(begins, x.bases, np.roll(x.base, 1))
        keys.append(x.key * (x.bases + 1) + before)
    return side.share(np.isin(keys[0], keys[1]), np.ones(len(side.pair)))


def _moves(a: PairSide, b: PairSide) -> Numbers:
    """Say how the content words that both sides have, once each, moved.

    "In May he came home" and "he came home in May" share May, he, came, home, which have the ranks 3, 0, 1, 2
    in the second sentence. Of the six pairs of these words three are in the other order: *inversions* is 0.5.
    A break is where the second sentence does not go on as the first does: at the begin, where 3 stands for 0,
    between 3 and 0, and at the end, where 2 stands for 3. A block that moves makes three breaks, as here; two
    that change places without being neighbours make four: a *red* hat on a *blue* coat has the ranks 2, 1, 0,
    3 in a blue hat on a red coat.
    """
    once = []
    for side in (a, b):
        place = np.flatnonzero(side.content)
        key, first, count = np.unique(side.key[place], return_index=True, return_counts=True)
        once.append((key[count == 1], place[first[count == 1]]))
    _, *both = np.intersect1d(once[0][0], once[1][0], assume_unique=True, return_indices=True)
    place_a, place_b = (place[chosen] for (_, place), chosen in zip(once, both, strict=True))
    order = np.argsort(place_a)
    pair, rank = a.pair[place_a[order]], np.argsort(np.argsort(place_b[order]))
    count, unmoved = np.bincount(pair, minlength=a.pairs), np.arange(len(pair))
    begins, ends = (np.isin(unmoved, edge) for edge in (np.cumsum(count) - count, np.cumsum(count) - 1))
    goes_on = rank == np.append(-2, rank[:-1] + 1)[: len(rank)]
    breaks_before = np.where(begins, rank != unmoved, ~goes_on)
    breaks_after = ends & (rank != unmoved)
    breaks = np.bincount(pair, breaks_before.astype(np.int64) + breaks_after, a.pairs)
    inverted = np.zeros(a.pairs)
    for step in range(1, count.max(initial=0)):
        later = (pair[step:] == pair[:-step]) & (rank[step:] < rank[:-step])
        inverted += np.bincount(pair[step:][later], minlength=a.pairs)
    inversions = inverted / np.maximum(count * (count - 1) / 2, 1)
    return {"inversions": inversions, "moves": breaks > 0, "exchanges": breaks > 3}


def _opposites(bases: Sequence[str], a: PairSide, b: PairSide) -> Numbers:
    """Count the words of each pair that are opposed, and those that agree without being the same."""
    numbered: dict[str, int] = {}
    owners, keys, signs = [], [], []
    for side in (a, b):
        word = np.flatnonzero(side.lone)
        poles_of = {base: poles(bases[base]) for base in np.unique(side.base[word]).tolist()}
        rows = [
            (item, numbered.setdefault(pole, len(numbered)), np.sign(weight))
            for item, base in zip(word.tolist(), side.base[word].tolist(), strict=True)
            for pole, weight in poles_of[base].items()
        ]
        owner, pole, sign = np.array(rows, np.int64).reshape(-1, 3).T
        owners.append(owner)
        keys.append(pole * side.pairs + side.pair[owner])
        signs.append(sign * side.sign[owner])
    match = _matched(*keys, *signs)
    opposed, agreeing = (np.unique(owners[0][match == sign]) for sign in (-1, 1))
    flipped = (a.match < 0) & (a.content | (a.word_class == WordClass.PARTICLE))
    return {"opposites": a.count(opposed) + a.count(flipped), "agreeing": a.count(agreeing)}


def _cosine(
    vectors: Vectors, a: PairSide, b: PairSide, weight_a: NDArray[Any], weight_b: NDArray[Any]
) -> Floats:
    """Return the cosine of the sums of both sides' vectors, 1 where one has none: [n]."""
    sums = []
    for side, weight in ((a, weight_a), (b, weight_b)):
        entries = weight.astype(np.float32), (side.pair, side.word)
        sums.append(unit_rows(csr_array(entries, (side.pairs, len(vectors))) @ vectors))
    some = sums[0].any(axis=1) & sums[1].any(axis=1)
    return np.where(some, np.einsum("nd,nd->n", *sums), 1)


def _nearest(vectors: Vectors, a: PairSide, b: PairSide) -> tuple[Floats, Floats]:
    """Give the cosine of each lone word with the nearest one of the other side, or 0; other words have 1."""
    one, other = np.flatnonzero(a.lone), np.flatnonzero(b.lone)
    count = np.bincount(b.pair[other], minlength=b.pairs)
    length = count[a.pair[one]]
    left = np.repeat(one, length)
    right = other[places_of_ranges((np.cumsum(count) - count)[a.pair[one]], length)]
    near_a, near_b = (~a.lone).astype(np.float64), (~b.lone).astype(np.float64)
    for start in range(0, len(left), CHUNK):
        i, k = left[start : start + CHUNK], right[start : start + CHUNK]
        cosine = np.einsum("me,me->m", vectors[a.word[i]], vectors[b.word[k]])
        np.maximum.at(near_a, i, cosine)
        np.maximum.at(near_b, k, cosine)
    return near_a, near_b
