"""What two sentences have in common and where they differ: the numbers of a pair, and reasons.

A sentence is read as *facts*: its content words and its canonical arcs (:mod:`parsing.trees.roles`), each
word as its base and a sign (:mod:`multiview.encoders.poles`). Facts of many pairs are compared at once, as
sorted keys. ``NUMBERS`` names the numbers of a pair, with an example each.

Legend of dimension suffixes: S sentences, n pairs, K words, M arcs, F numbers of a pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
from numpy.typing import NDArray

from corpora.characters import plain
from multiview.encoders.poles import agreement, negators, poles, signed, turned
from parsing.trees.batch import Batch
from parsing.trees.role_kinds import relation_bits, word_flags
from parsing.trees.role_rules import ROLES
from parsing.trees.roles import canonical_arcs, content_words

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
NUMBERS: Mapping[str, str] = {
    "meaning": "cosine of the meanings",
    "structure": "cosine of the structures",
    "arcs": "share of arcs that both have: the lawyer praised | the lawyer praised",
    "turned arcs": "share of arcs that both have with another sign: he came | he did not come",
    "other fillers": "share of places that are filled otherwise: the lawyer praised | the doctor praised",
    "moved": "share of words in another place: the lawyer praised the doctor | the doctor praised the lawyer",
    "words": "share of words that both have: a red hat | a red coat",
    "words, fewer": "the same of the sentence with the smaller share: he came | he came home late",
    "opposites": "words opposed to words of the other: good | bad; good | not good",
    "agreeing": "words that agree with words of the other: not good | bad",
    "negation": "whether one sentence denies an odd number of words and the other does not: good | not good",
    "numbers": "numbers that the other lacks, on both sides: two hats | three hats",
    "names": "names that the other lacks, on both sides: Rome | Paris",
    "missing names": "names or numbers that one side has alone: he came | Tom came",
    "partners": "cosine of words without an equal with their nearest word: car | automobile",
    "worst partner": "the smallest of these: a red hat | a red idea",
    "neighbours": "share of neighbouring words that both have: red hat, blue coat | red coat, blue hat",
    "inversions": "share of pairs of words in the other order: Rome to Paris | Paris to Rome",
    "length": "logarithm of the lengths' ratio: he came | he came home late",
    "words in all": "logarithm of how many words a sentence has",
    "names in all": "share of words that are names",
    "words alone": "root of how many words have no equal: a red hat | a red coat",
}
"""The numbers of a pair, each with what it says and an example."""
_NUM, _NEG = ROLES.index("num"), ROLES.index("neg")
_FEW = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
_VALUES = {word: str(value) for value, word in enumerate(_FEW.split())}
NEAR = 4
"""Words whose order is compared are at most so far apart."""


class Forms:
    """The words of some sentences, each as it is written once, and what is known of each.

    Args:
        vectors_of: gives the vectors [U, E] of words.
    """

    def __init__(self, vectors_of: Callable[[list[str]], NDArray[np.floating]]) -> None:
        self.vectors_of = vectors_of
        self.words: list[str] = []
        self.bases: dict[str, int] = {}
        self._names: list[str] = []
        self._place: dict[str, int] = {}
        self._read: list[tuple[int, int, bool, bool]] = []
        self._vectors: list[NDArray[np.float32]] = []

    def places(self, types: Sequence[str]) -> Ints:
        """The place of each word, [U]; those that are new are read."""
        new = [word for word in types if word not in self._place]
        for word in new:
            base, sign = signed(word.lower())
            value = _VALUES.get(base, base)
            self._place[word] = len(self.words)
            self.words.append(word)
            number = value[:1].isdigit() or value[-1:].isdigit()
            name = not number and (word.isupper() or (word[:1].isupper() and word[1:].islower()))
            if value not in self.bases:
                self.bases[value] = len(self._names)
                self._names.append(value)
            self._read.append((self.bases[value], sign, number, name))
        if new:
            rows = np.asarray(self.vectors_of(new), np.float32)
            self._vectors.append(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
        return np.array([self._place[word] for word in types], np.int64)

    def read(self, place: int) -> tuple[str, int, bool, bool]:
        """Base, sign, whether a number, whether a name, of one word."""
        base, *others = self._read[place]
        return (self._names[base], *others)  # type: ignore[return-value]

    def known(self) -> tuple[Ints, NDArray[np.float32]]:
        """Base, sign, whether a number, whether a name, of each word [U, 4]; the vectors [U, E]."""
        return np.array(self._read, np.int64).reshape(-1, 4), np.concatenate(self._vectors)


@dataclass(frozen=True)
class Facts:
    """Words and arcs of sentences; those of one sentence follow one another. Words are places in a Forms."""

    word_offsets: Ints
    """[S + 1], where each sentence's content words start."""
    word: Ints
    """[K]."""
    denied: Ints
    """[K], -1 of what a negation turns, else 1."""
    first: Ints
    """[K], whether the word begins its sentence."""
    arc_offsets: Ints
    """[S + 1]."""
    role: Ints
    """[M]."""
    head: Ints
    """[M], words."""
    dependent: Ints
    """[M], words."""
    turned: Ints
    """[M], -1 where one of the two is denied."""
    head_denied: Ints
    """[M]."""
    negations: Ints
    """[S], how many tokens a negation turns."""


