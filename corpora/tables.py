"""Read tables of cells, with a header line or without one.

The rows of a table know their file and line; blank lines between them are skipped and cells are stripped::

    for row in read_table(path, ("query_id", "query"), unique=True):
        query_id, query = row.cells

Input that cannot be read raises a UserError that names file, line and value.
"""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.inputs import Line, ReadMeter, read_lines
from runtime.errors import UserError

MAX_ROW_BYTES = 64 * 2**20
"""The largest row of a table. It is larger than a line of a corpus, because it may hold a whole document."""


def bad_row(path: Path, line: int, expected: str, value: str) -> UserError:
    """Return the error for a row that has another value than expected."""
    return UserError(f"{path}:{line}: expected {expected}, found {value[:80]!r}")


def check_header(path: Path, line: int, names: Sequence[str]) -> None:
    """Raise UserError if two columns of a header have the same name."""
    for name in names:
        if name and names.count(name) > 1:
            raise UserError(f"{path}:{line}: two columns are called {name}; rename one")


_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def parse_number(text: str) -> float | None:
    """Return a finite decimal number, or None for other text, such as 1_0 or ٣, which ``float`` accepts."""
    value = float(text) if _DECIMAL.fullmatch(text.strip()) else math.nan
    return value if math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table."""

    path: Path
    line: int
    """Line number in the file, from 1."""
    cells: tuple[str, ...]

    @property
    def where(self) -> str:
        """File and line, for messages."""
        return f"{self.path}:{self.line}"

    def number(self, column: int) -> float:
        """Return the cell of a column as a finite number."""
        value = parse_number(self.cells[column]) if column < len(self.cells) else None
        if value is None:
            raise bad_row(self.path, self.line, f"a number in column {column + 1}", "\t".join(self.cells))
        return value


def text_lines(
    path: Path, *, utf8: bool = True, blank: bool = False, meter: ReadMeter | None = None
) -> Iterator[Line]:
    """Yield the lines of a text, blank ones only with ``blank``.

    Raises UserError if a line is longer than :data:`MAX_ROW_BYTES` or, with ``utf8``, in another encoding.
    """
    for line in read_lines(path, MAX_ROW_BYTES, meter=meter):
        if line.has_replacements and utf8:
            raise UserError(f"{path}:{line.number}: not UTF-8 text; convert it")
        if line.is_truncated:
            raise UserError(f"{path}:{line.number}: longer than {MAX_ROW_BYTES >> 20} MiB")
        if blank or line.text.strip():
            yield line


def read_rows(
    path: Path, count: int, *, has_more: bool = False, may_be_empty: bool = False
) -> Iterator[TableRow]:
    """Yield the rows of a table without a header line.

    Args:
        path: the file.
        count: the number of cells of a row.
        has_more: whether a row may have more cells, which are kept, or blanks between cells in place of tabs.
        may_be_empty: whether cells may be empty.

    Raises UserError if a row has another form.
    """
    for line in text_lines(path, utf8=False):  # some older sets contain invalid bytes
        separator = None if has_more and "\t" not in line.text else "\t"
        cells = tuple(cell.strip() for cell in line.text.split(separator))
        if len(cells) < count or (len(cells) > count and not has_more):
            raise bad_row(path, line.number, f"{count}{' or more' if has_more else ''} cells", line.text)
        if not may_be_empty and not all(cells[:count]):
            raise bad_row(path, line.number, "text in every cell", line.text)
        yield TableRow(path, line.number, cells)


def read_table(
    path: Path, columns: Sequence[str], *, may_be_empty: Collection[str] = (), unique: bool = False
) -> Iterator[TableRow]:
    """Yield the rows of a table with a header line: the cells of ``columns``, in that order.

    Args:
        path: the file.
        columns: the names of columns, all of which the table must have.
        may_be_empty: the names of the columns whose cells may be empty.
        unique: whether all rows must have different first cells.

    Raises UserError if a column is missing, if a row is malformed, or if the table has no rows.
    """
    lines = text_lines(path)
    header_line = next(lines, None)
    header = [] if header_line is None else header_line.text.split("\t")
    number = 1 if header_line is None else header_line.number
    check_header(path, number, header)
    for name in columns:
        if name not in header:
            raise UserError(f"{path}:{number}: no column {name!r} (columns: {', '.join(header)})")
    indices = [header.index(name) for name in columns]
    first_cells: set[str] = set()
    row = None
    for line in lines:
        cells = line.text.split("\t")
        if len(cells) != len(header):
            raise bad_row(path, line.number, f"{len(header)} cells as in the header", line.text)
        row = TableRow(path, line.number, tuple(cells[index].strip() for index in indices))
        for name, cell in zip(columns, row.cells, strict=True):
            if not cell and name not in may_be_empty:
                raise UserError(f"{row.where}: column {name!r} is empty")
        if unique:
            if row.cells[0] in first_cells:
                raise UserError(f"{row.where}: {columns[0]} {row.cells[0]!r} occurs twice")
            first_cells.add(row.cells[0])
        yield row
    if row is None:
        raise UserError(f"{path}: holds no rows")
