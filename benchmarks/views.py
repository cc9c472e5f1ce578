"""The paper's claim: which pair of views learns the best sentence vectors?

    python -m benchmarks.views --trees runs/trees/umbc --words both --vectors glove.840B.300d.txt --data DATA
    python -m benchmarks.views --trees runs/trees/mine --words trained --dim 256 --word-dim 100 \
        --rates 5e-4 1.5e-3 5e-3 --sentences 50000 150000 --seeds 0 1 --systems seq,seq seq,const dep,const

The first line is tables 1 and 2 of Simoulin & Crabbé 2021 in full, their rows beside ours. Systems: the six
pairs of {seq, dep, const}, QuickThought's setting (seq,seq; dot score, one softmax, the sentence itself at
score 0), their starts before training (table 3), the average of the words of dep,const, and of random ones.
All have the preset's options but for those given here; the report lists what differs from the paper's. With
several --rates a system takes that of the lowest validation loss, on sentences which these trainings do not
see, at the first of --sentences; then it is trained as the preset says. Sentences are drawn, in segments,
from all of the text, whose words every system has. ``multiview.train`` and ``senteval_runner.run`` train and
score; what is finished is not repeated. ``--output`` gets report.html and report.md.
"""

from __future__ import annotations

import math
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np

from corpora.senteval.tasks import data_folder
from multiview.config import TRAIN, TrainConfig, decisive_options, preset
from multiview.folder.card import training_command
from parsing.trees.cache import TreeCache
from runtime.cli import Command, CountOrNone, Positive, configuration
from runtime.errors import UserError
from runtime.files import read_json, read_record, write_text
from runtime.progress import progress
from runtime.training_loop import read_log
from senteval_runner.report.page import Cell, Column, Page, Score, Section, Table
from senteval_runner.report.tables import paper_row, score_sections, task_means

PAIRS = tuple(",".join(pair) for pair in combinations_with_replacement(("seq", "dep", "const"), 2))
QUICKTHOUGHT, REFERENCE = "QuickThought", "dep,const"
"""A setting of seq,seq; the pair that the paper found best, with which the others are compared."""
START, AVERAGE, RANDOM = "start of ", "average of its words", "random words"
RESAMPLES, VALIDATION = 1000, 4000
Words = Literal["trained", "fixed", "both"]
Results = Mapping[str, Mapping[str, Any]]
"""By task."""


@configuration
class ViewsConfig:
    """Options of ``benchmarks.views``; 0 is the preset's own value."""

    trees: Path
    """Tree cache to train on."""
    preset: str = "paper"
    """Of multiview.train: paper, laptop, gpu, or a TOML."""
    systems: tuple[str, ...] = (*PAIRS, QUICKTHOUGHT)
    """Pairs of views, and QuickThought."""
    words: tuple[Words, ...] = ("trained", "fixed")
    """Configurations of words; both is the paper's."""
    vectors: str = TRAIN
    """Fixed words: a file, or train (skip-grams of the corpus; then no vocabulary is expanded)."""
    sentences: tuple[CountOrNone, ...] = (0,)
    """Of training, in each pass over them; 0: all."""
    passes: CountOrNone = 0
    """Over the sentences."""
    rates: tuple[Positive, ...] = ()
    """Learning rates to choose from; none: the preset's."""
    dim: CountOrNone = 0
    """Size of a view."""
    word_dim: CountOrNone = 0
    """Size of word vectors made here."""
    seeds: tuple[CountOrNone, ...] = (0, 1, 2)
    """Of weights, order and word vectors; with the first one rates are chosen."""
    tasks: str = "mv"
    """Of senteval_runner.run."""
    protocol: Literal["default", "fast", "sklearn"] = "default"
    """Of its classifiers."""
    data: Path | None = None
    """SentEval's folder; None is $MULTIVIEW_DATA/senteval."""
    output: Path = Path("runs/views")
    """Folder for models, scores and the report."""


