"""Choose, split and order labelled examples for training.

No random state is kept: order and choice depend on seed, name and pass alone. Batch ``k`` of a stream is
computed from ``k``, so a resumed run sees the same batches as an uninterrupted one.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corpora.pairs import NLI_LABELS, read_nli
from runtime.errors import UserError
from runtime.files import json_digest

RELATIONS = ("equivalence", "entailment", "independent")
"""Classes of PPDB's pairs."""
CLASS_OF_LABEL = {"Equivalence": 0, "ForwardEntailment": 1, "ReverseEntailment": 1, "Independent": 2}
"""Classes of the labels of PPDB 2.0 that are used; Exclusion and OtherRelated are dropped (BURT)."""
MAX_WORDS = 6
"""Longest phrase (BURT)."""
PER_CLASS = 354_000
"""Most pairs of each class (BURT)."""


@dataclass(frozen=True, slots=True)
class Examples:
    """The rows of one task, as columns: ``first[i]`` and ``second[i]`` have the label ``target[i]``."""

    first: list[str]
    second: list[str] | None
    """None if the task is about single texts."""
    target: np.ndarray
    """int64 [n] class ids, -1 without a class, or float32 [n] scores."""

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[str, str, int]]) -> Examples:
        """Make examples of (text, text, class id)."""
        rows = list(pairs)
        target = np.array([row[2] for row in rows], dtype=np.int64)
        return cls([row[0] for row in rows], [row[1] for row in rows], target)

    @classmethod
    def of_nli(cls, files: Iterable[Path], skip_counts: Counter[str] | None = None) -> Examples:
        """Read NLI pairs with a three-way label; ``skip_counts`` counts the others (``-``, ...)."""
        skip_counts = Counter() if skip_counts is None else skip_counts
        rows = [row for file in files for row in read_nli(file, skip_counts)]
        pairs = [(a, b, NLI_LABELS.index(label)) for a, b, label in rows if label in NLI_LABELS]
        skip_counts["pairs with another label"] += len(rows) - len(pairs)
        return cls.of_pairs(pairs)

    def __len__(self) -> int:
        return len(self.first)

    def __add__(self, other: Examples) -> Examples:
        second = None if self.second is None else [*self.second, *(other.second or ())]
        return Examples([*self.first, *other.first], second, np.concatenate([self.target, other.target]))

    @property
    def texts(self) -> list[str]:
        """All first texts, then all second ones."""
        return [*self.first, *(self.second or ())]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Both texts of every row."""
        return list(zip(self.first, self.second or (), strict=True))

    def take(self, rows: np.ndarray) -> Examples:
        """Take the examples at ``rows``, int64 [m], in that order, or where they are true, bool [n]."""
        numbers = np.arange(len(self))[rows].tolist()
        second = None if self.second is None else [self.second[i] for i in numbers]
        return Examples([self.first[i] for i in numbers], second, self.target[numbers])

    def sample(self, size: int, name: str) -> Examples:
        """Take at most ``size`` rows (0: all) at random, always the same ones of a ``name``, in their order.

        The first rows would be a biased choice, because files may be sorted.
        """
        return self.take(np.sort(rng(0, "choose/" + name).permutation(len(self))[: size or None]))


def digest(sets: Iterable[Examples]) -> str:
    """Digest the texts and targets of several sets of examples."""
    return json_digest([[each.first, each.second, each.target.tolist()] for each in sets], 64)


def rng(seed: int, name: str, *counters: int) -> np.random.Generator:
    """Make a random generator that depends on nothing but these values."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), *counters])


