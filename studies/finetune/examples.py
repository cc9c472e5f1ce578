"""Choose, split and order labelled examples for training.

Nothing here keeps a random state: order and choice depend on seed, name and pass alone. Batch ``k`` of a
stream is computed from ``k``, so a resumed run sees the same batches as an uninterrupted one.
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

RELATIONS = ("equivalence", "entailment", "independent")
"""Classes of PPDB's pairs."""
MERGED = {"Equivalence": 0, "ForwardEntailment": 1, "ReverseEntailment": 1, "Independent": 2}
"""Classes of the labels of PPDB 2.0 that are kept; Exclusion and OtherRelated are dropped (BURT)."""
MAX_WORDS = 6
"""Longest phrase (BURT)."""
PER_CLASS = 354_000
"""Most pairs of each class (BURT)."""


@dataclass(frozen=True, slots=True)
class Examples:
    """Holds rows of one task: ``first[i]``, ``second[i]`` (None: single sentences), ``target[i]``."""

    first: list[str]
    second: list[str] | None
    target: np.ndarray
    """int64 [n] class ids, -1 without a class, or float32 [n] scores."""

    @classmethod
    def of_pairs(cls, rows: Iterable[tuple[str, str, int]]) -> Examples:
        """Make examples of (text, text, class id)."""
        listed = list(rows)
        target = np.array([row[2] for row in listed], dtype=np.int64)
        return cls([row[0] for row in listed], [row[1] for row in listed], target)

    @classmethod
    def of_nli(cls, files: Iterable[Path], skipped: Counter[str] | None = None) -> Examples:
        """Read NLI pairs with a three-way label; ``skipped`` counts others (``-``, ``not_entailment``)."""
        skipped = Counter() if skipped is None else skipped
        rows = [row for file in files for row in read_nli(file, skipped)]
        labelled = [(a, b, NLI_LABELS.index(label)) for a, b, label in rows if label in NLI_LABELS]
        skipped["pairs with another label"] += len(rows) - len(labelled)
        return cls.of_pairs(labelled)

    def __len__(self) -> int:
        return len(self.first)

    def __add__(self, other: Examples) -> Examples:
        second = None if self.second is None else [*self.second, *(other.second or ())]
        return Examples([*self.first, *other.first], second, np.concatenate([self.target, other.target]))

    @property
    def texts(self) -> list[str]:
        """List every text, first sides before second ones."""
        return [*self.first, *(self.second or ())]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """List both texts of every row."""
        return list(zip(self.first, self.second or (), strict=True))

    def take(self, rows: np.ndarray) -> Examples:
        """Take the examples at ``rows``, int64 [m], in that order, or where they are true, bool [n]."""
        numbers = np.arange(len(self))[rows].tolist()
        second = None if self.second is None else [self.second[i] for i in numbers]
        return Examples([self.first[i] for i in numbers], second, self.target[numbers])


def rng(seed: int, name: str, *counters: int) -> np.random.Generator:
    """Make a random generator that depends on nothing but these values."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), *counters])


def choose(count: int, most: int, name: str) -> np.ndarray:
    """Choose at most ``most`` (0: all) of ``count`` row numbers, always the same, in ascending order.

    Files may be sorted, so their first rows would be a biased choice.
    """
    return np.sort(rng(0, "choose/" + name).permutation(count)[: most or None])


def normalised(text: str) -> str:
    """Keep lower-cased letters and digits only: equal for the same sentence under another tokenisation."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def hold_out(
    rows: Examples, fraction: float, salt: str = "", *, both_sides: bool = False
) -> tuple[Examples, Examples]:
    """Split into (training, held out) by a hash with a ``salt``: added rows move no others.

    All rows of a first text are on one side; with ``both_sides`` all of a pair, in either order.
    """
    keys = [normalised(text) for text in rows.first]
    if both_sides:
        keys = [min(key, normalised(text)) for key, text in zip(keys, rows.second or (), strict=True)]
    hashes = np.array([zlib.crc32((salt + key).encode()) for key in keys])
    is_held_out = hashes < fraction * 2**32
    return rows.take(~is_held_out), rows.take(is_held_out)


