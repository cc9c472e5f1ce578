"""Labelled examples and their training order, which depends only on seed, name and pass.

Nothing here keeps a random state. Batch ``k`` of a stream is computed from ``k``, so a resumed run sees the
same batches as an uninterrupted one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from corpora.support.errors import UserError


@dataclass(frozen=True, slots=True)
class Examples:
    """Rows of one task: ``first[i]``, ``second[i]`` (None: single sentences), ``target[i]``."""

    first: list[str]
    second: list[str] | None
    target: np.ndarray
    """int64 [n] class ids, or float32 [n] scores."""

    @classmethod
    def of_pairs(cls, rows: Iterable[tuple[str, str, int]]) -> Examples:
        """Examples of (text, text, class id)."""
        held = list(rows)
        target = np.array([row[2] for row in held], dtype=np.int64)
        return cls([row[0] for row in held], [row[1] for row in held], target)

    def __len__(self) -> int:
        return len(self.first)

    def texts(self) -> Iterator[str]:
        """Every text, first sides before second ones."""
        yield from self.first
        yield from self.second or ()

    def take(self, rows: np.ndarray) -> Examples:
        """The examples at ``rows`` (int64 [m]), in that order."""
        second = None if self.second is None else [self.second[i] for i in rows]
        return Examples([self.first[i] for i in rows], second, self.target[rows])


def rng(seed: int, name: str, *counters: int) -> np.random.Generator:
    """A random generator that depends on nothing but these values."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), *counters])


class Source(Protocol):
    """Gives the examples of a pass; every pass has the same number of them."""

    def __len__(self) -> int: ...

    def draw(self, pass_index: int) -> Examples:
        """The examples of pass ``pass_index`` (0, 1, ...), in any fixed order."""
        ...


@dataclass(frozen=True)
class Fixed:
    """The same examples at every pass."""

    examples: Examples

    def __len__(self) -> int:
        return len(self.examples)

    def draw(self, pass_index: int) -> Examples:
        """All examples."""
        return self.examples


@dataclass(frozen=True)
class Sampled:
    """A fresh random ``fraction`` of the examples at every pass (SEQ-MT's ``[sub]``)."""

    examples: Examples
    fraction: float
    seed: int
    name: str

    def __len__(self) -> int:
        return max(1, round(self.fraction * len(self.examples)))

    def draw(self, pass_index: int) -> Examples:
        """``len(self)`` examples without replacement."""
        rows = rng(self.seed, "sample/" + self.name, pass_index).permutation(len(self.examples))
        return self.examples.take(rows[: len(self)])


@dataclass(frozen=True)
class WithNegatives:
    """Paraphrase pairs (target 1), each with ``k`` random negatives (a, c) of target 0, new at every pass.

    ``c`` is any phrase of the set that is neither ``a`` nor a known paraphrase of ``a`` (as in BURT).
    """

    pairs: list[tuple[str, str]]
    k: int
    seed: int
    name: str = "identification"
    others: Sequence[tuple[str, str]] = ()
    """Known paraphrases outside ``pairs`` (the other side of the split), which must not become negatives."""

    @cached_property
    def _related(self) -> dict[str, set[str]]:
        """Every phrase to itself and its paraphrases."""
        related: dict[str, set[str]] = {}
        for a, b in (*self.pairs, *self.others):
            related.setdefault(a, {a}).add(b)
            related.setdefault(b, {b}).add(a)
        return related

    def __len__(self) -> int:
        return len(self.pairs) * (1 + self.k)

    def draw(self, pass_index: int) -> Examples:
        """All positives, each followed by its negatives."""
        generator = rng(self.seed, "negatives/" + self.name, pass_index)
        related, phrases = self._related, sorted(self._related)
        first: list[str] = []
        second: list[str] = []
        for a, b in self.pairs:
            first += [a] * (1 + self.k)
            second.append(b)
            if self.k and len(related[a]) == len(phrases):
                raise UserError(
                    f"no negative for {a!r}: every phrase of the set is its paraphrase; add pairs"
                )
            for _ in range(self.k):
                c = phrases[generator.integers(len(phrases))]
                while c in related[a]:
                    c = phrases[generator.integers(len(phrases))]
                second.append(c)
        target = np.tile(np.array([1] + [0] * self.k, dtype=np.int64), len(self.pairs))
        return Examples(first, second, target)


@dataclass(frozen=True)
class Joined:
    """Several sources of pairs for one task; a pass goes through all of them."""

    sources: Sequence[Source]

    def __len__(self) -> int:
        return sum(map(len, self.sources))

    def draw(self, pass_index: int) -> Examples:
        """The passes of all sources, concatenated."""
        parts = [source.draw(pass_index) for source in self.sources]
        second: list[str] = []
        for part in parts:
            assert part.second is not None, "joined sources hold pairs"
            second += part.second
        first = [text for part in parts for text in part.first]
        return Examples(first, second, np.concatenate([part.target for part in parts]))


class Stream:
    """An endless sequence of batches: pass after pass, each in a new random order.

    The last batch of a pass may be smaller.
    """

    def __init__(self, source: Source, batch_size: int, seed: int, name: str) -> None:
        if not len(source):
            raise UserError(f"{name}: no training examples are left; check the files and filters")
        self.source = source
        self.batch_size = batch_size
        self.seed = seed
        self.name = name
        self._pass: tuple[int, Examples, np.ndarray] | None = None

    @property
    def batches_per_pass(self) -> int:
        """ceil(examples per pass / batch size)."""
        return -(-len(self.source) // self.batch_size)

    def batch(self, k: int) -> Examples:
        """Batch ``k`` (0, 1, ...) of the endless sequence."""
        pass_index, offset = divmod(k, self.batches_per_pass)
        if self._pass is None or self._pass[0] != pass_index:
            examples = self.source.draw(pass_index)
            order = rng(self.seed, "order/" + self.name, pass_index).permutation(len(examples))
            self._pass = (pass_index, examples, order)
        _, examples, order = self._pass
        return examples.take(order[offset * self.batch_size : (offset + 1) * self.batch_size])
