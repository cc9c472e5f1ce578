"""Train and score every pair of views, and compare them, paired by seed: what ``studies.views`` does."""

from __future__ import annotations

import csv
import io
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from corpora.senteval.tasks import data_folder
from multiview.config import TRAIN, TrainConfig, decisive_options, preset
from multiview.folder.card import training_command
from parsing.trees.cache import TreeCache
from runtime import __version__
from runtime.cli import config_from_json
from runtime.errors import UserError
from runtime.files import read_json, read_record, write_json, write_text
from runtime.progress import progress
from senteval_runner.protocol.config import TaskResult
from senteval_runner.protocol.statistics import RESAMPLES, drawn_scores, interval
from senteval_runner.report import plots
from senteval_runner.report.page import Column, Figure, Page, Score, Section, Table
from senteval_runner.report.tables import paper_row, score_sections, task_means
from studies.views.__main__ import QUICKTHOUGHT, Scale, ViewsConfig, Words

REFERENCE = "dep,const"
"""The pair that the paper found best, with which the others are compared."""
START, AVERAGE, RANDOM = "start of ", "average of its words", "random words"
PATIENCE = 2
"""Validations, of ten, without a lower loss, after which a training with held-out sentences stops."""
SECONDARY = ("MRPC", "SICKRelatedness")
"""Tasks that are compared by themselves too: on SICK-R the paper claims its gain."""
ABOUT = "made.json"
"""Beside the scores of a system: the commit that made them, and what is told of its training."""
Results = Mapping[str, TaskResult]
"""By task."""


@dataclass(frozen=True, kw_only=True)
class System:
    """One row of a table, at one seed."""

    name: str
    """A pair of views, QuickThought, or a control."""
    words: Words
    trees: Path
    """Of its text."""
    rate: float
    """Of learning; of a control, that of the models that it is made from."""
    seed: int

    @property
    def trained(self) -> bool:
        """Whether it is no control."""
        return self.name not in (AVERAGE, RANDOM) and not self.name.startswith(START)

    @property
    def row(self) -> str:
        """Its name in tables, without the seed."""
        about = f"{self.name}, {self.words} words"
        return f"{about}, {self.trees.name}, rate {self.rate:g}" if self.trained else about

    @property
    def label(self) -> str:
        """Name of its folders."""
        whole = f"{self.name}, {self.words} words, {self.trees.name}, rate {self.rate:g}"
        return f"{whole.replace(', ', '-').replace(',', '-').replace(' ', '-').lower()}-seed{self.seed}"

    def spec(self, models: Path, scale: Scale) -> str:
        """The model as ``senteval_runner.run`` names it, from the folder of trained ones."""
        name = str(models / replace(self, name=self.name.removeprefix(START)).label)
        if self.name == RANDOM:
            name = "bag:random"
        elif self.name == AVERAGE:
            name = f"bag:{models / replace(self, name=REFERENCE).label}"
        elif self.name.startswith(START):
            name = f"start:{name}?corpus={self.trees}"
        return f"{name}?scale={self.trees if scale == 'one' else 'none'}"


def all_systems(config: ViewsConfig) -> list[System]:
    """Every system, seed by seed, those that learn before the controls that are made from them.

    Controls are made from the models of the first text and rate.
    """
    rates = config.rates or (preset(config.preset).loop.learning_rate,)
    found: list[System] = []
    for seed, words in product(config.seeds, config.words):
        first = System(name="", words=words, trees=config.trees[0], rate=rates[0], seed=seed)
        for rate, trees, name in product(rates, config.trees, config.systems):
            found.append(replace(first, name=name, trees=trees, rate=rate))
        controls = [START + name for name in config.systems if name != QUICKTHOUGHT]
        # Words that are fixed have the same average at every seed.
        if REFERENCE in config.systems and (words != "fixed" or seed == config.seeds[0]):
            controls.append(AVERAGE)
        controls += [RANDOM] * (seed == config.seeds[0])
        found += [replace(first, name=name) for name in controls * config.controls]
    return found


def training(config: ViewsConfig, system: System) -> TrainConfig:
    """How a system is trained."""
    base, views = preset(config.preset), system.name
    loop, table, objective = base.loop, base.table, base.objective
    if views == QUICKTHOUGHT:
        views, objective = "seq,seq", replace(objective, score="dot", denominator="quickthought")
    loop = replace(
        loop,
        epochs=config.passes or loop.epochs,
        learning_rate=system.rate,
        validation=config.validation or loop.validation,
        patience=PATIENCE if config.validation else loop.patience,
    )
    expand = 0 if config.vectors == TRAIN or system.words == "fixed" else table.expand
    case, dim = config.case or table.case, config.word_dim or table.dim
    return replace(
        base,
        views=views,
        words=system.words,
        vectors=config.vectors,
        trees=system.trees,
        seed=system.seed,
        output=config.output / "models",
        name=system.label,
        table=replace(table, dim=dim, expand=expand, case=case),
        encoder=replace(base.encoder, dim=config.dim or base.encoder.dim),
        objective=objective,
        loop=loop,
    )


