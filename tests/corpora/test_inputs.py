"""Lines and tables come out of any file as stated: cut, replaced, decompressed, or an error that names it."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.inputs import Line, input_hash, list_files, read_lines, read_rows, read_table
from corpora.support.errors import UserError

PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", PACK)
def test_line_ends_marks_and_compression(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(PACK[suffix](b"\xef\xbb\xbfone\r\ntwo\n\nn\0ul\nb\xffd\nlast"))
    assert list(read_lines(path)) == [
        Line(1, "one"),
        Line(2, "two"),
        Line(3, ""),
        Line(4, "n\ufffdul", replaced=True),
        Line(5, "b\ufffdd", replaced=True),
        Line(6, "last"),
    ]


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"").replace(b"\r", b"")), max_size=8),
    st.integers(min_value=4, max_value=12),
)
def test_lines_agree_with_the_obvious_reader(tmp_path_factory, lines: list[bytes], limit: int) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    if path.read_bytes()[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return
    got = list(read_lines(path, max_bytes=limit))
    assert len(got) == len(lines)
    for number, (line, raw) in enumerate(zip(got, lines, strict=True)):
        if number == 0:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        assert line.truncated == (len(raw) > limit)
        if not line.truncated:
            text = raw.decode("utf-8", errors="replace").replace("\0", "\ufffd")
            assert (line.text, line.replaced) == (text, text.encode() != raw)
        else:
            assert len(line.text.encode("utf-8", errors="surrogatepass")) <= 3 * limit


def test_a_huge_line_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(PACK[".gz"](b"x" * (64 << 20) + b"\nnext\n"))
    tracemalloc.start()
    lines = list(read_lines(path))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [line.truncated for line in lines] == [True, False]
    assert lines[1].text == "next"
    assert peak_bytes < 24 << 20


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
@pytest.mark.parametrize("keep", [0, 0.5, 0.98])
def test_a_damaged_file_is_named(tmp_path: Path, suffix: str, keep: float) -> None:
    raw = PACK[suffix](b"".join(b"%d some words\n" % (i * i) for i in range(20_000)))
    path = tmp_path / f"cut.txt{suffix}"
    path.write_bytes(raw[: int(len(raw) * keep)] or bz2.compress(b"text"))
    with pytest.raises(UserError, match=rf"cut\.txt\{suffix}: cannot be read"):
        list(read_lines(path))


def test_what_is_no_text_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("text\n".encode("utf-16"))
    for name, told in (("none", "no such file"), ("", "a folder"), ("a.txt", r"a\.txt: UTF-16 text")):
        with pytest.raises(UserError, match=told):
            next(read_lines(tmp_path / name))


def test_folders_are_listed_in_sorted_order_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b/x.txt", "a.txt.gz", "b.txt", ".hidden.txt", ".git/c.txt", "b/a.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    files = list_files(tmp_path)
    names = ["a.txt.gz", "b/a.md", "b/x.txt", "b.txt"]
    assert files == [tmp_path / name for name in names]
    assert list_files(tmp_path, ".txt") == [tmp_path / name for name in names if "txt" in name]
    with pytest.raises(UserError, match=r"no \.conllu files"):
        list_files(tmp_path, ".conllu")
    before = input_hash(tmp_path, files)
    files[-1].write_bytes(b"z")
    assert input_hash(tmp_path, files) != before


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    odd.write_text("Text .\n")
    for path in (odd, tmp_path):
        with pytest.raises(UserError, match=r"caf\\xe9\.txt': the name is not UTF-8; rename it"):
            list_files(path)


def test_columns_by_name_in_the_order_wanted(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b'label\ttext\tset\r\n1\t say "hi" \tx\r\n\n0\tb\x0cc\ty\n'))
    rows = list(read_table(path, ("text", "label")))
    assert [(row.line, row.cells) for row in rows] == [(2, ('say "hi"', "1")), (4, ("b\x0cc", "0"))]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", r"a\.tsv:1: no column 'id'"),
        (b"id\ttext\n\n1\n", r"a\.tsv:3: expected 2 cells as in the header, found '1'"),
        (b"id\ttext\n1\tx\n1\ty\n", r"a\.tsv:3: id '1' occurs twice"),
        (b"id\ttext\n1\t\xff\n", r"a\.tsv:2: not UTF-8"),
    ],
)
def test_tables_that_do_not_fit_are_named(tmp_path: Path, text: bytes, told: str) -> None:
    (tmp_path / "a.tsv").write_bytes(text)
    with pytest.raises(UserError, match=told):
        list(read_table(tmp_path / "a.tsv", ("id", "text"), unique=True))


def test_rows_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("new york\tcity\t3.5\tx\na b 2\n")
    rows = list(read_rows(path, 3, more=True))
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
