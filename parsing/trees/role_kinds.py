"""What the rules of :mod:`parsing.trees.roles` ask of labels and of words, as bits: ``role_kinds.tsv``."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.characters import plain

with open(Path(__file__).with_suffix(".tsv"), encoding="utf-8", newline="") as _lines:
    _ROWS = list(csv.DictReader(_lines, delimiter="\t", quoting=csv.QUOTE_NONE))
_LABELS, _WORDS = (
    {row["kind"]: row["members"].split() for row in _ROWS if row["of"] == of} for of in ("relation", "word")
)
KIND_BITS = {name: 1 << number for number, name in enumerate(_LABELS)}
"""The bit of each kind of relation."""
ROLE_OF_KIND = {row["kind"]: row["role"] for row in _ROWS if row["role"]}
"""The role that a dependent has by a kind of its label alone; of several kinds, the first counts."""
WORD_BITS = {name: 1 << number for number, name in enumerate(_WORDS)}
"""The bit of each set of words."""


def _bits(bits: dict[str, int], names: str) -> list[int]:
    """The bits of kinds or sets that are named with commas between them."""
    return [bits[name] for name in names.split(", ")]


# Kinds of relations.
PASSIVE_SUBJECT, SUBJECT, CLAUSAL_SUBJECT, OBJECT, INDIRECT, BY_AGENT, POSSESSOR, OBLIQUE = _bits(
    KIND_BITS, "passive subject, subject, clausal subject, object, indirect object, agent, possessor, oblique"
)
ATTRIBUTE, NUMBER, ADVERB, ADVERBIAL, RELATIVE, PARTICIPLE, CONJUNCT, CASE = _bits(
    KIND_BITS, "attribute, number, adverb, adverbial clause, relative, participle, conjunct, case"
)
PASSIVE, AUXILIARY, COPULA, OPEN, PREPOSITIONAL, COMPLEMENT, NAME, DETERMINER = _bits(
    KIND_BITS, "passive, auxiliary, copula, open, prepositional object, complement, name, determiner"
)
PREPOSITION, BESIDE, ROOT, FUNCTION, EXPLETIVE = _bits(
    KIND_BITS, "preposition, beside, root, function, expletive"
)
CLAUSE = ROOT | COMPLEMENT | ADVERBIAL | PARTICIPLE | RELATIVE | BESIDE | CLAUSAL_SUBJECT
FUNCTION_WORD = DETERMINER | CASE | AUXILIARY | COPULA | FUNCTION
# Sets of words.
W_NOT, W_NO, W_BY, W_TO, W_FROM, W_OF, W_THAN, W_AS, W_AFTER, W_BEFORE, W_RELATIVE = _bits(
    WORD_BITS, "not, no, by, to, from, of, than, as, after, before, relative"
)
W_WHERE, W_PREPOSITION, W_PRONOUN, W_WHAT, W_DO, W_LESS, W_BARE, W_OWN, W_BELONG = _bits(
    WORD_BITS, "relative adverb, preposition, pronoun, what, do, less, bare, own, belong"
)
W_ING = 1 << len(_WORDS)
"""The bit of words that end in -ing."""


def _bits_of_member(member: str, sets: dict[str, list[str]], bits: dict[str, int]) -> int:
    return sum(bits[name] for name, members in sets.items() if member in members)


_BITS_OF_WORD = {
    word: _bits_of_member(word, _WORDS, WORD_BITS) for words in _WORDS.values() for word in words
}


def relation_bits(relations: Sequence[str]) -> NDArray[np.int64]:
    """Return the kinds of each relation of a cache's inventory, as bits: int64 [R]."""
    return np.array([_bits_of_member(label, _LABELS, KIND_BITS) for label in relations], np.int64)


def word_flags(words: Sequence[str]) -> NDArray[np.int64]:
    """The sets that each word belongs to, as bits: int64 [U]."""
    lower = [plain(word).lower() for word in words]
    return np.array([_BITS_OF_WORD.get(w, 0) | (W_ING if w.endswith("ing") else 0) for w in lower], np.int64)
