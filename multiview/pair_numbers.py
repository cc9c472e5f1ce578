"""The numbers of pairs of sentences that :mod:`multiview.judge` reads, of many pairs at once.

Words and arcs of each side are keys that hold the pair, so that what two sentences have in common is a search
in sorted keys.

Legend of dimension suffixes: n pairs, F numbers of a pair, D size of a vector, T words of a side.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from multiview.comparison import Facts, Forms, Ints, facts, in_order
from multiview.encoders.poles import poles
from multiview.model import MultiViewEncoder
from multiview.pretrained import rows_of, unit_rows
from multiview.words.table import WordTable
from parsing.trees.batch import places_of_ranges
from parsing.trees.role_rules import ROLES
from runtime.device import torch_threads

Text = str | tuple[str, ...]
Floats = NDArray[np.float64]
BATCH = 512
NEAR = 4
"""Words whose order is compared are at most so far apart."""


class Read(NamedTuple):
    """Pairs as they were read."""

    facts: Facts
    forms: Forms
    rows: NDArray[np.int64]
    """[n, 2], the sentences of each pair."""
    numbers: Floats
    """[n, F]."""


@torch.inference_mode()
def numbered_pairs(pairs: Sequence[tuple[Text, Text]], source: MultiViewEncoder, encoder: Any = None) -> Read:
    """Parse the sentences of pairs, each once, and number the pairs."""
    from multiview.encoders.binding import WIDTH, structure_of  # here: it compiles

    place: dict[Text, int] = {}
    rows = [[place.setdefault(text, len(place)) for text in pair] for pair in pairs]
    rows_n2, texts = np.array(rows, np.int64), list(place)
    words = source.members[0].network.words
    forms = Forms(partial(_vectors_of, words))
    structure, parts = np.zeros((len(texts), WIDTH), np.float32), []
    meaning = None if encoder is None else _meanings(texts, encoder)
    requires = {"tokens", "dep"} | (source.requires_of() if encoder is None else set())
    with torch_threads(1):
        for places, batch in source.reader.batches(texts, requires, None, BATCH):
            parts.append((places, facts(batch, forms)))
            structure[places] = structure_of(batch, words).cpu().numpy()
            if encoder is None:
                views = source.vectors(batch)
                own = (source.readout(views) if source.readout else views).float().cpu().numpy()
                meaning = np.zeros((len(texts), own.shape[1]), np.float32) if meaning is None else meaning
                meaning[places] = unit_rows(own)
    assert meaning is not None
    one, other = rows_n2.T
    cosines = [np.einsum("nd,nd->n", part[one], part[other]) for part in (meaning, structure)]
    found = in_order(parts)
    return Read(found, forms, rows_n2, np.column_stack([*cosines, numbers(found, forms, one, other)]))


def _vectors_of(words: WordTable, types: list[str]) -> NDArray[np.float32]:
    """The vectors of words in the first table, [U, E]."""
    vectors: NDArray[np.float32] = words.rows(0, words.vocabulary.lookup(types)).float().cpu().numpy()
    return vectors


def _meanings(texts: Sequence[Text], encoder: Any) -> NDArray[np.float32]:
    """Vectors at length 1 of another encoder, [n, D]."""
    strings = [text if isinstance(text, str) else " ".join(text) for text in texts]
    return unit_rows(rows_of(encoder.encode(strings), strings, type(encoder).__name__)[0])


class _Side:
    """The words and arcs of one sentence of each pair, as keys that hold the pair."""

    def __init__(self, found: Facts, forms: Forms, known: Ints, rows_n: Ints) -> None:
        base, sign, number, name = known.T
        self.pairs, self.size = len(rows_n), len(forms.bases)
        self.pair, item = _expanded(found.word_offsets, rows_n)
        self.word = found.word[item]
        self.base, self.sign = base[self.word], sign[self.word] * found.denied[item]
        self.kind = np.where(number[self.word], 1, np.where(name[self.word] & ~found.first[item], 2, 0))
        self.key = self.pair * self.size + self.base
        self.arc_pair, arc = _expanded(found.arc_offsets, rows_n)
        head, dependent = found.head[arc], found.dependent[arc]
        self.slot = (self.arc_pair * len(ROLES) + found.role[arc]) * self.size + base[head]
        self.arc_key = self.slot * self.size + base[dependent]
        self.arc_sign = found.turned[arc] * sign[head] * sign[dependent]
        self.filler = self.arc_pair * self.size + base[dependent]
        self.odd = found.negations[rows_n] % 2
        self.begin = np.searchsorted(self.pair, np.arange(len(rows_n) + 1))
        self.length = np.maximum(np.diff(self.begin), 1)

    def share(self, chosen: NDArray[np.bool_], pair: Ints) -> Floats:
        """Of each pair's items the chosen ones, 0 where there are none: [n]."""
        count, every = (np.bincount(part, minlength=self.pairs) for part in (pair[chosen], pair))
        return count / np.maximum(every, 1)

    def count(self, chosen: NDArray[np.bool_] | Ints) -> Floats:
        """How many words of each pair are chosen, [n]."""
        return np.bincount(self.pair[chosen], minlength=self.pairs).astype(np.float64)

    def ordered(self, apart: int) -> tuple[Ints, Ints]:
        """Pairs of words so far apart at most, by their bases: keys one way and the other."""
        ones, others = [], []
        for step in range(1, apart + 1):
            same = self.pair[step:] == self.pair[:-step]
            one, other = self.base[:-step][same], self.base[step:][same]
            head = self.pair[step:][same] * self.size
            ones.append((head + one) * self.size + other)
            others.append((head + other) * self.size + one)
        return np.concatenate(ones), np.concatenate(others)


