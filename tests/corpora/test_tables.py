"""Tables with a header line and without one; what does not fit is named."""

import gzip
from pathlib import Path

import pytest

from corpora.tables import read_rows, read_table
from runtime.errors import UserError


def test_columns_by_name_in_the_order_wanted(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b'label\ttext\tset\r\n1\t say "hi" \tx\r\n\n0\tb\x0cc\ty\n'))
    rows = list(read_table(path, ("text", "label")))
    assert [(row.line, row.cells) for row in rows] == [(2, ('say "hi"', "1")), (4, ("b\x0cc", "0"))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", r"a\.tsv:1: no column 'id'"),
        (b"id\ttext\n\n1\n", r"a\.tsv:3: expected 2 cells as in the header, found '1'"),
        (b"id\ttext\n1\tx\n1\ty\n", r"a\.tsv:3: id '1' occurs twice"),
        (b"id\ttext\ttext\n1\tx\ty\n", r"a\.tsv:1: two columns are called text"),
        (b"id\ttext\n1\t\xff\n", r"a\.tsv:2: not UTF-8"),
    ],
)
def test_tables_that_do_not_fit_are_named(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "a.tsv").write_bytes(text)
    with pytest.raises(UserError, match=message):
        list(read_table(tmp_path / "a.tsv", ("id", "text"), unique=True))


def test_rows_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("new york\tcity\t3.5\tx\na b 2\n")
    rows = list(read_rows(path, 3, has_more=True))
    assert [row.cells for row in rows] == [("new york", "city", "3.5", "x"), ("a", "b", "2")]
    assert rows[0].number(2) == 3.5
    with pytest.raises(UserError, match=r"a\.txt:1: expected 3 cells, found 'new york"):
        list(read_rows(path, 3))
    for odd in ("nan", "1_0", "-inf", "٣", "1e999", "0x1", "1,5", "", "."):
        path.write_text(f"a\t\t{odd}\n")
        with pytest.raises(UserError, match="expected a number in column 3"):
            next(read_rows(path, 3, may_be_empty=True)).number(2)
    for written in ("10", "-.5", "+5.", "1e-3", "4.40 "):
        path.write_text(f"a\t\t{written}\n")
        assert next(read_rows(path, 3, may_be_empty=True)).number(2) == float(written)
