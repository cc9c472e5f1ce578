"""Write a report as Markdown, HTML or LaTeX: a page with sections of tables, figures and prose.

    table = Table(
        ["model", Column("MR", best="high"), Column("MSE", best="low")],
        [["dep,const", Score(74.21, 0.31), 25.3], ["random", 60.1, None]],
        notes=("Mean ± standard deviation over seeds.",),
    )
    page = Page("Scores", [Section("Downstream", [table, "Some prose.", plots.bars(...)])])
    write_text(folder / "report.html", page.html())
    write_text(folder / "report.md", page.markdown())

A cell is a text, a number, a :class:`Score` or None, which is printed as a dash. Numbers are formatted in
this file alone, so that all outputs show the same digits. The templates are ``page.html``, ``page.md`` and
``table.md``. The HTML file needs no other file: it includes its style, its figures and a short script that
sorts tables. Every text in it is escaped. It follows the reader's choice of light or dark, and has a style
for print. Markdown has no figures.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from numpy.typing import NDArray

from senteval_runner.protocol.statistics import grouped_mean

DASH = "–"
NUMBER_STARTS = f"0123456789(≤<~+-−{DASH}"


@dataclass(frozen=True)
class Score:
    """A number, with a standard deviation or an interval."""

    value: float
    deviation: float | None = None
    """Standard deviation, printed after ±."""
    interval: tuple[float, float] | None = None
    """Lower and upper end, printed in brackets."""

    @classmethod
    def over_seeds(cls, values: Sequence[float], interval: tuple[float, float] | None = None) -> Score:
        """Return the mean of values, and their standard deviation if there are several."""
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), deviation, interval)

    @classmethod
    def over_groups(cls, values_N: NDArray[np.floating], group_N: NDArray[np.integer]) -> Score:
        """Return the mean of values and its 95 % interval; :func:`grouped_mean` resamples the groups."""
        mean, interval = grouped_mean(values_N, group_N)
        return cls(mean, interval=interval)


TableCell = str | int | float | Score | None


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, and how its cells are printed."""

    name: str
    digits: int = 2
    """Number of decimals of floats and scores."""
    best: Literal["high", "low"] | None = None
    """Whether the highest or the lowest number is bold; None if no number is.

    All cells that are printed like the best number are bold. The only number of a column is not bold.
    """


@dataclass(frozen=True)
class FormattedCell:
    """The text of a cell, and how it is printed."""

    text: str
    is_left: bool = False
    """Whether the text is aligned to the left; numbers are aligned to the right."""
    is_best: bool = False
    """Whether the text is bold."""


@dataclass(frozen=True)
class Table:
    """A table with its notes."""

    columns: Sequence[Column | str]
    """A string is a column with two decimals and no bold cells."""
    rows: Sequence[Sequence[TableCell]]
    title: str = ""
    notes: Sequence[str] = ()
    quoted_rows: Sequence[Sequence[TableCell]] = ()
    """Rows from publications, which are printed below the others with a † and are never bold."""
    quoted_source: str = ""
    """The publication of the quoted rows, which is printed as a note."""

    @property
    def is_sortable(self) -> bool:
        """Whether a reader may sort the rows; a row without a label must stay below the row above it."""
        return len(self.rows) + len(self.quoted_rows) > 1 and all(row[0] != "" for row in self.rows)

    def formatted_rows(self) -> list[list[FormattedCell]]:
        """Return the cells as they are printed: a row of column names, then all rows."""
        columns = [self._formatted_column(index) for index in range(len(self.columns))]
        return [list(row) for row in zip(*columns, strict=True)]

    def _formatted_column(self, index: int) -> list[FormattedCell]:
        """Return the name and the cells of one column as they are printed."""
        column = self.columns[index]
        if isinstance(column, str):
            column = Column(column)
        cells = [row[index] for row in self.rows]
        texts = [cell for cell in cells if isinstance(cell, str)]
        # A text that starts like a number (1,200, ≤ 500, +0.2) is aligned like a number.
        is_left = index == 0 or any(not text or text[0] not in NUMBER_STARTS for text in texts)
        numbers = [number for number in map(_number, cells) if number is not None]
        best_text = None
        if column.best and len(numbers) > 1:
            best_number = max(numbers) if column.best == "high" else min(numbers)
            best_text = format_cell(best_number, column.digits)
        formatted_cells = [FormattedCell(column.name, is_left)]
        for cell in cells:
            is_best = format_cell(_number(cell), column.digits) == best_text
            formatted_cells.append(FormattedCell(format_cell(cell, column.digits), is_left, is_best))
        mark = " †" if index == 0 else ""
        for row in self.quoted_rows:
            formatted_cells.append(FormattedCell(format_cell(row[index], column.digits) + mark, is_left))
        return formatted_cells

    def without_best(self) -> Table:
        """Return the table with nothing in bold."""
        columns = [
            column if isinstance(column, str) else replace(column, best=None) for column in self.columns
        ]
        return replace(self, columns=columns)

    def all_notes(self) -> list[str]:
        """Return the notes, the last of which names the source of quoted rows."""
        notes = list(self.notes)
        if self.quoted_rows and self.quoted_source:
            notes.append(f"† {self.quoted_source}.")
        return notes

    def markdown(self) -> str:
        """Return the table in Markdown, with its title as a heading of level 3 and its notes below."""
        return _render("table.md", table=self)

    def latex(self) -> str:
        """Return the table in LaTeX, for the package booktabs, with its notes below."""
        rows = self.formatted_rows()
        alignment = "".join("l" if cell.is_left else "r" for cell in rows[0])
        head, *lines = [" & ".join(map(_latex_cell, row)) + r" \\" for row in rows]
        title = rf"\paragraph{{{_latex(self.title)}}}"
        begin = rf"\begin{{tabular}}{{{alignment}}}"
        table = [begin, r"\toprule", head, r"\midrule", *lines, r"\bottomrule", r"\end{tabular}", ""]
        notes = map(_latex, self.all_notes())
        return "\n".join([title, *table, *notes, ""])


