"""Who did what to whom in two sentences, and the reasons why they do not say the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from multiview.comparison import Kind, Read
from multiview.encoders.poles import agreement, poles
from parsing.trees.role_rules import ROLES

ORDER = ("opposite", "negation", "roles", "number", "name", "missing", "agreeing")
"""Kinds of reasons, what turns the sense first; the last is of other words that say the same."""


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
    """One of :data:`ORDER`."""
    a: str
    """What the first sentence has, "" if it has nothing."""
    b: str
    place: str = ""
    """Which role differs, such as agent of praised; for reasons of roles alone."""

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        return f"{self.kind}: {place}{self.a or '-'} | {self.b or '-'}"


def bindings(read: Read, pair: int) -> list[Binding]:
    """Who did what to whom in the two sentences of a pair, what differs first."""
    return sorted((binding for binding, *_ in _bound(read, pair)), key=lambda binding: binding.same)


def _bound(read: Read, pair: int) -> Iterator[tuple[Binding, set[int], set[int]]]:
    """Yield each role of each word, and the keys of the words that have it on either side."""
    sides = [_slots(read, row) for row in read.rows[pair].tolist()]
    for role, key in sides[0] | sides[1]:
        a, b = (side.get((role, key), []) for side in sides)
        heads = list(dict.fromkeys(head for head, _, _ in a + b))
        differ = len({head.startswith("not ") for head in heads}) > 1
        shown = " | ".join(heads) if differ and a and b else heads[0]
        words = (tuple(word for _, word, _ in side) for side in (a, b))
        ones, others = ({dependent for *_, dependent in side} for side in (a, b))
        yield Binding(ROLES[role], shown, *words), ones, others


def _slots(read: Read, row: int) -> dict[tuple[int, int], list[tuple[str, str, int]]]:
    """Return, by role and the head's key, heads and dependents as written, and the dependents' keys."""
    slots: dict[tuple[int, int], list[tuple[str, str, int]]] = {}
    found = read.facts
    start = int(found.arcs[:row].sum())
    for arc in range(start, start + int(found.arcs[row])):
        head, dependent = (read.forms.read[part[arc]] for part in (found.head, found.dependent))
        denied = int(found.head_denied[arc])
        shown = (
            _shown(head.text.lower(), denied),
            _shown(dependent.text.lower(), denied * int(found.turned[arc])),
        )
        slots.setdefault((int(found.role[arc]), head.key), []).append((*shown, dependent.key))
    return slots


def _shown(text: str, denied: int) -> str:
    return "not " * (denied < 0) + text


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    base: str
    sign: int
    kind: int
    function: bool


def _words_of(read: Read, row: int) -> dict[int, _Word]:
    """Return the content words, and on, off, up and down, by the keys of their bases."""
    found, words = read.facts, dict[int, _Word]()
    start = int(found.words[:row].sum())
    for place in range(start, start + int(found.words[row])):
        text, base, key, sign, kind = read.forms.read[found.word[place]]
        denied, content = int(found.denied[place]), bool(found.content[place])
        kind = 0 if kind == Kind.NAME and found.first[place] else kind
        if content or kind == Kind.BESIDE:
            shown = _shown(text if kind in (Kind.NUMBER, Kind.NAME) else text.lower(), denied)
            words.setdefault(key, _Word(shown, base, sign * denied, kind, not content))
    return words


def reasons(read: Read, pair: int) -> list[Reason]:
    """Why two sentences do not say the same, what turns the sense first; and which other words agree."""
    a, b = (_words_of(read, row) for row in read.rows[pair].tolist())
    result = [
        Reason("opposite" if a[key].kind == Kind.BESIDE else "negation", a[key].text, b[key].text)
        for key in a
        if key in b and a[key].sign != b[key].sign
    ]
    left, right = ({key: x for key, x in side.items() if key not in of} for side, of in ((a, b), (b, a)))
    for mine, x in list(left.items()):
        near = (key for pole in poles(x.base) for key, y in right.items() if pole in poles(y.base))
        partner = next(near, -1)
        sign = agreement(x.base, right[partner].base) * x.sign * right[partner].sign if partner >= 0 else 0
        if sign:
            result.append(Reason("opposite" if sign < 0 else "agreeing", x.text, right.pop(partner).text))
            del left[mine]
    result += [
        Reason("roles", ", ".join(binding.a), ", ".join(binding.b), f"{binding.role} of {binding.head}")
        for binding, ones, others in _bound(read, pair)
        if not binding.same and ones and others and ones != others and ones | others <= a.keys() & b.keys()
    ]
    for kind, name in ((Kind.NUMBER, "number"), (Kind.NAME, "name")):
        keys = ([key for key, word in side.items() if word.kind == kind] for side in (left, right))
        for left_key, right_key in zip(*keys, strict=False):
            result.append(Reason(name, left.pop(left_key).text, right.pop(right_key).text))
    texts = [", ".join(x.text for x in side.values() if not x.function) for side in (left, right)]
    if any(texts):
        result.append(Reason("missing", *texts))
    return sorted(result, key=lambda reason: ORDER.index(reason.kind))
