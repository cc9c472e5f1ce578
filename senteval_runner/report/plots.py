"""Draw the plots of a report as SVG: bars, curves, dots, points in the plane, heat maps.

    Section("Per task", [plots.bars(["dep,const"], ["MR", "CR"], {("dep,const", "MR"): Score(74.2)})])

In all functions ``caption`` is the text below the figure, and ``inches`` its width. Equal input gives equal
bytes. If matplotlib is not installed, the figure holds a note in place of the plot, which names the extra to
install.
"""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from runtime.errors import MissingExtraError, extra
from senteval_runner.report.page import Figure, Score

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

COLOURS = (
    *("#1f5f8b", "#b3541e", "#3d7a3a", "#7a3d77", "#8a7a1f", "#4a4a4a"),
    *("#2a8a8a", "#a33b4b", "#5b6fd0", "#d08a1e", "#6aa84f", "#c56aa8"),
)
"""Colours of twelve models or classes."""
GRID_COLOUR = "#eeeeee"
BAR_HEIGHT, GROUP_GAP, LETTER_WIDTH = 0.16, 0.2, 0.085
"""Height of a bar, gap between groups of bars, and width of a letter in a legend, in inches."""
PAGE_WIDTH = 8.0
"""Width of the page, in inches."""


def bars(
    series: Sequence[str],
    groups: Sequence[str],
    scores: Mapping[tuple[str, str], Score | None],
    *,
    caption: str = "",
    inches: float = PAGE_WIDTH,
) -> Figure:
    """Draw horizontal bars from zero, with whiskers for intervals or standard deviations.

    Args:
        series: the models, each with a colour of its own.
        groups: the tasks, from the top.
        scores: the score of each series and group; the place of a missing score stays empty.
        caption: text below the figure.
        inches: width of the figure.
    """
    finite_scores = {key: score for key, score in scores.items() if score and math.isfinite(score.value)}

    def draw(canvas: Canvas) -> None:
        height = len(series) * BAR_HEIGHT + GROUP_GAP
        canvas.set_size_inches(inches, 1 + height * len(groups))
        axes = canvas.subplots()
        for number, name in enumerate(series):
            values = []
            ends = []
            for group in groups:
                score = finite_scores.get((name, group), Score(math.nan))
                deviation = score.deviation or 0
                values.append(score.value)
                ends.append(score.interval or (score.value - deviation, score.value + deviation))
            lows, highs = np.array(ends).T
            lengths_2N = np.maximum(0, np.stack([values - lows, highs - values]))
            whiskers = lengths_2N if np.nansum(lengths_2N) else None
            bar_height = BAR_HEIGHT / height  # of a group, which has height 1
            y_N = np.arange(len(groups)) + (number - (len(series) - 1) / 2) * bar_height
            axes.barh(y_N, values, 0.9 * bar_height, xerr=whiskers, color=f"C{number}")
        axes.set_yticks(range(len(groups)), groups)
        axes.invert_yaxis()
        axes.grid(axis="x", color=GRID_COLOUR)

    return _figure(draw, caption, series if finite_scores else None)


def curves(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    spans: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    x_label: str = "step",
    y_label: str = "",
    caption: str = "",
    inches: float = PAGE_WIDTH,
) -> Figure:
    """Draw a line through the points (x, y) of each series.

    Args:
        series: the points by name; those that are not finite are left out.
        spans: the lower and upper end of a vertical bar at each point, by name; then all points of the series
            must be finite. With ``spans`` points are marked by dots.
        x_label: name of the horizontal axis.
        y_label: name of the vertical axis.
        caption: text below the figure.
        inches: width of the figure.
    """
    finite_series = {
        name: [point for point in line if all(map(math.isfinite, point))] for name, line in series.items()
    }

    def draw(canvas: Canvas) -> None:
        canvas.set_size_inches(inches, 3)
        axes = canvas.subplots()
        for number, (name, line) in enumerate(finite_series.items()):
            x_N = [x for x, _ in line]
            y_N = [y for _, y in line]
            marker = "o" if spans else ""
            axes.plot(x_N, y_N, color=f"C{number}", linewidth=1.2, marker=marker, markersize=3)
            for x, ends in zip(x_N, (spans or {}).get(name, ()), strict=False):
                axes.plot([x, x], ends, color=f"C{number}", linewidth=0.8)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.grid(color=GRID_COLOUR)

    return _figure(draw, caption, list(finite_series) if any(finite_series.values()) else None)


def dots(
    panels: Mapping[str, Mapping[str, tuple[Sequence[float], str]]],
    *,
    caption: str = "",
) -> Figure:
    """Draw a panel for each title, with a line for each of the panel's rows.

    Each value of a row is drawn as a dot, a vertical stroke marks the mean, and the row's text is at the
    right end of the line.
    """

    def draw(canvas: Canvas) -> None:
        canvas.set_size_inches(PAGE_WIDTH, sum(0.7 + BAR_HEIGHT * len(rows) for rows in panels.values()))
        grid = canvas.subplots(len(panels), 1, squeeze=False)
        for axes, (title, rows) in zip(grid[:, 0], panels.items(), strict=True):
            for y, (values, text) in enumerate(rows.values()):
                axes.plot(values, [y] * len(values), "o", color="C0", markersize=3, alpha=0.7)
                axes.plot([np.mean(values)], [y], "|", color="C1", markersize=9)
                axes.annotate(text, (1.01, y), xycoords=("axes fraction", "data"), va="center")
            axes.set_yticks(range(len(rows)), rows)
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_title(title, loc="left", fontsize=9)
            axes.grid(axis="x", color=GRID_COLOUR)

    return _figure(draw, caption, () if panels else None)