_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {sign: f"${sign}$" for sign in "<>|"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "†": r"\dag{}"}
    | {"≤": r"$\le$", "≥": r"$\ge$", "−": "$-$", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$"}
    | {"λ": r"$\lambda$", "ρ": r"$\rho$", "\u00a0": "~"}
)


def _latex(text: str) -> str:
    """Return text with LaTeX's special characters escaped, and characters that its fonts lack as formulas."""
    return text.translate(_LATEX)


def _latex_cell(cell: FormattedCell) -> str:
    return rf"\textbf{{{_latex(cell.text)}}}" if cell.is_best else _latex(cell.text)


def _number(cell: TableCell) -> float | None:
    """Return the number in a cell, or None if the cell holds no finite number."""
    value = cell.value if isinstance(cell, Score) else cell
    if value is None or isinstance(value, str) or not math.isfinite(value):
        return None
    return value


def format_cell(cell: TableCell, digits: int = 2) -> str:
    """Return a cell as text: ``74.20``, ``74.20 ± 0.31 [73.50, 74.90]``, or a dash if there is no number."""
    if isinstance(cell, str):
        return cell
    if _number(cell) is None:
        return DASH
    if isinstance(cell, Score):
        deviation = "" if cell.deviation is None else f" ± {cell.deviation:.{digits}f}"
        interval = "" if cell.interval is None else " [{:z.{d}f}, {:z.{d}f}]".format(*cell.interval, d=digits)
        return f"{cell.value:z.{digits}f}{deviation}{interval}"
    return str(cell) if isinstance(cell, int) else f"{cell:z.{digits}f}"


def _escape_markdown(text: str) -> str:
    """Return text for one line of Markdown, in which it ends no cell of a table and opens no HTML tag."""
    return text.replace("\n", " ").replace("|", "\\|").replace("<", "\\<")


@dataclass(frozen=True)
class Figure:
    """A drawing, or a note that says why there is none."""

    svg: str
    """Markup that is written without escaping; empty if the figure is left out."""
    caption: str = ""
    note: str = ""
    """Why the figure was left out."""


Block = Table | Figure | str
"""Content of a section; a string is a paragraph."""


@dataclass(frozen=True)
class Section:
    """A heading, a remark below it, and the content."""

    title: str
    blocks: Sequence[Block]
    note: str = ""


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    sections: Sequence[Section]
    introduction: str = ""

    def latex(self) -> str:
        """Return the tables in LaTeX, to be included in a document."""
        parts = ["% to be read by \\input, after \\usepackage{booktabs}"]
        for section in self.sections:
            parts += [block.latex() for block in section.blocks if isinstance(block, Table)]
        return "\n".join(parts)

    def markdown(self) -> str:
        """Return tables and prose in Markdown; sections that have nothing but figures are left out."""
        return _render("page.md", page=self)

    def text(self) -> str:
        """Return tables and prose for a terminal, as Markdown without its escapes."""
        return re.sub(r"\\([|<])", r"\1", self.markdown())

    def html(self) -> str:
        """Return the whole page as HTML that needs no other file."""
        return _render("page.html", page=self)


def _render(template: str, **values: Page | Table) -> str:
    return _template(template).render(values)


@cache
def _template(template: str) -> Template:
    environment = Environment(
        loader=PackageLoader("senteval_runner", "report"),
        autoescape=template.endswith(".html"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=template.endswith(".md"),
        undefined=StrictUndefined,
    )
    environment.filters["line"] = _escape_markdown
    return environment.get_template(template)
