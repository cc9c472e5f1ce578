"""Build BURT's training sets from rows: filter, merge and balance PPDB; clean NLI."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import numpy as np

from corpora.support.split import normalised
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
    """A row of PPDB: two phrases and the entailment label (None in PPDB 1.0)."""

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


def short_enough(rows: Iterable[Phrases], max_words: int) -> list[Phrases]:
    """Rows whose phrases have at most ``max_words`` words each and differ, each unordered pair once."""
    seen: set[tuple[str, str]] = set()
    kept = []
    for row in rows:
        key = (min(row.a, row.b), max(row.a, row.b))
        if row.a != row.b and key not in seen and max(len(row.a.split()), len(row.b.split())) <= max_words:
            seen.add(key)
            kept.append(row)
    return kept


def identification_pairs(rows: Iterable[Phrases]) -> list[tuple[str, str]]:
    """Positive pairs of paraphrase identification.

    All unlabelled rows, and labelled ones except Independent, Exclusion and OtherRelated: by PPDB 2.0's own
    label these are not paraphrases.
    """
    return [
        (row.a, row.b)
        for row in rows
        if row.label is None or MERGED.get(row.label) not in (None, "independent")
    ]


def classification_examples(rows: Iterable[Phrases], seed: int) -> Examples:
    """Pairwise text classification: labels merged, every class cut at random to the size of the smallest.

    Returns:
        pairs with classes as in ``CLASSES["classification"]``; empty when a class has no rows.
    """
    names = CLASSES["classification"]
    groups: dict[str, list[Phrases]] = {name: [] for name in names}
    for row in rows:
        if row.label in MERGED:
            groups[MERGED[row.label]].append(row)
    size = min(map(len, groups.values()))
    first: list[str] = []
    second: list[str] = []
    for name in names:
        order = rng(seed, "balance/" + name).permutation(len(groups[name]))[:size]
        first += [groups[name][i].a for i in order]
        second += [groups[name][i].b for i in order]
    return Examples(first, second, np.repeat(np.arange(len(names)), size))


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
