"""Read BURT's data and train: the objectives in turn, and the rows of Table 4."""

import dataclasses
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from corpora.pairs import NLI_LABELS, read_phrases
from runtime.cli import config_to_json
from runtime.device import pick_device
from runtime.errors import UserError
from runtime.files import sha256_file
from senteval_runner.report.page import Page, Section, Table
from senteval_runner.towers.transformer import load_tower
from studies.burt.config import BurtConfig
from studies.finetune.backbone import MAX_LENGTH, find_backbone
from studies.finetune.examples import (
    CLASS_OF_LABEL,
    MAX_WORDS,
    RELATIONS,
    Draw,
    Examples,
    Stream,
    draw_all,
    hold_out,
    normalise,
    split_phrases,
    with_negatives,
)
from studies.finetune.training import Head, TrainedTask, TuningConfig, fit, save_tuned
from studies.runner import Cell, Figures, StudyRun

CLASSES = {"nli": NLI_LABELS, "identification": ("different", "paraphrase"), "classification": RELATIONS}
HELD_OUT_ROWS = 2000
"""Most held-out rows that are scored during training, a fixed random choice."""
INPUT_OPTIONS = {"nli", "nli_dev", "ppdb", "output", "preset", "ablation", "backbone"}
"""Options that do not decide the result, or only by the content of the files that they name."""
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
"""Table 4: for each block, which is also the option that changes, the rows' names and values."""


@dataclass(frozen=True)
class ObjectiveData:
    """The pairs of an objective."""

    draw: Draw
    """Draws those to train on."""
    held_out: Examples
    summary: str
    """A line that says what was dropped of the files."""


def read_data(config: BurtConfig) -> dict[str, ObjectiveData]:
    """Read, filter and split the data of the objectives."""
    data: dict[str, ObjectiveData] = {}
    if "nli" in config.objectives:
        data["nli"] = read_inference(config.nli, config.nli_dev, config.held_out)
    if not {"identification", "classification"} & set(config.objectives):
        return data
    if not config.ppdb:
        raise UserError("objectives identification and classification need --ppdb FILE")
    rows = [row for path in config.ppdb for row in read_phrases(path)]
    train, held_out = split_phrases(rows, config.per_class, config.held_out)
    summary = (
        f"ppdb: {len(rows):,} rows; of those with two different phrases of at most {MAX_WORDS} words and a "
        f"label that is used, as many of each label: {len(train):,} to train on, {len(held_out):,} held out"
    )
    if "identification" in config.objectives:
        k, seed, phrases = config.negatives, config.seed, [*train.texts, *held_out.texts]
        draw = with_negatives(train.pairs, k, seed, other_side_pairs=held_out.pairs)
        draw_held_out = with_negatives(held_out.pairs, k, seed, "held out", train.pairs, phrases)
        data["identification"] = ObjectiveData(draw, draw_held_out(0), summary)
    if "classification" in config.objectives:
        train, held_out = (side.take(side.target >= 0) for side in (train, held_out))
        if len(set(train.target.tolist())) < len(RELATIONS):
            raise UserError(f"classification needs PPDB 2.0 rows labelled {', '.join(CLASS_OF_LABEL)}")
        data["classification"] = ObjectiveData(draw_all(train), held_out, summary)
    return data


def read_inference(train_files: Sequence[Path], dev_files: Sequence[Path], fraction: float) -> ObjectiveData:
    """Read NLI pairs; without files of dev, a fraction of them is held out."""
    if not train_files:
        raise UserError("objective nli needs --nli FILE (or leave it out of --objectives)")
    skip_counts: Counter[str] = Counter()
    all_pairs = Examples.of_nli(train_files, skip_counts)
    held_out = Examples.of_nli(dev_files)
    dev_premises = {normalise(premise) for premise in held_out.first}
    train = all_pairs.take(np.array([normalise(a) not in dev_premises for a in all_pairs.first], dtype=bool))
    dropped_count = len(all_pairs) - len(train)
    if not dev_files:
        train, held_out = hold_out(train, fraction)
    summary = (
        f"nli: {len(train):,} pairs to train on, {len(held_out):,} held out; dropped {skip_counts.total():,} "
        f"without a three-way label, {dropped_count:,} whose premise is in --nli-dev"
    )
    return ObjectiveData(draw_all(train), held_out, summary)


