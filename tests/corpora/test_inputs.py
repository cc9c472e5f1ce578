"""Lines come out of any file as stated: cut, replaced, decompressed, or an error that names the file."""

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

from corpora.inputs import Line, input_hash, list_files, read_lines
from corpora.support.errors import UserError

PACK = {
    "": lambda raw: raw,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
}


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


def test_a_cut_does_not_split_a_character(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(("é" * 10 + "\nnext\n").encode())
    assert list(read_lines(path, max_bytes=7)) == [Line(1, "ééé", truncated=True), Line(2, "next")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_line_of_exactly_the_limit_is_whole(tmp_path: Path, end: bytes, mark: bytes) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(mark + b"x" * 8 + end)
    assert list(read_lines(path, max_bytes=8)) == [Line(1, "x" * 8)]
    path.write_bytes(mark + b"x" * 9 + end + b"y")
    first, *rest = read_lines(path, max_bytes=8)
    assert first == Line(1, "x" * 8, truncated=True)
    assert rest == ([Line(2, "y")] if end else [])


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
@pytest.mark.parametrize("keep", [0.5, 0.98])
def test_a_truncated_file_is_named(tmp_path: Path, suffix: str, keep: float) -> None:
    raw = PACK[suffix](b"".join(b"%d some words\n" % (i * i) for i in range(20_000)))
    path = tmp_path / f"cut.txt{suffix}"
    path.write_bytes(raw[: int(len(raw) * keep)])
    with pytest.raises(UserError, match=rf"cut\.txt\{suffix}: cannot be read"):
        list(read_lines(path))


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_file_of_another_kind_is_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(bz2.compress(b"text"))
    with pytest.raises(UserError, match=rf"a\.txt\{suffix}: cannot be read"):
        list(read_lines(path))


def test_a_missing_file_and_a_folder_are_named_as_such(tmp_path):
    with pytest.raises(UserError, match=r"none\.txt: no such file$"):
        next(read_lines(tmp_path / "none.txt"))
    with pytest.raises(UserError, match=r": a folder, expected a file$"):
        next(read_lines(tmp_path))


def test_utf_16_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("text\n".encode("utf-16"))
    with pytest.raises(UserError, match=r"a\.txt: UTF-16 text; convert it to UTF-8"):
        list(read_lines(path))


def test_folders_are_listed_in_sorted_order_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b/x.txt", "a.txt.gz", "b.txt", ".hidden.txt", ".git/c.txt", "b/a.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    names = [file.relative_to(tmp_path).as_posix() for file in list_files(tmp_path)]
    assert names == ["a.txt.gz", "b/a.md", "b/x.txt", "b.txt"]
    names = [file.relative_to(tmp_path).as_posix() for file in list_files(tmp_path, ".txt")]
    assert names == ["a.txt.gz", "b/x.txt", "b.txt"]
    with pytest.raises(UserError, match=r"no \.conllu files"):
        list_files(tmp_path, ".conllu")
    with pytest.raises(UserError, match="nowhere: no such file or folder"):
        list_files(tmp_path / "nowhere")


def test_the_hash_follows_names_and_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("y")
    files = list_files(tmp_path)
    first = input_hash(tmp_path, files)
    assert input_hash(tmp_path, files) == first
    (tmp_path / "b").write_text("z")
    assert input_hash(tmp_path, files) != first
    assert input_hash(tmp_path / "a", [tmp_path / "a"]) == input_hash(tmp_path, files[:1])


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    odd.write_text("Text .\n")
    for path in (odd, tmp_path):
        with pytest.raises(UserError, match=r"caf\\xe9\.txt': the name is not UTF-8; rename it"):
            list_files(path)
