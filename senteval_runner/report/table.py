"""One table for every report: built once, printed as Markdown and as HTML.

    table = Table(
        ["model", Column("MR", best="high"), Column("MSE", best="low")],
        [["dep,const", Score(74.21, 0.31), 25.3], ["random", 60.1, None]],
        title="Accuracy",
        notes=("Mean ± standard deviation over seeds.",),
    )
    print(table.markdown())
    Page("Scores", [Section("Downstream", [table])]).html()

A cell is a text, a number, a :class:`Score` or None (printed as a dash). Numbers are formatted here and
nowhere else, so both outputs show the same digits.
"""

from __future__ import annotations

import csv
import io
import math
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

DASH = "–"
NUMERAL = re.compile(r"[(≤<>~+−-]*\s*\d[\d,.]*\s*[%)*]?")
"""A text that reads like a number: 1,200, 12.5 %, (71.3)."""


@dataclass(frozen=True)
class Score:
    """A number and its uncertainty."""

    value: float
    deviation: float | None = None
    """Standard deviation, printed after ±."""
    interval: tuple[float, float] | None = None
    """Lower and upper end, printed in brackets."""
    suffix: str = ""
    """Printed last, e.g. a mark of significance."""

    @classmethod
    def over_seeds(cls, values: Sequence[float]) -> Score | None:
        """Mean and, for several seeds, standard deviation; None without a value."""
        if not values:
            return None
        mean, deviation = mean_and_deviation(values)
        return cls(mean, deviation if len(values) > 1 else None)


Cell = str | int | float | Score | None


@dataclass(frozen=True)
class Column:
    """How the cells of a column are printed."""

    name: str
    digits: int = 2
    """Decimals of floats and scores."""
    best: Literal["high", "low"] | None = None
    """Which value is bold; values that are printed alike are all bold, a single row never is."""
    align: Literal["left", "right"] | None = None
    """None is left for the first column and columns with text, right for numbers, typed ones too."""
    shade: tuple[float, float] | None = None
    """Makes a heat map of the column in HTML: no colour at the first value, full colour at the second."""


@dataclass(frozen=True)
class ShownCell:
    """A cell as it is printed."""

    text: str
    left: bool = False
    best: bool = False
    shade: float | None = None
    """From 0 (no colour) to 1."""


