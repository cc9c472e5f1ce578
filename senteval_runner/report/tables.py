"""Scores as tables: the multi-view paper's columns, every other task, differences between models.

MR CR SUBJ MPQA TREC accuracy, MRPC accuracy and F1, SICK-R r, ρ and MSE (times 100). For the average a
task's metrics are averaged first, with 100 - MSE in place of the MSE. There is no average when a task is
missing, because it could not be compared with the paper's.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from corpora.senteval.tasks import PROBING_FILES, RELATEDNESS_TASKS, STS_SUBSETS
from corpora.support.progress import progress
from senteval_runner.protocol.results import TaskResult
from senteval_runner.report.published import PAIR_AVERAGES, PublishedRow
from senteval_runner.report.significance import paired_bootstrap, paired_bootstrap_of_all_pairs
from senteval_runner.report.table import Cell, Column, Score, Table

Metrics = Mapping[str, float]
Scores = Mapping[str, Metrics]
"""Metrics by task."""
Models = Mapping[str, Sequence[Scores]]
"""Scores by model, one entry per seed."""


@dataclass(frozen=True)
class Effort:
    """What a model takes: the paper's columns Dim and Hrs."""

    dim: int | None = None
    """Size of a sentence vector."""
    hours: float | None = None
    """Hours of training, on whatever machine it was."""


PAPER_COLUMNS: tuple[tuple[str, str, str, float], ...] = (
    ("MR", "MR", "acc", 1),
    ("CR", "CR", "acc", 1),
    ("SUBJ", "SUBJ", "acc", 1),
    ("MPQA", "MPQA", "acc", 1),
    ("TREC", "TREC", "acc", 1),
    ("MRPC acc", "MRPC", "acc", 1),
    ("MRPC F1", "MRPC", "f1", 1),
    ("SICK-R r", "SICKRelatedness", "pearson", 100),
    ("SICK-R ρ", "SICKRelatedness", "spearman", 100),
    ("SICK-R MSE", "SICKRelatedness", "mse", 100),
)
"""Column, task, metric, factor; in the paper's order."""
SIMILARITY_COLUMNS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        **{f"{name} all": (name, "concatenated.spearman") for name in STS_SUBSETS},
        "STS-B (cosine)": ("STSBenchmark", "cosine.spearman"),
        "SICK-R (cosine)": ("SICKRelatedness", "cosine.spearman"),
    }
)
"""Column to task and metric: Spearman of cosines over all pairs, which nothing was trained for."""
FURTHER_COLUMNS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        **{f"{name} mean": (name, "all.spearman.mean") for name in STS_SUBSETS},
        "STS-B (trained)": ("STSBenchmark", "pearson"),
    }
)
"""Other scores of the same tasks; SICK-R (trained) is in the paper's table."""
STS_AVERAGE = "STS average"
AVERAGE = "average"
LOWER_IS_BETTER = ("SICK-R MSE",)
QUOTED_TITLE = "Published, not computed here: model (whose scores)"


def main_metric(task: str) -> str:
    """The metric that stands for a task."""
    if task in STS_SUBSETS:
        return "all.spearman.mean"
    return "pearson" if task in RELATEDNESS_TASKS else "acc"


def headline(task: str, metrics: Metrics) -> float:
    """A task's main metric in percent."""
    name = main_metric(task)
    return metrics[name] * (1 if name == "acc" else 100)


def paper_row(scores: Scores) -> dict[str, float]:
    """Scores by column of the paper's table; ``average`` is added when no score is missing."""
    row = {
        column: scores[task][metric] * factor
        for column, task, metric, factor in PAPER_COLUMNS
        if metric in scores.get(task, {})
    }
    if len(row) == len(PAPER_COLUMNS):
        row[AVERAGE] = paper_average(scores)
    return row


def paper_average(scores: Scores) -> float:
    """Mean over the seven tasks; MRPC is the mean of acc and F1, SICK-R of 100 r, 100 ρ and 100 - 100 MSE."""
    by_task: dict[str, list[float]] = {}
    for _, task, metric, factor in PAPER_COLUMNS:
        value = scores[task][metric] * factor
        by_task.setdefault(task, []).append(100 - value if metric == "mse" else value)
    return statistics.fmean(statistics.fmean(values) for values in by_task.values())


def published_scores(row: PublishedRow) -> dict[str, dict[str, float]]:
    """A published row's scores by task and metric, in this module's units."""
    scores: dict[str, dict[str, float]] = {}
    for (_, task, metric, factor), value in zip(PAPER_COLUMNS, row.scores, strict=True):
        if value is not None:
            scores.setdefault(task, {})[metric] = value / factor
    return scores


