"""Finds, in compared sentences, who does what to whom, and the reasons why they do not say the same."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from multiview.judge.comparison import Comparison
from multiview.judge.facts import Form, WordClass, all_poles
from multiview.structure.poles import nearness
from parsing.trees.role_rules import ROLES

Positions = tuple[tuple[int, int], ...]
ORDER = ("opposite", "negation", "contrast", "roles", "number", "name", "missing", "agreeing")
"""The kinds of reasons, in the order in which they are shown: those that change the meaning most come first.

The last kind, *agreeing*, is no difference: it names other words that say the same.
"""


@dataclass(frozen=True, slots=True)
class Binding:
    """The words that have a role of a head in the first and in the second sentence, in lower case."""

    role: str
    head: str
    """The head; if one sentence denies it, both forms: came | not came."""
    a: tuple[str, ...]
    b: tuple[str, ...]
    bases: tuple[frozenset[int], frozenset[int]] = field(repr=False)
    """The indices of the bases of ``a`` and of ``b``."""
    positions: tuple[Positions, Positions] = field(repr=False)
    """The positions of head and dependent of each arc in the first and in the second sentence, from 0."""

    @property
    def is_same(self) -> bool:
        """Whether both sentences have forms of the same words in the role, and deny the same of them."""
        is_denied = any(word.startswith("not ") for word in (*self.a, *self.b))
        side_a, side_b = (set(self.a), set(self.b)) if is_denied else self.bases
        return side_a == side_b and " | " not in self.head

    def __str__(self) -> str:
        sides = [self.a] if self.a == self.b else [self.a, self.b]
        words = " | ".join(", ".join(side) or "-" for side in sides)
        return f"  {'=' if self.is_same else '≠'} {self.role} of {self.head}: {words}"


@dataclass(frozen=True, slots=True)
class Reason:
    """A difference of two sentences."""

    kind: str
    """One of :data:`ORDER`."""
    a: str
    """The words of the first sentence, "" if it has none."""
    b: str
    """The words of the second sentence, "" if it has none."""
    place: str = ""
    """The role that differs, such as "agent of praised"; "" for all kinds but *roles*."""

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        return f"{self.kind}: {place}{self.a or '-'} | {self.b or '-'}"


def bindings(comparison: Comparison, pair: int) -> list[Binding]:
    """Return the bindings of the two sentences of a pair; those that differ come first."""
    arcs_a, arcs_b = (_arcs_by_role(comparison, column, pair) for column in (0, 1))
    bindings = []
    for key in arcs_a | arcs_b:
        sides = arcs_a.get(key, []), arcs_b.get(key, [])
        heads = list(dict.fromkeys(arc.head for arcs in sides for arc in arcs))
        is_denied_once = len({head.startswith("not ") for head in heads}) > 1
        head = " | ".join(heads) if is_denied_once and all(sides) else heads[0]
        words_a, words_b = (tuple(arc.dependent.text for arc in arcs) for arcs in sides)
        bases_a, bases_b = (frozenset(arc.dependent.base_index for arc in arcs) for arcs in sides)
        positions_a, positions_b = (tuple(arc.positions for arc in arcs) for arcs in sides)
        bases, positions = (bases_a, bases_b), (positions_a, positions_b)
        bindings.append(Binding(ROLES[key[0]], head, words_a, words_b, bases, positions))
    return sorted(bindings, key=lambda binding: binding.is_same)


class _ShownArc(NamedTuple):
    """An arc as it is shown: the head's text, the dependent, and the positions of both in the sentence."""

    head: str
    dependent: Form
    positions: tuple[int, int]


def _arcs_by_role(comparison: Comparison, column: int, pair: int) -> dict[tuple[int, int], list[_ShownArc]]:
    """Return the arcs of a sentence, by the index of the role and the index of the head's base."""
    facts, forms, arcs = comparison.pairs.facts, comparison.pairs.forms.forms, comparison.arcs[column]
    arcs_by_role: dict[tuple[int, int], list[_ShownArc]] = {}
    for arc in arcs.arc[arcs.of_pair(pair)].tolist():
        head, dependent = forms[facts.head[arc]], forms[facts.dependent[arc]]
        head_sign = int(facts.head_sign[arc])
        dependent_sign = head_sign * int(facts.arc_sign[arc])
        head_text = _with_not(head.text.lower(), head_sign)
        dependent_text = _with_not(dependent.text.lower(), dependent_sign)
        key = (int(facts.role[arc]), head.base_index)
        positions = int(facts.head_position[arc]), int(facts.dependent_position[arc])
        shown = _ShownArc(head_text, dependent._replace(text=dependent_text), positions)
        arcs_by_role.setdefault(key, []).append(shown)
    return arcs_by_role