def _expanded(offsets: Ints, rows_n: Ints) -> tuple[Ints, Ints]:
    """The items of each pair's sentence: the pair and the place of each."""
    length = offsets[rows_n + 1] - offsets[rows_n]
    return np.repeat(np.arange(len(rows_n)), length), places_of_ranges(offsets[rows_n], length)


def _matched(key: Ints, others: Ints, sign: Ints, other_sign: Ints) -> Ints:
    """1 where the key is among the others, -1 where it is with another sign alone, else 0."""
    if not len(others):
        return np.zeros(len(key), np.int64)
    sorted_keys, place = np.unique(others, return_index=True)
    found = np.minimum(np.searchsorted(sorted_keys, key), len(sorted_keys) - 1)
    return np.where(sorted_keys[found] == key, sign * other_sign[place[found]], 0)


def numbers(found: Facts, forms: Forms, one_n: Ints, other_n: Ints) -> Floats:
    """The numbers of pairs of sentences, those after the two cosines: [n, F - 2]."""
    known, vectors = forms.known()
    a, b = (_Side(found, forms, known, rows_n) for rows_n in (one_n, other_n))
    same_a, same_b = (_matched(x.key, y.key, x.sign, y.sign) for x, y in ((a, b), (b, a)))
    sides = ((a, same_a), (b, same_b))
    lone = [[x.count((same == 0) & (x.kind == kind)) for x, same in sides] for kind in (1, 2)]
    shared = np.array([x.share(same != 0, x.pair) for x, same in sides])
    columns = [
        *_shared_arcs(a, b),
        shared.mean(axis=0),
        shared.min(axis=0),
        *_opposites(forms, a, b, same_a, same_b),
        a.odd != b.odd,
        np.minimum(*lone[0]),
        np.minimum(*lone[1]),
        np.abs(lone[0][0] - lone[0][1]) + np.abs(lone[1][0] - lone[1][1]),
        *_partners(vectors, a, b, same_a == 0, same_b == 0),
        *_order(a, b),
        np.abs(np.log(a.length / b.length)),
        np.log(a.length * b.length) / 2,
        np.mean([x.share(x.kind == 2, x.pair) for x in (a, b)], axis=0),
        np.sqrt(a.count(same_a == 0) + b.count(same_b == 0)),
    ]
    return np.column_stack(columns).astype(np.float64)


