"""Self-contained HTML: one file with tables, bars, curves, heat maps, scatter plots; nothing is fetched.

    page("Scores", [section("Downstream", table(["model", "MR"], [["dep,const", 74.2]], best=[1]))])

All text is escaped here, except what is passed as :class:`Html` (these functions' own results, drawn trees).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TypeGuard

Cell = str | float | int | None
LETTER_PX = 6
TEXT = ' class="text"'
COLOURS = ("#1f5f8b", "#b3541e", "#3d7a3a", "#7a3d77", "#8a7a1f", "#4a4a4a", "#2a8a8a", "#a33b4b")
STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:1100px;margin:2em auto;padding:0 1em}
h1{font-size:1.6em}h2{font-size:1.25em;margin-top:2em;border-bottom:1px solid #ddd}
table{border-collapse:collapse;margin:.8em 0;font-size:.92em}
th,td{padding:.25em .6em;border-bottom:1px solid #eee;text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left;white-space:normal;min-width:9em}
th.text{text-align:left}td.text{text-align:left;white-space:normal}
thead th{border-bottom:2px solid #999;white-space:normal;vertical-align:bottom}
tr.apart td{color:#666;font-style:italic}tr.apart th{text-align:left;padding-top:.9em;color:#666}
td.best{font-weight:700}
.note{color:#666;font-size:.88em}.wide{overflow-x:auto}svg{max-width:100%;height:auto}
svg text{font:11px system-ui,sans-serif;fill:#333}svg .axis{stroke:#bbb}svg .grid{stroke:#eee}
figure{display:inline-block;margin:0 1.5em 1em 0;vertical-align:top;max-width:360px}
figcaption{font-size:.92em}
.legend span{display:inline-block;margin-right:1.2em}
.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.4em}
"""


class Html(str):
    """Markup that is safe to set as it is."""

    __slots__ = ()


def text(value: Cell, digits: int = 2) -> Html:
    """A value as escaped text; floats with ``digits`` decimals, a missing one as a dash."""
    if isinstance(value, Html):
        return value
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return Html("–")
    return Html(f"{value:.{digits}f}" if isinstance(value, float) else escape(str(value)))


def page(title: str, parts: Sequence[Html], *, style: str = "") -> str:
    """A whole document; ``style`` adds CSS (of drawn trees, for one)."""
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}{style}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def section(title: str, *parts: Html, note: str = "") -> Html:
    """A heading, an optional remark, and what stands under them."""
    remark = paragraph(note) if note else ""
    return Html(f"<section><h2>{escape(title)}</h2>{remark}{''.join(parts)}</section>")


def paragraph(words: str) -> Html:
    """A remark in small print."""
    return Html(f'<p class="note">{text(words)}</p>')


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    best: Sequence[int] = (),
    digits: int = 2,
    words: Sequence[int] | None = None,
    apart: Sequence[Sequence[Cell]] = (),
    apart_title: str = "",
) -> Html:
    """A table; the largest value of the columns ``best`` is set bold.

    Args:
        headers: column names.
        rows: cells; numbers are right-aligned, None is a dash.
        best: columns where more is better.
        digits: decimals of floats.
        words: columns besides the first that are left-aligned; None is every cell that is not a number.
        apart: rows of another origin, set below in grey, never marked as best.
        apart_title: the line above them.
    """
    marked = {}
    for column in best:
        values = [value for row in rows if _is_number(value := row[column])]
        if values:
            marked[column] = text(max(values), digits)
    wordy = [
        any(not _is_number(row[column]) for row in rows) if words is None else column in words
        for column in range(len(headers))
    ]
    head = "".join(
        f"<th{TEXT if is_word else ''}>{text(header)}</th>"
        for header, is_word in zip(headers, wordy, strict=True)
    )
    lines = []
    for row in rows:
        cells = []
        for column, value in enumerate(row):
            shown = text(value, digits)
            is_best = _is_number(value) and marked.get(column) == shown
            is_word = not _is_number(value) if words is None else column in words
            css = ' class="best"' if is_best else TEXT if is_word and column else ""
            cells.append(f"<td{css}>{shown}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    if apart:
        lines.append(f'<tr class="apart"><th colspan="{len(headers)}">{text(apart_title)}</th></tr>')
    for row in apart:
        lines.append(f'<tr class="apart">{"".join(f"<td>{text(value, digits)}</td>" for value in row)}</tr>')
    return _table(head, lines)


def _table(head: str, lines: Sequence[str]) -> Html:
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return Html(f'<div class="wide"><table>{body}</table></div>')


def _is_number(value: Cell) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and math.isfinite(value)


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Mapping[tuple[str, str], float],
    *,
    low: float,
    high: float,
    digits: int = 1,
) -> Html:
    """A table whose cells are shaded from ``low`` (white) to ``high``; a missing cell is a dash."""
    head = "".join(f"<th>{text(column)}</th>" for column in columns)
    lines = []
    for row in rows:
        cells = []
        for column in columns:
            value = values.get((row, column))
            share = 0.0 if value is None else min(1.0, max(0.0, (value - low) / max(high - low, 1e-9)))
            cells.append(
                f'<td style="background:rgba(31,95,139,{0.75 * share:.2f})">{text(value, digits)}</td>'
            )
        lines.append(f"<tr><td>{text(row)}</td>{''.join(cells)}</tr>")
    return _table(f"<th></th>{head}", lines)


