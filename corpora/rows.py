"""Tables of tab-separated cells, with or without a header line; each row knows its file and line.

    for row in read_table(path, ("query_id", "query"), unique=True):
        query_id, query = row.cells

Blank lines are skipped, cells are stripped, and a file may be compressed (:mod:`corpora.inputs`). A bad row
is an error that names file, line and what was expected.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.inputs import Line, read_lines
from corpora.support.errors import UserError

MAX_ROW_BYTES = 64 * 2**20
"""Rows may hold whole documents, unlike the lines of a corpus."""
_SHOWN = 80


def bad_row(path: Path, line: int, expected: str, found: str) -> UserError:
    """The error for a bad row."""
    return UserError(f"{path}:{line}: expected {expected}, found {found[:_SHOWN]!r}")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table."""

    path: Path
    line: int
    """1-based line of the file."""
    cells: tuple[str, ...]

    @property
    def where(self) -> str:
        """File and line for messages."""
        return f"{self.path}:{self.line}"

    def error(self, expected: str) -> UserError:
        """The error for this row."""
        return bad_row(self.path, self.line, expected, "\t".join(self.cells))

    def number(self, place: int) -> float:
        """A cell as a finite number.

        Raises:
            UserError: it is not one.
        """
        try:
            value = float(self.cells[place])
        except (IndexError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            raise self.error(f"a number in column {place + 1}")
        return value


def text_lines(path: Path, *, utf8: bool = True) -> Iterator[Line]:
    """The non-blank lines of a text.

    Raises:
        UserError: no such file, a damaged one, a line over :data:`MAX_ROW_BYTES`, or with ``utf8`` another
            encoding.
    """
    for line in read_lines(path, MAX_ROW_BYTES):
        if line.replaced and utf8:
            raise UserError(f"{path}:{line.number}: not UTF-8 text; convert it")
        if line.truncated:
            raise UserError(f"{path}:{line.number}: longer than {MAX_ROW_BYTES >> 20} MiB")
        if line.text.strip():
            yield line


def read_rows(
    path: Path, count: int, *, blanks: bool = False, more: bool = False, may_be_empty: bool = False
) -> Iterator[Row]:
    """The rows of a table without a header line.

    Args:
        path: the file.
        count: how many cells a row has.
        blanks: split lines without a tab at blanks.
        more: whether a row may have more cells, which are kept.
        may_be_empty: whether cells may be empty.

    Raises:
        UserError: the file cannot be read, a row has the wrong number of cells, or a cell is empty.
    """
    for line in text_lines(path, utf8=False):  # some older sets contain invalid bytes
        by_blanks = blanks and "\t" not in line.text
        cells = tuple(cell.strip() for cell in line.text.split(None if by_blanks else "\t"))
        if len(cells) < count or (len(cells) > count and not more):
            raise bad_row(path, line.number, f"{count}{' or more' if more else ''} cells", line.text)
        if not may_be_empty and not all(cells[:count]):
            raise bad_row(path, line.number, "text in every cell", line.text)
        yield Row(path, line.number, cells)


def read_table(
    path: Path, columns: Sequence[str], *, may_be_empty: Collection[str] = (), unique: bool = False
) -> Iterator[Row]:
    """The named columns of a table with a header line, at least one row.

    Args:
        path: the file.
        columns: names in the header, in the order in which a row's cells are returned.
        may_be_empty: columns whose cells may be empty.
        unique: whether the first column's cells must all differ.

    Raises:
        UserError: see :func:`text_lines`; a missing column, a row with the wrong number of cells, an empty
            cell, or a duplicate where cells must differ.
    """
    lines = text_lines(path)
    first = next(lines, None)
    header = [] if first is None else first.text.split("\t")
    for name in columns:
        if name not in header:
            raise UserError(f"{path}:1: no column {name!r} (columns: {', '.join(header)})")
    places = [header.index(name) for name in columns]
    seen: set[str] = set()
    empty = True
    for line in lines:
        cells = line.text.split("\t")
        if len(cells) != len(header):
            raise bad_row(path, line.number, f"{len(header)} cells as in the header", line.text)
        row = Row(path, line.number, tuple(cells[place].strip() for place in places))
        for name, cell in zip(columns, row.cells, strict=True):
            if not cell and name not in may_be_empty:
                raise UserError(f"{row.where}: column {name!r} is empty")
        if unique and row.cells[0] in seen:
            raise UserError(f"{row.where}: {columns[0]} {row.cells[0]!r} occurs twice")
        seen.update(row.cells[:1] if unique else ())
        empty = False
        yield row
    if empty:
        raise UserError(f"{path}: holds no rows")


def read_mapping(path: Path, key: str, value: str) -> dict[str, str]:
    """Two columns of a table with a header line as a mapping; keys must be unique.

    Raises:
        UserError: see :func:`read_table`.
    """
    return {row.cells[0]: row.cells[1] for row in read_table(path, (key, value), unique=True)}
