"""The tables and the figure that the comparison ends with."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence

from benchmarks.views.running import TASKS, Scores
from benchmarks.views.systems import PAIRS
from corpora.senteval.tasks import RELATEDNESS_TASKS
from senteval_runner.protocol.results import TaskResult
from senteval_runner.report.significance import paired_bootstrap
from senteval_runner.report.table import Cell, Column, Score, Table

REFERENCE = "dep,const"
"""The pair that the paper found best; the others are compared with it."""

BySeed = Mapping[int, Scores]
Systems = Mapping[str, BySeed]
"""Scores of every seed, by name of the system."""


def value(scores: Scores, task: str) -> float:
    """Accuracy in percent, or Pearson times 100."""
    result = scores.results[task]
    return 100 * result["pearson"] if task in RELATEDNESS_TASKS else result["acc"]


def mean_of_tasks(scores: Scores) -> float:
    """Mean over the tasks of one training."""
    return statistics.mean(value(scores, task) for task in TASKS)


def score_table(systems: Systems, title: str) -> Table:
    """Mean and standard deviation over seeds, per task, over tasks, and of similarity."""
    rows: list[list[Cell]] = []
    for name, seeds in systems.items():
        of = list(seeds.values())
        tasks = [Score.over_seeds([value(one, task) for one in of]) for task in TASKS]
        means = Score.over_seeds([mean_of_tasks(one) for one in of])
        similarity = [one.similarity for one in of if one.similarity is not None]
        rows.append([name, *tasks, means, Score.over_seeds(similarity)])
    columns = [Column(name, digits=1, best="high") for name in TASKS]
    last = [Column("mean of six", best="high"), Column("STS average", digits=1, best="high")]
    count = len(next(iter(systems.values())))
    return Table(
        ["system", *columns, *last], rows, title=title, notes=[f"Mean ± deviation over {count} seeds."]
    )


def scores_csv(columns: Mapping[str, Systems]) -> str:
    """Every score of every training: what other tables and tests can be made from.

    Args:
        columns: systems by configuration of words.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["words", "system", "seed", *TASKS, "mean of six", "STS average"])
    for words, systems in columns.items():
        for name, seeds in systems.items():
            for seed, one in seeds.items():
                found = [*(value(one, task) for task in TASKS), mean_of_tasks(one), one.similarity]
                writer.writerow([words, name, seed, *("" if v is None else f"{v:.2f}" for v in found)])
    return out.getvalue()


def difference_table(systems: Systems, title: str) -> Table:
    """How far DEP+CONST is ahead of every other system: over seeds, and tested over items."""
    ours = systems[REFERENCE]
    rows: list[list[Cell]] = []
    for name, theirs in systems.items():
        if name == REFERENCE:
            continue
        seeds = [seed for seed in ours if seed in theirs]
        ahead = [mean_of_tasks(ours[seed]) - mean_of_tasks(theirs[seed]) for seed in seeds]
        p = paired_bootstrap(*(_by_task(of, seeds, TASKS) for of in (ours, theirs)))
        alone = [
            f"{task} {statistics.mean(value(ours[s], task) - value(theirs[s], task) for s in seeds):+.1f}"
            for task in TASKS
            if paired_bootstrap(*(_by_task(of, seeds, [task]) for of in (ours, theirs))) < 0.05
        ]
        rows.append([name, Score.over_seeds(ahead), p, f"{sum(a > 0 for a in ahead)} of {len(ahead)}",
                     ", ".join(alone) or "none"])  # fmt: skip
    columns: list[Column | str] = [
        Column(f"{REFERENCE} ahead by"),
        Column("p", digits=3),
        "ahead at seeds",
        "tasks with p < 0.05, and by how much",
    ]
    note = (
        "Mean of six; p by a paired bootstrap over the items of all tasks, trainings of all seeds together."
    )
    return Table(["system", *columns], rows, title=title, notes=[note])


def _by_task(of: BySeed, seeds: Sequence[int], tasks: Sequence[str]) -> list[list[TaskResult]]:
    return [[of[seed].results[task] for seed in seeds] for task in tasks]


def figure(columns: Mapping[str, Systems]) -> str:
    """The mean of six of every system as a dot with its deviation over seeds: a stand-alone SVG.

    Args:
        columns: systems by configuration of words; a panel each.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    out = io.StringIO()
    with rc_context({"svg.hashsalt": "views", "svg.fonttype": "none", "font.size": 9}):
        canvas = Figure(figsize=(9, 3.2), layout="constrained")
        for panel, (words, systems) in zip(
            canvas.subplots(1, len(columns), squeeze=False)[0], columns.items(), strict=True
        ):
            for place, (name, seeds) in enumerate(reversed(list(systems.items()))):
                means = [mean_of_tasks(one) for one in seeds.values()]
                spread = statistics.stdev(means) if len(means) > 1 else 0.0
                colour = "#2f6f4f" if name == REFERENCE else "#1f5f8b" if name in PAIRS else "#8a8a8a"
                panel.errorbar(statistics.mean(means), place, xerr=spread, fmt="o", color=colour, capsize=3)
            panel.set_yticks(range(len(systems)), list(systems)[::-1])
            panel.set_title(f"{words} words", fontsize=10)
            panel.set_xlabel("mean of six tasks, ± deviation over seeds")
            panel.grid(axis="x", color="#ddd")
        canvas.savefig(out, format="svg", facecolor="white", metadata={"Date": None})
    return out.getvalue()