def _with_not(text: str, sign: int) -> str:
    return f"not {text}" if sign < 0 else text


def _words_of(comparison: Comparison, column: int, pair: int) -> dict[int, Form]:
    """Return the content words, particles and words with poles of a sentence, by the indices of their bases.

    The sign is 0 if the sentence has the base with both signs, as it has that of *on* in "on or off".
    """
    side, forms, words = comparison.words[column], comparison.pairs.forms.forms, dict[int, Form]()
    here = side.of_pair(pair)
    shown = here.start + np.flatnonzero(side.is_content_or_has_poles[here])
    columns = side.form, side.sign, side.word_class, side.is_parsed_as_content
    for index, sign, word_class, is_content in zip(*(part[shown].tolist() for part in columns), strict=True):
        form = forms[index]
        keeps_case = word_class in (WordClass.NUMBER, WordClass.NAME)
        text = _with_not(form.text if keeps_case else form.text.lower(), sign * form.sign)
        word_there = Form(text, form.base, form.base_index, sign, word_class, is_content)
        known = words.setdefault(form.base_index, word_there)
        if known.sign != sign:
            words[form.base_index] = known._replace(sign=0)
    return words


def reasons_of(
    comparison: Comparison, pair: int, others: Iterable[tuple[str, str, str]] = ()
) -> list[Reason]:
    """Return the reasons why the two sentences of a pair do not say the same, sorted by :data:`ORDER`.

    ``others`` are reasons that were found in the texts
    (:func:`multiview.judge.limits.textual_differences`).
    """
    words_a, words_b = (_words_of(comparison, column, pair) for column in (0, 1))
    shared_bases = words_a.keys() & words_b.keys()
    reasons = [Reason(*other) for other in others]
    for base in words_a:
        if base in words_b and words_a[base].sign * words_b[base].sign < 0:
            kind = "opposite" if words_a[base].word_class == WordClass.PARTICLE else "negation"
            reasons.append(Reason(kind, words_a[base].text, words_b[base].text))
    for binding in bindings(comparison, pair):
        bases_a, bases_b = binding.bases
        if bases_a and bases_b and bases_a != bases_b and bases_a | bases_b <= shared_bases:
            place = f"{binding.role} of {binding.head}"
            reasons.append(Reason("roles", ", ".join(binding.a), ", ".join(binding.b), place))
    unmatched_a = {base: word for base, word in words_a.items() if base not in words_b}
    unmatched_b = {base: word for base, word in words_b.items() if base not in words_a}
    arcs = comparison.arcs[0]
    is_turned = bool(arcs.is_turned_comparison[arcs.of_pair(pair)].any())
    reasons += _reasons_of_unmatched_words(unmatched_a, unmatched_b, is_turned)
    return sorted(reasons, key=lambda reason: ORDER.index(reason.kind))


def _reasons_of_unmatched_words(
    unmatched_a: dict[int, Form], unmatched_b: dict[int, Form], is_turned: bool
) -> Iterator[Reason]:
    """Yield the reasons of the words that only one of the sentences has.

    Words with a pole in common are paired first (opposites, agreeing words), then numbers with numbers and
    names with names. The content words that are left make one reason, *missing*. The words, by the indices
    of their bases, are removed from ``unmatched_a`` and ``unmatched_b`` when they are paired. ``is_turned``
    says that a comparison has its words exchanged in the second sentence; agreeing words are then opposites.
    """
    for base, word in list(unmatched_a.items()):
        own = all_poles(word.base)
        partners = [other for other in unmatched_b.values() if own.keys() & all_poles(other.base).keys()]
        if not partners:
            continue
        partner = partners[0]
        sign = nearness(own, all_poles(partner.base)) * word.sign * partner.sign
        if sign:
            kind = "opposite" if sign < 0 or is_turned else "agreeing"
            texts = (each.text.removeprefix("not ") if is_turned else each.text for each in (word, partner))
            yield Reason(kind, *texts)
            del unmatched_a[base], unmatched_b[partner.base_index]
    for word_class, kind in ((WordClass.NUMBER, "number"), (WordClass.NAME, "name")):
        of_class_a = [word for word in unmatched_a.values() if word.word_class == word_class]
        of_class_b = [word for word in unmatched_b.values() if word.word_class == word_class]
        for word_a, word_b in zip(of_class_a, of_class_b, strict=False):
            yield Reason(kind, word_a.text, word_b.text)
            del unmatched_a[word_a.base_index], unmatched_b[word_b.base_index]
    missing = [
        ", ".join(word.text for word in side.values() if word.is_content)
        for side in (unmatched_a, unmatched_b)
    ]
    if any(missing):
        yield Reason("missing", *missing)
