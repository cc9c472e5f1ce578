"""Train and score every pair of views, and compare them, paired by seed: what ``studies.views`` does."""

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import sem, t

from corpora.senteval.tasks import data_folder
from multiview.config import TRAIN, TrainConfig, decisive_options, options_of, preset
from multiview.folder.card import training_command
from parsing.trees.cache import TreeCache
from runtime import __version__
from runtime.errors import UserError
from runtime.files import read_json
from senteval_runner.cells import stored_results
from senteval_runner.protocol.config import TaskResult
from senteval_runner.protocol.statistics import RESAMPLES, interval, resample_scores
from senteval_runner.report import plots
from senteval_runner.report.page import Column, Figure, Page, Score, Section, Table, TableCell
from senteval_runner.report.tables import ModelScores, paper_row, score_sections, task_means
from senteval_runner.results import write_csv
from studies.kit import Cell, Figures, Run
from studies.views.config import QUICKTHOUGHT, Scale, ViewsConfig, Words

REFERENCE = "dep,const"
"""The pair that the paper found best, with which the others are compared."""
START = "start of "
"""The prefix of the name of a control: a pair of views before training."""
AVERAGE = "average of its words"
RANDOM = "random words"
PATIENCE = 2
"""Validations, of ten, without a lower loss, after which a training with held-out sentences stops."""
TASKS_COMPARED = ("MRPC", "SICKRelatedness")
"""Tasks that are compared by themselves too: on SICK-R the paper claims its gain."""


@dataclass(frozen=True, kw_only=True)
class System:
    """One row of a table, at one seed."""

    name: str
    """A pair of views, QuickThought, or a control."""
    words: Words
    trees: Path
    """The tree cache of its text."""
    rate: float
    """Its learning rate; of a control, that of the models that it is made from."""
    seed: int

    @property
    def is_trained(self) -> bool:
        """Whether the system is trained here, not a control."""
        return self.name not in (AVERAGE, RANDOM) and not self.name.startswith(START)

    @property
    def row(self) -> str:
        """Its name in tables, without the seed."""
        name = f"{self.name}, {self.words} words"
        return f"{name}, {self.trees.name}, rate {self.rate:g}" if self.is_trained else name

    @property
    def label(self) -> str:
        """The name of its folders."""
        name = f"{self.name}, {self.words} words, {self.trees.name}, rate {self.rate:g}"
        return f"{re.sub(', |,| ', '-', name).lower()}-seed{self.seed}"

    def score_folder(self, scale: Scale) -> str:
        """Name the folder of its scores, below the output."""
        return f"scores/{self.label}/{scale}"

    def spec(self, models: Path, scale: Scale) -> str:
        """Name the model for ``senteval_runner.run``; ``models`` is the folder of trained ones."""
        name = str(models / replace(self, name=self.name.removeprefix(START)).label)
        if self.name == RANDOM:
            name = "bag:random"
        elif self.name == AVERAGE:
            name = f"bag:{models / replace(self, name=REFERENCE).label}"
        elif self.name.startswith(START):
            name = f"start:{name}?corpus={self.trees}"
        return f"{name}?scale={self.trees if scale == 'one' else 'none'}"


def all_systems(config: ViewsConfig) -> list[System]:
    """List every system, seed by seed; then controls, made from the models of the first text and rate."""
    rates = config.rates or (preset(config.preset).loop.learning_rate,)
    systems: list[System] = []
    for seed, words in product(config.seeds, config.words):
        first = System(name="", words=words, trees=config.trees[0], rate=rates[0], seed=seed)
        for rate, trees, name in product(rates, config.trees, config.systems):
            systems.append(replace(first, name=name, trees=trees, rate=rate))
        controls = [START + name for name in config.systems if name != QUICKTHOUGHT]
        is_first_seed = seed == config.seeds[0]
        # Words that are fixed have the same average at every seed.
        if REFERENCE in config.systems and (words != "fixed" or is_first_seed):
            controls.append(AVERAGE)
        if is_first_seed:
            controls.append(RANDOM)
        if config.controls:
            systems += [replace(first, name=name) for name in controls]
    return systems


def training(config: ViewsConfig, system: System) -> TrainConfig:
    """Choose how a system is trained."""
    base = preset(config.preset)
    views = system.name
    objective = base.objective
    if views == QUICKTHOUGHT:
        views = "seq,seq"
        objective = replace(objective, score="dot", denominator="quickthought")
    loop = replace(base.loop, learning_rate=system.rate, epochs=config.passes or base.loop.epochs)
    if config.validation:
        loop = replace(loop, validation=config.validation, patience=PATIENCE)
    case, dim = config.case or base.table.case, config.word_dim or base.table.dim
    table = replace(base.table, case=case, dim=dim)
    if config.vectors == TRAIN or system.words == "fixed":
        table = replace(table, expand=0)
    return replace(
        base,
        views=views,
        words=system.words,
        vectors=config.vectors,
        trees=system.trees,
        seed=system.seed,
        output=config.output / "models",
        name=system.label,
        table=table,
        encoder=replace(base.encoder, dim=config.dim or base.encoder.dim),
        objective=objective,
        loop=loop,
    )


