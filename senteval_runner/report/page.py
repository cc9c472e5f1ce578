"""Write the page of every report: sections of tables, figures and prose, as Markdown or HTML.

    table = Table(
        ["model", Column("MR", best="high"), Column("MSE", best="low")],
        [["dep,const", Score(74.21, 0.31), 25.3], ["random", 60.1, None]],
        notes=("Mean ± standard deviation over seeds.",),
    )
    page = Page("Scores", [Section("Downstream", [table, "Some prose.", plots.bars(...)])])
    write_text(folder / "report.html", page.html())
    write_text(folder / "report.md", page.markdown())

A cell is a text, a number, a :class:`Score` or None (printed as a dash). Numbers are formatted here and
nowhere else, so both outputs show the same digits. The HTML file is self-contained: it includes its style,
its figures and a short script that sorts tables; every text is escaped. It follows the reader's choice of
light or dark, and has a style for print. Markdown has tables and prose only.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray

from senteval_runner.protocol.statistics import grouped_mean

DASH = "–"


@dataclass(frozen=True)
class Score:
    """A number and its uncertainty."""

    value: float
    deviation: float | None = None
    """Standard deviation, printed after ±."""
    interval: tuple[float, float] | None = None
    """Lower and upper end, printed in brackets."""

    @classmethod
    def over_seeds(cls, values: Sequence[float]) -> Score | None:
        """Take the mean and, for several seeds, the standard deviation; None without a value."""
        if not values:
            return None
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)

    @classmethod
    def over_groups(cls, values_N: NDArray[np.floating], group_N: NDArray[np.integer]) -> Score:
        """Take the mean and 95 % interval of items, whose groups are drawn (:func:`grouped_mean`)."""
        mean, span = grouped_mean(values_N, group_N)
        return cls(mean, interval=span)


TableCell = str | int | float | Score | None


@dataclass(frozen=True)
class Column:
    """How the cells of a column are printed."""

    name: str
    digits: int = 2
    """Decimals of floats and scores."""
    best: Literal["high", "low"] | None = None
    """Which value is bold; values that are printed alike are all bold, a single row never is."""


@dataclass(frozen=True)
class ShownCell:
    """A cell as it is printed."""

    text: str
    left: bool = False
    best: bool = False


@dataclass(frozen=True)
class Table:
    """Columns, rows and notes."""

    columns: Sequence[Column | str]
    rows: Sequence[Sequence[TableCell]]
    title: str = ""
    notes: Sequence[str] = ()
    quoted: Sequence[Sequence[TableCell]] = ()
    """Rows from elsewhere: printed below with a †, never marked as best."""
    quoted_title: str = ""
    """Where they are from, a note."""

    @property
    def sortable(self) -> bool:
        """Tell whether a reader may reorder the rows: a blank label belongs to the row above it."""
        return len(self.rows) + len(self.quoted) > 1 and all(row[0] != "" for row in self.rows)

    def printed(self) -> list[list[ShownCell]]:
        """Print the names of the columns and the cells of all rows."""
        columns = []
        for place, column in enumerate(self.columns):
            if isinstance(column, str):
                column = Column(column)
            cells = [row[place] for row in self.rows]
            # Text stands left; a text that starts like a number (1,200, ≤ 500, +0.2) is one.
            texts = [cell for cell in cells if isinstance(cell, str)]
            left = place == 0 or any(not text or text[0] not in f"0123456789(≤<~+-−{DASH}" for text in texts)
            numbers = [number for cell in cells if (number := _number(cell)) is not None]
            best, digits = None, column.digits
            if column.best and len(numbers) > 1:
                best = shown(max(numbers) if column.best == "high" else min(numbers), digits)
            own = [ShownCell(shown(c, digits), left, shown(_number(c), digits) == best) for c in cells]
            quoted = [ShownCell(shown(row[place], digits) + " †" * (place == 0), left) for row in self.quoted]
            columns.append([ShownCell(column.name, left), *own, *quoted])
        return [list(row) for row in zip(*columns, strict=True)]

    def all_notes(self) -> list[str]:
        """List the notes, and what † means."""
        return [*self.notes, *([f"† {self.quoted_title}."] if self.quoted and self.quoted_title else [])]

    def markdown(self) -> str:
        """Write the table with its title as a heading of level 3 and its notes below."""
        head, *rows = self.printed()
        lines = [[escaped(cell.text) for cell in head], [":---" if cell.left else "---:" for cell in head]]
        lines += [[f"**{escaped(c.text)}**" if c.best else escaped(c.text) for c in row] for row in rows]
        title = f"### {escaped(self.title)}\n\n" if self.title else ""
        table = "".join("| " + " | ".join(line) + " |\n" for line in lines)
        return title + table + "".join(f"\n{escaped(note)}\n" for note in self.all_notes())

    def latex(self) -> str:
        """Write the table in LaTeX with package booktabs, the best values bold, and its notes below."""
        import pandas

        head, *rows = self.printed()
        lines = [[rf"\textbf{{{_latex(c.text)}}}" if c.best else _latex(c.text) for c in row] for row in rows]
        table = pandas.DataFrame(lines, columns=[_latex(cell.text) for cell in head]).to_latex(
            index=False, escape=False, column_format="".join("l" if cell.left else "r" for cell in head)
        )
        return "\n".join([rf"\paragraph{{{_latex(self.title)}}}", table, *map(_latex, self.all_notes()), ""])


_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {sign: f"${sign}$" for sign in "<>|"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "†": r"\dag{}"}
    | {"≤": r"$\le$", "≥": r"$\ge$", "−": "$-$", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$"}
    | {"λ": r"$\lambda$", "ρ": r"$\rho$", "\u00a0": "~"}
)


def _latex(text: str) -> str:
    """Escape LaTeX's own characters, and write those that its fonts lack in mathematics."""
    return text.translate(_LATEX)


