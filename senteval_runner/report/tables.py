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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from corpora.senteval.tasks import PROBING_FILES, RELATEDNESS_TASKS, STS_SUBSETS
from runtime.progress import progress
from senteval_runner.protocol.config import TaskResult
from senteval_runner.protocol.statistics import PAIR_TASKS, Resamples, interval, paired_bootstrap
from senteval_runner.report.page import Cell, Column, Score, Section, Table

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
NOTE = (
    "Published rows are quoted, not computed here: other training data, sizes and library versions, so "
    "tenths mean nothing. Source: Simoulin & Crabbé 2021 (EACL SRW), tables 1 to 3"
)


def headline(task: str, metrics: Mapping[str, float]) -> float:
    """Take a task's main metric in percent: accuracy, Pearson, AP, or STS's mean Spearman over subsets."""
    if task in PAIR_TASKS:
        return metrics["ap"]
    if task in STS_SUBSETS:
        return 100 * metrics["all.spearman.mean"]
    return 100 * metrics["pearson"] if task in RELATEDNESS_TASKS else metrics["acc"]


def paper_row(scores: Scores) -> dict[str, float]:
    """Sort scores by column of the paper's table; ``average`` is added when no score is missing.

    Like :func:`similarity_row` and :func:`headline` it takes a resample's scores, or all of them as arrays.
    """
    return with_average(
        {
            column: scores[task][metric] * factor
            for column, task, metric, factor in PAPER_COLUMNS
            if metric in scores.get(task, {})
        }
    )


def task_means(row: Mapping[str, float]) -> dict[str, float]:
    """Average each task's columns in the paper's table, with 100 - 100 MSE in place of the MSE."""
    by_task: dict[str, list[float]] = {}
    for column, task, metric, _ in PAPER_COLUMNS:
        if column in row:
            by_task.setdefault(task, []).append(100 - row[column] if metric == "mse" else row[column])
    return {task: sum(values) / len(values) for task, values in by_task.items()}


def with_average(row: dict[str, float]) -> dict[str, float]:
    """Add to a row of the paper's table, where no score is missing, its mean over the seven tasks."""
    if any(column not in row for column, *_ in PAPER_COLUMNS):
        return row
    means = task_means(row)
    return row | {AVERAGE: sum(means.values()) / len(means)}


@cache
def published_rows() -> list[tuple[dict[str, str], dict[str, float]]]:
    """Read the paper's rows: texts (model, quoted from, dim, hours) and scores by column, averaged too."""
    columns = (*(column for column, *_ in PAPER_COLUMNS), AVERAGE)
    with open(Path(__file__).with_name("published.csv"), encoding="utf-8", newline="") as lines:
        return [
            (line, with_average({c: float(line[c]) for c in columns if line[c]}))
            for line in csv.DictReader(lines)
        ]


def similarity_row(scores: Scores, averaged: Sequence[str]) -> dict[str, float]:
    """Sort the similarity scores of one model and seed by column, times 100.

    ``STS average`` is the mean of the columns ``averaged``, left out when one of them is missing.
    """
    row = {
        column: 100 * scores[task][metric]
        for column, (task, metric) in {**SIMILARITY_COLUMNS, **FURTHER_COLUMNS}.items()
        if metric in scores.get(task, {})
    }
    if len(averaged) > 1 and set(averaged) <= row.keys():
        row[STS_AVERAGE] = sum(row[column] for column in averaged) / len(averaged)
    return row


def averaged_columns(models: Models) -> list[str]:
    """Find the columns of ``STS average``: similarity by cosine on every set that a model was scored on."""
    measured = {
        (task, name) for seeds in models.values() for one in seeds for task in one for name in one[task]
    }
    return [column for column, key in SIMILARITY_COLUMNS.items() if key in measured]


def headlines(models: Models) -> dict[str, list[dict[str, float]]]:
    """Take the main metrics in percent by model and task, one entry per seed."""
    return {
        name: [{task: headline(task, metrics) for task, metrics in one.items()} for one in seeds]
        for name, seeds in models.items()
    }


Rows = Mapping[str, Sequence[Mapping[str, float]]]
"""Scores by model and column, one entry per seed."""
Efforts = Mapping[str, tuple[int | None, float | None]]
"""The size of a vector and the hours of training by model."""
Drawn = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""What :func:`senteval_runner.protocol.statistics.drawn_scores` gives by model and task, for intervals."""
Spans = Mapping[str, Mapping[str, tuple[float, float]]]
"""95 % intervals by model and column."""
INTERVALS = "In brackets: 95 % of 1,000 resamples of the items."


def score_sections(models: Models, efforts: Efforts, drawn: Drawn | None = None) -> list[Section]:
    """Make the tables of scores: the paper's, similarity, other tasks, probing."""
    drawn = drawn or {}
    return [
        *_paper_section(models, efforts, drawn),
        *_similarity_section(models, drawn),
        *_other_sections(models, drawn),
    ]


def _paper_section(models: Models, efforts: Efforts, drawn: Drawn) -> Iterator[Section]:
    rows = {name: [paper_row(one) for one in seeds] for name, seeds in models.items()}
    columns = _known((*(column for column, *_ in PAPER_COLUMNS), AVERAGE), rows)
    notes = ["SICK-R times 100; lower MSE is better."]
    if AVERAGE not in columns:
        notes.append("No average: it needs every task of the multi-view paper's table.")
    spans = {name: _spans(paper_row(tasks)) for name, tasks in drawn.items()}
    if columns:
        table = _paper_table(columns, rows, notes, efforts, spans)
        yield Section("Classification and relatedness", [table])


