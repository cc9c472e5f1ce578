"""Tab-separated files with a header line, and relevance judgements, checked row by row."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from pathlib import Path

from corpora.inputs import readable
from corpora.support.errors import UserError


def text_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 text without their ends; ``.gz`` is unpacked, blank lines at the end are left out.

    Raises:
        UserError: no such file, a damaged one, or another encoding.
    """
    with readable(path) as stream:
        raw = stream.read()
    try:
        # Not splitlines: answers hold form feeds and other characters that it takes for line ends.
        lines = raw.decode("utf-8-sig").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error})") from None
    return [line.rstrip("\r") for line in lines]


def read_columns(
    path: Path, columns: Sequence[str], *, may_be_empty: Collection[str] = (), unique: bool = False
) -> list[tuple[str, ...]]:
    """The named columns of a tab-separated file with a header line; ``.gz`` is unpacked.

    Row ``i`` of the result is line ``i + 2`` of the file.

    Args:
        path: the file.
        columns: names in the header, in the order wanted.
        may_be_empty: columns whose cells need not hold text.
        unique: whether the first column's cells are all different.

    Raises:
        UserError: see :func:`text_lines`; a missing column, a row of another number of cells, an empty cell,
            or one that occurs twice.
    """
    lines = text_lines(path)
    header = lines[0].split("\t")
    missing = [name for name in columns if name not in header]
    if missing:
        raise UserError(f"{path}, line 1: no column {missing[0]!r} among {', '.join(header)}")
    places = [header.index(name) for name in columns]
    rows, seen = [], set()
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) != len(header):
            raise UserError(f"{path}, line {number}: {len(cells)} cells, the header has {len(header)}")
        row = tuple(cells[place].strip() for place in places)
        for name, cell in zip(columns, row, strict=True):
            if not cell and name not in may_be_empty:
                raise UserError(f"{path}, line {number}: column {name!r} is empty")
        if unique and row[0] in seen:
            raise UserError(f"{path}, line {number}: {columns[0]} {row[0]!r} occurs twice")
        seen.add(row[0])
        rows.append(row)
    if not rows:
        raise UserError(f"{path}: holds no rows")
    return rows


def relevant_pairs(
    judgements: Iterable[tuple[str, str, str, str]],
    queries: Container[str],
    documents: Container[str],
    noun: str = "document",
) -> Iterator[tuple[str, str]]:
    """Query and document of every judgement above 0.

    Args:
        judgements: (where it stands, query, document, relevance).
        queries: known query ids.
        documents: known document ids.
        noun: what a document is called in messages.

    Raises:
        UserError: an unknown query or document, or a relevance that is not a whole number.
    """
    for where, query, document, grade in judgements:
        if query not in queries or document not in documents:
            unknown = f"query {query!r}" if query not in queries else f"{noun} {document!r}"
            raise UserError(f"{where}: unknown {unknown}")
        try:
            is_relevant = int(grade) > 0
        except ValueError:
            raise UserError(f"{where}: relevance {grade!r} is not a whole number") from None
        if is_relevant:
            yield query, document


def read_judgements(path: Path) -> list[tuple[str, str, str, str]]:
    """(where it stands, query, document, relevance) of a table with these columns.

    Raises:
        UserError: see :func:`read_columns`.
    """
    table = read_columns(path, ("query_id", "doc_id", "relevance"))
    return [(f"{path}, line {n}", *row) for n, row in enumerate(table, start=2)]  # type: ignore[misc]