def scatter(
    vectors_ND: NDArray[np.floating],
    classes: Sequence[int],
    names: Sequence[str],
    *,
    by: Literal["pca", "tsne"],
    links: Sequence[tuple[int, int]] = (),
    caption: str = "",
) -> Figure:
    """Draw vectors as points in the plane, coloured by class.

    Fewer than five vectors, or equal ones, are not drawn; the figure then says so.

    Args:
        vectors_ND: the vectors.
        classes: the class of each vector, an index into ``names``, [N].
        names: names of the classes.
        by: how vectors are projected: onto the first two principal components (``pca``), or by t-SNE that
            starts from these (``tsne``; van der Maaten & Hinton 2008).
        links: pairs of indices of vectors that a dashed line joins.
        caption: text below the figure.
    """
    if len(vectors_ND) < 5 or vectors_ND.shape[1] < 2 or not np.ptp(vectors_ND, axis=0).any():
        return Figure("", caption, "too few texts or dimensions for a plane")
    try:
        with extra("report", "scikit-learn"):
            from sklearn.decomposition import PCA
            from sklearn.manifold import TSNE
    except MissingExtraError as error:
        return Figure("", caption, str(error))

    def draw(canvas: Canvas) -> None:
        canvas.set_size_inches(4.4, 4.6)
        axes = canvas.subplots()
        perplexity = min(30.0, max(2.0, (len(vectors_ND) - 1) / 3))
        tsne = TSNE(perplexity=perplexity, init="pca", random_state=0)
        projection = tsne if by == "tsne" else PCA(2, svd_solver="full")
        points_N2 = projection.fit_transform(vectors_ND)
        for pair in links:
            x_2, y_2 = points_N2[list(pair)].T
            axes.plot(x_2, y_2, "--", color="#bbbbbb", linewidth=0.8)
        style: dict[str, Any] = {"markersize": 3.5, "alpha": 0.7, "markeredgewidth": 0}
        for number in range(len(names)):
            x_n, y_n = points_N2[np.asarray(classes) == number].T
            axes.plot(x_n, y_n, "o", color=f"C{number}", **style)
        axes.set_xticks([])
        axes.set_yticks([])

    return _figure(draw, caption, names)


def heat_map(
    panels: Mapping[str, NDArray[np.floating]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    diverging: bool,
    caption: str = "",
) -> Figure:
    """Draw matrices as colours on one scale, one panel below the other; NaN stays white.

    Args:
        panels: the matrices [rows, columns], by title.
        rows: the names of the rows.
        columns: the names of the columns.
        diverging: whether values are differences in percentage points, whose scale is symmetric around zero
            up to the 98th percentile of their sizes. Otherwise they are percentages, whose scale goes from
            their 2nd percentile to 100.
        caption: text below the figure.
    """
    values = np.concatenate([grid[np.isfinite(grid)] for grid in panels.values()] or [np.empty(0)])

    def draw(canvas: Canvas) -> None:
        if diverging:
            highest = max(1.0, np.percentile(np.abs(values), 98))
            lowest, colours, label = -highest, "RdBu", "points"
        else:
            highest = 100.0
            lowest, colours, label = np.percentile(values, 2), "viridis", "% of the task's best"
        height = 1.1 + len(panels) * (0.5 + 0.21 * len(rows))
        canvas.set_size_inches(2.2 + 0.42 * len(columns), height)
        axes = canvas.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axis, (title, grid) in zip(axes, panels.items(), strict=True):
            image = axis.imshow(grid, aspect="auto", cmap=colours, vmin=lowest, vmax=highest)
            axis.set_yticks(range(len(rows)), rows)
            axis.set_title(title, loc="left", fontsize=9)
        axes[-1].set_xticks(range(len(columns)), columns, rotation=60, ha="right")
        canvas.colorbar(image, ax=list(axes), label=label)

    return _figure(draw, caption, () if values.size else None)


def _figure(draw: Callable[[Canvas], None], caption: str, names: Sequence[str] | None) -> Figure:
    """Return the figure that ``draw`` draws on an empty canvas, with a legend of ``names`` below it.

    ``names`` is empty if there is no legend, and None if there is nothing to draw. Then, or without
    matplotlib, the figure holds a note in place of the drawing.
    """
    if names is None:
        return Figure("", caption, "there are no values to draw")
    try:
        with extra("report"):
            from cycler import cycler
            from matplotlib import rc_context
            from matplotlib.figure import Figure as Canvas
            from matplotlib.patches import Patch
    except MissingExtraError as error:
        return Figure("", caption, str(error))
    # Equal input gives equal bytes because the salt is fixed and no date is written. Letters are drawn as
    # paths, so that they need no font; dollar signs in names begin no formula.
    stream = io.BytesIO()
    style: dict[Any, Any] = {
        "svg.hashsalt": "report",
        "font.size": 8,
        "text.parse_math": False,
        "axes.axisbelow": True,
    }
    with rc_context(style | {"axes.prop_cycle": cycler(color=COLOURS)}):
        canvas = Canvas(layout="constrained")
        draw(canvas)
        if names:
            patches = [Patch(color=f"C{index}", label=name) for index, name in enumerate(names)]
            width = 0.5 + LETTER_WIDTH * max(len(name) for name in names)
            columns = max(1, int(canvas.get_size_inches()[0] / width))
            canvas.legend(handles=patches, loc="outside lower left", ncols=columns, frameon=False)
        canvas.savefig(stream, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    # matplotlib repeats names in comments, where XML allows no control characters but \t, \n and \r.
    forbidden = bytes(code for code in range(32) if chr(code) not in "\t\n\r")
    svg = stream.getvalue().translate(None, forbidden)
    data = base64.b64encode(svg).decode()
    return Figure(f'<img alt="{html.escape(caption)}" src="data:image/svg+xml;base64,{data}"/>', caption)
