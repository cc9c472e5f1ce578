"""BURT's data: read published files, split them into training and held-out sets, count what is dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from corpora.pairs.labelled import NLI_LABELS, read_nli, read_phrases
from corpora.support.errors import UserError
from studies.finetune.examples import (
    Draw,
    Examples,
    choose,
    fixed,
    hold_out,
    normalised,
    pair_in_fraction,
    rng,
    with_negatives,
)

if TYPE_CHECKING:
    from studies.burt.__main__ import BurtConfig

CLASSES = {
    "nli": NLI_LABELS,
    "identification": ("different", "paraphrase"),
    "classification": ("equivalence", "entailment", "independent"),
}
MERGED = {"Equivalence": 0, "ForwardEntailment": 1, "ReverseEntailment": 1, "Independent": 2}
"""Classes of the labels of PPDB 2.0 that are kept; Exclusion and OtherRelated are dropped (BURT)."""
MAX_WORDS = 6
"""Of a phrase (BURT)."""
HELD_ROWS = 2000
"""Most held-out rows that are scored during training, a fixed random choice."""
T = TypeVar("T")


@dataclass
class BurtData:
    """Training and held-out examples by objective."""

    train: dict[str, Draw] = field(default_factory=dict)
    held: dict[str, Examples] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    """To train on."""
    summary: list[str] = field(default_factory=list)
    """What was read, kept and dropped, one line per set."""

    def add(self, objective: str, draw: Draw, texts: Iterable[str], held: Examples) -> None:
        """The data of one objective."""
        self.train[objective] = draw
        self.texts += texts
        if len(held):
            self.held[objective] = held.take(choose(len(held), HELD_ROWS, "held"))


def read_data(config: BurtConfig) -> BurtData:
    """Read, filter and split all data named by the options.

    Raises:
        UserError: an objective has no data, or a file is malformed.
    """
    data = BurtData()
    if "nli" in config.objectives:
        _read_nli(config, data)
    if {"identification", "classification"} & set(config.objectives):
        _read_paraphrases(config, data)
    return data


def _read_nli(config: BurtConfig, data: BurtData) -> None:
    if not config.nli:
        raise UserError("objective nli needs --nli FILE (or leave it out of --objectives)")
    skipped: Counter[str] = Counter()
    every = nli_examples(row for path in config.nli for row in at_most(read_nli(path, skipped), config.limit))
    labelled = every.take(np.flatnonzero(every.target >= 0))
    dev = nli_examples(row for path in config.nli_dev for row in read_nli(path))
    kept = without_premises(labelled, dev.first)
    train, held = kept, dev.take(np.flatnonzero(dev.target >= 0))
    if not config.nli_dev:
        train, held = hold_out(kept, config.held_out)
    data.add("nli", fixed(train), train.texts(), held)
    data.summary.append(
        f"nli: {len(train):,} pairs to train on, {len(held):,} held out; dropped "
        f"{len(every) - len(labelled) + skipped.total():,} without a three-way label, "
        f"{len(labelled) - len(kept):,} whose premise is in --nli-dev"
    )


def _read_paraphrases(config: BurtConfig, data: BurtData) -> None:
    if not config.ppdb:
        raise UserError("objectives identification and classification need --ppdb FILE")
    rows = [row for path in config.ppdb for row in at_most(read_phrases(path), config.limit)]
    taken = usable(rows)
    train, held = (
        balanced(side, config.per_class, config.seed) for side in hold_out_phrases(taken, config.held_out)
    )
    data.summary.append(
        f"ppdb: {len(taken):,} of {len(rows):,} rows have two different phrases of at most {MAX_WORDS} words "
        f"and a label that is kept; {len(train):,} to train on, {len(held):,} held out"
    )
    if "identification" in config.objectives:
        pairs, pairs_held = (list(zip(side.first, side.second or (), strict=True)) for side in (train, held))
        draw = with_negatives(pairs, config.negatives, config.seed, others=pairs_held)
        other = with_negatives(pairs_held, config.negatives, config.seed, "held out", others=pairs)
        data.add("identification", draw, train.texts(), other(0))
    if "classification" in config.objectives:
        three, three_held = (side.take(np.flatnonzero(side.target >= 0)) for side in (train, held))
        if len(set(three.target.tolist())) < len(CLASSES["classification"]):
            raise UserError(f"classification needs PPDB 2.0 rows labelled {', '.join(MERGED)}")
        data.add("classification", fixed(three), three.texts(), three_held)


def at_most(rows: Iterable[T], limit: int) -> list[T]:
    """A fixed random choice of at most ``limit`` rows (0: all)."""
    held = list(rows)
    return [held[row] for row in choose(len(held), limit, "limit")]


def usable(rows: Iterable[tuple[str, str, str | None]]) -> Examples:
    """PPDB's rows that training takes: classes of ``CLASSES["classification"]``, -1 without a label (1.0).

    Their phrases differ and have at most :data:`MAX_WORDS` words each; Exclusion and OtherRelated are gone. A
    pair counts once in each direction: PPDB lists both, and BURT's 3 x 354k pairs out of 1.53M leave no
    room for one alone.
    """
    kept: dict[tuple[str, str], int] = {}
    for a, b, label in rows:
        if a != b and max(len(a.split()), len(b.split())) <= MAX_WORDS and (label is None or label in MERGED):
            kept.setdefault((a, b), -1 if label is None else MERGED[label])
    return Examples.of_pairs((a, b, label) for (a, b), label in kept.items())


def hold_out_phrases(rows: Examples, fraction: float) -> tuple[Examples, Examples]:
    """(training, held out); both directions of a pair are on one side."""
    sides = [pair_in_fraction(a, b, fraction) for a, b in zip(rows.first, rows.second or (), strict=True)]
    held = np.array(sides, dtype=bool)
    return rows.take(np.flatnonzero(~held)), rows.take(np.flatnonzero(held))


def balanced(rows: Examples, per_class: int, seed: int) -> Examples:
    """A random choice of at most ``per_class`` rows of each label, every label cut to the smallest.

    Unlabelled rows (PPDB 1.0) follow, all of them.
    """
    groups = [np.flatnonzero(rows.target == place) for place in range(len(CLASSES["classification"]))]
    size = min([per_class, *(len(group) for group in groups if len(group))])
    chosen = [
        group[rng(seed, f"balance/{label}").permutation(len(group))[:size]]
        for label, group in zip(CLASSES["classification"], groups, strict=True)
    ]
    return rows.take(np.concatenate([*chosen, np.flatnonzero(rows.target < 0)]))


def nli_examples(rows: Iterable[tuple[str, str, str]]) -> Examples:
    """Three-way examples from (premise, hypothesis, label).

    Class -1 is another label: ``-`` (no majority) or the two-way ``not_entailment``.
    """
    ids = {label: place for place, label in enumerate(NLI_LABELS)}
    return Examples.of_pairs((premise, hypothesis, ids.get(label, -1)) for premise, hypothesis, label in rows)


def without_premises(examples: Examples, unseen: Iterable[str]) -> Examples:
    """Drop examples whose first text is among ``unseen`` (up to case, spaces and punctuation)."""
    forbidden = {normalised(text) for text in unseen}
    rows = [row for row, text in enumerate(examples.first) if normalised(text) not in forbidden]
    return examples.take(np.array(rows, dtype=np.int64))