def normalise(text: str) -> str:
    """Drop all but letters and digits, in lower case: a sentence is the same under any tokenisation."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def hold_out(
    rows: Examples, fraction: float, salt: str = "", *, both_sides: bool = False
) -> tuple[Examples, Examples]:
    """Split into (training, held out) by a hash with a ``salt``: added rows move no others.

    All rows of a first text are on one side; with ``both_sides`` all of a pair, in either order.
    """
    keys = [normalise(text) for text in rows.first]
    if both_sides:
        keys = [min(key, normalise(text)) for key, text in zip(keys, rows.second or (), strict=True)]
    hashes = np.array([zlib.crc32((salt + key).encode()) for key in keys])
    is_held_out = hashes < fraction * 2**32
    return rows.take(~is_held_out), rows.take(is_held_out)


def usable_phrases(rows: Iterable[tuple[str, str, str | None]]) -> Examples:
    """Filter PPDB's rows: classes are those of :data:`RELATIONS`, -1 without a label (PPDB 1.0).

    The phrases of a pair differ and have at most :data:`MAX_WORDS` words each. A pair counts once in each
    direction, as PPDB lists both (docs/papers/burt.md).
    """
    classes: dict[tuple[str, str], int] = {}
    for a, b, label in rows:
        is_short = max(len(a.split()), len(b.split())) <= MAX_WORDS
        if a != b and is_short and (label is None or label in CLASS_OF_LABEL):
            classes.setdefault((a, b), -1 if label is None else CLASS_OF_LABEL[label])
    return Examples.of_pairs((a, b, label) for (a, b), label in classes.items())


def split_phrases(
    rows: Iterable[tuple[str, str, str | None]], per_class: int, fraction: float
) -> tuple[Examples, Examples]:
    """Filter PPDB's rows, balance their classes, then hold out a fraction: (training, held out).

    Each class is cut to the size of the smallest, at most ``per_class`` rows; every row without a label
    stays. The choice is random and always the same, so a test set is what training left of the same rows.
    """
    usable = usable_phrases(rows)
    groups = [np.flatnonzero(usable.target == class_id) for class_id in range(len(RELATIONS))]
    size = min([per_class, *(len(group) for group in groups if len(group))])
    samples = [
        group[rng(0, f"balance/{label}").permutation(len(group))[:size]]
        for label, group in zip(RELATIONS, groups, strict=True)
    ]
    rows_without_label = np.flatnonzero(usable.target < 0)
    return hold_out(usable.take(np.concatenate([*samples, rows_without_label])), fraction, both_sides=True)


Draw = Callable[[int], Examples]
"""Gives the examples of a pass (0, 1, ...), in any fixed order; every pass has the same number of them."""


def draw_all(examples: Examples) -> Draw:
    """Give the same examples at every pass."""
    return lambda _: examples


def draw_fraction(examples: Examples, fraction: float, seed: int, name: str) -> Draw:
    """Draw a fresh random ``fraction`` of the examples at every pass (SEQ-MT's ``[sub]``)."""
    count = max(1, round(fraction * len(examples)))
    return lambda number: examples.take(
        rng(seed, "sample/" + name, number).permutation(len(examples))[:count]
    )


def with_negatives(
    pairs: Sequence[tuple[str, str]],
    k: int,
    seed: int,
    name: str = "identification",
    other_side_pairs: Sequence[tuple[str, str]] = (),
    phrases: Iterable[str] = (),
) -> Draw:
    """Give paraphrase pairs (a, b), class 1, and ``k`` random negatives (a, c), class 0, of each distinct a.

    Negatives are new at every pass. ``c`` is any of ``phrases``, by default those of ``pairs``, except ``a``
    and its known paraphrases, in ``pairs`` or in ``other_side_pairs``, those on the other side of a split.
    Another ``name`` is another choice. Raises UserError: every phrase is a paraphrase of one a.
    """
    vocabulary = set(phrases) or {phrase for pair in pairs for phrase in pair}
    paraphrases: dict[str, set[str]] = {}
    for a, b in (*pairs, *other_side_pairs):
        paraphrases.setdefault(a, {a}).add(b)
        paraphrases.setdefault(b, {b}).add(a)
    choices = sorted(vocabulary)
    targets = dict.fromkeys(a for a, _ in pairs)
    for a in targets if k else ():
        if vocabulary <= paraphrases[a]:
            raise UserError(f"no negative for {a!r}: every phrase of the set is its paraphrase")

    def draw(pass_index: int) -> Examples:
        generator = rng(seed, "negatives/" + name, pass_index)
        rows = [(a, b, 1) for a, b in pairs]
        for a in targets:
            for _ in range(k):
                c = a
                while c in paraphrases[a]:
                    c = choices[generator.integers(len(choices))]
                rows.append((a, c, 0))
        return Examples.of_pairs(rows)

    return draw


class Stream:
    """Endless batches: pass after pass in a new random order; the last batch of a pass may be smaller."""

    def __init__(self, draw: Draw, batch_size: int, seed: int, name: str) -> None:
        self.draw, self.batch_size, self.seed, self.name = draw, batch_size, seed, name
        self._load(0)
        if not len(self._order):
            raise UserError(f"{name}: no training examples are left; check the files and filters")
        self.batches_per_pass = -(-len(self._order) // batch_size)

    def batch(self, k: int) -> Examples:
        """Take batch ``k`` (0, 1, ...) of the endless sequence."""
        pass_index, offset = divmod(k, self.batches_per_pass)
        if pass_index != self._pass_index:
            self._load(pass_index)
        return self._examples.take(self._order[offset * self.batch_size :][: self.batch_size])

    def _load(self, pass_index: int) -> None:
        self._pass_index = pass_index
        self._examples = self.draw(pass_index)
        generator = rng(self.seed, "order/" + self.name, pass_index)
        self._order = generator.permutation(len(self._examples))