@dataclass(frozen=True, kw_only=True)
class System:
    """One row of a table, at one seed."""

    name: str
    """A pair of views, QuickThought, or a control."""
    words: Words
    sentences: int
    seed: int

    @property
    def row(self) -> str:
        """Its name in tables, without the seed."""
        return f"{self.name}, {self.words} words, {self.sentences or 'all'} sentences"

    @property
    def label(self) -> str:
        """Name of its folders."""
        return f"{self.row.replace(', ', '-').replace(',', '-').replace(' ', '-').lower()}-seed{self.seed}"

    def spec(self, models: Path, trees: Path) -> str:
        """The model as ``senteval_runner.run`` names it, from the trained ones and the trees of training."""
        if self.name == RANDOM:
            return "bag:random"
        if self.name == AVERAGE:
            return f"bag:{models / replace(self, name=REFERENCE).label}"
        model = models / replace(self, name=self.name.removeprefix(START)).label
        return f"start:{model}?corpus={trees}" if self.name.startswith(START) else str(model)


def all_systems(config: ViewsConfig) -> list[System]:
    """Every system, seed by seed, those that learn before the controls that are made from them."""
    found = []
    for seed, words, sentences in product(config.seeds, config.words, config.sentences):
        names = [*config.systems, *[AVERAGE] * (REFERENCE in config.systems)]
        if sentences == config.sentences[0]:  # one start for all sizes, which share their words
            names += [START + name for name in config.systems if name != QUICKTHOUGHT] + [RANDOM]
        found += [System(name=name, words=words, sentences=sentences, seed=seed) for name in names]
    return found


def training(config: ViewsConfig, system: System, rate: float, *, validate: bool = False) -> TrainConfig:
    """How a system is trained; ``validate`` to tell rates apart."""
    base, views = preset(config.preset), system.name
    loop, table, objective = base.loop, base.table, base.objective
    if views == QUICKTHOUGHT:
        views, objective = "seq,seq", replace(objective, score="dot", denominator="quickthought")
    passes = config.passes or loop.epochs
    steps = passes * math.ceil(system.sentences / loop.batch / (loop.segments or 1))
    held_out = VALIDATION if validate else loop.validation
    expand = 0 if config.vectors == TRAIN else table.expand
    return replace(
        base,
        views=views,
        words=system.words,
        vectors=config.vectors,
        trees=config.trees,
        seed=system.seed,
        output=config.output / "models",
        name=f"{system.label}-rate{rate:g}" if validate else system.label,
        table=replace(table, dim=config.word_dim or table.dim, expand=expand),
        encoder=replace(base.encoder, dim=config.dim or base.encoder.dim),
        objective=objective,
        loop=replace(loop, epochs=passes, max_steps=steps, learning_rate=rate, validation=held_out),
    )


def validation_loss(config: TrainConfig) -> float:
    """Train, and return the validation loss at the end, of two models the sum."""
    _command(*shlex.split(training_command(config))[2:])
    logs = map(read_log, config.folder.rglob("log.jsonl"))
    return sum([row["loss"] for row in rows if "recall@1" in row][-1] for rows in logs)


def run(config: ViewsConfig, system: System, rate: float | None) -> None:
    """Train (a stopped training is resumed), if there is a rate, and score a system, unless that is done."""
    report = config.output / "scores" / system.label
    if (report / "results.json").exists():
        return
    if rate is not None:
        _command(*shlex.split(training_command(training(config, system, rate)))[2:])
    _command(
        *("senteval_runner.run", system.spec(config.output / "models", config.trees)),
        *("--tasks", config.tasks, "--protocol", config.protocol),
        *("--data", data_folder(config.data)),
        *("--output", report, "--cache", report / "vectors", "--random-seed", system.seed, "--no-baselines"),
    )
    shutil.rmtree(report / "vectors", ignore_errors=True)  # 50 MB that nothing reads again


