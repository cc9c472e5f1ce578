"""Put scores into tables: the multi-view paper's columns, similarity, other tasks, and differences.

MR CR SUBJ MPQA TREC accuracy, MRPC accuracy and F1, SICK-R r, ρ and MSE (times 100). For the average a
task's metrics are averaged first, with 100 - MSE in place of the MSE. There is no average when a task is
missing, because it could not be compared with the paper's.

``published.csv`` has tables 1 to 3 of Simoulin & Crabbé, "Contrasting distinct structured views to learn
sentence embeddings" (EACL SRW 2021), which quote the rows of other models from the papers named with them.
"""

import csv
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from corpora.senteval.tasks import PROBING_FILES, RELATEDNESS_TASKS, STS_SUBSETS
from runtime.progress import progress
from senteval_runner.protocol.config import TaskResult
from senteval_runner.protocol.statistics import PAIR_TASKS, interval, p_of_difference, scores_of
from senteval_runner.report.page import Column, Score, Section, Table, TableCell

TaskMetrics = Mapping[str, Mapping[str, float]]
"""Metrics by task."""
Models = Mapping[str, Sequence[TaskMetrics]]
"""TaskMetrics by model, one entry per seed."""
Efforts = Mapping[str, tuple[int | None, float | None]]
"""The size of a vector and the hours of training by model."""
Drawn = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""What :func:`senteval_runner.protocol.statistics.drawn_scores` gives by model and task, for intervals."""
Columns = Mapping[str, tuple[str, str, float]]
"""Columns of a table: task, metric, factor."""
PAPER_COLUMNS: Columns = {
    **{task: (task, "acc", 1) for task in ("MR", "CR", "SUBJ", "MPQA", "TREC")},
    "MRPC acc": ("MRPC", "acc", 1),
    "MRPC F1": ("MRPC", "f1", 1),
    "SICK-R r": ("SICKRelatedness", "pearson", 100),
    "SICK-R ρ": ("SICKRelatedness", "spearman", 100),
    "SICK-R MSE": ("SICKRelatedness", "mse", 100),
}
"""In the paper's order."""
SIMILARITY_COLUMNS: Columns = {
    **{f"{name} all": (name, "concatenated.spearman", 100) for name in STS_SUBSETS},
    "STS-B (cosine)": ("STSBenchmark", "cosine.spearman", 100),
    "SICK-R (cosine)": ("SICKRelatedness", "cosine.spearman", 100),
}
"""Spearman of cosines over all pairs, which nothing was trained for."""
FURTHER_COLUMNS: Columns = {
    **{f"{name} mean": (name, "all.spearman.mean", 100) for name in STS_SUBSETS},
    "STS-B (trained)": ("STSBenchmark", "pearson", 100),
}
"""Other scores of the same tasks; SICK-R (trained) is in the paper's table."""
STS_AVERAGES = {
    tuple(SIMILARITY_COLUMNS): "STS-7",
    ("STS12 all", "STS14 all", "STS16 all", "STS-B (cosine)", "SICK-R (cosine)"): "STS-5",
}
"""Names of means over similarity columns; a mean over others is the "STS average"."""
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


def headline(task: str, metrics: Mapping[str, float]) -> float:
    """Take a task's main metric in percent: accuracy, Pearson, AP, or STS's mean Spearman over subsets."""
    if task in PAIR_TASKS:
        return metrics["ap"]
    if task in STS_SUBSETS:
        return 100 * metrics["all.spearman.mean"]
    return 100 * metrics["pearson"] if task in RELATEDNESS_TASKS else metrics["acc"]


# The functions of rows take a model's scores, or all scores of its resamples as arrays.


def headlines(scores: TaskMetrics) -> dict[str, float]:
    """Take the main metric of every task, in percent."""
    return {task: headline(task, metrics) for task, metrics in scores.items() if metrics}


def paper_row(scores: TaskMetrics) -> dict[str, float]:
    """Sort scores by column of the paper's table; ``average`` is added when no score is missing."""
    return with_average(_row(PAPER_COLUMNS, scores))


