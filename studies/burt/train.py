"""Read BURT's data and train: the objectives in turn, and the rows of Table 4."""

from __future__ import annotations

import dataclasses
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from corpora.pairs import NLI_LABELS, read_phrases
from runtime.cli import config_to_json
from runtime.device import pick_device
from runtime.errors import UserError
from runtime.files import sha256_file
from senteval_runner.report.page import Page, Section, Table
from senteval_runner.towers.transformer import load_tower
from studies.finetune.examples import (
    MAX_WORDS,
    MERGED,
    RELATIONS,
    Draw,
    Examples,
    Stream,
    choose,
    fixed,
    hold_out,
    normalised,
    split_phrases,
    with_negatives,
)
from studies.finetune.tiny import MAX_LENGTH, ready
from studies.finetune.training import Head, TuningConfig, Turn, fit, save_tuned
from studies.kit import Cell, Figures, Run

if TYPE_CHECKING:
    from studies.burt.__main__ import BurtConfig

CLASSES = {"nli": NLI_LABELS, "identification": ("different", "paraphrase"), "classification": RELATIONS}
HELD_OUT_ROWS = 2000
"""Most held-out rows that are scored during training, a fixed random choice."""


Sides = dict[str, tuple[Draw, Examples]]
"""By objective: what is trained on, and what is held out."""


def read_data(config: BurtConfig) -> tuple[Sides, list[str]]:
    """Read, filter and split all data named by the options; an objective without data is an error.

    A line per set says what was read, used and dropped.
    """
    sides: Sides = {}
    summary = [_read_nli(config, sides)] if "nli" in config.objectives else []
    if {"identification", "classification"} & set(config.objectives):
        summary.append(_read_paraphrases(config, sides))
    return sides, summary


def _read_nli(config: BurtConfig, sides: Sides) -> str:
    if not config.nli:
        raise UserError("objective nli needs --nli FILE (or leave it out of --objectives)")
    skipped: Counter[str] = Counter()
    every, held_out = Examples.of_nli(config.nli, skipped), Examples.of_nli(config.nli_dev)
    unseen = {normalised(premise) for premise in held_out.first}
    train = every.take(np.array([normalised(text) not in unseen for text in every.first], dtype=bool))
    dropped = len(every) - len(train)
    if not config.nli_dev:
        train, held_out = hold_out(train, config.held_out)
    sides["nli"] = fixed(train), held_out
    return (
        f"nli: {len(train):,} pairs to train on, {len(held_out):,} held out; dropped "
        f"{skipped.total():,} without a three-way label, {dropped:,} whose premise is in --nli-dev"
    )


def _read_paraphrases(config: BurtConfig, sides: Sides) -> str:
    if not config.ppdb:
        raise UserError("objectives identification and classification need --ppdb FILE")
    rows = [row for path in config.ppdb for row in read_phrases(path)]
    train, held_out = split_phrases(rows, config.per_class, config.held_out)
    if "identification" in config.objectives:
        draw = with_negatives(train.pairs, config.negatives, config.seed, others=held_out.pairs)
        phrases = [*train.texts, *held_out.texts]
        draw_unseen = with_negatives(
            held_out.pairs, config.negatives, config.seed, "held out", train.pairs, phrases
        )
        sides["identification"] = draw, draw_unseen(0)
    if "classification" in config.objectives:
        labelled, scored = (side.take(side.target >= 0) for side in (train, held_out))
        if len(set(labelled.target.tolist())) < len(RELATIONS):
            raise UserError(f"classification needs PPDB 2.0 rows labelled {', '.join(MERGED)}")
        sides["classification"] = fixed(labelled), scored
    return (
        f"ppdb: {len(rows):,} rows; of those with two different phrases of at most {MAX_WORDS} words and a "
        f"label that is used, as many of each label: {len(train):,} to train on, {len(held_out):,} held out"
    )


FREE_OPTIONS = {"nli", "nli_dev", "ppdb", "output", "preset", "ablation", "backbone"}
"""Options that do not decide the result, or by the content of what they name."""
DROPOUT = 0.1
"""Rate of every dropout layer (BURT)."""
GRIDS: Mapping[str, Mapping[str, object]] = {
    "objectives": {
        "NLI": ("nli",),
        "NLI+PI": ("nli", "identification"),
        "NLI+PTC": ("nli", "classification"),
        "NLI+PI+PTC": ("nli", "identification", "classification"),
    },
    "pooling": {"CLS": "cls", "MAX": "max", "MEAN": "mean"},
    "concatenation": {
        "[u; v]": "uv",
        "[|u−v|]": "diff",
        "[u∗v]": "prod",
        "[u; v; |u−v|]": "uv-diff",
        "[u; v; u∗v]": "uv-prod",
        "[|u−v|; u∗v]": "diff-prod",
        "[u; v; |u−v|; u∗v]": "uv-diff-prod",
    },
    "negatives": {"k = 1": 1, "k = 3": 3, "k = 5": 5, "k = 7": 7},
}
"""Table 4: per block, which is also the option that changes, the rows' names and values."""