def _number(cell: TableCell) -> float | None:
    """Return the finite number in a cell, if it holds one."""
    value = cell.value if isinstance(cell, Score) else cell
    return None if value is None or isinstance(value, str) or not math.isfinite(value) else value


def shown(cell: TableCell, digits: int = 2) -> str:
    """Print a cell: ``74.20``, ``74.20 ± 0.31 [73.50, 74.90]``, a dash for what is missing."""
    if isinstance(cell, str):
        return cell
    if _number(cell) is None:
        return DASH
    if isinstance(cell, Score):
        deviation = "" if cell.deviation is None else f" ± {cell.deviation:.{digits}f}"
        interval = "" if cell.interval is None else " [{:z.{d}f}, {:z.{d}f}]".format(*cell.interval, d=digits)
        return f"{cell.value:z.{digits}f}{deviation}{interval}"
    return str(cell) if isinstance(cell, int) else f"{cell:z.{digits}f}"


def escaped(text: str) -> str:
    """Escape text for a line of Markdown: no cell ends early, no tag opens, no line breaks."""
    return " ".join(text.split("\n")).replace("|", "\\|").replace("<", "\\<")


@dataclass(frozen=True)
class Figure:
    """A drawing, or the reason why there is none."""

    svg: str
    """Markup that needs no escaping; empty when the figure is left out."""
    caption: str = ""
    note: str = ""
    """Why the figure was left out."""


Block = Table | Figure | str
"""Content of a section; a string is a paragraph."""


@dataclass(frozen=True)
class Section:
    """A heading and its content."""

    title: str
    blocks: Sequence[Block]
    note: str = ""
    """A remark below the heading."""

    def markdown(self) -> str:
        """Write the section at level 2; empty when it has nothing but figures."""
        texts = [
            block.markdown() if isinstance(block, Table) else f"{escaped(block)}\n"
            for block in self.blocks
            if not isinstance(block, Figure)
        ]
        note = [f"{escaped(self.note)}\n"] if self.note else []
        return "\n".join([f"## {escaped(self.title)}\n", *note, *texts]) if texts else ""


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    sections: Sequence[Section]
    introduction: str = ""

    def latex(self) -> str:
        """Write the tables, as the body of a document."""
        tables = [b.latex() for section in self.sections for b in section.blocks if isinstance(b, Table)]
        return "\n".join(["% to be read by \\input, after \\usepackage{booktabs}", *tables])

    def markdown(self) -> str:
        """Write tables and prose."""
        introduction = [f"{escaped(self.introduction)}\n"] if self.introduction else []
        sections = [text for section in self.sections if (text := section.markdown())]
        return "\n".join([f"# {escaped(self.title)}\n", *introduction, *sections])

    def text(self) -> str:
        """Write tables and prose for a terminal, as Markdown without its escapes."""
        return re.sub(r"\\([|<])", r"\1", self.markdown())

    def html(self) -> str:
        """Write everything, as one self-contained file."""
        environment = Environment(
            loader=PackageLoader("senteval_runner", "report"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
        )
        template = environment.get_template("page.html")
        return template.render(page=self, kind=lambda block: type(block).__name__)
