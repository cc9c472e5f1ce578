"""BURT's data: read published files, split them into training and held-out sets, count what is dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from corpora.inputs import read_lines
from corpora.pairs.labelled import read_binary, read_nli, read_phrases
from corpora.rows import read_rows
from corpora.support.errors import UserError
from corpora.support.split import hold_out
from studies.burt.config import BurtConfig
from studies.burt.objectives import CLASSES
from studies.burt.prepare import (
    Phrases,
    at_most,
    balanced,
    classification_examples,
    hold_out_phrases,
    nli_examples,
    usable,
    without_premises,
)
from studies.finetune.examples import Examples


def _none() -> Examples:
    return Examples.of_pairs(())


@dataclass
class BurtData:
    """Training and held-out examples of each objective; empty if it is not trained."""

    nli: Examples = field(default_factory=_none)
    nli_dev: Examples = field(default_factory=_none)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    """Positive pairs of identification, which get sampled negatives: all PPDB pairs that are kept."""
    pairs_dev: list[tuple[str, str]] = field(default_factory=list)
    labelled: Examples = field(default_factory=_none)
    """Paraphrase pairs with labelled negatives."""
    labelled_dev: Examples = field(default_factory=_none)
    classes: Examples = field(default_factory=_none)
    classes_dev: Examples = field(default_factory=_none)
    similarity: dict[str, Examples] = field(default_factory=dict)
    """By file name; only scored, never trained on."""
    summary: list[str] = field(default_factory=list)
    """What was read, kept and dropped, one line per set."""

    def texts(self) -> Iterator[str]:
        """Every text of every set."""
        for pair in (*self.pairs, *self.pairs_dev):
            yield from pair
        labelled = (self.nli, self.nli_dev, self.labelled, self.labelled_dev, self.classes, self.classes_dev)
        for examples in (*labelled, *self.similarity.values()):
            yield from examples.texts()


def read_data(config: BurtConfig) -> BurtData:
    """Read, filter and split all data named by the options.

    Raises:
        UserError: an objective has no data, or a file is malformed.
    """
    if not config.objectives or len(set(config.objectives)) < len(config.objectives):
        raise UserError("--objectives: name each of nli, identification, classification at most once")
    data = BurtData()
    if "nli" in config.objectives:
        _read_nli(config, data)
    if "identification" in config.objectives or "classification" in config.objectives:
        _read_paraphrases(config, data)
    for path in config.similarity:
        data.similarity[path.stem] = _read_similarity(path)
    return data


def corpus_texts(config: BurtConfig, data: BurtData) -> list[str]:
    """Text for a tiny backbone: the first lines of ``--corpus``, or the training texts."""
    if config.corpus is not None:
        lines = (line.text.strip() for line in read_lines(config.corpus))
        return list(islice((text for text in lines if text), config.corpus_lines))
    texts: list[str] = [phrase for pair in data.pairs for phrase in pair]
    for examples in (data.nli, data.labelled, data.classes):
        texts += examples.texts()
    return texts


def _read_nli(config: BurtConfig, data: BurtData) -> None:
    if not config.nli:
        raise UserError("objective nli needs --nli FILE (or leave it out of --objectives)")
    skipped: Counter[str] = Counter()
    rows = (row for path in config.nli for row in at_most(read_nli(path, skipped), config.limit))
    examples, dropped = nli_examples(rows)
    dropped += skipped.total()
    kept = without_premises(
        examples, (row[0] for path in (*config.nli_dev, *config.nli_unseen) for row in read_nli(path))
    )
    if not len(kept):
        raise UserError(
            f"nli: {_names(config.nli)} leave no training pair: {dropped:,} without a three-way label "
            f"({', '.join(CLASSES['nli'])}), {len(examples):,} with a premise of --nli-dev or --nli-unseen"
        )
    if config.nli_dev:
        data.nli = kept
        data.nli_dev, _ = nli_examples(row for path in config.nli_dev for row in read_nli(path))
    else:
        data.nli, data.nli_dev = hold_out(kept, config.held_out)
    data.summary.append(
        f"nli ({_names(config.nli)}): {len(data.nli):,} pairs to train on, {len(data.nli_dev):,} held out; "
        f"dropped {dropped:,} without a three-way label, {len(examples) - len(kept):,} with an unseen premise"
    )


def _read_paraphrases(config: BurtConfig, data: BurtData) -> None:
    if not config.ppdb and not config.paraphrase:
        raise UserError("objectives identification and classification need --ppdb FILE or --paraphrase FILE")
    rows: list[Phrases] = []
    skipped: Counter[str] = Counter()
    for path in config.ppdb:
        rows += (Phrases(*row) for row in at_most(read_phrases(path, skipped), config.limit))
    taken = usable(rows, config.max_words)
    train, held = (
        balanced(side, config.per_class, config.seed) for side in hold_out_phrases(taken, config.held_out)
    )
    if config.ppdb:
        data.summary.append(
            f"ppdb ({_names(config.ppdb)}): {len(taken):,} of {len(rows):,} rows have two different phrases "
            f"of at most {config.max_words} words and a label that is kept; {_by_label(train)} to train on, "
            f"{len(held):,} held out; {skipped.total():,} lines are not PPDB's"
        )
    if "identification" in config.objectives:
        data.pairs, data.pairs_dev = ([(row.a, row.b) for row in side] for side in (train, held))
        _read_labelled(config, data)
        data.summary.append(
            f"identification: {len(data.pairs):,} positive pairs, {config.negatives} sampled negatives each, "
            f"and {len(data.labelled):,} labelled pairs to train on; "
            f"{len(data.pairs_dev):,} and {len(data.labelled_dev):,} held out"
        )
    if "classification" in config.objectives:
        data.classes, data.classes_dev = classification_examples(train), classification_examples(held)
        if len(np.unique(data.classes.target)) < len(CLASSES["classification"]):
            raise UserError(
                "classification needs PPDB 2.0 rows labelled Equivalence, (Forward|Reverse)Entailment "
                "and Independent; the files have none of some kind: leave classification out of --objectives"
            )
        data.summary.append(
            f"classification: {len(data.classes):,} pairs in three equal classes to train on, "
            f"{len(data.classes_dev):,} held out"
        )


def _by_label(rows: Iterable[Phrases]) -> str:
    """``5 equivalence, 5 entailment, 5 independent, 2 unlabelled``."""
    counts = Counter(row.label or "unlabelled" for row in rows)
    return ", ".join(f"{count:,} {label}" for label, count in counts.items()) or "none"


def _read_labelled(config: BurtConfig, data: BurtData) -> None:
    data.labelled = Examples.of_pairs(
        row for path in config.paraphrase for row in at_most(read_binary(path), config.limit)
    )
    if config.paraphrase_dev:
        data.labelled_dev = Examples.of_pairs(
            row for path in config.paraphrase_dev for row in read_binary(path)
        )
    else:
        data.labelled, data.labelled_dev = hold_out(data.labelled, config.held_out)


def _read_similarity(path: Path) -> Examples:
    first, second, gold = [], [], []
    for row in read_rows(path, 3):
        first.append(row.cells[0])
        second.append(row.cells[1])
        gold.append(row.number(2))
    return Examples(first, second, np.array(gold, dtype=np.float32))


def _names(paths: Iterable[Path]) -> str:
    return ", ".join(path.name for path in paths)