def training_options(config: ViewsConfig, system: System) -> dict[str, str]:
    """List the options of a system's training that decide its result."""
    return decisive_options(options_of(training(config, system)))


def score(config: ViewsConfig, system: System, scale: Scale, commit: str, work: Path) -> Figures:
    """Train a system, unless it is trained, and score it; return commit, best step and held-out loss."""
    models = config.output / "models"
    report = config.output / system.score_folder(scale)
    if system.is_trained:
        _command(*shlex.split(training_command(training(config, system)))[2:])
    _command(
        *("senteval_runner.run", system.spec(models, scale)),
        *("--tasks", config.tasks, "--protocol", config.protocol),
        *("--data", data_folder(config.data)),
        *("--output", report, "--cache", work / "vectors", "--random-seed", system.seed),
        "--no-baselines",
    )
    if not system.is_trained or system.words == "both":
        return {"commit": commit}
    record = read_json(models / system.label / "config.json")["training"]
    return {"commit": commit, "step": record["step"], "validation loss": record["best"].get("loss")}


def _command(module: str, *arguments: object) -> None:
    words = [sys.executable, "-m", module, *map(str, arguments)]
    process = subprocess.run(words, capture_output=True, text=True, check=False)
    if process.returncode == 2:
        raise UserError(process.stderr.strip().splitlines()[-1])
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{process.stdout[-2000:]}{process.stderr[-2000:]}")


def code_version() -> str:
    """Return the commit of this checkout, with a + if files differ from it; if installed, the version."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=12", "--dirty=+"]
    try:
        commit = subprocess.run([*words, "--exclude=*"], capture_output=True, text=True)
    except OSError:
        return __version__
    return __version__ if commit.returncode else commit.stdout.strip()


@dataclass(frozen=True)
class SystemScores:
    """The scores of one system at one scale."""

    system: System
    folder: Path
    figures: Figures
    """The result of :func:`score`."""
    results: dict[str, TaskResult]
    """Results by task."""

    @cached_property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Metrics by task."""
        return {task: result.metrics for task, result in self.results.items()}

    @cached_property
    def resamples(self) -> dict[str, dict[str, Any]]:
        """Metrics by task on resamples of the items, an array each."""
        return {task: resample_scores([result]) for task, result in self.results.items()}

    def csv_row(self, config: ViewsConfig) -> dict[str, Any]:
        """Make the row of rows.csv, with every score."""
        system = self.system
        scores = task_means(paper_row(self.metrics))
        scores[f"mean of {len(scores)}"] = mean_over_tasks(self.metrics)
        return {
            **self.figures,
            "words": system.words,
            "system": system.name,
            "text": system.trees.name if system.is_trained else "",
            "rate": system.rate if system.is_trained else "",
            "seed": system.seed,
            "scale": self.folder.name,
            "protocol": config.protocol,
            **{name: f"{score:.2f}" for name, score in scores.items()},
        }


Rows = Mapping[str, Sequence[SystemScores]]
"""All scores at one scale: by row of a table, seed by seed."""


def mean_over_tasks(metrics: Mapping[str, Mapping[str, Any]], tasks: Sequence[str] = ()) -> Any:
    """Take the paper's mean (its footnote 6) of metrics by task: of numbers, or of arrays of resamples."""
    by_task = task_means(paper_row(metrics))
    means = [by_task[task] for task in tasks or by_task]
    return sum(means) / len(means)


def ahead(
    left: Sequence[SystemScores], right: Sequence[SystemScores], tasks: Sequence[str] = ()
) -> Score | None:
    """Measure how far one row is ahead of another in the paper's mean over tasks; () is all tasks.

    The 95 % interval is over seeds and items, both resampled, the same for both rows. Words that have no seed
    are compared with every seed. None if no seed is in both rows.
    """
    right_of_seed = {scores.system.seed: scores for scores in right}
    if len(right) == 1 and right[0].system.name in (AVERAGE, RANDOM):
        right_of_seed = dict.fromkeys((scores.system.seed for scores in left), right[0])
    pairs = [(a, right_of_seed[a.system.seed]) for a in left if a.system.seed in right_of_seed]
    if not pairs:
        return None
    value = fmean(mean_over_tasks(a.metrics, tasks) - mean_over_tasks(b.metrics, tasks) for a, b in pairs)
    gains = (mean_over_tasks(a.resamples, tasks) - mean_over_tasks(b.resamples, tasks) for a, b in pairs)
    gain_SR = np.array(list(gains))
    seeds_RS = np.random.default_rng(0).integers(len(pairs), size=(RESAMPLES, len(pairs)))
    return Score(value, interval=interval(gain_SR.T[np.arange(RESAMPLES)[:, None], seeds_RS].mean(1)))