def similarity_row(scores: TaskMetrics, averaged: Sequence[str]) -> dict[str, float]:
    """Sort the similarity scores of one model and seed by column, times 100.

    Their mean over the columns ``averaged`` is left out when one of them is missing.
    """
    row = _row({**SIMILARITY_COLUMNS, **FURTHER_COLUMNS}, scores)
    if len(averaged) > 1 and set(averaged) <= row.keys():
        row[average_name(averaged)] = sum(row[column] for column in averaged) / len(averaged)
    return row


def _row(columns: Columns, scores: TaskMetrics) -> dict[str, float]:
    return {
        column: scores[task][metric] * factor
        for column, (task, metric, factor) in columns.items()
        if metric in scores.get(task, {})
    }


def task_means(row: Mapping[str, float]) -> dict[str, float]:
    """Average each task's columns in the paper's table, with 100 - 100 MSE in place of the MSE."""
    by_task: dict[str, list[float]] = {}
    for column, (task, metric, _) in PAPER_COLUMNS.items():
        if column in row:
            by_task.setdefault(task, []).append(100 - row[column] if metric == "mse" else row[column])
    return {task: sum(values) / len(values) for task, values in by_task.items()}


def with_average(row: dict[str, float]) -> dict[str, float]:
    """Add to a row of the paper's table, where no score is missing, its mean over the seven tasks."""
    if not PAPER_COLUMNS.keys() <= row.keys():
        return row
    means = task_means(row)
    return row | {AVERAGE: sum(means.values()) / len(means)}


@cache
def published_rows() -> list[tuple[dict[str, str], dict[str, float]]]:
    """Read the paper's rows: texts (model, quoted from, dim, hours) and scores by column, averaged too."""
    columns = (*PAPER_COLUMNS, AVERAGE)
    with open(Path(__file__).with_name("published.csv"), encoding="utf-8", newline="") as lines:
        return [
            (line, with_average({c: float(line[c]) for c in columns if line[c]}))
            for line in csv.DictReader(lines)
        ]


def averaged_columns(models: Models) -> list[str]:
    """Find the columns to average: similarity by cosine on every set that a model was scored on."""
    rows = [_row(SIMILARITY_COLUMNS, scores) for seeds in models.values() for scores in seeds]
    return [column for column in SIMILARITY_COLUMNS if any(column in row for row in rows)]


def average_name(averaged: Sequence[str]) -> str:
    """Name the mean of similarity columns by the sets that they are of."""
    return STS_AVERAGES.get(tuple(averaged), "STS average")


def score_sections(models: Models, efforts: Efforts, drawn: Drawn | None = None) -> list[Section]:
    """Make the tables of scores: the paper's, similarity, other tasks, probing."""
    averaged = averaged_columns(models)
    mean = average_name(averaged)
    similarity = (*SIMILARITY_COLUMNS, mean, *FURTHER_COLUMNS)
    similarity_notes = {
        "": "Spearman times 100; all: over all pairs, mean: over subsets.",
        "STS-B (trained)": "STS-B (trained): Pearson times 100 of a regression on the training part.",
        mean: f"{mean}: the mean of {', '.join(averaged)}.",
    }
    tasks = list(dict.fromkeys(task for seeds in models.values() for scores in seeds for task in scores))
    elsewhere = {*STS_SUBSETS, *RELATEDNESS_TASKS, *(task for task, *_ in PAPER_COLUMNS.values())}
    probing = [task for task in tasks if task in PROBING_FILES]
    other = [task for task in tasks if task not in elsewhere and task not in probing]
    table = partial(_score_table, models, drawn or {})
    tables = {
        "Classification and relatedness": _with_published(
            table(paper_row, (*PAPER_COLUMNS, AVERAGE)), efforts
        ),
        "Similarity": table(partial(similarity_row, averaged=averaged), similarity, similarity_notes),
        "Other tasks": table(headlines, other),
        "Probing": table(headlines, probing, {"": "Accuracy in percent."}),
    }
    return [Section(title, [table]) for title, table in tables.items() if len(table.columns) > 1]


