"""Read BURT's data, and train a model on its objectives in turn, or the models of Table 4."""

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
from senteval_runner.report.page import Page, Section, Table, TableCell
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
"""Number of held-out rows that are scored during training, at most; the random choice is always the same."""
INPUT_OPTIONS = {"nli", "nli_dev", "ppdb", "output", "preset", "ablation", "backbone"}
"""Options on which the result does not depend, or only by the content of the files that they name."""
DROPOUT = 0.1
"""Probability in every dropout layer (BURT)."""
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
"""The models of Table 4: by block, which is also the name of the option that changes, names and values."""


@dataclass(frozen=True)
class ObjectiveData:
    """The pairs of an objective."""

    draw: Draw
    """Gives the training pairs of a pass."""
    held_out: Examples
    summary: str
    """A line that says how many pairs of the files are used, and how many were dropped."""


def read_data(config: BurtConfig) -> dict[str, ObjectiveData]:
    """Return the pairs of each objective that the options name, filtered and split.

    Raises UserError if files that an objective needs are not given, or have no pairs for it.
    """
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
        k, seed = config.negatives, config.seed
        phrases = train.texts + held_out.texts
        draw = with_negatives(train.pairs, k, seed, other_side_pairs=held_out.pairs)
        draw_held_out = with_negatives(held_out.pairs, k, seed, "held out", train.pairs, phrases)
        data["identification"] = ObjectiveData(draw, draw_held_out(0), summary)
    if "classification" in config.objectives:
        train, held_out = train.take(train.target >= 0), held_out.take(held_out.target >= 0)
        if len(set(train.target.tolist())) < len(RELATIONS):
            raise UserError(f"classification needs PPDB 2.0 rows labelled {', '.join(CLASS_OF_LABEL)}")
        data["classification"] = ObjectiveData(draw_all(train), held_out, summary)
    return data


def read_inference(train_files: Sequence[Path], dev_files: Sequence[Path], fraction: float) -> ObjectiveData:
    """Return the NLI pairs of files.

    ``dev_files`` are held out, and pairs with a premise of theirs are not trained on; without these files a
    ``fraction`` of the pairs is held out.
    """
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
    """Train the model, or the models of an ablation, and return the page of their held-out scores.

    Raises UserError if an objective is missing or named twice.
    """
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
        compute = partial(_train, row, backbone.parsed.full_name, run.log)
        return Cell(name=name, identity=[decisive, backbone.key(), digests], compute=compute, folder=folder)

    figures_by_row = run.compute({name: cell(name, row) for name, row in rows.items()})
    scores: list[list[TableCell]] = []
    summaries: dict[str, None] = {}
    for name, figures in figures_by_row.items():
        summaries |= dict.fromkeys(figures["data"])
        before, after = figures["history"][0], figures["history"][-1]
        for score in sorted(before.keys() - {"step"}):
            scores.append([name, score, 100 * before[score], 100 * after[score]])
    table = Table(["trained", "held-out score", "before", "after"], scores)
    models = [str(row.output) for row in rows.values()]
    phrases = str(config.ppdb[0]) if config.ppdb else "PPDB"
    next_command = (
        f"python -m studies.similarity {shlex.join([*models, '--phrases', phrases])} --words WORDS "
        f"--data SENTEVAL --held-out {config.held_out} --semeval2013 SEMEVAL2013 --fine-tune "
        f"--published {'ablation' if config.ablation else 'models'}"
    )
    section = Section("Scores × 100", [table, f"Words, phrases, sentences: {next_command}"])
    return Page("BURT", [section, Section("Data", list(summaries))])


def variants(config: BurtConfig) -> dict[str, BurtConfig]:
    """Return the options of each model to train, by its name; those of an ablation have the names of Table 4.

    Raises UserError if an option that the ablation sets is given.
    """
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
    """Train one model, and return its scores by step and the summaries of its data."""
    data = read_data(config)
    held_out = {
        name: pairs.held_out.sample(HELD_OUT_ROWS, "held") for name, pairs in data.items() if pairs.held_out
    }
    summaries = list(dict.fromkeys(pairs.summary for pairs in data.values()))
    for line in summaries:
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
    return {"history": history, "data": summaries}


def one_round(objectives: Sequence[str]) -> tuple[str, ...]:
    """Return the objectives of successive batches, which are repeated in this order.

    Every second batch is NLI; the objectives on PPDB alternate in the others.
    """
    ppdb_objectives = [name for name in ("identification", "classification") if name in objectives]
    if "nli" not in objectives:
        return tuple(ppdb_objectives)
    cycle: list[str] = []
    for objective in ppdb_objectives:
        cycle += ["nli", objective]
    return tuple(cycle) or ("nli",)


def steps_per_epoch(cycle: Sequence[str], batches: Mapping[str, int]) -> int:
    """Return the number of steps of an epoch; ``batches`` are those of one pass over each set.

    An epoch is one pass over NLI, which gets half of the steps, or without NLI over the set that takes the
    most steps. The other sets, which may be much smaller, are repeated in an epoch.
    """
    decisive = ["nli"] if "nli" in cycle else cycle
    return max(-(-batches[name] * len(cycle) // cycle.count(name)) for name in decisive)