def published_cells(row: PublishedRow, columns: Sequence[str]) -> list[Cell]:
    """A published row's scores of some columns as printed; ``average`` stands only if no score is missing."""
    scores = paper_row(published_scores(row))
    return [f"{scores[name]:.1f}" if name in scores else None for name in columns]


def paper_columns(models: Models) -> list[str]:
    """The paper's columns that some model has a score in, in the paper's order."""
    known = {name for seeds in models.values() for scores in seeds for name in paper_row(scores)}
    return [name for name in (*(column for column, *_ in PAPER_COLUMNS), AVERAGE) if name in known]


def paper_table(
    models: Models,
    published: Sequence[PublishedRow] = (),
    notes: Sequence[str] = (),
    efforts: Mapping[str, Effort] | None = None,
) -> Table:
    """The paper's columns that were scored.

    Args:
        models: scores by model.
        published: rows that stand apart below, those that have one of these scores.
        notes: below the table.
        efforts: what models take, by name; a dash for others. A column without any is left out.
    """
    names = paper_columns(models)
    rows = {name: [paper_row(scores) for scores in seeds] for name, seeds in models.items()}
    known = [(efforts or {}).get(name, Effort()) for name in models]
    leading: dict[Column, Sequence[Cell]] = {
        Column("Dim", digits=0, align="right"): [effort.dim for effort in known],
        Column("Hrs", align="right"): [effort.hours for effort in known],
    }
    leading = {column: cells for column, cells in leading.items() if set(cells) != {None}}
    quoted: list[list[Cell]] = []
    for row in published:
        scores = published_cells(row, names)
        if any(scores):
            effort = {"Dim": row.dim, "Hrs": row.hours}
            before = [effort[column.name] for column in leading]
            quoted.append([f"{row.model} ({row.quoted_from})", *before, *scores])
    return _score_table(names, rows, notes, quoted, leading)


def pair_table() -> Table:
    """The published averages per pair of views."""
    return Table(
        ["views", Column(AVERAGE, digits=1)],
        [],
        quoted=list(PAIR_AVERAGES.items()),
        quoted_title="Published, not computed here",
    )


def tasks_of(models: Models) -> list[str]:
    """Evaluated tasks, in order of appearance."""
    return list(dict.fromkeys(task for seeds in models.values() for scores in seeds for task in scores))


def similarity_row(scores: Scores, averaged: Sequence[str]) -> dict[str, float]:
    """Similarity scores by column, times 100.

    Args:
        scores: of one model and seed.
        averaged: columns of which ``STS average`` is the mean; it is left out when one of them is missing.
    """
    row = {
        column: 100 * scores[task][metric]
        for column, (task, metric) in {**SIMILARITY_COLUMNS, **FURTHER_COLUMNS}.items()
        if metric in scores.get(task, {})
    }
    if len(averaged) > 1 and set(averaged) <= row.keys():
        row[STS_AVERAGE] = statistics.fmean(row[column] for column in averaged)
    return row


def averaged_columns(models: Models) -> list[str]:
    """The columns of ``STS average``: similarity by cosine on every set that some model was scored on."""
    every = [scores for seeds in models.values() for scores in seeds]
    return [
        column
        for column, (task, metric) in SIMILARITY_COLUMNS.items()
        if any(metric in scores.get(task, {}) for scores in every)
    ]


def similarity_table(models: Models) -> Table | None:
    """Similarity by cosine over all pairs and its average; by mean over subsets and trained, to compare."""
    averaged = averaged_columns(models)
    rows = {name: [similarity_row(scores, averaged) for scores in seeds] for name, seeds in models.items()}
    known = {column for seeds in rows.values() for row in seeds for column in row}
    columns = [c for c in (*SIMILARITY_COLUMNS, STS_AVERAGE, *FURTHER_COLUMNS) if c in known]
    if not columns:
        return None
    notes = ["Spearman times 100; all: over all pairs, mean: over subsets."]
    if "STS-B (trained)" in columns:
        notes.append("STS-B (trained): Pearson times 100 of a regression on the training part.")
    if STS_AVERAGE in columns:
        notes.append(f"{STS_AVERAGE}: the mean of {', '.join(averaged)}.")
    return _score_table(columns, rows, notes)


