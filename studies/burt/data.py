"""BURT's data: read published files, split them into training and held-out sets, count what is dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from corpora.pairs.labelled import NLI_LABELS, read_binary, read_nli, read_phrases
from corpora.rows import read_rows
from corpora.support.errors import UserError
from corpora.support.split import hold_out, normalised, pair_in_fraction
from studies.burt.config import BurtConfig, Objective
from studies.finetune.examples import Draw, Examples, choose, fixed, rng, with_negatives

CLASSES: dict[Objective, tuple[str, ...]] = {
    "nli": NLI_LABELS,
    "identification": ("different", "paraphrase"),
    "classification": ("equivalence", "entailment", "independent"),
}
MERGED = {
    "Equivalence": "equivalence",
    "ForwardEntailment": "entailment",
    "ReverseEntailment": "entailment",
    "Independent": "independent",
}
"""The labels of PPDB 2.0 that are kept; Exclusion and OtherRelated are dropped (BURT)."""
MAX_WORDS = 6
"""Of a phrase (BURT)."""
HELD_ROWS = 2000
"""Most held-out rows that are scored during training."""
T = TypeVar("T")


class Phrases(NamedTuple):
    """A row of PPDB: two phrases and the entailment label (None in PPDB 1.0), merged by :func:`usable`."""

    a: str
    b: str
    label: str | None


@dataclass
class BurtData:
    """Training and held-out examples by objective."""

    train: dict[Objective, Draw] = field(default_factory=dict)
    held: dict[Objective, Examples] = field(default_factory=dict)
    similarity: dict[str, Examples] = field(default_factory=dict)
    """By file name; only scored."""
    texts: list[str] = field(default_factory=list)
    """To train on."""
    held_texts: list[str] = field(default_factory=list)
    summary: list[str] = field(default_factory=list)
    """What was read, kept and dropped, one line per set."""

    def hold(self, objective: Objective, examples: Examples) -> None:
        """A fixed random choice of at most :data:`HELD_ROWS` held-out examples."""
        if len(examples):
            self.held[objective] = examples.take(choose(len(examples), HELD_ROWS, "held"))
            self.held_texts += self.held[objective].texts()


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
    for path in config.similarity:
        rows = list(read_rows(path, 3))
        gold = np.array([row.number(2) for row in rows], dtype=np.float32)
        data.similarity[path.stem] = Examples(
            [row.cells[0] for row in rows], [row.cells[1] for row in rows], gold
        )
        data.held_texts += data.similarity[path.stem].texts()
    return data


def _read_nli(config: BurtConfig, data: BurtData) -> None:
    if not config.nli:
        raise UserError("objective nli needs --nli FILE (or leave it out of --objectives)")
    skipped: Counter[str] = Counter()
    rows = (row for path in config.nli for row in at_most(read_nli(path, skipped), config.limit))
    examples, dropped = nli_examples(rows)
    dropped += skipped.total()
    unseen = (row[0] for path in (*config.nli_dev, *config.nli_unseen) for row in read_nli(path))
    kept = without_premises(examples, unseen)
    counts = (
        f"dropped {dropped:,} without a three-way label, {len(examples) - len(kept):,} with an unseen premise"
    )
    if not len(kept):
        raise UserError(f"nli: {_names(config.nli)} leave no training pair: {counts}")
    if config.nli_dev:
        train = kept
        held, _ = nli_examples(row for path in config.nli_dev for row in read_nli(path))
    else:
        train, held = hold_out(kept, config.held_out)
    data.train["nli"] = fixed(train)
    data.texts += train.texts()
    data.hold("nli", held)
    data.summary.append(
        f"nli ({_names(config.nli)}): {len(train):,} pairs to train on, {len(held):,} held out; {counts}"
    )


def _read_paraphrases(config: BurtConfig, data: BurtData) -> None:
    if not config.ppdb and not config.paraphrase:
        raise UserError("objectives identification and classification need --ppdb FILE or --paraphrase FILE")
    rows: list[Phrases] = []
    skipped: Counter[str] = Counter()
    for path in config.ppdb:
        rows += (Phrases(*row) for row in at_most(read_phrases(path, skipped), config.limit))
    taken = usable(rows)
    train, held = (
        balanced(side, config.per_class, config.seed) for side in hold_out_phrases(taken, config.held_out)
    )
    if config.ppdb:
        data.summary.append(
            f"ppdb ({_names(config.ppdb)}): {len(taken):,} of {len(rows):,} rows have two different phrases "
            f"of at most {MAX_WORDS} words and a label that is kept; {len(train):,} to train on, "
            f"{len(held):,} held out; {skipped.total():,} lines are not PPDB's"
        )
    if "identification" in config.objectives:
        _identification(config, data, train, held)
    if "classification" in config.objectives:
        examples = classification_examples(train)
        if len(np.unique(examples.target)) < len(CLASSES["classification"]):
            raise UserError(
                "classification needs PPDB 2.0 rows labelled Equivalence, (Forward|Reverse)Entailment "
                "and Independent; the files have none of some kind: leave classification out of --objectives"
            )
        data.train["classification"] = fixed(examples)
        data.texts += examples.texts()
        data.hold("classification", classification_examples(held))
        data.summary.append(f"classification: {len(examples):,} pairs in three equal classes to train on")


def _identification(config: BurtConfig, data: BurtData, train: list[Phrases], held: list[Phrases]) -> None:
    """PPDB's pairs with sampled negatives, and the labelled pairs."""
    labelled, labelled_held = hold_out(
        Examples.of_pairs(
            row for path in config.paraphrase for row in at_most(read_binary(path), config.limit)
        ),
        config.held_out,
    )
    pairs, pairs_held = ([(row.a, row.b) for row in side] for side in (train, held))
    sampled = with_negatives(pairs, config.negatives, config.seed, others=pairs_held)
    held_out = with_negatives(pairs_held, config.negatives, config.seed, "held out", others=pairs)
    data.train["identification"] = lambda index: sampled(index) + labelled
    data.hold("identification", held_out(0) + labelled_held)
    data.texts += [*(text for pair in pairs for text in pair), *labelled.texts()]
    # Negatives of either side are phrases of both.
    data.held_texts += [text for pair in pairs_held for text in pair]
    data.summary.append(
        f"identification: {len(pairs):,} positive pairs, {config.negatives} sampled negatives each, and "
        f"{len(labelled):,} labelled pairs; {len(pairs_held):,} and {len(labelled_held):,} more held out"
    )


