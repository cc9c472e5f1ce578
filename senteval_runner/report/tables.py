"""Scores as Markdown: the multi-view paper's table, and every other task beside it.

MR CR SUBJ MPQA TREC accuracy, MRPC accuracy and F1, SICK-R r, ρ and MSE (times 100). The average is over
tasks, of percentages with 100 - MSE, a task's several metrics averaged first; it exists only when all
tasks do: a partial average beside the paper's would compare different things.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from corpora.senteval.tasks import STS_SUBSETS
from senteval_runner.report.published import MARK, PAIR_AVERAGES, PublishedRow

Metrics = Mapping[str, float]
Scores = Mapping[str, Metrics]
"""Metrics by task."""

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
LOWER_IS_BETTER = ("SICK-R MSE",)


def main_metric(task: str) -> str:
    """The one figure that stands for a task."""
    if task in STS_SUBSETS:
        return "all.spearman.mean"
    return "pearson" if task in ("SICKRelatedness", "STSBenchmark") else "acc"


def headline(task: str, metrics: Metrics) -> float:
    """A task's main figure in percent."""
    name = main_metric(task)
    return metrics[name] * (1 if name == "acc" else 100)


def paper_row(scores: Scores) -> dict[str, float]:
    """Figures of the paper's table, as far as the tasks are there, with ``average`` when all are."""
    row = {
        column: scores[task][metric] * factor
        for column, task, metric, factor in PAPER_COLUMNS
        if task in scores
    }
    if len(row) == len(PAPER_COLUMNS):
        row["average"] = paper_average(scores)
    return row


def paper_average(scores: Scores) -> float:
    """Mean over the seven tasks; MRPC is the mean of acc and F1, SICK-R of 100 r, 100 ρ and 100 - 100 MSE."""
    by_task: dict[str, list[float]] = {}
    for _, task, metric, factor in PAPER_COLUMNS:
        value = scores[task][metric] * factor
        by_task.setdefault(task, []).append(100 - value if metric == "mse" else value)
    return statistics.fmean(statistics.fmean(values) for values in by_task.values())


def published_scores(row: PublishedRow) -> dict[str, dict[str, float]]:
    """A published row's figures by task and metric, in this module's units."""
    scores: dict[str, dict[str, float]] = {}
    for (_, task, metric, factor), value in zip(PAPER_COLUMNS, row.figures, strict=True):
        if value is not None:
            scores.setdefault(task, {})[metric] = value / factor
    return scores


def published_cells(row: PublishedRow) -> list[str]:
    """A published row's figures as printed, and its average where no figure is missing."""
    cells = ["–" if value is None else f"{value:.1f}" for value in row.figures]
    complete = None not in row.figures
    return [*cells, f"{paper_average(published_scores(row)):.1f}" if complete else "–"]


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (0 for one value) over seeds."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def show(values: Sequence[float]) -> str:
    """``74.20`` for one seed, ``74.20 ± 0.31`` for several, a dash for none."""
    if not values:
        return "–"
    mean, deviation = mean_and_deviation(values)
    return f"{mean:.2f}" if len(values) == 1 else f"{mean:.2f} ± {deviation:.2f}"


def markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are right-aligned."""
    lines = [headers, ["---", *["---:"] * (len(headers) - 1)], *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def paper_table(models: Mapping[str, Sequence[Scores]], published: Sequence[PublishedRow] = ()) -> str:
    """The paper's columns; ``models`` maps a name to one :data:`Scores` per seed.

    ``published`` rows stand below, in italics and marked as such.
    """
    headers = ["model", *(column for column, *_ in PAPER_COLUMNS), "average"]
    rows = []
    for name, seeds in models.items():
        per_seed = [paper_row(scores) for scores in seeds]
        rows.append(
            [name, *(show([row[column] for row in per_seed if column in row]) for column in headers[1:])]
        )
    for quoted in published:
        name = f"*{quoted.model} ({MARK}, {quoted.dim})*"
        rows.append([name, *(f"*{cell}*" if cell != "–" else cell for cell in published_cells(quoted))])
    return markdown(headers, rows)


def pair_table() -> str:
    """The published averages per pair of views."""
    rows = [[f"*{pair} ({MARK})*", f"*{value:.1f}*"] for pair, value in PAIR_AVERAGES.items()]
    return markdown(["views", "average"], rows)


def other_tasks(models: Mapping[str, Sequence[Scores]]) -> list[str]:
    """Evaluated tasks that are not in the paper's table, in order of appearance."""
    paper = {task for _, task, _, _ in PAPER_COLUMNS}
    return list(dict.fromkeys(t for seeds in models.values() for s in seeds for t in s if t not in paper))


def other_table(models: Mapping[str, Sequence[Scores]]) -> str:
    """One main figure per remaining task; empty when there is none."""
    tasks = other_tasks(models)
    if not tasks:
        return ""
    rows = [
        [name, *(show([headline(t, scores[t]) for scores in seeds if t in scores]) for t in tasks)]
        for name, seeds in models.items()
    ]
    headers = [f"{t} ρ" if t in STS_SUBSETS else f"{t} r" if t == "STSBenchmark" else t for t in tasks]
    return markdown(["model", *headers], rows)