def facts(batch: Batch, forms: Forms) -> Facts:
    """Read the sentences of a batch."""
    assert batch.types is not None
    used, word_N = np.unique(batch.token, return_inverse=True)
    types = [plain(batch.types[place]) for place in used]
    form_N = forms.places(types)[word_N]
    relation = relation_bits(batch.relations)[batch.relation]
    arcs = canonical_arcs(batch.head, relation, word_flags(types)[word_N], batch.sentence_offsets)
    sign_N = turned(batch, relation, types, word_N, arcs).astype(np.int64)
    content = content_words(relation, types, word_N)
    content = content[~negators(types)[word_N[content]]]
    said = np.flatnonzero((arcs.role != _NEG) & (arcs.head != arcs.dependent))
    sentence = np.searchsorted(batch.sentence_offsets, arcs.head[said], side="right")
    said = said[np.argsort(sentence, kind="stable")]
    head, dependent = arcs.head[said], arcs.dependent[said]
    return Facts(
        word_offsets=np.searchsorted(content, batch.sentence_offsets),
        word=form_N[content],
        denied=sign_N[content],
        first=np.isin(content, batch.sentence_offsets[:-1]).astype(np.int64),
        arc_offsets=np.append(0, np.cumsum(np.bincount(sentence - 1, minlength=len(batch)))),
        role=arcs.role[said],
        head=form_N[head],
        dependent=form_N[dependent],
        turned=sign_N[head] * sign_N[dependent],
        head_denied=sign_N[head],
        negations=np.diff(np.append(0, np.cumsum(sign_N < 0))[batch.sentence_offsets]),
    )


def in_order(parts: Sequence[tuple[NDArray[np.integer], Facts]]) -> Facts:
    """The facts of several batches as one, by each sentence's place; their words are of one Forms."""
    place = np.argsort(np.concatenate([places for places, _ in parts]))
    found = {f.name: np.concatenate([getattr(one, f.name) for _, one in parts]) for f in fields(Facts)}
    for offsets, names in _FIELDS.items():
        length = np.concatenate([np.diff(getattr(one, offsets)) for _, one in parts])
        item = _ranges((np.cumsum(length) - length)[place], length[place])
        found[offsets] = np.append(0, np.cumsum(length[place]))
        found |= {name: found[name][item] for name in names}
    return Facts(**found | {"negations": found["negations"][place]})


_FIELDS: Mapping[str, tuple[str, ...]] = {
    "word_offsets": ("word", "denied", "first"),
    "arc_offsets": ("role", "head", "dependent", "turned", "head_denied"),
}


def _ranges(begin: Ints, length: Ints) -> Ints:
    """The places of successive ranges, one after the other."""
    ends = np.cumsum(length)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(begin - ends + length, length)


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
    return np.repeat(np.arange(len(rows_n)), length), _ranges(offsets[rows_n], length)


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
        item, owner = _ranges(begin[side.base[word]], length), np.repeat(word, length)
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


# Reasons.


