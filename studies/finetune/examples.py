"""Labelled examples and their training order, which depends only on seed, name and pass.

Nothing here keeps a random state. Batch ``k`` of a stream is computed from ``k``, so a resumed run sees the
same batches as an uninterrupted one.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from runtime.errors import UserError


@dataclass(frozen=True, slots=True)
class Examples:
    """Rows of one task: ``first[i]``, ``second[i]`` (None: single sentences), ``target[i]``."""

    first: list[str]
    second: list[str] | None
    target: np.ndarray
    """int64 [n] class ids, or float32 [n] scores."""

    @classmethod
    def of_pairs(cls, rows: Iterable[tuple[str, str, int]]) -> Examples:
        """Make examples of (text, text, class id)."""
        every = list(rows)
        target = np.array([row[2] for row in every], dtype=np.int64)
        return cls([row[0] for row in every], [row[1] for row in every], target)

    def __len__(self) -> int:
        return len(self.first)

    def __add__(self, other: Examples) -> Examples:
        second = None if self.second is None else [*self.second, *(other.second or ())]
        return Examples([*self.first, *other.first], second, np.concatenate([self.target, other.target]))

    def texts(self) -> Iterator[str]:
        """Yield every text, first sides before second ones."""
        yield from self.first
        yield from self.second or ()

    def take(self, rows: np.ndarray) -> Examples:
        """Take the examples at ``rows`` (int64 [m]), in that order."""
        second = None if self.second is None else [self.second[i] for i in rows]
        return Examples([self.first[i] for i in rows], second, self.target[rows])


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


def in_fraction(text: str, fraction: float, salt: str = "") -> bool:
    """Tell whether a text falls into a fixed pseudo-random ``fraction`` of all texts, chosen by ``salt``.

    By a hash of the text: adding rows never moves others, and equal texts stay together.
    """
    return zlib.crc32((salt + normalised(text)).encode()) < fraction * 2**32


def hold_out(rows: Examples, fraction: float, salt: str = "") -> tuple[Examples, Examples]:
    """Split into (training, held out); all rows of a first text are on one side."""
    is_held_out = np.array([in_fraction(text, fraction, salt) for text in rows.first], dtype=bool)
    return rows.take(np.flatnonzero(~is_held_out)), rows.take(np.flatnonzero(is_held_out))


def pair_in_fraction(a: str, b: str, fraction: float) -> bool:
    """Tell the same of a pair, in either order: no pair is on both sides, turned round."""
    return in_fraction(min(normalised(a), normalised(b)), fraction)


Draw = Callable[[int], Examples]
"""Gives the examples of a pass (0, 1, ...), in any fixed order; every pass has the same number of them."""


def fixed(examples: Examples) -> Draw:
    """Give the same examples at every pass."""
    return lambda _: examples


def sampled(examples: Examples, fraction: float, seed: int, name: str) -> Draw:
    """Draw a fresh random ``fraction`` of the examples at every pass (SEQ-MT's ``[sub]``)."""
    count = max(1, round(fraction * len(examples)))

    def draw(pass_index: int) -> Examples:
        return examples.take(rng(seed, "sample/" + name, pass_index).permutation(len(examples))[:count])

    return draw


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
    split. Another ``name`` is another choice.

    Raises:
        UserError: every phrase is a paraphrase of some ``a``.
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
                c = choices[generator.integers(len(choices))]
                while c in related[a]:
                    c = choices[generator.integers(len(choices))]
                rows.append((a, c, 0))
        return Examples.of_pairs(rows)

    return draw


class Stream:
    """Endless batches: pass after pass, each in a new random order; the last of a pass may be smaller."""

    def __init__(self, draw: Draw, batch_size: int, seed: int, name: str) -> None:
        self.draw, self.batch_size, self.seed, self.name = draw, batch_size, seed, name
        self._current = self._pass(0)
        if not len(self._current[1]):
            raise UserError(f"{name}: no training examples are left; check the files and filters")

    @property
    def batches_per_pass(self) -> int:
        """Count the batches of a pass: ceil(examples / batch size)."""
        return -(-len(self._current[1]) // self.batch_size)

    def batch(self, k: int) -> Examples:
        """Take batch ``k`` (0, 1, ...) of the endless sequence."""
        pass_index, offset = divmod(k, self.batches_per_pass)
        if self._current[0] != pass_index:
            self._current = self._pass(pass_index)
        _, examples, order = self._current
        return examples.take(order[offset * self.batch_size : (offset + 1) * self.batch_size])

    def _pass(self, pass_index: int) -> tuple[int, Examples, np.ndarray]:
        examples = self.draw(pass_index)
        generator = rng(self.seed, "order/" + self.name, pass_index)
        return pass_index, examples, generator.permutation(len(examples))
