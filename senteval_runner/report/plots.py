"""Plots as inline SVG: bars, curves, points in the plane, heat maps.

    Section("Per task", [plots.bars(["dep,const"], ["MR", "CR"], {("dep,const", "MR"): 74.2})])

Equal input gives equal bytes. Bars and points show their value or text on hovering (an SVG title). Without
matplotlib a plot becomes a figure with a note that names the extra to install.
"""

from __future__ import annotations

import io
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from corpora.support.errors import MissingExtraError
from senteval_runner.report.page import SERIES, Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Points = NDArray[np.floating] | Sequence[tuple[float, float]]
Tips = dict[str, Sequence[str]]
"""Texts that the shapes of an SVG group show on hovering, in drawing order, by the group's id."""
GRID = "#eeeeee"
THEMED = {
    "#000000": "currentColor",
    GRID: f"var(--line,{GRID})",
    **{light: f"var(--series-{place},{light})" for place, (light, _) in enumerate(SERIES)},
}
"""How the page names a colour, so that it may be another one on a dark page."""
BAR, LETTER, GAP, WIDEST = 0.16, 0.085, 0.25, 10.0
"""Widths in inches: of a bar, of a letter below it, of the gap between groups, of a row of bars."""
NOTHING = "there are no values to draw"


def bars(
    series: Sequence[str],
    groups: Sequence[str],
    values: Mapping[tuple[str, str], float],
    *,
    spread: Mapping[tuple[str, str], float] | None = None,
    caption: str = "",
) -> Figure:
    """Grouped vertical bars from zero, wrapped into rows: one group per task, one bar per model.

    Args:
        series: names of the colours.
        groups: names of the groups.
        values: height by series and group; missing bars are left out.
        spread: half the length of a whisker, by series and group.
        caption: above the figure.
    """
    known = {key: value for key, value in values.items() if math.isfinite(value)}

    def draw(canvas: Canvas) -> Tips:
        step = max(len(series) * BAR, *(LETTER * len(group) for group in groups)) + GAP
        per_row = max(1, int(WIDEST / step))
        lines = [groups[start : start + per_row] for start in range(0, len(groups), per_row)]
        canvas.set_size_inches(1.0 + step * min(per_row, len(groups)), 0.4 + 2.1 * len(lines))
        tips: Tips = {}
        panels = canvas.subplots(len(lines), 1, sharey=True, squeeze=False)[:, 0]
        for panel, line in zip(panels, lines, strict=True):
            for colour, name in enumerate(series):
                shift = (colour - (len(series) - 1) / 2) * BAR / step
                for place, group in enumerate(line):
                    if (name, group) not in known:
                        continue
                    value, half = known[name, group], (spread or {}).get((name, group), 0.0)
                    [bar] = panel.bar(
                        place + shift, value, 0.9 * BAR / step, yerr=half or None, color=_colour(colour)
                    )
                    bar.set_gid(f"bar-{len(tips)}")
                    tips[f"bar-{len(tips)}"] = [f"{name} {group}: {value:.2f}"]
            panel.set_xticks(range(len(line)), line)
            panel.set_xlim(-0.5, min(per_row, len(groups)) - 0.5)
            panel.grid(axis="y", color=GRID)
            panel.axhline(0, color="#bbb", linewidth=0.8)
        _legend(canvas, series)
        return tips

    return _figure(draw, caption, bool(known))


def curves(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x_label: str = "step",
    y_label: str = "",
    caption: str = "",
) -> Figure:
    """A line through (x, y) points per series; points that are not finite are left out."""
    finite = {
        name: [point for point in line if all(map(math.isfinite, point))] for name, line in series.items()
    }

    def draw(canvas: Canvas) -> Tips:
        canvas.set_size_inches(8, 3)
        axes = canvas.subplots()
        for colour, line in enumerate(finite.values()):
            axes.plot([x for x, _ in line], [y for _, y in line], color=_colour(colour), linewidth=1.2)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.grid(color=GRID)
        _legend(canvas, list(finite))
        return {}

    return _figure(draw, caption, any(finite.values()))


def scatter(
    points_N2: Points,
    classes: Sequence[int],
    names: Sequence[str],
    *,
    titles: Sequence[str] = (),
    links: Sequence[tuple[int, int]] = (),
    caption: str = "",
) -> Figure:
    """Points in the plane, coloured by class.

    Args:
        points_N2: finite coordinates, [N, 2].
        classes: class of each point, an index into ``names``; [N].
        names: of the classes.
        titles: shown on hovering over each point; [N] or empty.
        links: pairs of points joined by a dashed line.
        caption: above the figure.
    """
    xy_N2, class_N = np.asarray(points_N2, dtype=np.float64), np.asarray(classes)

    def draw(canvas: Canvas) -> Tips:
        canvas.set_size_inches(4.4, 4.6)
        axes = canvas.subplots()
        tips: Tips = {}
        for pair in links:
            axes.plot(*xy_N2[list(pair)].T, "--", color="#bbbbbb", linewidth=0.8)
        for kind in range(len(names)):
            rows = np.flatnonzero(class_N == kind)
            x, y = xy_N2[rows].T
            [dots] = axes.plot(x, y, "o", color=_colour(kind), markersize=3.5, alpha=0.7, markeredgewidth=0)
            dots.set_gid(f"points-{kind}")
            if titles:
                tips[f"points-{kind}"] = [titles[int(row)] for row in rows]
        axes.set_xticks([])
        axes.set_yticks([])
        _legend(canvas, names)
        return tips

    return _figure(draw, caption, bool(len(xy_N2)))


