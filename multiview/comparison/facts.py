"""The facts of sentences that are compared: their words and canonical arcs (:mod:`parsing.trees.roles`).

A word is read as its base and a sign (:mod:`multiview.encoders.poles`).

Legend of dimension suffixes: S sentences, T words of all, M arcs, U distinct words, n pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from multiview.encoders.poles import PARTICLES, WordTrees, base_and_sign, poles
from parsing.trees.batch import Batch
from parsing.trees.role_rules import KIND, ROLES

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
LONGEST = 400
"""Words of a text that are compared; the parsers take fewer."""
_NEG = ROLES.index("neg")
_FEW = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
_VALUES = {word: str(value) for value, word in enumerate(_FEW.split())}
_ENDINGS = {"ies": "y", "ied": "y", "es": "", "s": "", "ed": "", "ing": ""}


class WordClass(IntEnum):
    """The class of a word that is compared in a way of its own; other words have none, 0."""

    NUMBER = 1
    NAME = 2
    PARTICLE = 3
    """On, off, up and down: content or not as the parser has it, so that they are compared for their own."""


class Form(NamedTuple):
    """A word as it is written, with what the comparison reads of it."""

    text: str
    base: str
    """The base that all forms of the word share."""
    key: int
    """The number of the base."""
    sign: int
    word_class: int


class Forms:
    """The distinct words of some sentences."""

    def __init__(self) -> None:
        self.listed: list[Form] = []
        self.bases: dict[str, int] = {}
        self._place: dict[str, int] = {}

    def places(self, types: Sequence[str]) -> Ints:
        """Return the place of each word among ``listed``, [U]; new words join the list."""
        for word in types:
            if self._place.setdefault(word, len(self.listed)) == len(self.listed):
                base, sign = base_of(word)
                key = self.bases.setdefault(base, len(self.bases))
                self.listed.append(Form(word, base, key, sign, _class_of(word)))
        return np.array([self._place[word] for word in types], np.int64)


def _class_of(word: str) -> int:
    if word[:1].isdigit() or word[-1:].isdigit() or word.lower() in _VALUES:
        return WordClass.NUMBER
    if word.lower() in {*PARTICLES, *PARTICLES.values()}:
        return WordClass.PARTICLE
    return WordClass.NAME if word.isupper() or (word[:1].isupper() and word[1:].islower()) else 0


def base_of(word: str) -> tuple[str, int]:
    """Return what forms of a word have in common, and its sign: two is 2, cats is cat, off is minus on."""
    base, sign = base_and_sign(word.lower())
    if base in PARTICLES:
        return PARTICLES[base], -sign
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


def read_facts(batch: Batch, forms: Forms) -> Facts:
    """Read the sentences of a batch."""
    trees = WordTrees.of(batch)
    types, word_N, relation = trees.types, trees.word_N, trees.relation_N
    form_N = forms.places(types)[word_N]
    arcs = trees.canonical_arcs()
    sign_N = trees.negation_signs(arcs, with_particles=False).astype(np.int64)
    content_N = np.isin(np.arange(len(word_N)), trees.content_tokens())
    place_N = np.arange(len(word_N)) - np.repeat(batch.sentence_offsets[:-1], np.diff(batch.sentence_offsets))
    spoken = np.array([any(map(str.isalnum, word)) for word in types], bool)[word_N]
    word = np.flatnonzero(spoken & (place_N < LONGEST))
    stated = np.flatnonzero(arcs.role != _NEG)
    stated = stated[np.argsort(_sentence(batch, arcs.head[stated]), kind="stable")]
    head, dependent = arcs.head[stated], arcs.dependent[stated]
    return Facts(
        words=np.bincount(_sentence(batch, word), minlength=len(batch)),
        word=form_N[word],
        content=content_N[word],
        preposition=(relation[word] & KIND.CASE) > 0,
        denied=sign_N[word],
        first=place_N[word] == 0,
        arcs=np.bincount(_sentence(batch, head), minlength=len(batch)),
        role=arcs.role[stated],
        head=form_N[head],
        dependent=form_N[dependent],
        turned=sign_N[head] * sign_N[dependent],
        head_denied=sign_N[head],
        negations=np.bincount(_sentence(batch, np.flatnonzero(sign_N < 0)), minlength=len(batch)),
    )


def _sentence(batch: Batch, token: NDArray[np.integer]) -> Ints:
    return np.searchsorted(batch.sentence_offsets, token, side="right") - 1


class ReadPairs(NamedTuple):
    """Pairs of sentences with the facts that were read of them."""

    facts: Facts
    forms: Forms
    rows: Ints
    """[n, 2], the sentences of each pair."""
