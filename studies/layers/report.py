"""The report of a study: Markdown tables, heat maps (PNG), one self-contained HTML page."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

from senteval_runner.report import html
from senteval_runner.report.tables import markdown
from senteval_runner.towers.units import Unit
from studies.layers.tables import (
    TASK_GROUPS,
    Studied,
    best_of,
    difference_table,
    layer_table,
    normalised,
    pooling_table,
    tasks_of,
)

Row = tuple[list[str], dict[str, float]]
Table = tuple[str, Sequence[str], list[Row]]
"""Title, names of the leading columns, rows."""
SHORT = {"STSBenchmark": "STS-B", "SICKRelatedness": "SICK-R", "SICKEntailment": "SICK-E"}
DOTS_PER_INCH = 80


def tables(studied: Sequence[Studied], pooling: str) -> list[Table]:
    """All tables by task group."""
    tasks, best = tasks_of(studied), best_of(studied)
    one, two = ("backbone", "pooling"), ("backbone", "layer")
    found: list[Table] = [
        ("Poolings, mean over layers", one, pooling_table(studied, tasks, None)),
        ("Poolings, normalised per task by the best", one, pooling_table(studied, tasks, best)),
        (f"Layers, {pooling} pooling", two, layer_table(studied, tasks, pooling, None)),
        (
            f"Layers, {pooling} pooling, normalised per task by the best",
            two,
            layer_table(studied, tasks, pooling, best),
        ),
    ]
    for other in studied[1:]:
        rows = difference_table(studied[0], other, tasks, pooling)
        found.append((f"Difference in points, {pooling} pooling", ("difference", "layer"), rows))
    return [table for table in found if table[2]]


def groups_in(rows: Sequence[Row]) -> list[str]:
    """Task groups with a figure."""
    return [group for group in TASK_GROUPS if any(group in values for _, values in rows)]


def markdown_tables(studied: Sequence[Studied], pooling: str) -> str:
    """Every table under its title; the best of a column is bold."""
    parts = []
    for title, names, rows in tables(studied, pooling):
        groups = groups_in(rows)
        top = {group: max(v[group] for _, v in rows if group in v) for group in groups}
        lines = [
            [*labels, *(_cell(values.get(group), top[group]) for group in groups)] for labels, values in rows
        ]
        parts.append(f"### {title}\n\n{markdown([*names, *groups], lines)}")
    return "\n".join(parts)


def _cell(value: float | None, best: float) -> str:
    if value is None:
        return "–"
    shown = f"{value:.2f}"
    return f"**{shown}**" if shown == f"{best:.2f}" else shown


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


def heat_map_png(
    title: str,
    rows: Sequence[str],
    poolings: Sequence[str],
    tasks: Sequence[str],
    values: Mapping[Unit, Mapping[str, float]],
    *,
    diverging: bool = False,
) -> bytes | None:
    """Layers x tasks, one panel per pooling (EMP's Figure 1), as a PNG; None without matplotlib or figures.

    Args:
        title: above the panels.
        rows: layers and pairs, from the bottom up; the top row is drawn first.
        poolings: one panel each.
        tasks: columns.
        values: per unit and task.
        diverging: colours around zero (differences) instead of up to 100.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    import numpy as np

    shown = {(u.row, u.pooling): by_task for u, by_task in values.items()}
    panels = [p for p in poolings if any((row, p) in shown for row in rows)]
    if not panels:
        return None
    lines = list(reversed(rows))
    grids = [
        np.array([[shown.get((row, p), {}).get(task, np.nan) for task in tasks] for row in lines])
        for p in panels
    ]
    finite = np.concatenate([grid[np.isfinite(grid)] for grid in grids])
    if not finite.size:  # no task that both backbones have, or none whose best is above 0
        return None
    if diverging:
        reach = max(1.0, float(np.percentile(np.abs(finite), 98)))
        colours: dict[str, Any] = {"cmap": "RdBu", "vmin": -reach, "vmax": reach}
    else:
        colours = {"cmap": "viridis", "vmin": float(np.percentile(finite, 2)), "vmax": 100.0}
    height = 1.1 + len(panels) * (0.5 + 0.21 * len(lines))
    figure = Figure(figsize=(2.2 + 0.42 * len(tasks), height), layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axis, panel, grid in zip(axes, panels, grids, strict=True):
        image = axis.imshow(grid, aspect="auto", **colours)
        axis.set_yticks(range(len(lines)), lines, fontsize=8)
        axis.set_title(panel, fontsize=9, loc="left")
    axes[-1].set_xticks(
        range(len(tasks)), [SHORT.get(task, task) for task in tasks], rotation=60, ha="right", fontsize=8
    )
    figure.colorbar(image, ax=list(axes), label="points" if diverging else "% of the task's best")
    figure.suptitle(title, fontsize=10)
    out = io.BytesIO()
    # No time stamp and no version: the same scores give the same file.
    figure.savefig(out, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return out.getvalue()


def heat_maps(studied: Sequence[Studied]) -> dict[str, bytes]:
    """PNG by file name: one per backbone, one per comparison with the first."""
    tasks, best = tasks_of(studied), best_of(studied)
    found = {}
    for number, one in enumerate(studied):
        png = heat_map_png(one.name, one.rows(), one.poolings, tasks, relative(one, best))
        found[f"heat-map-{number}.png"] = png
        if number:
            title, change = f"{one.name} − {studied[0].name}", differences(studied[0], one)
            png = heat_map_png(title, one.rows(), one.poolings, tasks, change, diverging=True)
            found[f"heat-map-{number}-difference.png"] = png
    return {name: png for name, png in found.items() if png}


def page(studied: Sequence[Studied], pooling: str, remarks: Sequence[str], pngs: Mapping[str, bytes]) -> str:
    """The whole report as HTML."""
    parts = [html.paragraph(remark) for remark in remarks]
    for name, png in pngs.items():
        data = base64.b64encode(png).decode("ascii")
        parts.append(html.Html(f'<p><img alt="{html.text(name)}" src="data:image/png;base64,{data}"></p>'))
    for title, names, rows in tables(studied, pooling):
        groups = groups_in(rows)
        lines: list[list[html.Cell]] = [
            [*labels, *(values.get(group) for group in groups)] for labels, values in rows
        ]
        best = range(len(names), len(names) + len(groups))
        parts.append(html.section(title, html.table([*names, *groups], lines, best=best)))
    tasks, best_by_task = tasks_of(studied), best_of(studied)
    for one in studied:
        values = {
            (unit.name, task): value
            for unit, by_task in relative(one, best_by_task).items()
            for task, value in by_task.items()
        }
        low = min(values.values(), default=0.0)
        names_ = [unit.name for unit in one.units]
        section = html.heat_map(names_, tasks, values, low=low, high=100.0)
        parts.append(html.section(f"{one.name}: % of each task's best", section))
    return html.page("What the layers know", parts)