def legend(names: Sequence[str]) -> Html:
    """Coloured names, in the order of the series."""
    items = "".join(
        f'<span><i style="background:{colour(i)}"></i>{text(name)}</span>' for i, name in enumerate(names)
    )
    return Html(f'<p class="legend">{items}</p>')


def colour(index: int) -> str:
    """The colour of the index-th series."""
    return COLOURS[index % len(COLOURS)]


def bars(
    series: Sequence[str],
    groups: Sequence[str],
    values: Mapping[tuple[str, str], float],
    *,
    spread: Mapping[tuple[str, str], float] | None = None,
    height: int = 220,
) -> Html:
    """Grouped vertical bars from zero: one group per task, one bar per model, with ± ``spread`` whiskers."""
    known = [v for v in values.values() if math.isfinite(v)]
    if not known:
        return Html("")
    top, bottom = max(0.0, *known) or 1.0, min(0.0, *known)
    bar, gap, left = 14, 18, 44
    # A group is as wide as its bars or its name, whichever needs more.
    step = max(len(series) * bar, max(LETTER_PX * len(group) for group in groups)) + gap
    width = left + len(groups) * step + 10

    def y(value: float) -> float:
        return 10 + (height - 40) * (top - value) / (top - bottom)

    parts = [_grid(bottom, top, left, width, y)]
    for g, group in enumerate(groups):
        x0 = left + g * step + (step - len(series) * bar) / 2
        for s, name in enumerate(series):
            value = values.get((name, group))
            if value is None or not math.isfinite(value):
                continue
            x, y0, y1 = x0 + s * bar, min(y(value), y(0)), max(y(value), y(0))
            parts.append(
                f'<rect x="{x:.1f}" y="{y0:.1f}" width="{bar - 2}" height="{y1 - y0:.1f}" fill="{colour(s)}">'
                f"<title>{text(name)} {text(group)}: {value:.2f}</title></rect>"
            )
            half = (spread or {}).get((name, group), 0.0)
            if half:
                middle = x + (bar - 2) / 2
                parts.append(
                    f'<line x1="{middle:.1f}" x2="{middle:.1f}" stroke="#000" '
                    f'y1="{y(value - half):.1f}" y2="{y(value + half):.1f}"/>'
                )
        centre = x0 + len(series) * bar / 2
        parts.append(f'<text x="{centre:.1f}" y="{height - 8}" text-anchor="middle">{text(group)}</text>')
    return Html(_svg(width, height, parts) + legend(series))


def curve(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x_label: str = "step",
    y_label: str = "",
    width: int = 720,
    height: int = 260,
) -> Html:
    """Lines through (x, y) points, one per series; points that are not finite are left out."""
    points = {
        name: [(x, y) for x, y in line if math.isfinite(x) and math.isfinite(y)]
        for name, line in series.items()
    }
    everything = [point for line in points.values() for point in line]
    if not everything:
        return Html("")
    (x0, x1), (y0, y1) = (_range([point[axis] for point in everything]) for axis in (0, 1))
    left = 60

    def px(x: float) -> float:
        return left + (width - left - 15) * (x - x0) / (x1 - x0)

    def py(y: float) -> float:
        return 10 + (height - 50) * (y1 - y) / (y1 - y0)

    parts = [_grid(y0, y1, left, width, py)]
    for x in _ticks(x0, x1):
        parts.append(f'<text x="{px(x):.1f}" y="{height - 24}" text-anchor="middle">{x:g}</text>')
    for index, line in enumerate(points.values()):
        path = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour(index)}" stroke-width="1.5"/>')
    parts.append(f'<text x="{width / 2:.0f}" y="{height - 6}" text-anchor="middle">{text(x_label)}</text>')
    parts.append(f'<text x="4" y="12">{text(y_label)}</text>')
    return Html(_svg(width, height, parts) + legend(list(points)))


def scatter(
    points: Sequence[tuple[float, float]],
    classes: Sequence[int],
    names: Sequence[str],
    *,
    titles: Sequence[str] = (),
    size: int = 360,
) -> Html:
    """Points in the plane coloured by class; ``titles`` are shown on hovering."""
    if not points:
        return Html("")
    (x0, x1), (y0, y1) = (_range([point[axis] for point in points]) for axis in (0, 1))
    parts = []
    for index, ((x, y), kind) in enumerate(zip(points, classes, strict=True)):
        px, py = 8 + (size - 16) * (x - x0) / (x1 - x0), 8 + (size - 16) * (y1 - y) / (y1 - y0)
        title = f"<title>{text(titles[index])}</title>" if titles else ""
        parts.append(
            f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.5" fill="{colour(kind)}" fill-opacity=".7">'
            f"{title}</circle>"
        )
    return Html(_svg(size, size, parts) + legend(names))


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return f"<svg {size}>{''.join(parts)}</svg>"


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers between ``low`` and ``high``, about ``wanted`` of them."""
    step = 10 ** math.floor(math.log10((high - low) / wanted))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (step * m) <= wanted)
    return [round(step * k, 10) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _grid(low: float, high: float, left: float, width: float, y: Callable[[float], float]) -> str:
    lines = []
    for tick in _ticks(low, high):
        lines.append(
            f'<line class="grid" x1="{left}" x2="{width:.0f}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
            f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
        )
    return "".join(lines)
