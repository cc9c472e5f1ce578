"""Scores as tables: the multi-view paper's columns, similarity, every other task, differences between models.

MR CR SUBJ MPQA TREC accuracy, MRPC accuracy and F1, SICK-R r, ρ and MSE (times 100). For the average a
task's metrics are averaged first, with 100 - MSE in place of the MSE. There is no average when a task is
missing, because it could not be compared with the paper's.

``published.csv`` has tables 1 to 3 of Simoulin & Crabbé, "Contrasting distinct structured views to learn
sentence embeddings" (EACL SRW 2021), which quote the rows of other models from the papers named with them.
"""

from __future__ import annotations

import csv
import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from corpora.senteval.tasks import PROBING_FILES, RELATEDNESS_TASKS, STS_SUBSETS
from corpora.support.progress import progress
from senteval_runner.protocol.results import TaskResult
from senteval_runner.report.page import Section
from senteval_runner.report.significance import paired_bootstrap, paired_bootstrap_of_all_pairs
from senteval_runner.report.table import Cell, Column, Score, Table

Scores = Mapping[str, Mapping[str, float]]
"""Metrics by task."""
Models = Mapping[str, Sequence[Scores]]
"""Scores by model, one entry per seed."""

PAPER_COLUMNS: tuple[tuple[str, str, str, float], ...] = (
    *((task, task, "acc", 1) for task in ("MR", "CR", "SUBJ", "MPQA", "TREC")),
    ("MRPC acc", "MRPC", "acc", 1),
    ("MRPC F1", "MRPC", "f1", 1),
    ("SICK-R r", "SICKRelatedness", "pearson", 100),
    ("SICK-R ρ", "SICKRelatedness", "spearman", 100),
    ("SICK-R MSE", "SICKRelatedness", "mse", 100),
)
"""Column, task, metric, factor; in the paper's order."""
SIMILARITY_COLUMNS: Mapping[str, tuple[str, str]] = {
    **{f"{name} all": (name, "concatenated.spearman") for name in STS_SUBSETS},
    "STS-B (cosine)": ("STSBenchmark", "cosine.spearman"),
    "SICK-R (cosine)": ("SICKRelatedness", "cosine.spearman"),
}
"""Column to task and metric: Spearman of cosines over all pairs, which nothing was trained for."""
FURTHER_COLUMNS: Mapping[str, tuple[str, str]] = {
    **{f"{name} mean": (name, "all.spearman.mean") for name in STS_SUBSETS},
    "STS-B (trained)": ("STSBenchmark", "pearson"),
}
"""Other scores of the same tasks; SICK-R (trained) is in the paper's table."""
STS_AVERAGE, AVERAGE = "STS average", "average"
PAIR_AVERAGES: dict[str, float] = {
    "CONST, CONST": 84.4,
    "DEP, DEP": 84.6,
    "SEQ, SEQ": 84.9,
    "SEQ, CONST": 85.1,
    "SEQ, DEP": 85.3,
    "DEP, CONST": 86.0,
}
"""The paper's average per pair of views: what :func:`paper_average` gives for the pairs whose rows it has."""
NOTE = (
    "Published rows are quoted, not computed here: other training data, sizes and library versions, so "
    "tenths mean nothing. Source: Simoulin & Crabbé 2021 (EACL SRW), tables 1 to 3"
)


def main_metric(task: str) -> str:
    """The metric that stands for a task."""
    if task in STS_SUBSETS:
        return "all.spearman.mean"
    return "pearson" if task in RELATEDNESS_TASKS else "acc"


def headline(task: str, metrics: Mapping[str, float]) -> float:
    """A task's main metric in percent."""
    name = main_metric(task)
    return metrics[name] * (1 if name == "acc" else 100)


def paper_average(row: Mapping[str, float]) -> float | None:
    """Mean over the seven tasks; MRPC is the mean of acc and F1, SICK-R of 100 r, 100 ρ and 100 - 100 MSE.

    Args:
        row: scores by column of the paper's table.

    Returns:
        None when a score is missing.
    """
    by_task: dict[str, list[float]] = {}
    for column, task, metric, _ in PAPER_COLUMNS:
        if column not in row:
            return None
        by_task.setdefault(task, []).append(100 - row[column] if metric == "mse" else row[column])
    return statistics.fmean(map(statistics.fmean, by_task.values()))


def paper_row(scores: Scores) -> dict[str, float]:
    """Scores by column of the paper's table; ``average`` is added when no score is missing."""
    row = {
        column: scores[task][metric] * factor
        for column, task, metric, factor in PAPER_COLUMNS
        if metric in scores.get(task, {})
    }
    average = paper_average(row)
    return row if average is None else row | {AVERAGE: average}


