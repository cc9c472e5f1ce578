"""Make the tables of scores: the multi-view paper's columns, similarity, other tasks, and differences.

The paper's columns are the accuracy of MR, CR, SUBJ, MPQA and TREC, accuracy and F1 of MRPC, and r, ρ and MSE
(times 100) of SICK-R. For their average the metrics of a task are averaged first, with 100 - MSE in place of
the MSE. There is no average if a task is missing, because it could not be compared with that of the paper.

``published.csv`` has tables 1 to 3 of Simoulin & Crabbé, "Contrasting distinct structured views to learn
sentence embeddings" (EACL SRW 2021), which quote the rows of other models from the papers named with them.
"""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import Any

from corpora.senteval.tasks import TASKS, tasks_in
from runtime.progress import progress
from senteval_runner.protocol.config import TaskResult
from senteval_runner.protocol.statistics import (
    Values,
    interval,
    p_of_difference,
    resample_score,
    resample_scores,
)
from senteval_runner.report.page import Column, Score, Section, Table, TableCell

TaskMetrics = Mapping[str, Mapping[str, float]]
"""Metrics by task."""
Columns = Mapping[str, tuple[str, str, float]]
"""Task, metric and factor by the name of a table's column."""
PAPER_COLUMNS: Columns = {
    **{task: (task, "acc", 1) for task in ("MR", "CR", "SUBJ", "MPQA", "TREC")},
    "MRPC acc": ("MRPC", "acc", 1),
    "MRPC F1": ("MRPC", "f1", 1),
    "SICK-R r": ("SICKRelatedness", "pearson", 100),
    "SICK-R ρ": ("SICKRelatedness", "spearman", 100),
    "SICK-R MSE": ("SICKRelatedness", "mse", 100),
}
"""Columns of the paper's table, in its order."""
DIFFERENCES_OF = {"sts": ("all.pearson.mean", "concatenated.spearman")}
"""The metrics in which models are compared, by scorer; under other scorers it is the main metric."""
AVERAGE = "average"
INTERVALS = "In brackets: 95 % of 1,000 resamples of the items."
DIFFERENCES = (
    "Difference in percentage points on the first seed, p by paired bootstrap over items (1,000 resamples, "
    "two-sided; * p < 0.05, not corrected for the number of comparisons). Relatedness: Pearson. STS: "
    "Pearson, mean over subsets; Spearman over all pairs. HANS, PAWS, MinimalPairs: average precision."
)
NOTE = (
    "Published rows are quoted, not computed here: other training data, sizes and library versions, so "
    "tenths mean nothing. Source: Simoulin & Crabbé 2021 (EACL SRW), tables 1 to 3"
)


@dataclass(kw_only=True)
class ModelScores:
    """A row of the tables: a model and its results."""

    name: str
    results: dict[int, dict[str, TaskResult]] = field(default_factory=dict)
    """Results by seed and task."""
    dim: int | None = None
    """Number of dimensions of a vector."""
    hours: float | None = None
    """Hours of training."""

    @property
    def metrics(self) -> list[TaskMetrics]:
        """Metrics by task, one entry per seed."""
        return [
            {task: result.metrics for task, result in by_task.items()} for by_task in self.results.values()
        ]

    @cached_property
    def resamples(self) -> dict[str, dict[str, Values]]:
        """Metrics by task on each resample of the items, [R], as means over seeds."""
        results: dict[str, list[TaskResult]] = {}
        for by_task in self.results.values():
            for task, result in by_task.items():
                results.setdefault(task, []).append(result)
        return {task: resample_scores(results_of_seeds) for task, results_of_seeds in results.items()}

    def scores(self, make_row: Callable[[Any], dict[str, Any]], intervals: bool) -> dict[str, Score]:
        """Return the mean over seeds of each column; ``make_row`` computes the columns from metrics by task.

        With ``intervals`` a score has its interval over the items, if it can be resampled.
        """
        values: dict[str, list[float]] = {}
        for metrics in self.metrics:
            for column, value in make_row(metrics).items():
                values.setdefault(column, []).append(value)
        resamples = make_row(self.resamples) if intervals else {}
        scores = {}
        for column, values_of_seeds in values.items():
            ends = interval(resamples[column]) if column in resamples else None
            scores[column] = Score.over_seeds(values_of_seeds, ends)
        return scores


def factor_of(metric: str) -> int:
    """Return the factor of a metric in tables: 100 for correlations, 1 for percentages."""
    return 100 if "pearson" in metric or "spearman" in metric else 1


def headline(task: str, metrics: Mapping[str, float]) -> float:
    """Return the main metric of a task in percent; a correlation is multiplied by 100."""
    metric = TASKS[task].headline
    return factor_of(metric) * metrics[metric]