def _command(module: str, *arguments: object) -> None:
    words = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 2:
        raise UserError(done.stderr.strip().splitlines()[-1])
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def ahead(one: Sequence[Results], other: Sequence[Results]) -> Score:
    """How far one system is ahead of another, results at the same seeds, in the mean accuracy over tasks.

    In percent, with the 95 % interval over seeds and items, both resampled, the same for both systems.
    """
    tasks = [task for task, result in one[0].items() if "acc" in result["metrics"]]
    stream, seeds = np.random.default_rng(0), len(one)
    drawn_RS = stream.integers(seeds, size=(RESAMPLES, seeds))
    means, resampled_R = [], np.zeros(RESAMPLES)
    for task in tasks:
        right_2SN = [
            [
                np.hstack([np.equal(r[task]["gold"][s], p) for s, p in r[task]["predictions"].items()])
                for r in of
            ]
            for of in (one, other)
        ]
        gain_SN = np.subtract(*np.array(right_2SN, dtype=np.float64))
        for r, drawn_S in enumerate(drawn_RS):
            items = stream.integers(gain_SN.shape[1], size=gain_SN.shape[1])
            resampled_R[r] += gain_SN[:, items].mean(axis=1)[drawn_S].mean()
        means.append(100 * gain_SN.mean())
    low, high = np.percentile(100 * resampled_R / len(tasks), (2.5, 97.5))
    return Score(fmean(means), interval=(low, high))


def page(
    config: ViewsConfig, rates: Mapping[tuple[str, Words], float], losses: Sequence[Sequence[Cell]]
) -> Page:
    """The means and who is ahead; what differs from the paper; the paper's table."""
    by_row: dict[str, list[System]] = {}
    for system in all_systems(config):
        by_row.setdefault(system.row, []).append(system)
    folder = config.output / "scores"
    found: dict[str, list[Results]] = {
        row: [{p.stem: read_record(p) for p in (folder / s.label).glob("parts/*/*/*.json")} for s in seeds]
        for row, seeds in by_row.items()
    }
    models = {
        row: [{task: result["metrics"] for task, result in one.items()} for one in seeds]
        for row, seeds in found.items()
    }
    efforts, means, how = {}, [], []
    for row, seeds in by_row.items():
        [about] = read_json(folder / seeds[0].label / "results.json")["models"].values()
        efforts[row] = (about["dim"], about["hours"])
        mean = Score.over_seeds([fmean(task_means(paper_row(one)).values()) for one in models[row]])
        best = found.get(replace(seeds[0], name=REFERENCE).row, found[row])
        means.append([row, len(seeds), mean, None if best is found[row] else ahead(best, found[row])])
        if rate := rates.get((seeds[0].name, seeds[0].words)):
            how += [decisive_options(training(config, system, rate)) for system in seeds]
    differing = [
        [option, value, "; ".join(dict.fromkeys(one[option] for one in how))]
        for option, value in decisive_options(preset("paper")).items()
        if {one[option] for one in how} != {value}
    ]
    named = ["system", "seeds", Column("mean over tasks", best="high"), f"{REFERENCE} ahead, accuracy"]
    rated = [Column(f"{rate:g}", digits=4, best="low") for rate in config.rates]
    tables = {
        "Means": Table(named, means),
        "Options that differ from the paper's": Table(["option", "paper", "here"], differing),
        "Validation loss by learning rate": Table(["system", *rated, "chosen"], losses),
    }
    sections = [Section(title, [table]) for title, table in tables.items() if table.rows]
    about = f"Preset {config.preset}, protocol {config.protocol}."
    return Page("Pairs of views", [*sections, *score_sections(models, efforts)], about)


def main(config: ViewsConfig) -> None:
    """Run what is missing; write the report."""
    TreeCache.open(config.trees)  # refused now, not by every training
    grid = config.rates or (preset(config.preset).loop.learning_rate,)
    rates, losses = dict.fromkeys(product(config.systems, config.words), grid[0]), []
    for name, words in rates if len(grid) > 1 else ():
        first = System(name=name, words=words, sentences=config.sentences[0], seed=config.seeds[0])
        found = [validation_loss(training(config, first, rate, validate=True)) for rate in grid]
        rates[name, words] = grid[int(np.argmin(found))]
        losses.append([first.row, *found, f"{rates[name, words]:g}"])
    systems = all_systems(config)
    with progress(total=len(systems), unit="system", description="views") as bar:
        for system in systems:
            run(config, system, rates.get((system.name, system.words)))
            bar.update(1)
    report = page(config, rates, losses)
    write_text(config.output / "report.html", report.html())
    write_text(config.output / "report.md", report.markdown())
    print(report.markdown())


cli = Command(ViewsConfig, main, "benchmarks.views", (__doc__ or "").split("\n")[0])


if __name__ == "__main__":
    sys.exit(cli())
