"""Build BURT's training sets from rows: filter, merge and balance PPDB; clean NLI."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import numpy as np

from corpora.support.split import normalised, pair_in_fraction
from studies.burt.objectives import CLASSES
from studies.finetune.examples import Examples, rng

T = TypeVar("T")

MERGED = {
    "Equivalence": "equivalence",
    "ForwardEntailment": "entailment",
    "ReverseEntailment": "entailment",
    "Independent": "independent",
}
"""The labels of PPDB 2.0 that are kept; Exclusion and OtherRelated are dropped (BURT)."""


class Phrases(NamedTuple):
    """A row of PPDB: two phrases and the entailment label (None in PPDB 1.0).

    :func:`usable` replaces PPDB's label by the class it is merged into.
    """

    a: str
    b: str
    label: str | None


def at_most(rows: Iterable[T], limit: int) -> Iterable[T]:
    """A fixed random choice of at most ``limit`` rows (0: all).

    Files may be sorted, so the first rows would be a biased choice. This is reservoir sampling: one pass with
    ``limit`` rows in memory; row i replaces a random kept row with probability limit / (i + 1).
    """
    if not limit:
        return rows
    generator = rng(0, "limit")
    kept: list[T] = []
    for place, row in enumerate(rows):
        if place < limit:
            kept.append(row)
        elif (slot := int(generator.integers(place + 1))) < limit:
            kept[slot] = row
    return kept


def usable(rows: Iterable[Phrases], max_words: int) -> list[Phrases]:
    """The rows that training takes, with merged labels.

    Their phrases differ and have at most ``max_words`` words each; Exclusion and OtherRelated are gone. A
    pair counts once in each direction: PPDB lists both, and BURT's 3 x 354k pairs out of 1.53M leave no
    room for one alone.
    """
    kept: dict[tuple[str, str], Phrases] = {}
    for row in rows:
        short = max(len(row.a.split()), len(row.b.split())) <= max_words
        if short and row.a != row.b and (row.label is None or row.label in MERGED):
            label = None if row.label is None else MERGED[row.label]
            kept.setdefault((row.a, row.b), Phrases(row.a, row.b, label))
    return list(kept.values())


def hold_out_phrases(rows: Iterable[Phrases], fraction: float) -> tuple[list[Phrases], list[Phrases]]:
    """(training, held out); both directions of a pair are on one side."""
    sides: tuple[list[Phrases], list[Phrases]] = ([], [])
    for row in rows:
        sides[pair_in_fraction(row.a, row.b, fraction)].append(row)
    return sides


def balanced(rows: Iterable[Phrases], per_class: int, seed: int) -> list[Phrases]:
    """A random choice of at most ``per_class`` rows of each label, every label cut to the smallest.

    Unlabelled rows (PPDB 1.0) follow, all of them.
    """
    groups: dict[str | None, list[Phrases]] = {}
    for row in rows:
        groups.setdefault(row.label, []).append(row)
    unlabelled = groups.pop(None, [])
    size = min([per_class, *map(len, groups.values())])
    kept: list[Phrases] = []
    for label in CLASSES["classification"]:
        group = groups.get(label, [])
        order = rng(seed, f"balance/{label}").permutation(len(group))[:size]
        kept += [group[i] for i in order]
    return kept + unlabelled


def classification_examples(rows: Iterable[Phrases]) -> Examples:
    """Pairwise text classification: the labelled rows, classes as in ``CLASSES["classification"]``."""
    ids = {label: place for place, label in enumerate(CLASSES["classification"])}
    return Examples.of_pairs((row.a, row.b, ids[row.label]) for row in rows if row.label is not None)


def nli_examples(rows: Iterable[tuple[str, str, str]]) -> tuple[Examples, int]:
    """Three-way examples from (premise, hypothesis, label).

    Returns:
        the examples, and how many rows were dropped for another label (``-``: no majority; two-way
        ``not_entailment``).
    """
    ids = {label: place for place, label in enumerate(CLASSES["nli"])}
    kept, dropped = [], 0
    for premise, hypothesis, label in rows:
        if label in ids:
            kept.append((premise, hypothesis, ids[label]))
        else:
            dropped += 1
    return Examples.of_pairs(kept), dropped


def without_premises(examples: Examples, unseen: Iterable[str]) -> Examples:
    """Drop examples whose first text is among ``unseen`` (up to case, spaces and punctuation)."""
    forbidden = {normalised(text) for text in unseen}
    rows = [row for row, text in enumerate(examples.first) if normalised(text) not in forbidden]
    return examples.take(np.array(rows, dtype=np.int64))