@dataclass(frozen=True)
class Table:
    """Columns, rows and notes."""

    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    notes: Sequence[str] = ()
    quoted: Sequence[Sequence[Cell]] = ()
    """Rows from elsewhere: printed below in italics, never marked as best."""
    quoted_title: str = ""
    """The line above them."""

    @property
    def sortable(self) -> bool:
        """Whether a reader may reorder the rows: a blank label belongs to the row above it."""
        return len(self.rows) + len(self.quoted) > 1 and all(row[0] != "" for row in self.rows)

    def head(self) -> list[ShownCell]:
        """The names of the columns."""
        return [ShownCell(column.name, self._left(place)) for place, column in enumerate(self._columns())]

    def body(self) -> Iterator[list[ShownCell]]:
        """The rows, ready to print."""
        best = [self._best(place) for place in range(len(self.columns))]
        for row in self.rows:
            yield [self._shown(place, cell, best[place]) for place, cell in enumerate(row)]

    def quoted_body(self) -> Iterator[list[ShownCell]]:
        """The quoted rows, ready to print."""
        for row in self.quoted:
            yield [self._shown(place, cell, None) for place, cell in enumerate(row)]

    def markdown(self) -> str:
        """The table with its title as a heading of level 3 and its notes below."""
        head = self.head()
        lines = [[escaped(cell.text) for cell in head], [":---" if cell.left else "---:" for cell in head]]
        for row in self.body():
            lines.append([f"**{escaped(cell.text)}**" if cell.best else escaped(cell.text) for cell in row])
        if self.quoted:
            lines.append([f"*{escaped(self.quoted_title)}*", *[""] * (len(head) - 1)])
        for row in self.quoted_body():
            lines.append([cell.text if cell.text == DASH else f"*{escaped(cell.text)}*" for cell in row])
        title = f"### {escaped(self.title)}\n\n" if self.title else ""
        table = "".join("| " + " | ".join(line) + " |\n" for line in lines)
        return title + table + "".join(f"\n{escaped(note)}\n" for note in self.notes)

    def to_csv(self) -> str:
        """The rows, then the quoted ones, with all digits; ± and brackets are columns of their own."""
        rows = [*self.rows, *self.quoted]
        head: list[str] = []
        body: list[list[str]] = [[] for _ in rows]
        for place, column in enumerate(self._columns()):
            cells = [row[place] for row in rows]
            scores = [cell for cell in cells if isinstance(cell, Score)]
            parts = [""]
            if any(score.deviation is not None for score in scores):
                parts.append(" sd")
            if any(score.interval is not None for score in scores):
                parts += [" low", " high"]
            head += [column.name + part for part in parts]
            for line, cell in zip(body, cells, strict=True):
                line += [_plain(cell, part) for part in parts]
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows([head, *body])
        return stream.getvalue()

    def to_latex(self) -> str:
        """A ``tabular`` of the package booktabs, with the digits of the page and the best values bold."""
        head = self.head()

        def line(texts: Sequence[str]) -> str:
            return " & ".join(texts) + " \\\\"

        lines = [f"\\begin{{tabular}}{{{''.join('l' if cell.left else 'r' for cell in head)}}}", "\\toprule"]
        lines += [line([_latex(cell.text) for cell in head]), "\\midrule"]
        for row in self.body():
            lines.append(
                line([f"\\textbf{{{_latex(cell.text)}}}" if cell.best else _latex(cell.text) for cell in row])
            )
        if self.quoted:
            lines.append("\\midrule")
            title = f"\\multicolumn{{{len(head)}}}{{l}}{{{_latex(self.quoted_title)}}}"
            lines += [f"{title} \\\\"] if self.quoted_title else []
            lines += [line([_latex(cell.text) for cell in row]) for row in self.quoted_body()]
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])

    def downloads(self) -> list[tuple[str, str, str]]:
        """Link text, file name and address (a data URI) of the table in other formats."""
        letters = "".join(c if c.isascii() and c.isalnum() else " " for c in self.title.lower()).split()
        name = "-".join(letters) or "table"
        return [
            ("CSV", f"{name}.csv", "data:text/csv;charset=utf-8," + quote(self.to_csv(), safe="")),
            ("LaTeX", f"{name}.tex", "data:text/plain;charset=utf-8," + quote(self.to_latex(), safe="")),
        ]

    def _columns(self) -> list[Column]:
        return [Column(column) if isinstance(column, str) else column for column in self.columns]

    def _left(self, place: int) -> bool:
        align = self._columns()[place].align
        if align is not None:
            return align == "left"
        texts = [cell for row in self.rows if isinstance(cell := row[place], str)]
        return place == 0 or not all(map(NUMERAL.fullmatch, texts))

    def _best(self, place: int) -> str | None:
        """The best value of a column as it is printed."""
        column = self._columns()[place]
        values = [value for row in self.rows if (value := number(row[place])) is not None]
        if column.best is None or len(values) < 2:
            return None
        return f"{max(values) if column.best == 'high' else min(values):.{column.digits}f}"

    def _shown(self, place: int, cell: Cell, best: str | None) -> ShownCell:
        column, value = self._columns()[place], number(cell)
        shade = None
        if column.shade is not None and value is not None:
            low, high = column.shade
            shade = min(1.0, max(0.0, (value - low) / max(high - low, 1e-9)))
        is_best = best is not None and value is not None and f"{value:.{column.digits}f}" == best
        return ShownCell(shown(cell, column.digits), self._left(place), is_best, shade)


def number(cell: Cell) -> float | None:
    """The finite number in a cell, if it holds one."""
    value = cell.value if isinstance(cell, Score) else cell
    return None if value is None or isinstance(value, str) or not math.isfinite(value) else value


def shown(cell: Cell, digits: int = 2) -> str:
    """A cell as text: ``74.20``, ``74.20 ± 0.31 [73.50, 74.90]``, a dash for what is missing."""
    if isinstance(cell, str):
        return cell
    if number(cell) is None:
        return DASH
    if isinstance(cell, Score):
        parts = [f"{cell.value:.{digits}f}"]
        if cell.deviation is not None:
            parts.append(f"± {cell.deviation:.{digits}f}")
        if cell.interval is not None:
            parts.append("[{:.{d}f}, {:.{d}f}]".format(*cell.interval, d=digits))
        return " ".join(parts) + cell.suffix
    return str(cell) if isinstance(cell, int) else f"{cell:.{digits}f}"


def _plain(cell: Cell, part: str) -> str:
    """One field of a CSV file: the value of a cell, or the ``sd``, ``low`` or ``high`` of its score."""
    value: Cell = cell.value if isinstance(cell, Score) else cell
    if part:
        if not isinstance(cell, Score):
            return ""
        low, high = cell.interval or (None, None)
        value = {" sd": cell.deviation, " low": low, " high": high}[part]
    if isinstance(value, str):
        return value
    return "" if number(value) is None else str(value)


LATEX = {
    **{sign: "\\" + sign for sign in "&%$#_{}"},
    **{"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"},
    **{"<": "\\textless{}", ">": "\\textgreater{}", "±": "$\\pm$", DASH: "--", "\n": " "},
}


def _latex(text: str) -> str:
    """Text for a LaTeX table."""
    return "".join(LATEX.get(sign, sign) for sign in text)


def escaped(text: str) -> str:
    """Text for a line of Markdown: no cell ends early, no tag opens, no line breaks."""
    return " ".join(text.split("\n")).replace("|", "\\|").replace("<", "\\<")


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (0 for one value) over seeds."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