def run(config: ViewsConfig, system: System, commit: str) -> None:
    """Train (a stopped training is resumed) and score a system, unless that is done."""
    models = config.output / "models"
    for scale in config.scales:
        report = config.output / "scores" / system.label / scale
        if (report / ABOUT).exists():
            continue
        if system.trained:
            _command(*shlex.split(training_command(training(config, system)))[2:])
        _command(
            *("senteval_runner.run", system.spec(models, scale)),
            *("--tasks", config.tasks, "--protocol", config.protocol),
            *("--data", data_folder(config.data)),
            *("--output", report, "--cache", report / "vectors", "--random-seed", system.seed),
            "--no-baselines",
        )
        shutil.rmtree(report / "vectors", ignore_errors=True)  # 50 MB that nothing reads again
        write_json(report / ABOUT, {"commit": commit, **_trained(models / system.label, system)})


def _trained(folder: Path, system: System) -> dict[str, Any]:
    """The step whose weights are kept, and their loss on held-out sentences where there are any."""
    if not system.trained or system.words == "both":
        return {}
    told = read_json(folder / "config.json")["training"]
    return {"step": told["step"], "validation loss": told["best"].get("loss")}


def _command(module: str, *arguments: object) -> None:
    words = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 2:
        raise UserError(done.stderr.strip().splitlines()[-1])
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def code_version() -> str:
    """The commit of this code's checkout, with a + if files differ from it; if installed, the version."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD"], capture_output=True)
    except OSError:
        return __version__
    return head.stdout.strip() + "+" * (changed.returncode > 0) if head.returncode == 0 else __version__


def mean_over_tasks(metrics: Mapping[str, Mapping[str, Any]], tasks: Sequence[str] = ()) -> Any:
    """The paper's mean (its footnote 6) of metrics by task: of numbers, or of arrays of resamples."""
    by_task = task_means(paper_row(metrics))
    wanted = [by_task[task] for task in tasks or by_task]
    return sum(wanted) / len(wanted)


def figures(results: Results) -> dict[str, dict[str, float]]:
    """Metrics by task."""
    return {task: result.metrics for task, result in results.items()}


def drawn(results: Results) -> dict[str, dict[str, Any]]:
    """Metrics by task on resamples of the items, an array each."""
    return {task: drawn_scores([result]) for task, result in results.items()}


def ahead(one: Sequence[Results], other: Sequence[Results], tasks: Sequence[str] = ()) -> Score:
    """How far one system is ahead of another in the paper's mean over tasks (its footnote 6).

    With the 95 % interval over seeds and items, both resampled, the same for both systems.

    Args:
        one: results of the first system, by seed.
        other: those of the second, at the same seeds.
        tasks: only these; () is all.
    """
    pairs = list(zip(one, other, strict=True))

    def gains(read: Callable[[Results], Any]) -> list[Any]:
        return [mean_over_tasks(read(a), tasks) - mean_over_tasks(read(b), tasks) for a, b in pairs]

    value, gain_SR = fmean(gains(figures)), np.array(gains(drawn))
    seeds_RS = np.random.default_rng(0).integers(len(one), size=(RESAMPLES, len(one)))
    return Score(value, interval=interval(gain_SR.T[np.arange(RESAMPLES)[:, None], seeds_RS].mean(1)))


class Scored:
    """What is scored so far: the results of every row by seed, at one scale."""

    def __init__(self, config: ViewsConfig, scale: Scale) -> None:
        self.config, self.scale, self.folder = config, scale, config.output / "scores"
        self.systems: dict[str, list[System]] = {}
        """By row, its seeds."""
        self.results: dict[str, list[Results]] = {}
        for system in all_systems(config):
            if (self.place(system) / ABOUT).exists():
                self.systems.setdefault(system.row, []).append(system)
                self.results.setdefault(system.row, []).append(self._read(system))

    def place(self, system: System) -> Path:
        """Folder of a system's scores."""
        return self.folder / system.label / self.scale

    def _read(self, system: System) -> Results:
        paths = sorted(self.place(system).glob("parts/*/*/*.json"))
        return {p.stem: config_from_json(TaskResult, read_record(p), where=p) for p in paths}

    def pair(self, row: str, other: str) -> tuple[list[Results], list[Results]] | None:
        """Results of two rows at the seeds that both have; words that have no seed go with each.

        None if there are no such seeds.
        """
        one, two = (
            {s.seed: r for s, r in zip(self.systems.get(x, ()), self.results.get(x, ()), strict=True)}
            for x in (row, other)
        )
        if len(two) == 1 and self.systems[other][0].name in (AVERAGE, RANDOM):
            two = dict.fromkeys(one, *two.values())
        both = [seed for seed in one if seed in two]
        return ([one[seed] for seed in both], [two[seed] for seed in both]) if both else None

    def rows(self) -> Iterable[dict[str, Any]]:
        """Every score: a row of rows.csv."""
        for row, systems in self.systems.items():
            for system, results in zip(systems, self.results[row], strict=True):
                metrics = figures(results)
                yield {
                    **read_json(self.place(system) / ABOUT),
                    **{"words": system.words, "system": system.name},
                    "text": system.trees.name if system.trained else "",
                    "rate": system.rate if system.trained else "",
                    **{"seed": system.seed, "scale": self.scale, "protocol": self.config.protocol},
                    **{task: f"{score:.2f}" for task, score in task_means(paper_row(metrics)).items()},
                    f"mean of {len(metrics)}": f"{mean_over_tasks(metrics):.2f}",
                }