def sections_of(rows: Rows, scale: Scale) -> list[Section]:
    """Make the sections of one scale: the means and who is ahead, and the paper's table."""
    lines: list[list[TableCell]] = []
    models = []
    for row, seeds in rows.items():
        best = replace(seeds[0].system, name=REFERENCE).row
        mean = Score.over_seeds([mean_over_tasks(scores.metrics) for scores in seeds])
        choices = [(), *((task,) for task in TASKS_COMPARED)]
        gains = [None if row == best else ahead(rows.get(best, ()), seeds, tasks) for tasks in choices]
        lines.append([row, len(seeds), mean, *gains])
        [model] = read_json(seeds[0].folder / "results.json")["models"].values()
        results = {scores.system.seed: scores.results for scores in seeds}
        models.append(ModelScores(name=row, results=results, dim=model["dim"], hours=model["hours"]))
    columns = [f"{REFERENCE} ahead", *(f"on {task}" for task in TASKS_COMPARED)]
    table = Table(["system", "seeds", Column("mean over tasks", best="high"), *columns], lines)
    title = "Raw numbers" if scale == "none" else "Each number at one scale"
    tables = [replace(s, title=f"{title}: {s.title}") for s in score_sections(models)]
    return [Section(f"{title}: means", [table, curve(rows)]), *tables]


def curve(rows: Rows) -> Figure:
    """Draw the mean over tasks by sentences of training, with the 95 % interval of its mean over seeds."""
    points: dict[str, list[tuple[int, float]]] = {}
    spans: dict[str, list[tuple[float, float]]] = {}
    by_system = {seeds[0].system: seeds for seeds in rows.values() if seeds[0].system.is_trained}
    sizes = {system: len(TreeCache.open(system.trees)) for system in by_system}
    for system in sorted(by_system, key=sizes.__getitem__):
        means = [mean_over_tasks(scores.metrics) for scores in by_system[system]]
        value = fmean(means)
        span = (value, value)
        if len(means) > 1:  # Student's t
            span = t.interval(0.95, len(means) - 1, value, sem(means))
        name = f"{system.name}, {system.words} words, rate {system.rate:g}"
        points.setdefault(name, []).append((sizes[system], value))
        spans.setdefault(name, []).append(span)
    caption = "Mean over tasks by text, 95 % over seeds"
    return plots.curves(points, spans=spans, x_label="sentences", y_label="mean over tasks", caption=caption)


def compare(config: ViewsConfig, run: Run) -> Page:
    """Train and score what is missing; write rows.csv, and return the page."""
    for trees in config.trees:
        TreeCache.open(trees)  # refused now, not by every training
    systems = all_systems(config)
    commit = code_version()
    cells = {
        (system, scale): Cell(
            name=f"{system.label}, scale {scale}",
            identity=[training_options(config, system), scale, config.tasks, config.protocol],
            compute=partial(score, config, system, scale, commit),
            folder=system.score_folder(scale),
        )
        for system, scale in product(systems, config.scales)
    }
    by_scale: dict[Scale, dict[str, list[SystemScores]]] = {scale: {} for scale in config.scales}
    for (system, scale), figures in run.figures(cells).items():
        folder = config.output / system.score_folder(scale)
        scores = SystemScores(system, folder, figures, stored_results(folder))
        by_scale[scale].setdefault(system.row, []).append(scores)
    csv_rows = [
        scores.csv_row(config) for rows in by_scale.values() for seeds in rows.values() for scores in seeds
    ]
    write_csv(config.output / "rows.csv", csv_rows)
    sections = [section for scale, rows in by_scale.items() if rows for section in sections_of(rows, scale)]
    sections.append(Section("Options that differ from the paper's", [options_table(config, systems)]))
    return Page("Pairs of views", sections, f"Preset {config.preset}, protocol {config.protocol}.")


def options_table(config: ViewsConfig, systems: Sequence[System]) -> Table:
    """Compare the options of all trainings with the paper's."""
    trainings = [training_options(config, system) for system in systems if system.is_trained]
    rows = []
    for option, value in decisive_options(options_of(preset("paper"))).items():
        values = dict.fromkeys(options[option] for options in trainings)
        if set(values) != {value}:
            rows.append([option, value, "; ".join(values)])
    return Table(["option", "paper", "here"], rows)
