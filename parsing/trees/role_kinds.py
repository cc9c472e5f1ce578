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
FLAG = {name: 1 << number for number, name in enumerate(_WORDS)}
"""The bit of each set of words."""
ING = 1 << len(_WORDS)
"""The bit of words in -ing."""


def bits_of(bit: dict[str, int], names: str) -> list[int]:
    """The bits of some kinds or sets, named with commas between them."""
    return [bit[name] for name in names.split(", ")]


def _bits(member: str, kinds: dict[str, list[str]], bit: dict[str, int]) -> int:
    return sum(bit[name] for name, members in kinds.items() if member in members)


_FLAGS_OF = {word: _bits(word, _WORDS, FLAG) for words in _WORDS.values() for word in words}


def relation_bits(relations: Sequence[str]) -> NDArray[np.int64]:
    """What each relation of a cache's inventory is, as bits: int64 [R]."""
    return np.array([_bits(label, _LABELS, KIND_BITS) for label in relations], np.int64)


def word_flags(words: Sequence[str]) -> NDArray[np.int64]:
    """Which of the words that a rule asks for each one is, as bits: int64 [U]."""
    lower = [plain(word).lower() for word in words]
    return np.array([_FLAGS_OF.get(w, 0) | (ING if w.endswith("ing") else 0) for w in lower], np.int64)
