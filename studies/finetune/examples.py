"""Choose, split and order labelled examples for training.

Order and choice depend on nothing but a seed, a name and the number of the pass, so that no state of a random
generator has to be stored. Batch ``k`` of a stream is computed from ``k``; a resumed run therefore gets the
same batches as one that was not interrupted.
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
"""The class of each label of PPDB 2.0; pairs with other labels are dropped, as in BURT."""
MAX_WORDS = 6
"""Number of words of a phrase at most (BURT)."""
PER_CLASS = 354_000
"""Number of pairs of each class at most (BURT)."""


@dataclass(frozen=True, slots=True)
class Examples:
    """The examples of one task; ``first[i]`` and ``second[i]`` have the label ``target[i]``."""

    first: list[str]
    second: list[str] | None
    """The second texts of pairs; None if examples are single texts."""
    target: np.ndarray
    """Class ids, int64 [n], -1 without a class; or scores, float32 [n]."""

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[str, str, int]]) -> Examples:
        """Return the examples of rows (text, text, class id)."""
        rows = list(pairs)
        target = np.array([label for _, _, label in rows], dtype=np.int64)
        return cls([first for first, _, _ in rows], [second for _, second, _ in rows], target)

    @classmethod
    def of_nli(cls, files: Iterable[Path], skip_counts: Counter[str] | None = None) -> Examples:
        """Return the pairs of NLI files that have one of the three labels.

        Pairs without one (``-``, ...) are skipped, and counted in ``skip_counts`` by reason.
        """
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
        """All first texts, then all second texts."""
        return [*self.first, *(self.second or ())]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Both texts of every row."""
        return list(zip(self.first, self.second or (), strict=True))

    def take(self, rows: np.ndarray) -> Examples:
        """Return some examples: in the order of indices ``rows``, int64 [m], or those of a mask, bool [n]."""
        indices = np.arange(len(self))[rows].tolist()
        second = None if self.second is None else [self.second[i] for i in indices]
        return Examples([self.first[i] for i in indices], second, self.target[indices])

    def sample(self, size: int, name: str) -> Examples:
        """Return at most ``size`` random examples (0: all) in their order; equal names draw equal ones.

        The first examples would be a biased choice, because files may be sorted.
        """
        order = rng(0, "choose/" + name).permutation(len(self))
        return self.take(np.sort(order[: size or None]))


def digest(sets: Iterable[Examples]) -> str:
    """Return a digest of the texts and targets of several sets of examples."""
    return json_digest([[examples.first, examples.second, examples.target.tolist()] for examples in sets], 64)


def rng(seed: int, name: str, *counters: int) -> np.random.Generator:
    """Return a random generator that depends on nothing but these values."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), *counters])


def normalise(text: str) -> str:
    """Return the letters and digits of a text in lower case, which no tokenisation changes."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def hold_out(
    rows: Examples, fraction: float, salt: str = "", *, both_sides: bool = False
) -> tuple[Examples, Examples]:
    """Return training rows and held-out rows, divided by a hash of their first texts.

    If rows are added to a file, the others stay where they are. Rows with the same first text are together.

    Args:
        rows: all rows.
        fraction: the share of rows that is held out, from 0 to 1.
        salt: is hashed with each text; another one divides the rows in another way.
        both_sides: whether rows with the same two texts, in either order, are together instead.
    """
    keys = [normalise(text) for text in rows.first]
    if both_sides:
        keys = [min(key, normalise(text)) for key, text in zip(keys, rows.second or (), strict=True)]
    hashes = np.array([zlib.crc32((salt + key).encode()) for key in keys])
    is_held_out = hashes < fraction * 2**32
    return rows.take(~is_held_out), rows.take(is_held_out)


def usable_phrases(rows: Iterable[tuple[str, str, str | None]]) -> Examples:
    """Return the phrase pairs of PPDB's rows that BURT trains on.

    The phrases of a pair differ and have at most :data:`MAX_WORDS` words each. Classes are the indices of
    :data:`RELATIONS`, -1 without a label (PPDB 1.0); pairs with another label are dropped. Of equal rows one
    is kept. PPDB lists a pair in both directions, and both are kept (docs/papers/burt.md).
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
    """Return training pairs and held-out pairs of PPDB, with the same number of pairs in each class.

    Rows are filtered by :func:`usable_phrases`. Then each class is cut to the size of the smallest, and to
    ``per_class`` rows at most; all rows without a label are kept. A ``fraction`` is held out. The random
    choice is always the same, so that a study that scores the held-out pairs gets those that another did not
    train on.
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
"""Maps the number of a pass (0, 1, ...) to its examples in a fixed order; all passes have equally many."""


def draw_all(examples: Examples) -> Draw:
    """Return a function that gives the same examples for every pass."""
    return lambda _: examples


def draw_fraction(examples: Examples, fraction: float, seed: int, name: str) -> Draw:
    """Return a function that draws a new random ``fraction`` for every pass (SEQ-MT's ``[sub]``)."""
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
    """Return a function that gives paraphrases (a, b), class 1, and random negatives (a, c), class 0.

    Args:
        pairs: the paraphrases.
        k: number of negatives of each distinct a; new ones are drawn for every pass.
        seed: of the choice of negatives.
        name: another name draws other negatives.
        other_side_pairs: paraphrases on the other side of a split, which are no negatives either.
        phrases: the phrases c to draw from, by default those of ``pairs``.

    Raises UserError if an a has no negative, because every phrase is its paraphrase.
    """
    vocabulary = set(phrases) or {phrase for pair in pairs for phrase in pair}
    paraphrases: dict[str, set[str]] = {}
    for a, b in (*pairs, *other_side_pairs):
        paraphrases.setdefault(a, {a}).add(b)
        paraphrases.setdefault(b, {b}).add(a)
    choices = sorted(vocabulary)
    targets = dict.fromkeys(a for a, _ in pairs)
    for a in targets:
        if k and vocabulary <= paraphrases[a]:
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
    """An endless sequence of batches.

    Each pass over the examples has a new random order. The last batch of a pass may be smaller.
    """

    def __init__(self, draw: Draw, batch_size: int, seed: int, name: str) -> None:
        self.draw, self.batch_size, self.seed, self.name = draw, batch_size, seed, name
        self._load(0)
        if not len(self._order):
            raise UserError(f"{name}: no training examples are left; check the files and filters")
        self.batches_per_pass = -(-len(self._order) // batch_size)

    def batch(self, k: int) -> Examples:
        """Return batch ``k`` (0, 1, ...) of the endless sequence."""
        pass_index, offset = divmod(k, self.batches_per_pass)
        if pass_index != self._pass_index:
            self._load(pass_index)
        return self._examples.take(self._order[offset * self.batch_size :][: self.batch_size])

    def _load(self, pass_index: int) -> None:
        self._pass_index = pass_index
        self._examples = self.draw(pass_index)
        generator = rng(self.seed, "order/" + self.name, pass_index)
        self._order = generator.permutation(len(self._examples))
