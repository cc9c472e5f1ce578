"""What the rules of :mod:`parsing.trees.roles` ask of labels and of words, as bits: ``role_kinds.tsv``."""

from __future__ import annotations

import csv
from collections import namedtuple
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
WORD_BITS = {name: 1 << number for number, name in enumerate([*_WORDS, "ing"])}
"""The bit of each set of words; those of "ing" end in it."""


def _constants(bits: dict[str, int]) -> Any:
    """Bits by their names in capitals, which compiled code can read."""
    names = [name.upper().replace(" ", "_") for name in bits]
    constants: Any = namedtuple("Constants", names)  # type: ignore[misc]
    return constants(*bits.values())


KIND, WORD = _constants(KIND_BITS), _constants(WORD_BITS)
CLAUSE = KIND.ROOT | KIND.COMPLEMENT | KIND.ADVERBIAL_CLAUSE | KIND.PARTICIPLE | KIND.RELATIVE | KIND.BESIDE
CLAUSE |= KIND.CLAUSAL_SUBJECT
FUNCTION_WORD = KIND.DETERMINER | KIND.CASE | KIND.AUXILIARY | KIND.COPULA | KIND.FUNCTION


def _bits_of(member: str, sets: dict[str, list[str]], bits: dict[str, int]) -> int:
    return sum(bits[name] for name, members in sets.items() if member in members)


_BITS_OF_WORD = {word: _bits_of(word, _WORDS, WORD_BITS) for words in _WORDS.values() for word in words}


def relation_bits(relations: Sequence[str]) -> NDArray[np.int64]:
    """Return the kinds of each relation of a cache's inventory, as bits: int64 [R]."""
    return np.array([_bits_of(label, _LABELS, KIND_BITS) for label in relations], np.int64)


def word_flags(words: Sequence[str]) -> NDArray[np.int64]:
    """The sets that each word belongs to, as bits: int64 [U]."""
    lower = [plain(word).lower() for word in words]
    return np.array([_BITS_OF_WORD.get(w, 0) | WORD.ING * w.endswith("ing") for w in lower], np.int64)