def _similarity_section(models: Models, drawn: Drawn) -> Iterator[Section]:
    averaged = averaged_columns(models)
    rows = {name: [similarity_row(one, averaged) for one in seeds] for name, seeds in models.items()}
    columns = _known((*SIMILARITY_COLUMNS, STS_AVERAGE, *FURTHER_COLUMNS), rows)
    notes = ["Spearman times 100; all: over all pairs, mean: over subsets."]
    if "STS-B (trained)" in columns:
        notes.append("STS-B (trained): Pearson times 100 of a regression on the training part.")
    if STS_AVERAGE in columns:
        notes.append(f"{STS_AVERAGE}: the mean of {', '.join(averaged)}.")
    spans = {name: _spans(similarity_row(tasks, averaged)) for name, tasks in drawn.items()}
    if columns:
        yield Section("Similarity", [_score_table(columns, rows, notes, spans)])


def _other_sections(models: Models, drawn: Drawn) -> Iterator[Section]:
    rows = headlines(models)
    elsewhere = {task for _, task, _, _ in PAPER_COLUMNS} | {*STS_SUBSETS, *RELATEDNESS_TASKS}
    tasks = list(dict.fromkeys(task for seeds in rows.values() for one in seeds for task in one))
    probing = [task for task in tasks if task in PROBING_FILES]
    spans = {
        name: _spans({task: headline(task, metrics) for task, metrics in tasks.items() if metrics})
        for name, tasks in drawn.items()
    }
    if columns := [task for task in tasks if task not in elsewhere and task not in probing]:
        yield Section("Other tasks", [_score_table(columns, rows, (), spans)])
    if probing:
        yield Section("Probing", [_score_table(probing, rows, ["Accuracy in percent."], spans)])


def _spans(drawn: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Take the 95 % intervals of columns, each drawn [R]."""
    return {column: interval(values_R) for column, values_R in drawn.items()}


def _known(columns: Sequence[str], rows: Rows) -> list[str]:
    return [column for column in columns if any(column in one for seeds in rows.values() for one in seeds)]


def _paper_table(
    columns: Sequence[str],
    rows: Rows,
    notes: Sequence[str],
    efforts: Efforts,
    spans: Spans,
) -> Table:
    """Make the paper's columns; its rows that have one of our scores stand below ours."""
    shown = [place for place in (0, 1) if any(effort[place] is not None for effort in efforts.values())]
    quoted: list[list[Cell]] = []
    for line, scores in published_rows():
        cells = [f"{scores[column]:.1f}" if column in scores else None for column in columns]
        if any(cells):
            before = [(line["dim"], line["hours"])[place] for place in shown]
            quoted.append([f"{line['model']} ({line['quoted from']})", *before, *cells])
    table = _score_table(columns, rows, notes, spans)
    effort = [(Column("Dim", digits=0), Column("Hrs"))[place] for place in shown]
    own = [[row[0], *(efforts[str(row[0])][place] for place in shown), *row[1:]] for row in table.rows]
    name, *rest = table.columns
    return replace(table, columns=[name, *effort, *rest], rows=own, quoted=quoted, quoted_title=NOTE)


def _score_table(columns: Sequence[str], rows: Rows, notes: Sequence[str], spans: Spans) -> Table:
    """Print means with deviations over seeds and intervals over items, the best of each column marked."""
    best = [Column(name, best="low" if name.endswith("MSE") else "high") for name in columns]
    cells: list[list[Cell]] = []
    for name, seeds in rows.items():
        row: list[Cell] = [name]
        for column in columns:
            score = Score.over_seeds([one[column] for one in seeds if column in one])
            row.append(score and replace(score, interval=spans.get(name, {}).get(column)))
        cells.append(row)
    return Table(["model", *best], cells, notes=[*notes, *[INTERVALS] * any(map(bool, spans.values()))])


def difference_table(results: Mapping[str, Mapping[str, TaskResult]]) -> Table:
    """Compare every two models, by their results by model and task on one seed: a row per pair."""
    tasks = list(dict.fromkeys(task for by_task in results.values() for task in by_task))
    pairs = list(itertools.combinations(results, 2))
    drawn = {id(one): Resamples(one) for by_task in results.values() for one in by_task.values()}

    def difference(one: TaskResult, other: TaskResult) -> str:
        name = next(m for m in ("all.pearson.mean", "ap", "acc", "pearson") if m in one.metrics)
        factor = 1 if name in ("acc", "ap") else 100
        sides = drawn[id(one)], drawn[id(other)]
        ahead, p = factor * one[name] - factor * other[name], paired_bootstrap(*sides)[1]
        differences = [(ahead, p)]
        if one.task in STS_SUBSETS:
            ahead, p = paired_bootstrap(*sides, ranked=True)
            differences.append((100 * ahead, p))
        return "; ".join(
            f"{ahead:+.2f}{'*' if p < 0.05 else ''} (p\u00a0{p:.3f})" for ahead, p in differences
        )

    rows: list[list[Cell]] = []
    with progress(total=len(tasks) * len(pairs), unit="pair", description="report: differences") as bar:
        for a, b in pairs:
            cells: list[Cell] = [f"{a} − {b}"]
            for task in tasks:
                both = task in results[a] and task in results[b]
                cells.append(difference(results[a][task], results[b][task]) if both else None)
                bar.update(1)
            rows.append(cells)
    note = (
        "Difference in percentage points on the first seed, p by paired bootstrap over items (1,000 "
        "resamples, two-sided; * p < 0.05, not corrected for the number of comparisons). Relatedness: "
        "Pearson. STS: Pearson, mean over subsets; Spearman over all pairs. HANS, PAWS, MinimalPairs: "
        "average precision."
    )
    return Table(["models", *tasks], rows, notes=[note])
