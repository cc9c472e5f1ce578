"""BURT's data: read published files, split them into training and held-out sets, count what is dropped."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from corpora.pairs import NLI_LABELS, read_phrases
from runtime.errors import UserError
from studies.finetune.examples import (
    MAX_WORDS,
    MERGED,
    RELATIONS,
    Draw,
    Examples,
    choose,
    fixed,
    hold_out,
    normalised,
    split_phrases,
    with_negatives,
)

if TYPE_CHECKING:
    from studies.burt.__main__ import BurtConfig

CLASSES = {
    "nli": NLI_LABELS,
    "identification": ("different", "paraphrase"),
    "classification": RELATIONS,
}
HELD_OUT_ROWS = 2000
"""Most held-out rows that are scored during training, a fixed random choice."""


@dataclass
class BurtData:
    """Training and held-out examples by objective."""

    train: dict[str, Draw] = field(default_factory=dict)
    held_out: dict[str, Examples] = field(default_factory=dict)
    summary: list[str] = field(default_factory=list)
    """What was read, used and dropped, one line per set."""

    def add(self, objective: str, draw: Draw, held_out: Examples) -> None:
        """Add the data of one objective."""
        self.train[objective] = draw
        if len(held_out):
            self.held_out[objective] = held_out.take(choose(len(held_out), HELD_OUT_ROWS, "held"))


def read_data(config: BurtConfig) -> BurtData:
    """Read, filter and split all data named by the options; an objective without data is an error."""
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
    every, held_out = Examples.of_nli(config.nli, skipped), Examples.of_nli(config.nli_dev)
    unseen = {normalised(premise) for premise in held_out.first}
    train = every.take(np.array([normalised(text) not in unseen for text in every.first], dtype=bool))
    dropped = len(every) - len(train)
    if not config.nli_dev:
        train, held_out = hold_out(train, config.held_out)
    data.add("nli", fixed(train), held_out)
    data.summary.append(
        f"nli: {len(train):,} pairs to train on, {len(held_out):,} held out; dropped "
        f"{skipped.total():,} without a three-way label, {dropped:,} whose premise is in --nli-dev"
    )


def _read_paraphrases(config: BurtConfig, data: BurtData) -> None:
    if not config.ppdb:
        raise UserError("objectives identification and classification need --ppdb FILE")
    rows = [row for path in config.ppdb for row in read_phrases(path)]
    train, held_out = split_phrases(rows, config.per_class, config.held_out)
    data.summary.append(
        f"ppdb: {len(rows):,} rows; of those with two different phrases of at most {MAX_WORDS} words and a "
        f"label that is used, as many of each label: {len(train):,} to train on, {len(held_out):,} held out"
    )
    if "identification" in config.objectives:
        draw = with_negatives(train.pairs, config.negatives, config.seed, others=held_out.pairs)
        phrases = [*train.texts, *held_out.texts]
        draw_unseen = with_negatives(
            held_out.pairs, config.negatives, config.seed, "held out", train.pairs, phrases
        )
        data.add("identification", draw, draw_unseen(0))
    if "classification" in config.objectives:
        labelled, scored = (side.take(side.target >= 0) for side in (train, held_out))
        if len(set(labelled.target.tolist())) < len(RELATIONS):
            raise UserError(f"classification needs PPDB 2.0 rows labelled {', '.join(MERGED)}")
        data.add("classification", fixed(labelled), scored)