def heat_map(
    panels: Mapping[str, NDArray[np.floating]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    low: float | None = None,
    high: float | None = None,
    diverging: bool = False,
    label: str = "",
    caption: str = "",
) -> Figure:
    """Matrices as colours, one panel below the other on one scale.

    Args:
        panels: by title a matrix [rows, columns]; NaN is left white.
        rows: names of the rows, from the top.
        columns: names of the columns.
        low: value of the lowest colour; None is the 2nd percentile.
        high: value of the highest colour; None is the largest value.
        diverging: colours around zero, for differences; the scale ends at their 98th percentile.
        label: beside the colour bar.
        caption: above the figure.
    """
    values = np.concatenate([grid[np.isfinite(grid)] for grid in panels.values()] or [np.empty(0)])

    def draw(canvas: Canvas) -> Tips:
        if diverging:
            reach = max(1.0, float(np.percentile(np.abs(values), 98)))
            scale, lowest, highest = "RdBu", -reach, reach
        else:
            scale = "viridis"
            lowest = float(np.percentile(values, 2)) if low is None else low
            highest = float(values.max()) if high is None else high
        height = 1.1 + len(panels) * (0.5 + 0.21 * len(rows))
        canvas.set_size_inches(2.2 + 0.42 * len(columns), height)
        axes = canvas.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axis, (title, grid) in zip(axes, panels.items(), strict=True):
            image = axis.imshow(grid, aspect="auto", cmap=scale, vmin=lowest, vmax=highest)
            axis.set_yticks(range(len(rows)), rows)
            axis.set_title(title, loc="left", fontsize=9)
        axes[-1].set_xticks(range(len(columns)), columns, rotation=60, ha="right")
        canvas.colorbar(image, ax=list(axes), label=label)
        return {}

    return _figure(draw, caption, bool(values.size))


def _colour(index: int) -> str:
    return SERIES[index % len(SERIES)][0]


def _legend(canvas: Canvas, names: Sequence[str]) -> None:
    """Coloured names below the plot, in the order of the series."""
    from matplotlib.patches import Patch

    patches = [Patch(color=_colour(index), label=name) for index, name in enumerate(names)]
    longest = max(len(name) for name in names)
    columns = max(1, int(canvas.get_size_inches()[0] / (0.5 + LETTER * longest)))
    canvas.legend(handles=patches, loc="outside lower left", ncols=columns, frameon=False)


def _figure(draw: Callable[[Canvas], Tips], caption: str, drawable: bool) -> Figure:
    """Draw on an empty canvas; without values or matplotlib, a figure that says so."""
    if not drawable:
        return Figure("", caption, NOTHING)
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        return Figure("", caption, str(MissingExtraError("matplotlib", "report")))
    # With a fixed salt and no date equal input gives equal bytes. Names are never parsed as formulas.
    out = io.StringIO()
    with rc_context(
        {
            "svg.hashsalt": "report",
            "svg.fonttype": "none",
            "font.size": 8,
            "text.parse_math": False,
            "axes.axisbelow": True,
            "savefig.transparent": True,
        }
    ):
        canvas = Canvas(layout="constrained")
        tips = draw(canvas)
        canvas.savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return Figure(_inline(out.getvalue(), tips), caption)


def _inline(svg: str, tips: Tips) -> str:
    """Turn a stand-alone SVG into part of an HTML page: no prolog, no name spaces, texts on hovering."""
    svg = _xml(svg[svg.index("<svg") :])
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = re.sub(r"(?<=(?:fill|roke): )#[0-9a-f]{6}", lambda match: THEMED.get(match[0], match[0]), svg)
    root = ET.fromstring(svg)
    for group in root.iter("g"):
        titles = tips.get(group.get("id", ""))
        if titles is None:
            continue
        shapes = list(group.iter("use")) or list(group.iter("path"))
        for shape, title in zip(shapes, titles, strict=True):
            ET.SubElement(shape, "title").text = _xml(title)
    return ET.tostring(root, encoding="unicode", short_empty_elements=False)


def _xml(text: str) -> str:
    """Replace the characters that XML does not have; a name may hold them."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
