"""The report of a study: tables by task group, heat maps of layers and tasks (EMP's Figure 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from senteval_runner.report import plots
from senteval_runner.report.page import Figure, Page, Section
from senteval_runner.report.table import Column, Table
from senteval_runner.towers.units import Unit
from studies.layers import published
from studies.layers.tables import (
    AVERAGE,
    TASK_GROUPS,
    Row,
    Studied,
    average_score,
    best_of,
    difference_table,
    layer_table,
    likeness_table,
    normalised,
    pooling_table,
    readout_table,
    tasks_of,
)

SHORT = {"STSBenchmark": "STS-B", "SICKRelatedness": "SICK-R", "SICKEntailment": "SICK-E"}


def page(studied: Sequence[Studied], pooling: str, remarks: Sequence[str]) -> Page:
    """The whole report.

    Args:
        studied: the backbones.
        pooling: pooling of the tables by layer.
        remarks: what a reader of the scores must know.
    """
    sections = [Section("Remarks", remarks)]
    if studied:
        sections += [Section("By task group", list(_tables(studied, pooling)))]
        sections += [Section("Layers and tasks", list(heat_maps(studied)))]
    return Page("What the layers know", sections)


def _tables(studied: Sequence[Studied], pooling: str) -> Iterator[Table]:
    """EMP's Tables 1 and 2, raw and normalised; fine-tuning, MLP and likeness to word vectors."""
    tasks, best = tasks_of(studied), best_of(studied)
    for title, scale in (("", None), (", normalised per task by the best", best)):
        rows = pooling_table(studied, tasks, scale)
        number = 1 if scale else None
        yield _table(f"Poolings, mean over layers{title}", ("backbone", "pooling"), rows, number)
        rows = layer_table(studied, tasks, pooling, scale)
        number = 2 if scale else None
        yield _table(f"Layers, {pooling} pooling{title}", ("backbone", "layer"), rows, number)
    for other in studied[1:]:
        rows = difference_table(studied[0], other, tasks, pooling)
        if rows:
            yield _table(f"Difference in points, {pooling} pooling", ("difference", "layer"), rows)
    if rows := readout_table(studied, pooling):
        yield _table("Multi-layer perceptron minus logistic regression", ("backbone", "layer"), rows)
    names, rows = likeness_table(studied, best, pooling)
    if rows:
        cells = [[*labels, *(by_name.get(name) for name in names)] for labels, by_name in rows]
        columns = [Column(name, best="high") for name in names]
        title = "Correlation of scores over tasks with encoders taken whole"
        yield Table(["backbone", "layer", *columns], cells, title=title)


def _table(title: str, names: Sequence[str], rows: Sequence[Row], number: int | None = None) -> Table:
    """A table of group means. Groups without a score have no column; the average needs all six.

    Args:
        title: of the table.
        names: of the two labels.
        rows: group means.
        number: of EMP's table whose published rows stand below.
    """
    columns = [group for group in TASK_GROUPS if any(group in means for _, means in rows)]
    if columns == list(TASK_GROUPS):
        columns.append(AVERAGE)
    cells = [
        [*labels, *(average_score(means) if name == AVERAGE else means.get(name) for name in columns)]
        for labels, means in rows
    ]
    return Table(
        [*names, *(Column(name, best="high") for name in columns)],
        cells,
        title=title,
        notes=(published.NOTE,) if number else (),
        quoted=published.quoted(number, columns) if number and columns else (),
        quoted_title=published.TITLE.format(number) if number else "",
    )


def relative(one: Studied, best: Mapping[str, float]) -> dict[Unit, dict[str, float]]:
    """Scores in percent of each task's best, per unit."""
    return {unit: normalised(scores, best) for unit, scores in one.scores.items()}


def differences(first: Studied, other: Studied) -> dict[Unit, dict[str, float]]:
    """``other`` minus ``first`` in points, per unit and task that both have."""
    return {
        unit: {
            task: value - first.scores[unit][task]
            for task, value in scores.items()
            if task in first.scores[unit]
        }
        for unit, scores in other.scores.items()
        if unit in first.scores
    }


def heat_maps(studied: Sequence[Studied]) -> Iterator[Figure]:
    """One heat map per backbone with layers, and one per comparison with the first."""
    tasks, best = tasks_of(studied), best_of(studied)
    for number, one in enumerate(studied):
        if not one.compared:
            continue
        yield _heat_map(f"{one.name}: % of each task's best", one, tasks, relative(one, best))
        if number:
            caption, change = f"{one.name} − {studied[0].name}", differences(studied[0], one)
            yield _heat_map(caption, one, tasks, change, diverging=True)


def _heat_map(
    caption: str,
    one: Studied,
    tasks: Sequence[str],
    values: Mapping[Unit, Mapping[str, float]],
    *,
    diverging: bool = False,
) -> Figure:
    """Layers by tasks, the top layer first, one panel per pooling."""
    by_cell = {(unit.row, unit.pooling): by_task for unit, by_task in values.items()}
    rows = list(reversed(one.rows()))
    panels = {}
    for pooling in one.poolings:
        found = [by_cell.get((row, pooling), {}) for row in rows]
        if any(found):
            panels[pooling] = np.array([[by_task.get(task, np.nan) for task in tasks] for by_task in found])
    return plots.heat_map(
        panels,
        rows,
        [SHORT.get(task, task) for task in tasks],
        high=None if diverging else 100.0,
        diverging=diverging,
        label="points" if diverging else "% of the task's best",
        caption=caption,
    )