def usable_phrases(rows: Iterable[tuple[str, str, str | None]]) -> Examples:
    """Filter PPDB's rows: classes are those of :data:`RELATIONS`, -1 without a label (1.0).

    Their phrases differ and have at most :data:`MAX_WORDS` words each; Exclusion and OtherRelated are gone. A
    pair counts once in each direction: PPDB lists both, and BURT's 3 x 354k pairs out of 1.53M leave no
    room for one alone.
    """
    classes: dict[tuple[str, str], int] = {}
    for a, b, label in rows:
        if a != b and max(len(a.split()), len(b.split())) <= MAX_WORDS and (label is None or label in MERGED):
            classes.setdefault((a, b), -1 if label is None else MERGED[label])
    return Examples.of_pairs((a, b, label) for (a, b), label in classes.items())


def split_phrases(
    rows: Iterable[tuple[str, str, str | None]], per_class: int, fraction: float
) -> tuple[Examples, Examples]:
    """Filter PPDB's rows, balance their classes, then hold out a fraction: (training, held out).

    At most ``per_class`` rows of each class, all cut to the smallest, and every row without a label stay. The
    choice is random and always the same, so a test set is what training left of the same rows. In this order
    the papers' figures agree: of BURT's 354,000 pairs of each label 97 % are UNI's 343,000.
    """
    usable = usable_phrases(rows)
    groups = [np.flatnonzero(usable.target == place) for place in range(len(RELATIONS))]
    size = min([per_class, *(len(group) for group in groups if len(group))])
    chosen = [
        group[rng(0, f"balance/{label}").permutation(len(group))[:size]]
        for label, group in zip(RELATIONS, groups, strict=True)
    ]
    balanced = usable.take(np.concatenate([*chosen, np.flatnonzero(usable.target < 0)]))
    return hold_out(balanced, fraction, both_sides=True)


Draw = Callable[[int], Examples]
"""Gives the examples of a pass (0, 1, ...), in any fixed order; every pass has the same number of them."""


def fixed(examples: Examples) -> Draw:
    """Give the same examples at every pass."""
    return lambda _: examples


def sampled(examples: Examples, fraction: float, seed: int, name: str) -> Draw:
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
    others: Sequence[tuple[str, str]] = (),
    phrases: Iterable[str] = (),
) -> Draw:
    """Give paraphrase pairs (a, b), class 1, and ``k`` random negatives (a, c), class 0, of each distinct a.

    Negatives are new at every pass. ``c`` is any of ``phrases``, by default those of ``pairs``, that is
    neither ``a`` nor a known paraphrase of ``a`` in ``pairs`` or ``others``, the pairs on the other side of a
    split; it is an error if there is none. Another ``name`` is another choice.
    """
    own = set(phrases) or {phrase for pair in pairs for phrase in pair}
    related: dict[str, set[str]] = {}
    for a, b in (*pairs, *others):
        related.setdefault(a, {a}).add(b)
        related.setdefault(b, {b}).add(a)
    choices, targets = sorted(own), dict.fromkeys(a for a, _ in pairs)
    for a in targets if k else ():
        if own <= related[a]:
            raise UserError(f"no negative for {a!r}: every phrase of the set is its paraphrase")

    def draw(pass_index: int) -> Examples:
        generator = rng(seed, "negatives/" + name, pass_index)
        rows = [(a, b, 1) for a, b in pairs]
        for a in targets:
            for _ in range(k):
                c = a
                while c in related[a]:
                    c = choices[generator.integers(len(choices))]
                rows.append((a, c, 0))
        return Examples.of_pairs(rows)

    return draw


class Stream:
    """Gives batches without end: pass after pass in a new random order; the last of a pass may be smaller."""

    def __init__(self, draw: Draw, batch_size: int, seed: int, name: str) -> None:
        self.draw, self.batch_size, self.seed, self.name = draw, batch_size, seed, name
        self._load(0)
        if not len(self._order):
            raise UserError(f"{name}: no training examples are left; check the files and filters")
        self.batches_per_pass = -(-len(self._order) // batch_size)

    def batch(self, k: int) -> Examples:
        """Take batch ``k`` (0, 1, ...) of the endless sequence."""
        pass_index, offset = divmod(k, self.batches_per_pass)
        if pass_index != self._loaded:
            self._load(pass_index)
        return self._examples.take(self._order[offset * self.batch_size :][: self.batch_size])

    def _load(self, pass_index: int) -> None:
        self._loaded, self._examples = pass_index, self.draw(pass_index)
        generator = rng(self.seed, "order/" + self.name, pass_index)
        self._order = generator.permutation(len(self._examples))