def _score_table(
    models: Models,
    drawn: Drawn,
    row: Callable[[Any], dict[str, Any]],
    columns: Iterable[str],
    notes: Mapping[str, str] | None = None,
) -> Table:
    """Print means with deviations over seeds and intervals over items, the best of each column marked.

    ``row`` sorts scores by column; columns without a score are left out, and so are their ``notes``.
    """
    rows = {name: [row(scores) for scores in seeds] for name, seeds in models.items()}
    spans = {
        name: {column: interval(values_R) for column, values_R in row(scores_R).items()}
        for name, scores_R in drawn.items()
    }
    present = {column for seeds in rows.values() for seed_row in seeds for column in seed_row}
    known = [column for column in columns if column in present]
    cells: list[list[TableCell]] = []
    for name, seeds in rows.items():
        cells.append([name])
        for column in known:
            score = Score.over_seeds([seed_row[column] for seed_row in seeds if column in seed_row])
            cells[-1].append(score and replace(score, interval=spans.get(name, {}).get(column)))
    heads = [Column(name, best="low" if name.endswith("MSE") else "high") for name in known]
    shown = [note for column, note in (notes or {}).items() if column in ("", *known)]
    return Table(["model", *heads], cells, notes=[*shown, *[INTERVALS] * any(map(bool, spans.values()))])


def _with_published(table: Table, efforts: Efforts) -> Table:
    """Add what each model took, and below our rows the paper's that have a score in one of the columns."""
    name, *columns = table.columns
    scores = [column.name for column in columns if isinstance(column, Column)]
    if not scores:
        return table
    known = [place for place in (0, 1) if any(effort[place] is not None for effort in efforts.values())]
    quoted: list[list[TableCell]] = []
    for line, published in published_rows():
        cells = [f"{published[column]:.1f}" if column in published else None for column in scores]
        if any(cells):
            before = [(line["dim"], line["hours"])[place] for place in known]
            quoted.append([f"{line['model']} ({line['quoted from']})", *before, *cells])
    heads = [(Column("Dim", digits=0), Column("Hrs"))[place] for place in known]
    rows = [[row[0], *(efforts[str(row[0])][place] for place in known), *row[1:]] for row in table.rows]
    notes = ["SICK-R times 100; lower MSE is better."]
    if AVERAGE not in scores:
        notes.append("No average: it needs every task of the multi-view paper's table.")
    notes += table.notes
    return Table([name, *heads, *columns], rows, notes=notes, quoted=quoted, quoted_title=NOTE)


def difference_table(results: Mapping[str, Mapping[str, TaskResult]]) -> Table:
    """Compare every two models, by their results by model and task on one seed: a row per pair."""
    tasks = list(dict.fromkeys(task for by_task in results.values() for task in by_task))
    pairs = list(itertools.combinations(results, 2))
    # A result is drawn once, with however many others it is compared.
    drawn = {
        (name, task): cache(partial(scores_of, result))
        for name, by_task in results.items()
        for task, result in by_task.items()
    }

    def difference(a: str, b: str, task: str) -> str:
        one, other = results[a][task], results[b][task]
        metrics: list[str] = [
            next(m for m in ("all.pearson.mean", "ap", "acc", "pearson") if m in one.metrics)
        ]
        if task in STS_SUBSETS:
            metrics.append("concatenated.spearman")
        texts = []
        for metric in metrics:
            factor = 1 if metric in ("acc", "ap") else 100
            ahead = factor * one[metric] - factor * other[metric]
            p = p_of_difference(drawn[a, task], drawn[b, task], metric)
            texts.append(f"{ahead:+.2f}{'*' if p < 0.05 else ''} (p\u00a0{p:.3f})")
        return "; ".join(texts)

    rows: list[list[TableCell]] = []
    with progress(total=len(tasks) * len(pairs), unit="pair", description="report: differences") as bar:
        for a, b in pairs:
            rows.append([f"{a} − {b}"])
            for task in tasks:
                both = task in results[a] and task in results[b]
                rows[-1].append(difference(a, b, task) if both else None)
                bar.update(1)
    return Table(["models", *tasks], rows, notes=[DIFFERENCES])