def similarity_columns() -> dict[str, tuple[str, str, float]]:
    """Return the columns of STS tasks with Spearman's correlation of cosines over all pairs of a task."""
    columns = {}
    for name in tasks_in("sts"):
        task = TASKS[name]
        is_graded = task.kind == "graded"
        label, metric = ("(cosine)", "cosine.spearman") if is_graded else ("all", "concatenated.spearman")
        columns[f"{task.short_name} {label}"] = (name, metric, 100.0)
    return columns


def further_columns() -> dict[str, tuple[str, str, float]]:
    """Return the columns of the main metrics of STS tasks that are not in the paper's table."""
    tasks_of_paper = {task for task, _, _ in PAPER_COLUMNS.values()}
    columns = {}
    for name in tasks_in("sts"):
        if name not in tasks_of_paper:
            task = TASKS[name]
            label = "(trained)" if task.kind == "graded" else "mean"
            columns[f"{task.short_name} {label}"] = (name, task.headline, 100.0)
    return columns


# The next functions make rows of numbers from the scores of a model or, because they only add and multiply,
# rows of arrays [R] from its scores on resamples.


def headlines(scores: TaskMetrics) -> dict[str, float]:
    """Return the main metric of every task in percent, by task."""
    return {task: headline(task, metrics) for task, metrics in scores.items() if metrics}


def paper_row(scores: TaskMetrics) -> dict[str, float]:
    """Return the scores of a row of the paper's table by column, with their average if none is missing."""
    return with_average(_row(PAPER_COLUMNS, scores))


def similarity_row(scores: TaskMetrics, mean_columns: Sequence[str]) -> dict[str, float]:
    """Return the similarity scores by column, times 100, with their mean over ``mean_columns``.

    There is no mean if one of these columns is missing.
    """
    row = _row({**similarity_columns(), **further_columns()}, scores)
    if len(mean_columns) > 1 and set(mean_columns) <= row.keys():
        row[name_of_mean(mean_columns)] = sum(row[column] for column in mean_columns) / len(mean_columns)
    return row


def _row(columns: Columns, scores: TaskMetrics) -> dict[str, float]:
    """Return the score of each column, times its factor; columns without a score are left out."""
    return {
        column: scores[task][metric] * factor
        for column, (task, metric, factor) in columns.items()
        if metric in scores.get(task, {})
    }


def task_means(row: Mapping[str, float]) -> dict[str, float]:
    """Return the mean of each task's columns in a row of the paper's table, with 100 - MSE for the MSE."""
    by_task: dict[str, list[float]] = {}
    for column, (task, metric, _) in PAPER_COLUMNS.items():
        if column in row:
            by_task.setdefault(task, []).append(100 - row[column] if metric == "mse" else row[column])
    return {task: sum(values) / len(values) for task, values in by_task.items()}


def with_average(row: dict[str, float]) -> dict[str, float]:
    """Return a row of the paper's table with its mean over the seven tasks, if no score is missing."""
    if not PAPER_COLUMNS.keys() <= row.keys():
        return row
    means = task_means(row)
    return row | {AVERAGE: sum(means.values()) / len(means)}


@cache
def published_rows() -> list[tuple[dict[str, str], dict[str, float]]]:
    """Return each row of the paper: its line of the file by column, and its scores with their average."""
    rows = []
    with open(Path(__file__).with_name("published.csv"), encoding="utf-8", newline="") as stream:
        for line in csv.DictReader(stream):
            scores = {column: float(line[column]) for column in (*PAPER_COLUMNS, AVERAGE) if line[column]}
            rows.append((line, with_average(scores)))
    return rows


def columns_of_mean(metrics: Iterable[TaskMetrics]) -> list[str]:
    """Return the similarity columns in which a model has a score; ``metrics`` are those of all models."""
    columns = similarity_columns()
    rows = [_row(columns, scores) for scores in metrics]
    return [column for column in columns if any(column in row for row in rows)]


def name_of_mean(mean_columns: Sequence[str]) -> str:
    """Return the name of the mean over these similarity columns: STS-7, STS-5 or, of others, STS average."""
    columns = similarity_columns()
    tasks = {columns[column][0] for column in mean_columns}
    for name, group in (("STS-7", "sts7"), ("STS-5", "sts5")):
        if tasks == set(tasks_in(group)):
            return name
    return "STS average"


