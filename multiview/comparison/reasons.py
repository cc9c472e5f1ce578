"""Who did what to whom in two sentences, and the reasons why they do not say the same."""

from collections.abc import Iterator
from dataclasses import dataclass

from multiview.comparison.facts import ReadPairs, WordClass
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
        """Tells whether both have the same words."""
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


def bindings(read: ReadPairs, pair: int) -> list[Binding]:
    """Return who did what to whom in the two sentences of a pair, what differs first."""
    return sorted((binding for binding, *_ in _bound(read, pair)), key=lambda binding: binding.same)


def _bound(read: ReadPairs, pair: int) -> Iterator[tuple[Binding, set[int], set[int]]]:
    """Yield each role of each word, and the keys of the words that have it on either side."""
    sides = [_slots(read, row) for row in read.rows[pair].tolist()]
    for role, key in sides[0] | sides[1]:
        a, b = (side.get((role, key), []) for side in sides)
        heads = list(dict.fromkeys(head for head, _, _ in a + b))
        differ = len({head.startswith("not ") for head in heads}) > 1
        shown = " | ".join(heads) if differ and a and b else heads[0]
        words = (tuple(word for _, word, _ in side) for side in (a, b))
        keys_a, keys_b = ({dependent for *_, dependent in side} for side in (a, b))
        yield Binding(ROLES[role], shown, *words), keys_a, keys_b


def _slots(read: ReadPairs, row: int) -> dict[tuple[int, int], list[tuple[str, str, int]]]:
    """Return, by role and the head's key, heads and dependents as written, and the dependents' keys."""
    slots: dict[tuple[int, int], list[tuple[str, str, int]]] = {}
    facts = read.facts
    start = int(facts.arcs[:row].sum())
    for arc in range(start, start + int(facts.arcs[row])):
        head, dependent = (read.forms.listed[part[arc]] for part in (facts.head, facts.dependent))
        denied = int(facts.head_denied[arc])
        shown_head = _shown(head.text.lower(), denied)
        shown_dependent = _shown(dependent.text.lower(), denied * int(facts.turned[arc]))
        of_slot = slots.setdefault((int(facts.role[arc]), head.key), [])
        of_slot.append((shown_head, shown_dependent, dependent.key))
    return slots


def _shown(text: str, denied: int) -> str:
    return "not " * (denied < 0) + text


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    base: str
    sign: int
    word_class: int
    is_content: bool


def _words_of(read: ReadPairs, row: int) -> dict[int, _Word]:
    """Return the content words, and on, off, up and down, by the keys of their bases."""
    facts, words = read.facts, dict[int, _Word]()
    start = int(facts.words[:row].sum())
    for place in range(start, start + int(facts.words[row])):
        text, base, key, sign, word_class = read.forms.listed[facts.word[place]]
        denied, is_content = int(facts.denied[place]), bool(facts.content[place])
        if word_class == WordClass.NAME and facts.first[place]:
            word_class = 0
        if is_content or word_class == WordClass.PARTICLE:
            shown = text if word_class in (WordClass.NUMBER, WordClass.NAME) else text.lower()
            words.setdefault(key, _Word(_shown(shown, denied), base, sign * denied, word_class, is_content))
    return words


def reasons_of(read: ReadPairs, pair: int) -> list[Reason]:
    """Say why two sentences do not say the same, what turns the sense first; and which other words agree."""
    a, b = (_words_of(read, row) for row in read.rows[pair].tolist())
    reasons = [
        Reason(
            "opposite" if a[key].word_class == WordClass.PARTICLE else "negation", a[key].text, b[key].text
        )
        for key in a
        if key in b and a[key].sign != b[key].sign
    ]
    shared = a.keys() & b.keys()
    reasons += [
        Reason("roles", ", ".join(binding.a), ", ".join(binding.b), f"{binding.role} of {binding.head}")
        for binding, keys_a, keys_b in _bound(read, pair)
        if keys_a and keys_b and keys_a != keys_b and keys_a | keys_b <= shared and not binding.same
    ]
    lone_a = {key: word for key, word in a.items() if key not in b}
    lone_b = {key: word for key, word in b.items() if key not in a}
    reasons += _of_lone_words(lone_a, lone_b)
    return sorted(reasons, key=lambda reason: ORDER.index(reason.kind))


def _of_lone_words(lone_a: dict[int, _Word], lone_b: dict[int, _Word]) -> Iterator[Reason]:
    """Pair the words that one sentence has alone: opposites, synonyms by a pole, numbers, names; the rest."""
    for key, word in list(lone_a.items()):
        near = (other for pole in poles(word.base) for other, y in lone_b.items() if pole in poles(y.base))
        partner = next(near, -1)
        if partner < 0:
            continue
        sign = agreement(word.base, lone_b[partner].base) * word.sign * lone_b[partner].sign
        if sign:
            yield Reason("opposite" if sign < 0 else "agreeing", word.text, lone_b.pop(partner).text)
            del lone_a[key]
    for word_class, kind in ((WordClass.NUMBER, "number"), (WordClass.NAME, "name")):
        keys = (
            [key for key, word in side.items() if word.word_class == word_class] for side in (lone_a, lone_b)
        )
        for key_a, key_b in zip(*keys, strict=False):
            yield Reason(kind, lone_a.pop(key_a).text, lone_b.pop(key_b).text)
    texts = [", ".join(x.text for x in side.values() if x.is_content) for side in (lone_a, lone_b)]
    if any(texts):
        yield Reason("missing", *texts)
