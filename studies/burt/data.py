"""BURT's data: read published files, split them into training and held-out sets, count what is dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from corpora.pairs.labelled import NLI_LABELS, read_nli, read_phrases
from runtime.errors import UserError
from studies.finetune.examples import Draw, Examples, choose, fixed, hold_out, normalised, with_negatives
from studies.finetune.phrases import MAX_WORDS, MERGED, RELATIONS, split_phrases

if TYPE_CHECKING:
    from studies.burt.__main__ import BurtConfig

CLASSES = {
    "nli": NLI_LABELS,
    "identification": ("different", "paraphrase"),
    "classification": RELATIONS,
}
HELD_OUT_ROWS = 2000
"""Most held-out rows that are scored during training, a fixed random choice."""
T = TypeVar("T")


@dataclass
class BurtData:
    """Training and held-out examples by objective."""

    train: dict[str, Draw] = field(default_factory=dict)
    held_out: dict[str, Examples] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    """All texts of the training sets."""
    summary: list[str] = field(default_factory=list)
    """What was read, used and dropped, one line per set."""

    def add(self, objective: str, draw: Draw, texts: Iterable[str], held_out: Examples) -> None:
        """Add the data of one objective."""
        self.train[objective] = draw
        self.texts += texts
        if len(held_out):
            self.held_out[objective] = held_out.take(choose(len(held_out), HELD_OUT_ROWS, "held"))


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
    train = without_premises(labelled, dev.first)
    unseen, held_out = len(train), dev.take(np.flatnonzero(dev.target >= 0))
    if not config.nli_dev:
        train, held_out = hold_out(train, config.held_out)
    data.add("nli", fixed(train), train.texts(), held_out)
    data.summary.append(
        f"nli: {len(train):,} pairs to train on, {len(held_out):,} held out; dropped "
        f"{len(every) - len(labelled) + skipped.total():,} without a three-way label, "
        f"{len(labelled) - unseen:,} whose premise is in --nli-dev"
    )


def _read_paraphrases(config: BurtConfig, data: BurtData) -> None:
    if not config.ppdb:
        raise UserError("objectives identification and classification need --ppdb FILE")
    rows = [row for path in config.ppdb for row in at_most(read_phrases(path), config.limit)]
    train, held_out = split_phrases(rows, config.per_class, config.held_out)
    data.summary.append(
        f"ppdb: {len(rows):,} rows; of those with two different phrases of at most {MAX_WORDS} words and a "
        f"label that is used, as many of each label: {len(train):,} to train on, {len(held_out):,} held out"
    )
    if "identification" in config.objectives:
        pairs, unseen = (list(zip(side.first, side.second or (), strict=True)) for side in (train, held_out))
        draw = with_negatives(pairs, config.negatives, config.seed, others=unseen)
        phrases = [*train.texts(), *held_out.texts()]
        draw_unseen = with_negatives(unseen, config.negatives, config.seed, "held out", pairs, phrases)
        data.add("identification", draw, train.texts(), draw_unseen(0))
    if "classification" in config.objectives:
        labelled, scored = (side.take(np.flatnonzero(side.target >= 0)) for side in (train, held_out))
        if len(set(labelled.target.tolist())) < len(CLASSES["classification"]):
            raise UserError(f"classification needs PPDB 2.0 rows labelled {', '.join(MERGED)}")
        data.add("classification", fixed(labelled), labelled.texts(), scored)


def at_most(rows: Iterable[T], limit: int) -> list[T]:
    """Choose at most ``limit`` rows at random, always the same (0: all)."""
    every = list(rows)
    return [every[row] for row in choose(len(every), limit, "limit")]


def nli_examples(rows: Iterable[tuple[str, str, str]]) -> Examples:
    """Make three-way examples from (premise, hypothesis, label).

    Class -1 is another label: ``-`` (no majority) or the two-way ``not_entailment``.
    """
    ids = {label: place for place, label in enumerate(NLI_LABELS)}
    return Examples.of_pairs((premise, hypothesis, ids.get(label, -1)) for premise, hypothesis, label in rows)


def without_premises(examples: Examples, unseen: Iterable[str]) -> Examples:
    """Drop examples whose first text is among ``unseen`` (up to case, spaces and punctuation)."""
    forbidden = {normalised(text) for text in unseen}
    rows = [row for row, text in enumerate(examples.first) if normalised(text) not in forbidden]
    return examples.take(np.array(rows, dtype=np.int64))