def other_table(models: Models) -> Table | None:
    """The main metric of every task that has no table of its own."""
    elsewhere = {task for _, task, _, _ in PAPER_COLUMNS} | {*PROBING_FILES, *STS_SUBSETS, *RELATEDNESS_TASKS}
    tasks = [task for task in tasks_of(models) if task not in elsewhere]
    return _score_table(tasks, headlines(models, tasks)) if tasks else None


def probing_table(models: Models, parsed: Sequence[str] = (), labelled: Sequence[str] = ()) -> Table | None:
    """Accuracies of the probing tasks as a heat map, a row per task.

    Args:
        models: scores by model.
        parsed: models that read parses.
        labelled: tasks whose labels a parser gave; marked when a model reads parses.
    """
    tasks = [task for task in tasks_of(models) if task in PROBING_FILES]
    if not tasks:
        return None
    marked = [task for task in tasks if parsed and task in labelled]
    notes = ["Accuracy in percent."]
    if marked:
        notes.append(
            f"† A parser gave the labels, and {', '.join(parsed)} read a parser's trees: if it is the same "
            "parser, the probe asks for what was put in."
        )
    by_model = headlines(models, tasks)
    rows: list[list[Cell]] = [
        [
            f"{task} †" if task in marked else task,
            *(Score.over_seeds([one[task] for one in seeds if task in one]) for seeds in by_model.values()),
        ]
        for task in tasks
    ]
    columns = [Column(name, digits=1, align="right", shade=(0, 100)) for name in models]
    return Table(["task", *columns], rows, notes=notes)


def difference_table(results: Mapping[str, Mapping[str, TaskResult]]) -> Table:
    """Every two models compared on one seed.

    A row per pair, because many models make a long table easier to read than a wide one.

    Args:
        results: results by model and task.
    """
    tasks = list(dict.fromkeys(task for by_task in results.values() for task in by_task))
    rows: list[list[Cell]] = []
    pairs = list(itertools.combinations(results, 2))
    with progress(total=len(tasks) * len(pairs), unit="pair", description="report: differences") as bar:
        for a, b in pairs:
            cells: list[Cell] = [f"{a} − {b}"]
            for task in tasks:
                bar.update(1)
                if task not in results[a] or task not in results[b]:
                    cells.append(None)
                    continue
                one, other = results[a][task], results[b][task]
                cells.append(_difference(_compared(one) - _compared(other), paired_bootstrap(one, other)))
                if task in STS_SUBSETS:
                    ahead, p = paired_bootstrap_of_all_pairs(one, other)
                    cells[-1] = f"{cells[-1]}; {_difference(100 * ahead, p)}"
            rows.append(cells)
    note = (
        "Difference in percent on the first seed, p by paired bootstrap over items (1,000 resamples, "
        "two-sided; * p < 0.05, not corrected for the number of comparisons). Relatedness: Pearson. STS: "
        "Pearson, mean over subsets; Spearman over all pairs."
    )
    return Table(["models", *(Column(task, align="right") for task in tasks)], rows, notes=[note])


def _difference(ahead: float, p: float) -> str:
    return f"{ahead:+.2f}{'*' if p < 0.05 else ''} (p\u00a0{p:.3f})"


def headlines(models: Models, tasks: Sequence[str]) -> dict[str, list[dict[str, float]]]:
    """Main metrics in percent by model, one entry per seed."""
    return {
        name: [{task: headline(task, one[task]) for task in tasks if task in one} for one in seeds]
        for name, seeds in models.items()
    }


def _score_table(
    columns: Sequence[str],
    by_model: Mapping[str, Sequence[Mapping[str, float]]],
    notes: Sequence[str] = (),
    quoted: Sequence[Sequence[Cell]] = (),
    leading: Mapping[Column, Sequence[Cell]] | None = None,
) -> Table:
    """Means with deviations over seeds, the best mean of each column marked, after ``leading`` columns."""
    before = leading or {}
    rows: list[list[Cell]] = [
        [
            name,
            *(cells[place] for cells in before.values()),
            *(Score.over_seeds([one[column] for one in seeds if column in one]) for column in columns),
        ]
        for place, (name, seeds) in enumerate(by_model.items())
    ]
    best = [Column(name, best="low" if name in LOWER_IS_BETTER else "high") for name in columns]
    title = QUOTED_TITLE if quoted else ""
    return Table(["model", *before, *best], rows, notes=notes, quoted=quoted, quoted_title=title)


def _compared(result: TaskResult) -> float:
    """What the bootstrap compares: accuracy, or Pearson times 100."""
    if result.task in STS_SUBSETS:
        return 100 * result["all.pearson.mean"]
    return result["acc"] if "acc" in result.metrics else 100 * result["pearson"]