def score_sections(models: Sequence[ModelScores], *, intervals: bool = False) -> list[Section]:
    """Return the tables of scores that have a column: the paper's, similarity, other tasks, probing."""
    all_metrics = [metrics for model in models for metrics in model.metrics]
    mean_columns = columns_of_mean(all_metrics)
    mean = name_of_mean(mean_columns)
    similarity = (*similarity_columns(), mean, *further_columns())
    similarity_notes = {
        "": "Spearman times 100; all: over all pairs, mean: over subsets.",
        "STS-B (trained)": "STS-B (trained): Pearson times 100 of a regression on the training part.",
        mean: f"{mean}: the mean of {', '.join(mean_columns)}.",
    }
    tasks = list(dict.fromkeys(task for metrics in all_metrics for task in metrics))
    tasks_of_tables = {*tasks_in("sts"), *(task for task, *_ in PAPER_COLUMNS.values())}
    probing = [task for task in tasks if task in tasks_in("probing")]
    other_tasks = [task for task in tasks if task not in tasks_of_tables and task not in probing]
    table = partial(_score_table, models, intervals)
    tables = {
        "Classification and relatedness": _paper_table(models, intervals),
        "Similarity": table(partial(similarity_row, mean_columns=mean_columns), similarity, similarity_notes),
        "Other tasks": table(headlines, other_tasks),
        "Probing": table(headlines, probing, {"": "Accuracy in percent."}),
    }
    return [Section(title, [table]) for title, table in tables.items() if len(table.columns) > 1]


def _score_table(
    models: Sequence[ModelScores],
    intervals: bool,
    make_row: Callable[[Any], dict[str, Any]],
    columns: Iterable[str],
    notes: Mapping[str, str] | None = None,
) -> Table:
    """Return a table with a row per model, of means and deviations over seeds, and intervals over items.

    ``make_row`` returns scores by column from metrics by task. Columns without a score are left out, and so
    are the ``notes`` that explain them; a note of the column "" is always printed.
    """
    scores = {model.name: model.scores(make_row, intervals) for model in models}
    names = [column for column in columns if any(column in row for row in scores.values())]
    notes_of_table = [note for column, note in (notes or {}).items() if column in ("", *names)]
    if any(score.interval for row in scores.values() for score in row.values()):
        notes_of_table.append(INTERVALS)
    heads = [Column(name, best="low" if name.endswith("MSE") else "high") for name in names]
    rows = [[model, *map(row.get, names)] for model, row in scores.items()]
    return Table(["model", *heads], rows, notes=notes_of_table)


def _paper_table(models: Sequence[ModelScores], intervals: bool) -> Table:
    """Return the table of the paper's columns, with the size and the hours of training of each model.

    Below the models are the rows of the paper that have a score in one of these columns.
    """
    table = _score_table(models, intervals, paper_row, (*PAPER_COLUMNS, AVERAGE))
    names = [column.name for column in table.columns if isinstance(column, Column)]
    if not names:
        return table
    columns = list(table.columns)
    rows = [list(row) for row in table.rows]
    quoted_rows: list[list[TableCell]] = []
    quoted_lines = []
    for line, published_scores in published_rows():
        cells = [f"{published_scores[name]:.1f}" if name in published_scores else None for name in names]
        if any(cells):
            quoted_lines.append(line)
            quoted_rows.append([f"{line['model']} ({line['quoted from']})", *cells])
    efforts = (
        (Column("Hrs"), "hours", [model.hours for model in models]),
        (Column("Dim", digits=0), "dim", [model.dim for model in models]),
    )
    for column, key, values in efforts:  # each is inserted before the one that was inserted last
        if any(value is not None for value in values):
            columns.insert(1, column)
            for row, value in zip(rows, values, strict=True):
                row.insert(1, value)
            for quoted_row, line in zip(quoted_rows, quoted_lines, strict=True):
                quoted_row.insert(1, line[key])
    notes = ["SICK-R times 100; lower MSE is better."]
    if AVERAGE not in names:
        notes.append("No average: it needs every task of the multi-view paper's table.")
    notes += table.notes
    return Table(columns, rows, notes=notes, quoted_rows=quoted_rows, quoted_source=NOTE)


def difference_table(models: Sequence[ModelScores]) -> Table:
    """Return the table of differences between every two models on their first seed, a row per pair."""
    results = {model.name: next(iter(model.results.values())) for model in models}
    tasks = list(dict.fromkeys(task for by_task in results.values() for task in by_task))
    pairs = list(combinations(results, 2))
    # The cache lets each result be resampled once, although it is compared with several others.
    score = cache(lambda model, task, metric: resample_score(results[model][task], metric))

    def difference(a: str, b: str, task: str) -> str:
        texts = []
        for metric in DIFFERENCES_OF.get(TASKS[task].scorer, [TASKS[task].headline]):
            factor = factor_of(metric)
            points = factor * results[a][task][metric] - factor * results[b][task][metric]
            p = p_of_difference(score(a, task, metric), score(b, task, metric))
            texts.append(f"{points:+.2f}{'*' if p < 0.05 else ''} (p\u00a0{p:.3f})")
        return "; ".join(texts)

    rows: list[list[TableCell]] = []
    with progress(total=len(tasks) * len(pairs), unit="pair", description="report: differences") as bar:
        for a, b in pairs:
            rows.append([f"{a} − {b}"])
            for task in tasks:
                has_both = task in results[a] and task in results[b]
                rows[-1].append(difference(a, b, task) if has_both else None)
                bar.update(1)
    return Table(["models", *tasks], rows, notes=[DIFFERENCES])
