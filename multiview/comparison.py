"""Compare what two sentences say, and give the reasons why they do not say the same.

A sentence is read as *facts*: its content words and its canonical arcs (:mod:`parsing.trees.roles`), each
word as its base and a sign (:mod:`multiview.encoders.poles`).

Legend of dimension suffixes: S sentences, K content words, M arcs, U words, E size of their vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from corpora.characters import plain
from multiview.encoders.poles import agreement, negators, poles, signed, turned
from parsing.trees.batch import Batch, places_of_ranges
from parsing.trees.role_kinds import relation_bits, word_flags
from parsing.trees.role_rules import ROLES
from parsing.trees.roles import canonical_arcs, content_words

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_NEG = ROLES.index("neg")
_FEW = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
_VALUES = {word: str(value) for value, word in enumerate(_FEW.split())}


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
        item = places_of_ranges((np.cumsum(length) - length)[place], length[place])
        found[offsets] = np.append(0, np.cumsum(length[place]))
        found |= {name: found[name][item] for name in names}
    return Facts(**found | {"negations": found["negations"][place]})


_FIELDS: Mapping[str, tuple[str, ...]] = {
    "word_offsets": ("word", "denied", "first"),
    "arc_offsets": ("role", "head", "dependent", "turned", "head_denied"),
}


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
    """What the first sentence has, "" if it has nothing."""
    b: str
    place: str = ""
    """Which role differs, such as agent of praised; for reasons of roles alone."""

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
        for x in dict.fromkeys(a)
        for y in dict.fromkeys(b)
        if x.base == y.base and x.sign != signs[1][y.base] and y.sign != signs[0][x.base]
    ]
    left, right = (
        [word for word in side if word.base not in of] for side, of in ((a, signs[1]), (b, signs[0]))
    )
    pole_a, pole_b = ({pole for word in side for pole in _places(word)} for side in (left, right))
    near = [word for word in right if not pole_a.isdisjoint(_places(word))]
    for x in [word for word in left if not pole_b.isdisjoint(_places(word))]:
        for y in near:
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


def _places(word: _Word) -> set[str]:
    """The base and its poles; words that share none neither agree nor are opposed."""
    base = signed(word.base)[0]
    return {base, *poles(base)}


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