def train_all(config: BurtConfig, run: StudyRun) -> Page:
    """Train the model, or the rows of an ablation; the page has their held-out scores."""
    if not config.objectives or len(set(config.objectives)) < len(config.objectives):
        raise UserError("--objectives: name each of nli, identification, classification at most once")
    rows = variants(config)
    backbone = find_backbone(
        config.backbone,
        config.output,
        lambda: [text for data in read_data(config).values() for text in data.draw(0).texts],
        seed=config.seed,
    )
    digests = [[sha256_file(path) for path in paths] for paths in (config.nli, config.nli_dev, config.ppdb)]

    def cell(name: str, row: BurtConfig) -> Cell:
        options = config_to_json(row).items()
        decisive = {name: value for name, value in options if name not in INPUT_OPTIONS}
        folder = str(row.output.relative_to(config.output))
        compute = partial(_train, row, backbone.name.spec, run.log)
        return Cell(name=name, identity=[decisive, backbone.key(), digests], compute=compute, folder=folder)

    figures_by_row = run.compute({name: cell(name, row) for name, row in rows.items()})
    scores = [
        [name, score, 100 * before, 100 * figures["history"][-1][score]]
        for name, figures in figures_by_row.items()
        for score, before in sorted(figures["history"][0].items())
        if score != "step"
    ]
    table = Table(["trained", "held-out score", "before", "after"], scores)
    models = [str(row.output) for row in rows.values()]
    phrases = str(config.ppdb[0]) if config.ppdb else "PPDB"
    next_command = (
        f"python -m studies.similarity {shlex.join([*models, '--phrases', phrases])} --words WORDS "
        f"--data SENTEVAL --held-out {config.held_out} --semeval2013 SEMEVAL2013 --fine-tune "
        f"--published {'ablation' if config.ablation else 'models'}"
    )
    section = Section("Scores × 100", [table, f"Words, phrases, sentences: {next_command}"])
    data = dict.fromkeys(line for figures in figures_by_row.values() for line in figures["data"])
    return Page("BURT", [section, Section("Data", list(data))])


def variants(config: BurtConfig) -> dict[str, BurtConfig]:
    """Name each model to train, with its options and folder; an ablation's rows as Table 4 does."""
    if config.ablation is None:
        return {"model": config}
    defaults = {field.name: field.default for field in dataclasses.fields(config) if field.name in GRIDS}
    for option, default in defaults.items():
        if getattr(config, option) != default:
            raise UserError(f"--ablation {config.ablation} sets --{option} itself; leave it out")
    rows = {}
    for name, value in GRIDS[config.ablation].items():
        label = "-".join(value) if isinstance(value, tuple) else value
        folder = "full" if value == defaults[config.ablation] else f"{config.ablation}-{label}"
        options: dict[str, Any] = {config.ablation: value, "output": config.output / folder}
        rows[name] = dataclasses.replace(config, **options)
    return rows


def _train(config: BurtConfig, backbone: str, log: Callable[[str], object], work: Path) -> Figures:
    """Train one model; the figures are its scores by step, and what it was trained on."""
    data = read_data(config)
    held_out = {
        name: pairs.held_out.sample(HELD_OUT_ROWS, "held") for name, pairs in data.items() if pairs.held_out
    }
    summary = list(dict.fromkeys(pairs.summary for pairs in data.values()))
    for line in summary:
        log(line)
    device = pick_device()
    tower = load_tower(
        backbone, pooling=config.pooling, max_length=MAX_LENGTH, dropout=DROPOUT, device=device
    )
    heads: dict[str, Head] = {
        name: Head(tower.dim, len(classes), config.concatenation, config.seed + index).to(device)
        for index, (name, classes) in enumerate(CLASSES.items())
        if name in config.objectives
    }
    tasks = {
        name: TrainedTask(
            Stream(data[name].draw, config.batch_size, config.seed, name), partial(head.loss, tower)
        )
        for name, head in heads.items()
    }
    cycle = one_round(config.objectives)
    per_epoch = steps_per_epoch(cycle, {name: task.stream.batches_per_pass for name, task in tasks.items()})
    log(f"{' -> '.join(cycle)}; an epoch is {per_epoch:,} steps of {config.batch_size}")
    tuning = TuningConfig(
        learning_rate=config.learning_rate,
        steps=max(1, round(config.epochs * per_epoch)),
        evaluate_every=config.evaluate_every,
        seed=config.seed,
    )

    def evaluate() -> dict[str, float]:
        return {name: heads[name].score(tower, rows) for name, rows in held_out.items()}

    net = nn.ModuleDict({"tower": tower, **heads})
    history = fit(net, [tasks[name] for name in cycle], tuning, evaluate, work)
    save_tuned(tower, nn.ModuleDict(heads), config.output)
    return {"history": history, "data": summary}


def one_round(objectives: Sequence[str]) -> tuple[str, ...]:
    """Order one round of batches: every second one is NLI, the PPDB objectives alternate on the others."""
    of_ppdb = [name for name in ("identification", "classification") if name in objectives]
    if "nli" not in objectives:
        return tuple(of_ppdb)
    return tuple(name for objective in of_ppdb for name in ("nli", objective)) or ("nli",)


def steps_per_epoch(cycle: Sequence[str], batches: Mapping[str, int]) -> int:
    """Count the steps of an epoch, given the batches of one pass of each set.

    An epoch is one pass over NLI, which gets half of the steps, or without NLI over the set that takes
    longest; the others, which may be smaller by orders of magnitude, repeat.
    """
    decisive = ["nli"] if "nli" in cycle else cycle
    return max(-(-batches[name] * len(cycle) // cycle.count(name)) for name in decisive)
