"""The numbers of pairs of sentences that :mod:`multiview.judge` reads, of many pairs at once.

A sentence is read as *facts*: its words and its canonical arcs (:mod:`parsing.trees.roles`), each word as its
base and a sign (:mod:`multiview.encoders.poles`). Words and arcs of each side are keys that hold the pair, so
that what two sentences have in common is a search in sorted keys.

Legend of dimension suffixes: S sentences, T words of all, M arcs, U distinct words, E size of their vectors,
n pairs, F numbers of a pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from corpora.characters import plain
from multiview.encoders.poles import SIDES, poles, signed, spoken_content, turned
from multiview.pretrained import unit_rows
from multiview.words.table import WordTable
from parsing.trees.batch import Batch, places_of_ranges
from parsing.trees.role_rules import KIND, ROLES, relation_bits, word_flags
from parsing.trees.roles import canonical_arcs

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
LONGEST = 400
"""Words of a text that are compared; the parsers take fewer."""
RARE = 60_000
"""Rank of a word that counts as rare as any."""
CHUNK = 1 << 14
"""Pairs of words whose vectors are multiplied at a time."""
_NEG = ROLES.index("neg")
_FEW = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
_VALUES = {word: str(value) for value, word in enumerate(_FEW.split())}
_ENDINGS = {"ies": "y", "ied": "y", "es": "", "s": "", "ed": "", "ing": ""}


class Kind(IntEnum):
    """The kind of a word that is compared in a way of its own; other words have none."""

    NUMBER = 1
    NAME = 2
    BESIDE = 3
    """On, off, up and down: content or not as the parser has it, so that they are compared for their own."""


class Form(NamedTuple):
    """A word as it is written, with what the comparison reads of it."""

    text: str
    base: str
    """The base that all forms of the word share."""
    key: int
    """The place of the base."""
    sign: int
    kind: int
    """A :class:`Kind` or 0."""


class Forms:
    """The distinct words of some sentences."""

    def __init__(self) -> None:
        self.read: list[Form] = []
        self.bases: dict[str, int] = {}
        self._place: dict[str, int] = {}

    def places(self, types: Sequence[str]) -> Ints:
        """Return the place of each word, [U]; those that are new are read."""
        for word in types:
            if self._place.setdefault(word, len(self.read)) == len(self.read):
                base, sign = base_of(word)
                key = self.bases.setdefault(base, len(self.bases))
                self.read.append(Form(word, base, key, sign, _kind(word)))
        return np.array([self._place[word] for word in types], np.int64)


def _kind(word: str) -> int:
    if word[:1].isdigit() or word[-1:].isdigit() or word.lower() in _VALUES:
        return Kind.NUMBER
    if word.lower() in {*SIDES, *SIDES.values()}:
        return Kind.BESIDE
    return Kind.NAME if word.isupper() or (word[:1].isupper() and word[1:].islower()) else 0


def base_of(word: str) -> tuple[str, int]:
    """Return what forms of a word have in common, and its sign: two is 2, cats is cat, off is minus on."""
    base, sign = signed(word.lower())
    if base in SIDES:
        return SIDES[base], -sign
    base = _VALUES.get(base, base)
    if poles(base) or not base.isalpha():
        return base, sign
    endings = (ending for ending in _ENDINGS if base.endswith(ending) and len(base) > len(ending) + 2)
    ending = next(endings, "")
    if ending and not base.endswith(("ss", "us", "is")):
        base = base.removesuffix(ending) + _ENDINGS[ending]
        if ending in ("ed", "ing") and base[-1] == base[-2] and base[-1] not in "sl":
            base = base[:-1]  # stopping
    return (base.removesuffix("e") if len(base) > 3 else base), sign


@dataclass(frozen=True)
class Facts:
    """Words and arcs of sentences; those of one sentence follow one another. Words are places in a Forms.

    ``words`` and ``arcs`` [S] say how many a sentence has, ``negations`` [S] how many words are denied.
    """

    words: Ints
    word: Ints
    """[T]."""
    content: Flags
    """[T], whether the word is no function word, nor one that denies."""
    preposition: Flags
    denied: Ints
    """[T], -1 of what a negation turns, else 1."""
    first: Flags
    """[T], whether the word begins its sentence."""
    arcs: Ints
    role: Ints
    """[M]."""
    head: Ints
    dependent: Ints
    turned: Ints
    """[M], -1 where one of the two is denied."""
    head_denied: Ints
    negations: Ints


def facts(batch: Batch, forms: Forms) -> Facts:
    """Read the sentences of a batch."""
    words, word_N = batch.distinct_words()
    types = list(map(plain, words))
    form_N = forms.places(types)[word_N]
    relation = relation_bits(batch.relations)[batch.relation]
    arcs = canonical_arcs(batch.head, relation, word_flags(types)[word_N], batch.sentence_offsets)
    sign_N = turned(batch, relation, types, word_N, arcs, sides=False).astype(np.int64)
    content_N = np.isin(np.arange(len(word_N)), spoken_content(relation, types, word_N))
    place_N = np.arange(len(word_N)) - np.repeat(batch.sentence_offsets[:-1], np.diff(batch.sentence_offsets))
    spoken = np.array([any(map(str.isalnum, word)) for word in types], bool)[word_N]
    word = np.flatnonzero(spoken & (place_N < LONGEST))
    said = np.flatnonzero((arcs.role != _NEG) & (arcs.head != arcs.dependent))
    said = said[np.argsort(_sentence(batch, arcs.head[said]), kind="stable")]
    head, dependent = arcs.head[said], arcs.dependent[said]
    return Facts(
        words=np.bincount(_sentence(batch, word), minlength=len(batch)),
        word=form_N[word],
        content=content_N[word],
        preposition=(relation[word] & KIND.CASE) > 0,
        denied=sign_N[word],
        first=place_N[word] == 0,
        arcs=np.bincount(_sentence(batch, head), minlength=len(batch)),
        role=arcs.role[said],
        head=form_N[head],
        dependent=form_N[dependent],
        turned=sign_N[head] * sign_N[dependent],
        head_denied=sign_N[head],
        negations=np.bincount(_sentence(batch, np.flatnonzero(sign_N < 0)), minlength=len(batch)),
    )


def _sentence(batch: Batch, token: NDArray[np.integer]) -> Ints:
    return np.searchsorted(batch.sentence_offsets, token, side="right") - 1


class Read(NamedTuple):
    """Pairs as they were read."""

    facts: Facts
    forms: Forms
    rows: Ints
    """[n, 2], the sentences of each pair."""
    numbers: Floats


class _Side:
    """Holds the words [T] and arcs [M] of one sentence of each pair, as keys that hold the pair.

    ``word`` is a place in the forms, ``base`` that of its base, ``sign`` -1 of a word that is denied or a
    negation by itself. A ``slot`` is a role of a head, ``filler`` the dependent's base.
    """

    match: Ints  # 1 of a word that the other side has, -1 of one that it has with another sign alone, else 0
    lone: Flags  # content words that the other side does not have

    def __init__(self, read: Read, column: int) -> None:
        found, row_n, size = read.facts, read.rows[:, column], len(read.forms.bases)
        key, sign, kind = np.array([form[2:] for form in read.forms.read], np.int64).reshape(-1, 3).T
        self.pairs, self.size, self.odd = len(row_n), size, found.negations[row_n] % 2
        self.pair, item = _expanded(found.words, row_n)
        self.word, self.first, self.preposition = found.word[item], found.first[item], found.preposition[item]
        self.base, self.sign = key[self.word], sign[self.word] * found.denied[item]
        self.key, self.kind = self.pair * size + self.base, kind[self.word]
        self.content = found.content[item] & (self.kind != Kind.BESIDE)
        self.arc_pair, arc = _expanded(found.arcs, row_n)
        head, dependent = found.head[arc], found.dependent[arc]
        self.slot = (self.arc_pair * len(ROLES) + found.role[arc]) * size + key[head]
        self.arc_key = self.slot * size + key[dependent]
        self.arc_sign = found.turned[arc] * sign[head] * sign[dependent]
        self.filler = self.arc_pair * size + key[dependent]

    def compare(self, other: _Side) -> None:
        """Find the words that the other side has."""
        self.match = _matched(self.key, other.key, self.sign, other.sign)
        self.lone = self.content & (self.match == 0)

    def count(self, chosen: Flags | Ints) -> Floats:
        """Count the words of each pair that are chosen, [n]."""
        return np.bincount(self.pair[chosen], minlength=self.pairs).astype(np.float64)

    def of_kind(self, kind: int) -> Flags:
        """Choose the content words of a kind, [T]; a word that begins a sentence is no name."""
        chosen: Flags = self.content & (self.kind == kind)
        return chosen & ~self.first if kind == Kind.NAME else chosen

    def share(self, chosen: NDArray[Any], pair: Ints, weight: NDArray[Any]) -> Floats:
        """Return the share of each pair's items that is chosen, by weight, 0 where there are none: [n]."""
        part, whole = (np.bincount(pair, of, self.pairs) for of in (chosen * weight, weight))
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
    found = np.minimum(np.searchsorted(sorted_keys, key), len(sorted_keys) - 1)
    return np.where(sorted_keys[found] == key, sign * other_sign[place[found]], 0)