def train_all(config: BurtConfig, run: Run) -> Page:
    """Train the model, or the rows of an ablation; the page has their held-out scores."""
    if not config.objectives or len(set(config.objectives)) < len(config.objectives):
        raise UserError("--objectives: name each of nli, identification, classification at most once")
    rows = variants(config)
    backbone, key = ready(
        config.backbone,
        config.output,
        lambda: [text for draw, _ in read_data(config)[0].values() for text in draw(0).texts],
        seed=config.seed,
    )
    digests = [[sha256_file(path) for path in paths] for paths in (config.nli, config.nli_dev, config.ppdb)]
    cells = {
        name: Cell(
            name=name,
            identity=[{k: v for k, v in config_to_json(row).items() if k not in FREE_OPTIONS}, key, digests],
            compute=partial(_train, row, backbone, config.output / folder, run),
            folder=folder,
        )
        for name, (folder, row) in rows.items()
    }
    trained = run.figures(cells)
    scores = [
        [name, score, 100 * before, 100 * figures["history"][-1][score]]
        for name, figures in trained.items()
        for score, before in sorted(figures["history"][0].items())
        if score != "step"
    ]
    table = Table(["trained", "held-out score", "before", "after"], scores)
    after = (
        f"Words, phrases, sentences: {similarity_command(config, [folder for folder, _ in rows.values()])}"
    )
    data = dict.fromkeys(line for figures in trained.values() for line in figures["data"])
    return Page("BURT", [Section("Scores × 100", [table, after]), Section("Data", list(data))])


def similarity_command(config: BurtConfig, folders: Sequence[str]) -> str:
    """Write the command that scores the trained models on every column of the paper's tables."""
    phrases = str(config.ppdb[0]) if config.ppdb else "PPDB"
    files = shlex.join([*(str(config.output / folder) for folder in folders), "--phrases", phrases])
    return (
        f"python -m studies.similarity {files} --words WORDS --data SENTEVAL --held-out {config.held_out} "
        f"--semeval2013 SEMEVAL2013 --fine-tune --published {'ablation' if config.ablation else 'models'}"
    )


def variants(config: BurtConfig) -> dict[str, tuple[str, BurtConfig]]:
    """Name what is trained, with its folder and options; an ablation's rows have their names in Table 4.

    An option that the table keeps fixed must have its default.
    """
    if config.ablation is None:
        return {"model": (".", config)}
    fields = dataclasses.fields(config)
    full = {field.name: field.default for field in fields if field.name in GRIDS}
    for option, value in full.items():
        if getattr(config, option) != value:
            raise UserError(f"--ablation {config.ablation} sets --{option} itself; leave it out")
    rows = {}
    for name, value in GRIDS[config.ablation].items():
        words = "-".join(value) if isinstance(value, tuple) else value
        folder = "full" if value == full[config.ablation] else f"{config.ablation}-{words}"
        rows[name] = (folder, dataclasses.replace(config, **{config.ablation: value}))  # type: ignore[arg-type]
    return rows


def _train(config: BurtConfig, backbone: str, folder: Path, run: Run, work: Path) -> Figures:
    """Train one model; the figures are its scores by step, and what it was trained on."""
    sides, summary = read_data(config)
    held_out = {
        name: some.take(choose(len(some), HELD_OUT_ROWS, "held")) for name, (_, some) in sides.items() if some
    }
    for line in summary:
        run.log(line)
    device = pick_device()
    tower = load_tower(
        backbone, pooling=config.pooling, max_length=MAX_LENGTH, dropout=DROPOUT, device=device
    )
    heads: dict[str, Head] = {
        name: Head(tower.dim, len(classes), config.concatenation, config.seed + place).to(device)
        for place, (name, classes) in enumerate(CLASSES.items())
        if name in config.objectives
    }
    tasks: dict[str, Turn] = {
        name: Turn(Stream(sides[name][0], config.batch_size, config.seed, name), partial(head.loss, tower))
        for name, head in heads.items()
    }
    cycle = one_round(config.objectives)
    batches = {name: task.stream.batches_per_pass for name, task in tasks.items()}
    per_epoch = steps_per_epoch(cycle, batches)
    run.log(f"{' -> '.join(cycle)}; an epoch is {per_epoch:,} steps of {config.batch_size}")
    history = fit(
        nn.ModuleDict({"tower": tower, **heads}),
        [tasks[name] for name in cycle],
        TuningConfig(learning_rate=config.learning_rate),
        steps=max(1, round(config.epochs * per_epoch)),
        evaluate_every=config.evaluate_every,
        evaluate=lambda: {name: heads[name].score(tower, pairs) for name, pairs in held_out.items()},
        seed=config.seed,
        folder=work,
    )
    save_tuned(tower, nn.ModuleDict(heads), folder, "heads.safetensors")
    return {"history": history, "data": summary}


def one_round(objectives: Sequence[str]) -> tuple[str, ...]:
    """Order one round of batches: every second one is NLI, the PPDB objectives alternate on the others."""
    others = [name for name in ("identification", "classification") if name in objectives]
    if "nli" not in objectives:
        return tuple(others)
    return tuple(name for other in others for name in ("nli", other)) or ("nli",)


def steps_per_epoch(cycle: Sequence[str], batches: Mapping[str, int]) -> int:
    """Count the steps of an epoch, given the batches of one pass of each set.

    It is one pass over NLI, which gets half of the steps, or without NLI over the set that takes longest; the
    others, which may be smaller by orders of magnitude, repeat.
    """
    decisive = ["nli"] if "nli" in cycle else cycle
    return max(-(-batches[name] * len(cycle) // cycle.count(name)) for name in decisive)