@cache
def published_rows() -> list[tuple[dict[str, str], dict[str, float]]]:
    """The paper's rows: texts (model, quoted from, dim, hours) and scores by column, with the average."""
    found = []
    with open(Path(__file__).with_name("published.csv"), encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            row = {column: float(line[column]) for column, *_ in PAPER_COLUMNS if line[column]}
            average = paper_average(row)
            found.append((line, row if average is None else row | {AVERAGE: average}))
    return found


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


def headlines(models: Models) -> dict[str, list[dict[str, float]]]:
    """Main metrics in percent by model and task, one entry per seed."""
    return {
        name: [{task: headline(task, metrics) for task, metrics in one.items()} for one in seeds]
        for name, seeds in models.items()
    }


def score_sections(models: Models, efforts: Mapping[str, tuple[int | None, float | None]]) -> list[Section]:
    """The tables of scores.

    Args:
        models: scores by model.
        efforts: size of a vector and hours of training by model.
    """
    averaged = averaged_columns(models)
    paper = {name: [paper_row(one) for one in seeds] for name, seeds in models.items()}
    similar = {name: [similarity_row(one, averaged) for one in seeds] for name, seeds in models.items()}
    others = headlines(models)
    elsewhere = {task for _, task, _, _ in PAPER_COLUMNS} | {*STS_SUBSETS, *RELATEDNESS_TASKS}
    tasks = list(dict.fromkeys(task for seeds in others.values() for one in seeds for task in one))
    probing = [task for task in tasks if task in PROBING_FILES]
    sections = []
    if columns := _known((*(column for column, *_ in PAPER_COLUMNS), AVERAGE), paper):
        notes = ["SICK-R times 100; lower MSE is better."]
        if AVERAGE not in columns:
            notes.append("No average: it needs every task of the multi-view paper's table.")
        blocks = [_paper_table(columns, paper, notes, efforts)]
        if AVERAGE in columns:
            cells: list[list[Cell]] = [[pair, average] for pair, average in PAIR_AVERAGES.items()]
            blocks.append(Table(["views", Column(AVERAGE, digits=1)], [], quoted=cells, quoted_title=NOTE))
        sections.append(Section("Classification and relatedness", blocks))
    if columns := _known((*SIMILARITY_COLUMNS, STS_AVERAGE, *FURTHER_COLUMNS), similar):
        notes = ["Spearman times 100; all: over all pairs, mean: over subsets."]
        if "STS-B (trained)" in columns:
            notes.append("STS-B (trained): Pearson times 100 of a regression on the training part.")
        if STS_AVERAGE in columns:
            notes.append(f"{STS_AVERAGE}: the mean of {', '.join(averaged)}.")
        sections.append(Section("Similarity", [_score_table(columns, similar, notes)]))
    if columns := [task for task in tasks if task not in elsewhere and task not in probing]:
        sections.append(Section("Other tasks", [_score_table(columns, others)]))
    if probing:
        sections.append(Section("Probing", [_score_table(probing, others, ["Accuracy in percent."])]))
    return sections


Rows = Mapping[str, Sequence[Mapping[str, float]]]
"""Scores by model and column, one entry per seed."""


def _known(columns: Sequence[str], rows: Rows) -> list[str]:
    return [column for column in columns if any(column in one for seeds in rows.values() for one in seeds)]


def _paper_table(
    columns: Sequence[str],
    rows: Rows,
    notes: Sequence[str],
    efforts: Mapping[str, tuple[int | None, float | None]],
) -> Table:
    """The paper's columns; its rows that have one of our scores below ours."""
    shown = [place for place in (0, 1) if any(effort[place] is not None for effort in efforts.values())]
    quoted: list[list[Cell]] = []
    for line, scores in published_rows():
        cells = [f"{scores[column]:.1f}" if column in scores else None for column in columns]
        if any(cells):
            before = [(line["dim"], line["hours"])[place] for place in shown]
            quoted.append([f"{line['model']} ({line['quoted from']})", *before, *cells])
    own = {name: [efforts.get(name, (None, None))[place] for place in shown] for name in rows}
    effort = [(Column("Dim", digits=0), Column("Hrs"))[place] for place in shown]
    table = _score_table(columns, rows, notes, effort, own)
    return replace(table, quoted=quoted, quoted_title=NOTE)


def _score_table(
    columns: Sequence[str],
    rows: Rows,
    notes: Sequence[str] = (),
    effort: Sequence[Column] = (),
    efforts: Mapping[str, Sequence[Cell]] | None = None,
) -> Table:
    """Means with deviations over seeds, the best mean of each column marked, after columns of ``effort``."""
    best = [Column(name, best="low" if name.endswith("MSE") else "high") for name in columns]
    cells: list[list[Cell]] = []
    for name, seeds in rows.items():
        means = [Score.over_seeds([one[column] for one in seeds if column in one]) for column in columns]
        cells.append([name, *((efforts or {}).get(name, ())), *means])
    return Table(["model", *effort, *best], cells, notes=notes)


def difference_table(results: Mapping[str, Mapping[str, TaskResult]]) -> Table:
    """Every two models compared on one seed, a row per pair.

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
                text = _difference(_compared(one) - _compared(other), paired_bootstrap(one, other))
                if task in STS_SUBSETS:
                    ahead, p = paired_bootstrap_of_all_pairs(one, other)
                    text += f"; {_difference(100 * ahead, p)}"
                cells.append(text)
            rows.append(cells)
    note = (
        "Difference in percent on the first seed, p by paired bootstrap over items (1,000 resamples, "
        "two-sided; * p < 0.05, not corrected for the number of comparisons). Relatedness: Pearson. STS: "
        "Pearson, mean over subsets; Spearman over all pairs."
    )
    return Table(["models", *tasks], rows, notes=[note])


def _difference(ahead: float, p: float) -> str:
    return f"{ahead:+.2f}{'*' if p < 0.05 else ''} (p\u00a0{p:.3f})"


def _compared(result: TaskResult) -> float:
    """What the bootstrap compares: accuracy, or Pearson times 100."""
    if result.task in STS_SUBSETS:
        return 100 * result["all.pearson.mean"]
    return result["acc"] if "acc" in result.metrics else 100 * result["pearson"]