def numbers(read: Read, words: WordTable) -> Floats:
    """Return the numbers of pairs, by the names of :data:`multiview.judge.NUMBERS`: [n, F]."""
    types = [form.text for form in read.forms.read]
    vectors = unit_rows(words.rows(0, words.vocabulary.lookup(types)).float().cpu().numpy())
    rank = np.minimum(words.vocabulary.lookup([word.lower() for word in types]), RARE)
    rarity = np.log1p(rank).astype(np.float64)
    a, b = sides = [_Side(read, column) for column in (0, 1)]
    a.compare(b)
    b.compare(a)
    rare = [rarity[x.word] * x.content for x in sides]
    near = _nearest(vectors, a, b)
    worst = np.ones(a.pairs)
    for x, nearness in zip(sides, near, strict=True):
        np.minimum.at(worst, x.pair, np.where(nearness > 0, nearness, 1))  # 0: no partner
    kinds = (Kind.NUMBER, Kind.NAME)
    numerals, names = ([x.count(x.lone & x.of_kind(kind)) for x in sides] for kind in kinds)
    length = [np.maximum(x.count(x.content), 1) for x in sides]
    columns = [
        _cosine(vectors, a, b, *(rarity[x.word] for x in sides)),
        *np.mean([_of_arcs(a, b), _of_arcs(b, a)], axis=0),
        np.mean([x.share(x.match != 0, x.pair, x.content) for x in sides], axis=0),
        np.mean([x.share(x.match != 0, x.pair, np.ones(len(x.pair))) for x in sides], axis=0),
        np.min([x.share(x.match != 0, x.pair, own) for x, own in zip(sides, rare, strict=True)], axis=0),
        np.min([x.share(n, x.pair, own) for x, n, own in zip(sides, near, rare, strict=True)], axis=0),
        *_opposites(list(read.forms.bases), a, b),
        a.odd != b.odd,
        np.minimum(*numerals),
        np.minimum(*names),
        np.abs(numerals[0] - numerals[1]) + np.abs(names[0] - names[1]),
        _cosine(vectors, a, b, *((x.lone | (x.kind == Kind.BESIDE)) & (x.match == 0) for x in sides)),
        worst,
        np.mean([_followers(a, b), _followers(b, a)], axis=0),
        *_moves(a, b),
        np.minimum(*(x.count(x.preposition & (x.match == 0)) for x in sides)),
        np.abs(np.log(length[0] / length[1])),
        np.log(length[0] * length[1]) / 2,
        np.mean([x.share(x.of_kind(Kind.NAME), x.pair, x.content) for x in sides], axis=0),
        np.sqrt(a.count(a.lone) + b.count(b.lone)),
        np.sqrt(np.abs(np.bincount(a.pair, minlength=a.pairs) - np.bincount(b.pair, minlength=a.pairs))),
    ]
    return np.column_stack(columns).astype(np.float64)