def at_most(rows: Iterable[T], limit: int) -> list[T]:
    """A fixed random choice of at most ``limit`` rows (0: all)."""
    held = list(rows)
    return [held[row] for row in choose(len(held), limit, "limit")]


def usable(rows: Iterable[Phrases]) -> list[Phrases]:
    """The rows that training takes, with merged labels.

    Their phrases differ and have at most :data:`MAX_WORDS` words each; Exclusion and OtherRelated are gone. A
    pair counts once in each direction: PPDB lists both, and BURT's 3 x 354k pairs out of 1.53M leave no
    room for one alone.
    """
    kept: dict[tuple[str, str], Phrases] = {}
    for row in rows:
        short = max(len(row.a.split()), len(row.b.split())) <= MAX_WORDS
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
    """Three-way examples from (premise, hypothesis, label), and how many rows had another label.

    Those are ``-`` (no majority) and the two-way ``not_entailment``.
    """
    ids = {label: place for place, label in enumerate(CLASSES["nli"])}
    every = [(premise, hypothesis, ids.get(label, -1)) for premise, hypothesis, label in rows]
    kept = [row for row in every if row[2] >= 0]
    return Examples.of_pairs(kept), len(every) - len(kept)


def without_premises(examples: Examples, unseen: Iterable[str]) -> Examples:
    """Drop examples whose first text is among ``unseen`` (up to case, spaces and punctuation)."""
    forbidden = {normalised(text) for text in unseen}
    rows = [row for row, text in enumerate(examples.first) if normalised(text) not in forbidden]
    return examples.take(np.array(rows, dtype=np.int64))


def _names(paths: Iterable[Path]) -> str:
    return ", ".join(path.name for path in paths)