@dataclass(frozen=True, slots=True)
class Binding:
    """The words that have a role of a word in the first sentence and in the second, in lower case."""

    role: str
    head: str
    """With both forms where one is denied: came | not came."""
    a: tuple[str, ...]
    b: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether both have the same words."""
        return set(self.a) == set(self.b) and " | " not in self.head

    def __str__(self) -> str:
        words = [", ".join(side) or "-" for side in ([self.a] if self.a == self.b else [self.a, self.b])]
        return f"  {'=' if self.same else '≠'} {self.role} of {self.head}: {' | '.join(words)}"


@dataclass(frozen=True, slots=True)
class Reason:
    """Where two sentences differ."""

    kind: str
    """opposite, negation, roles, number, name, missing; or agreeing, of other words that say the same."""
    a: str
    """Of the first sentence, "" if it has nothing."""
    b: str
    place: str = ""
    """Of roles: agent of praised."""

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        return f"{self.kind}: {place}{self.a or '-'} | {self.b or '-'}"


def bindings(found: Facts, forms: Forms, one: int, other: int) -> list[Binding]:
    """Who did what to whom in two sentences, what differs first."""
    sides = [_slots(found, forms, row) for row in (one, other)]
    both = []
    for role, base in sides[0] | sides[1]:
        a, b = (side.get((role, base), []) for side in sides)
        heads = list(dict.fromkeys(head for head, _ in a + b))
        denied = {head.startswith("not ") for head in heads}
        shown = " | ".join(heads) if len(denied) > 1 and a and b else heads[0]
        words = (tuple(dependent for _, dependent in side) for side in (a, b))
        both.append(Binding(ROLES[role], shown, *words))
    return sorted(both, key=lambda binding: binding.same)


def _slots(found: Facts, forms: Forms, row: int) -> dict[tuple[int, str], list[tuple[str, str]]]:
    """Heads and dependents as they are written, by role and the head's base."""
    slots: dict[tuple[int, str], list[tuple[str, str]]] = {}
    for arc in range(found.arc_offsets[row], found.arc_offsets[row + 1]):
        head, dependent = (forms.words[part[arc]].lower() for part in (found.head, found.dependent))
        denied = int(found.head_denied[arc])
        shown = "not " * (denied < 0) + head
        dependent = "not " * (denied * int(found.turned[arc]) < 0) + dependent
        slots.setdefault((int(found.role[arc]), signed(head)[0]), []).append((shown, dependent))
    return slots


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    base: str
    sign: int
    kind: int


def _words_of(found: Facts, forms: Forms, row: int) -> list[_Word]:
    words = []
    for place in range(found.word_offsets[row], found.word_offsets[row + 1]):
        form = int(found.word[place])
        text, denied = forms.words[form], int(found.denied[place])
        base, sign, number, name = forms.read(form)
        kind = 1 if number else 2 if name and not found.first[place] else 0
        words.append(
            _Word("not " * (denied < 0) + (text if kind else text.lower()), base, sign * denied, kind)
        )
    return words


def reasons(found: Facts, forms: Forms, one: int, other: int) -> list[Reason]:
    """Why two sentences do not say the same, what turns the sense first; and which other words agree."""
    a, b = (_words_of(found, forms, row) for row in (one, other))
    signs = [{word.base: word.sign for word in side} for side in (a, b)]
    result = [
        Reason("negation", x.text, y.text)
        for x in a
        for y in b
        if x.base == y.base and x.sign != signs[1][y.base] and y.sign != signs[0][x.base]
    ]
    left, right = (
        [word for word in side if word.base not in of] for side, of in ((a, signs[1]), (b, signs[0]))
    )
    for x in list(left):
        for y in list(right):
            sign = agreement(x.base, y.base) * x.sign * y.sign
            if sign and x in left and y in right:
                result.append(Reason("opposite" if sign < 0 else "agreeing", x.text, y.text))
                left.remove(x)
                right.remove(y)
    result += _moved(found, forms, one, other)
    for kind, name in ((1, "number"), (2, "name")):
        ones, others = ([w for w in side if w.kind == kind] for side in (left, right))
        for x, y in zip(ones, others, strict=False):
            result.append(Reason(name, x.text, y.text))
            left.remove(x)
            right.remove(y)
    if left or right:
        result.append(Reason("missing", *(", ".join(word.text for word in side) for side in (left, right))))
    order = ["opposite", "negation", "roles", "number", "name", "missing", "agreeing"]
    return sorted(result, key=lambda reason: order.index(reason.kind))


def _moved(found: Facts, forms: Forms, one: int, other: int) -> list[Reason]:
    """The roles that words of both sentences have in one place here, in another there."""
    sides = [
        {
            signed(forms.words[form].lower())[0]
            for form in found.word[slice(*found.word_offsets[row : row + 2])]
        }
        for row in (one, other)
    ]
    both = sides[0] & sides[1]
    return [
        Reason("roles", ", ".join(binding.a), ", ".join(binding.b), f"{binding.role} of {binding.head}")
        for binding in bindings(found, forms, one, other)
        if not binding.same
        and binding.a
        and binding.b
        and all(any(_base(word) in both for word in side) for side in (binding.a, binding.b))
        and {_base(word) for word in binding.a} != {_base(word) for word in binding.b}
    ]


def _base(shown: str) -> str:
    return signed(shown.removeprefix("not "))[0]