def _of_arcs(side: _Side, other: _Side) -> list[Floats]:
    """Shares of arcs: in both, in both with another sign, otherwise filled, filled by a moved word."""
    match = _matched(side.arc_key, other.arc_key, side.arc_sign, other.arc_sign)
    filled = (match == 0) & np.isin(side.slot, other.slot)
    moved = (match == 0) & np.isin(side.filler, other.filler[~np.isin(other.arc_key, side.arc_key)])
    every = np.ones(len(match))
    return [side.share(chosen, side.arc_pair, every) for chosen in (match > 0, match < 0, filled, moved)]


def _followers(side: _Side, other: _Side) -> Floats:
    """The share of a side's words that come after the same word, or begin, on the other side, too: [n]."""
    keys = []
    for x in (side, other):
        begins = np.append(True, x.pair[1:] != x.pair[:-1])[: len(x.pair)]
        before = np.where(begins, x.size, np.roll(x.base, 1))
        keys.append(x.key * (x.size + 1) + before)
    return side.share(np.isin(keys[0], keys[1]), side.pair, np.ones(len(side.pair)))


def _moves(a: _Side, b: _Side) -> list[NDArray[Any]]:
    """Say how the content words that both have once moved: the share of pairs in the other order, and breaks.

    Words that follow one another in one sentence alone have a break between them. A block that moves makes
    three breaks, two that change places without being neighbours make four.
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
    count, place = np.bincount(pair, minlength=a.pairs), np.arange(len(pair))
    begins, ends = (np.isin(place, edge) for edge in (np.cumsum(count) - count, np.cumsum(count) - 1))
    follows = rank == np.append(-2, rank[:-1] + 1)[: len(rank)]
    broken = np.where(begins, rank != place, ~follows) + 1 * (ends & (rank != place))
    breaks = np.bincount(pair, broken, a.pairs)
    inverted = np.zeros(a.pairs)
    for step in range(1, count.max(initial=0)):
        later = (pair[step:] == pair[:-step]) & (rank[step:] < rank[:-step])
        inverted += np.bincount(pair[step:][later], minlength=a.pairs)
    return [inverted / np.maximum(count * (count - 1) / 2, 1), breaks > 0, breaks > 3]


def _opposites(bases: Sequence[str], a: _Side, b: _Side) -> tuple[Floats, Floats]:
    """How many words of each pair are opposed, and how many agree without being the same: [n], [n]."""
    names: dict[str, int] = {}
    owners, keys, signs = [], [], []
    for side in (a, b):
        word = np.flatnonzero(side.lone)
        of = {base: poles(bases[base]) for base in np.unique(side.base[word]).tolist()}
        rows = [
            (item, names.setdefault(pole, len(names)), np.sign(value))
            for item, base in zip(word.tolist(), side.base[word].tolist(), strict=True)
            for pole, value in of[base].items()
        ]
        owner, pole, sign = np.array(rows, np.int64).reshape(-1, 3).T
        owners.append(owner)
        keys.append(pole * side.pairs + side.pair[owner])
        signs.append(sign * side.sign[owner])
    joined = _matched(*keys, *signs)
    opposed, agreeing = (np.unique(owners[0][joined == value]) for value in (-1, 1))
    flipped = (a.match < 0) & (a.content | (a.kind == Kind.BESIDE))
    return a.count(opposed) + a.count(flipped), a.count(agreeing)


def _cosine(
    vectors: NDArray[np.float32], a: _Side, b: _Side, weight_a: NDArray[Any], weight_b: NDArray[Any]
) -> Floats:
    """The cosine of the sums of both sides' vectors, 1 where one has none: [n]."""
    sums = []
    for side, weight in ((a, weight_a), (b, weight_b)):
        entries = weight.astype(np.float32), (side.pair, side.word)
        sums.append(unit_rows(csr_array(entries, (side.pairs, len(vectors))) @ vectors))
    some = sums[0].any(axis=1) & sums[1].any(axis=1)
    return np.where(some, np.einsum("nd,nd->n", *sums), 1)


def _nearest(vectors: NDArray[np.float32], a: _Side, b: _Side) -> tuple[Floats, Floats]:
    """Each lone word's cosine with the nearest lone word of the other side, 0 if that has none; others' 1."""
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