def sections_of(scored: Scored) -> list[Section]:
    """At one scale: the means and who is ahead, and the paper's table."""
    listed = []
    for row, systems in scored.systems.items():
        results, first = scored.results[row], systems[0]
        best = replace(first, name=REFERENCE).row
        pair = scored.pair(best, row) if best != row else None
        value = Score.over_seeds([mean_over_tasks(figures(one)) for one in results])
        gains = [pair and ahead(*pair, tasks=tasks) for tasks in ((), *((task,) for task in SECONDARY))]
        listed.append([row, len(systems), value, *gains])
    columns = [f"{REFERENCE} ahead", *(f"on {task}" for task in SECONDARY)]
    table = Table(["system", "seeds", Column("mean over tasks", best="high"), *columns], listed)
    title = "Raw numbers" if scored.scale == "none" else "Each number at one scale"
    models = {row: list(map(figures, seeds)) for row, seeds in scored.results.items()}
    efforts = {}
    for row, systems in scored.systems.items():
        [about] = read_json(scored.place(systems[0]) / "results.json")["models"].values()
        efforts[row] = (about["dim"], about["hours"])
    tables = [replace(s, title=f"{title}: {s.title}") for s in score_sections(models, efforts)]
    return [Section(f"{title}: means", [table, curve(scored)]), *tables]


def curve(scored: Scored) -> Figure:
    """The mean over tasks by sentences of training, with the 95 % interval of its mean over seeds."""
    lines: dict[str, list[tuple[int, Score]]] = {}
    size = {trees: len(TreeCache.open(trees)) for trees in scored.config.trees}
    for row, systems in scored.systems.items():
        first, found = systems[0], [mean_over_tasks(figures(one)) for one in scored.results[row]]
        name = f"{first.name}, {first.words} words, rate {first.rate:g}"
        if first.trained:
            lines.setdefault(name, []).append((size[first.trees], interval_of_mean(found)))
    points = {name: sorted(line, key=lambda point: point[0]) for name, line in lines.items()}
    return plots.curves(
        {name: [(x, score.value) for x, score in line] for name, line in points.items()},
        spans={name: [score.interval or (score.value, score.value) for _, score in line]
               for name, line in points.items()},
        x_label="sentences", y_label="mean over tasks", caption="Mean over tasks by text, 95 % over seeds",
    )  # fmt: skip


def interval_of_mean(values: Sequence[float]) -> Score:
    """The mean of values, with its 95 % interval by Student's t; of a single value without one."""
    if len(values) < 2:
        return Score(values[0])
    from scipy.stats import sem, t

    reach = float(t.ppf(0.975, len(values) - 1) * sem(values))
    return Score(fmean(values), interval=(fmean(values) - reach, fmean(values) + reach))


def report(config: ViewsConfig) -> Page:
    """The page, and rows.csv."""
    every = [Scored(config, scale) for scale in config.scales]
    rows = [row for scored in every for row in scored.rows()]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(config.output / "rows.csv", text.getvalue())
    how = [decisive_options(training(config, s)) for s in all_systems(config) if s.trained]
    differing = [
        [option, value, "; ".join(dict.fromkeys(one[option] for one in how))]
        for option, value in decisive_options(preset("paper")).items()
        if {one[option] for one in how} != {value}
    ]
    options = Table(["option", "paper", "here"], differing)
    sections = [section for scored in every if scored.systems for section in sections_of(scored)]
    about = f"Preset {config.preset}, protocol {config.protocol}."
    return Page(
        "Pairs of views", [*sections, Section("Options that differ from the paper's", [options])], about
    )


def compare(config: ViewsConfig) -> None:
    """Run what is missing; write the report."""
    for trees in config.trees:
        TreeCache.open(trees)  # refused now, not by every training
    systems, commit = all_systems(config), code_version()
    with progress(total=len(systems), unit="system", description="views") as bar:
        for system in systems:
            run(config, system, commit)
            bar.update(1)
    page = report(config)
    write_text(config.output / "report.html", page.html())
    write_text(config.output / "report.md", page.markdown())
    print(page.markdown())