def _shared_arcs(a: _Side, b: _Side) -> list[Floats]:
    """Shares of arcs: in both, in both with another sign, otherwise filled, filled by a moved word."""
    mine = _matched(a.arc_key, b.arc_key, a.arc_sign, b.arc_sign)
    theirs = _matched(b.arc_key, a.arc_key, b.arc_sign, a.arc_sign)
    return list(np.mean([_of_arcs(a, b, mine, theirs), _of_arcs(b, a, theirs, mine)], axis=0))


def _of_arcs(side: _Side, other: _Side, match: Ints, other_match: Ints) -> list[Floats]:
    """Those shares of one side's arcs."""
    lone = match == 0
    filled = lone & np.isin(side.slot, other.slot)
    moved = lone & np.isin(side.filler, other.filler[other_match == 0])
    return [side.share(chosen, side.arc_pair) for chosen in (match > 0, match < 0, filled, moved)]


def _order(a: _Side, b: _Side) -> list[Floats]:
    """Neighbours that both have, and pairs of near words in the other order, as shares: [n], [n]."""
    count = partial(np.bincount, minlength=a.pairs)
    (near_a, back_a), (near_b, _) = a.ordered(NEAR), b.ordered(NEAR)
    straight, inverted = (count(key[np.isin(key, near_b)] // a.size**2) for key in (near_a, back_a))
    beside_a, beside_b = a.ordered(1)[0], b.ordered(1)[0]
    shares = [
        count(beside_a[np.isin(beside_a, beside_b)] // a.size**2) / np.maximum(a.length - 1, 1),
        count(beside_b[np.isin(beside_b, beside_a)] // a.size**2) / np.maximum(b.length - 1, 1),
    ]
    return [np.mean(shares, axis=0), inverted / np.maximum(straight + inverted, 1)]


def _opposites(forms: Forms, a: _Side, b: _Side, same_a: Ints, same_b: Ints) -> tuple[Floats, Floats]:
    """How many words of each pair are opposed, and how many agree without being the same: [n], [n]."""
    of = [poles(base) for base in forms.bases]
    names: dict[str, int] = {}
    count_V = np.array([len(one) for one in of], np.int64)
    pole = np.array([names.setdefault(name, len(names)) for one in of for name in one], np.int64)
    sign = np.array([1 if value > 0 else -1 for one in of for value in one.values()], np.int64)
    begin = np.cumsum(count_V) - count_V
    keys, signs, owners = [], [], []
    for side, same in ((a, same_a), (b, same_b)):
        word = np.flatnonzero(same == 0)
        length = count_V[side.base[word]]
        item, owner = places_of_ranges(begin[side.base[word]], length), np.repeat(word, length)
        keys.append(side.pair[owner] * max(len(names), 1) + pole[item])
        signs.append(sign[item] * side.sign[owner])
        owners.append(owner)
    joined = _matched(*keys, *signs)
    opposed, agreeing = (np.unique(owners[0][joined == value]) for value in (-1, 1))
    flipped = np.append(opposed, np.flatnonzero(same_a < 0))
    return a.count(flipped), a.count(agreeing)


def _partners(
    vectors: NDArray[np.float32], a: _Side, b: _Side, free_a: NDArray[np.bool_], free_b: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Of the words without an equal, the cosine with the nearest of the other side: mean and least, [n]."""
    mean, least = np.ones(a.pairs), np.ones(a.pairs)
    ends = zip(a.begin, a.begin[1:], b.begin, b.begin[1:], strict=False)
    for pair, (start_a, stop_a, start_b, stop_b) in enumerate(ends):
        one = a.word[start_a:stop_a][free_a[start_a:stop_a]]
        other = b.word[start_b:stop_b][free_b[start_b:stop_b]]
        if len(one) and len(other):
            cosine = vectors[one] @ vectors[other].T
            best = np.append(cosine.max(axis=0), cosine.max(axis=1))
            mean[pair], least[pair] = best.mean(), best.min()
    return mean, least
