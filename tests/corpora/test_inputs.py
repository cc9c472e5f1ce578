"""Lines come out of any file as stated: cut, replaced, decompressed, or an error that names it."""

import gc
import os
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest

from corpora.inputs import Line, input_hash, list_files, read_lines
from runtime.errors import UserError
from tests.fixtures.files import PACK


@pytest.mark.parametrize("suffix", PACK)
def test_line_ends_marks_and_compression(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(PACK[suffix](b"\xef\xbb\xbfone\r\ntwo\n\nn\0ul\nb\xffd\nlast"))
    assert list(read_lines(path)) == [
        Line(1, "one"),
        Line(2, "two"),
        Line(3, ""),
        Line(4, "n\ufffdul", has_replacements=True),
        Line(5, "b\ufffdd", has_replacements=True),
        Line(6, "last"),
    ]


@pytest.mark.parametrize("limit", range(4, 12))
def test_a_long_line_is_cut_between_characters(tmp_path: Path, limit: int) -> None:
    raw = "aé👩ab\r".encode()  # 1, 2, 4, 1, 1 and 1 bytes
    (tmp_path / "a.txt").write_bytes(b"\n".join([raw, raw, b"x"]))
    for line in list(read_lines(tmp_path / "a.txt", max_bytes=limit))[:2]:
        assert line.text == raw[:-1][:limit].decode("utf-8", "ignore")
        assert line.is_truncated == (limit < len(raw) - 1) and not line.has_replacements


def test_a_huge_line_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(PACK[".gz"](b"x" * (64 << 20) + b"\nnext\n"))
    tracemalloc.start()
    lines = list(read_lines(path))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [line.is_truncated for line in lines] == [True, False]
    assert lines[1].text == "next"
    assert peak_bytes < 24 << 20


@pytest.mark.parametrize("suffix", [suffix for suffix in PACK if suffix])
@pytest.mark.parametrize("keep", [0, 0.5, 0.98])
def test_a_damaged_file_is_named(tmp_path: Path, suffix: str, keep: float) -> None:
    raw = PACK[suffix](b"".join(b"%d some words\n" % (i * i) for i in range(20_000)))
    path = tmp_path / f"cut.txt{suffix}"
    path.write_bytes(raw[: max(12, int(len(raw) * keep))])
    with pytest.raises(UserError, match=rf"cut\.txt\{suffix}: cannot be read"):
        list(read_lines(path))


@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize("name", ["a", "a.txt", "a.txt.GZ", "a.xz", "a.bz2", "a.lzma", "a.zip"])
def test_the_content_says_how_a_file_is_packed(kind: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(PACK[kind]("Ein Satz .\nNoch einer , größer .\n".encode()))
    assert [line.text for line in read_lines(tmp_path / name)] == ["Ein Satz .", "Noch einer , größer ."]


SENTENCES = "A cat sat on the mat .\nIt slept , naïvely , for “two” hours .\n"
NOT_TEXT = {
    "zip": (b"PK\3\4\x14\0\0\0\x08\0a.txt" + SENTENCES.encode(), "archive"),
    "tar": (b"a.txt".ljust(257, b"\0") + b"ustar" + SENTENCES.encode(), "archive"),
    "pdf": (b"%PDF-1.4\n1 0 obj << /Type /Catalog >>\nA cat sat .\n", "PDF or RTF"),
    "rtf": (b"{\\rtf1\\ansi A cat sat .}\n", "PDF or RTF"),
    "utf-16": (SENTENCES.encode("utf-16"), "UTF-16"),
    "utf-16-le": (SENTENCES.encode("utf-16-le"), "UTF-16"),
    "utf-16-be": ("Hi .\n".encode("utf-16-be"), "UTF-16"),
    "utf-16-le, Chinese": (("春天来了。\n" * 9).encode("utf-16-le"), "another encoding"),
    "utf-32": (SENTENCES.encode("utf-32-le"), "binary data"),
    "cp1251": ("Кошка спит на новом ковре .\n".encode("cp1251"), "another encoding"),
    "noise": (np.random.default_rng(0).bytes(5000), "binary data"),
    "npy": (b"\x93NUMPY\x01\0v\0" + b" " * 118 + np.ones(2000, np.float32).tobytes(), "binary data"),
    "CR": (SENTENCES.replace("\n", "\r").encode(), "end in CR alone"),
}


@pytest.mark.parametrize("kind", NOT_TEXT)
@pytest.mark.parametrize("pack", ["", ".gz"])
def test_what_is_no_text_is_named(kind: str, pack: str, tmp_path: Path) -> None:
    content, message = NOT_TEXT[kind]
    (tmp_path / "a.txt").write_bytes(PACK[pack](content))
    with pytest.raises(UserError, match=rf"a\.txt: .*{message}"):
        next(read_lines(tmp_path / "a.txt"))


def test_what_is_no_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UserError, match=r"^-: standard input is closed$"):
        next(read_lines(Path("-"), stream=True))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name, message in (
        ("none", "no such file"),
        ("", "a folder"),
        ("pipe", "a stream, but this is read more than once"),
        ("device", "a pipe or a device"),
    ):
        with pytest.raises(UserError, match=message):
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


def test_linked_folders_are_read_and_circles_refused(tmp_path: Path) -> None:
    corpus, elsewhere = tmp_path / "corpus", tmp_path / "elsewhere"
    for folder in (corpus, elsewhere / "below"):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text("A cat .\n")
    (corpus / "b.txt").symlink_to(elsewhere / "below" / "a.txt")
    (corpus / "linked").symlink_to(elsewhere)
    files = [corpus / name for name in ("a.txt", "b.txt", "linked/below/a.txt")]
    assert list_files(corpus) == files
    for target in (corpus, elsewhere, tmp_path, Path(".")):
        (elsewhere / "below" / "circle").symlink_to(target)
        with pytest.raises(UserError, match=r"circle.*: a link to a folder that it lies in"):
            list_files(corpus)
        (elsewhere / "below" / "circle").unlink()
    (elsewhere / "below" / "nothing").symlink_to("nowhere")
    with pytest.raises(UserError, match="nothing: no such file"):
        list_files(corpus)
    assert list_files(corpus, ".txt") == files
    os.mkfifo(elsewhere / "pipe.txt")
    for read in (lambda: list_files(corpus, ".txt"), lambda: input_hash(corpus, [elsewhere / "pipe.txt"])):
        with pytest.raises(UserError, match=r"pipe\.txt: a pipe or a device"):
            read()


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    odd.write_text("Text .\n")
    for path in (odd, tmp_path):
        with pytest.raises(UserError, match=r"caf\\xe9\.txt': the name is not UTF-8; rename it"):
            list_files(path)


def test_an_abandoned_reader_closes_its_file_in_silence(tmp_path: Path) -> None:
    """A collection moves the file before its reader, which only deeper lists hold, so that it ends first."""
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    gc.collect()
    lines = read_lines(path)
    next(lines)
    cycle = [lines]
    innermost = cycle
    for _ in range(6):
        cycle = [cycle]
    innermost.append(cycle)
    del lines, innermost
    gc.collect(0)
    list(read_lines(path))
    descriptors = len(os.listdir("/dev/fd"))
    with warnings.catch_warnings(record=True) as ends:
        warnings.simplefilter("always")
        del cycle
        gc.collect()
    assert not ends
    assert len(os.listdir("/dev/fd")) == descriptors - 1
