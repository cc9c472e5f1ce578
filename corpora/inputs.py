"""Input files and streams: plain or compressed, line by line in flat memory, or as tables of cells.

Every reader treats unclean text the same way:

- bytes that are not UTF-8, and NULs, become U+FFFD, and the line is marked ``replaced``;
- a line over 256 KiB is cut there (between characters) and marked ``truncated``; the rest is skipped
  without holding it in memory, so a 1 GB line costs 256 KiB;
- a byte-order mark is dropped; CR LF and LF end a line, and so does the end of the file;
- what a file is, its first bytes say, whatever its name: compressed text is read, what is no text is refused.

Rows of tables know their file and line; blank lines between them are skipped and cells are stripped::

    for row in read_table(path, ("query_id", "query"), unique=True):
        query_id, query = row.cells

What cannot be read raises UserError, which names file, line and value.
"""

import bz2
import contextlib
import gzip
import hashlib
import io
import lzma
import math
import os
import re
import shutil
import sys
import tempfile
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.errors import LONE_SURROGATE, UserError, out_of_space
from runtime.files import check_regular
from runtime.progress import progress

STANDARD_INPUT = Path("-")
MAX_LINE_BYTES = 256 * 1024
MAX_ROW_BYTES = 64 * 2**20
"""Rows may hold whole documents, unlike the lines of a corpus."""
NOT_UTF8 = "has a lone surrogate, half a character, which UTF-8 cannot hold; replace it"
PACKED_SUFFIXES = (".gz", ".xz", ".bz2", ".lzma")
UNPACKERS: dict[bytes, Callable[[io.BufferedReader], Any]] = {
    rb"\x1f\x8b\x08": lambda packed: gzip.GzipFile(fileobj=packed),
    rb"\xfd7zXZ\0|\]\0\0": lzma.LZMAFile,
    rb"BZh[1-9](1AY&SY|\x17rE8P\x90)": bz2.BZ2File,
}
"""How to read compressed bytes, by what they start with."""
FOREIGN = {
    rb"\A(PK[\x03\x05]|7z\xbc\xaf|Rar!|\x1f\x9d|\x28\xb5\x2f\xfd|.{257}ustar)": "an archive (so is a .docx)",
    rb"\A(%PDF-|\{\\rtf)": "PDF or RTF",
    rb"\A(\xff\xfe|\xfe\xff|([^\0]\0){4}|(\0[^\0]){4})": "UTF-16 text (iconv -f utf-16 -t utf-8)",
    rb"\0{4}": "binary data",
}
"""What is no UTF-8 text, by what is found in its first bytes."""
HEAD_BYTES = 4096
_CONTROL = re.compile("[\0-\x07\x0e-\x19]")
"""Characters that text has by damage alone."""
_BLOCK_BYTES = 1 << 20
_opened: tuple[Path, Callable[[], float]] = (Path(), float)
"""The file that was opened last, and what tells how many of its bytes, as they lie on the disk, are read."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file, without its line break."""

    number: int
    """1-based."""
    text: str
    replaced: bool = False
    """Undecodable bytes or NULs became U+FFFD."""
    truncated: bool = False
    """Cut at :data:`MAX_LINE_BYTES`."""


def list_files(path: Path, suffix: str | tuple[str, ...] = "") -> list[Path]:
    """Return the file itself, or every file below a folder, sorted by relative path; hidden ones left out.

    In a folder, only files with a suffix are taken, or with one of several, before a compression suffix.
    Refused are names that are not UTF-8, pipes and devices, and links to a folder that they lie in.
    """
    files = [path]
    if path.is_dir():
        files = [file for file in _below(path) if stem(file).endswith(suffix)]
        files.sort(key=lambda file: file.relative_to(path).parts)
        if not files:
            raise UserError(f"{path}: no {suffix}{' ' if suffix else ''}files in this folder")
    for file in files:
        check_regular(file)
        # Documents are named after files.
        if not is_encodable(str(file)):
            raise UserError(f"{os.fsencode(file)!r}: the name is not UTF-8; rename it")
    return files


def _below(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Yield what lies in a folder and its subfolders, through links too, without what is hidden."""
    place = folder.resolve()
    if place in above:
        raise UserError(f"{folder}: a link to a folder that it lies in; remove it")
    for path in folder.iterdir():
        if not path.name.startswith("."):
            yield from _below(path, (*above, place)) if path.is_dir() else [path]


def stem(path: Path) -> str:
    """Return the file's name without a compression suffix."""
    return path.stem if path.suffix.lower() in PACKED_SUFFIXES else path.name


def relative_name(root: Path, file: Path) -> str:
    """Return the name of ``file``'s documents: its path below the corpus folder, or its own name."""
    return file.name if file == root else file.relative_to(root).as_posix()


def input_hash(root: Path, files: list[Path]) -> str:
    """Return the SHA-256 of names and bytes of the input files, in order; compressed ones as they are."""
    whole = hashlib.sha256()
    for file in files:
        check_regular(file)
    total = sum(file.stat().st_size for file in files)
    with progress(total=total, unit="B", description="hashing input") as bar:
        for file in files:
            one = hashlib.sha256()
            with open(file, "rb") as stream:
                while block := stream.read(_BLOCK_BYTES):
                    one.update(block)
                    bar.update(len(block))
            whole.update(f"{relative_name(root, file)}\0{one.hexdigest()}\n".encode())
    return whole.hexdigest()


def is_stream(path: Path) -> bool:
    """Tell whether a path is read only once: ``-``, standard input, or a pipe such as ``<(zcat text.gz)``."""
    return path == STANDARD_INPUT or path.is_fifo()


@contextlib.contextmanager
def as_file(spec: str) -> Iterator[str]:
    """Yield the name of what can be read again: ``spec``, or a temporary copy of a stream."""
    if not is_stream(Path(spec)):
        yield spec
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "standard-input")
        with readable(Path(spec), stream=True) as stream, open(copy, "wb") as target:
            shutil.copyfileobj(stream, target)
        yield str(copy)


@contextlib.contextmanager
def readable(path: Path, *, stream: bool = False) -> Iterator[io.BufferedReader]:
    """Open a text, compressed or not; a file that is missing, damaged, no regular one or no text is refused.

    ``stream`` says whether a stream (:func:`is_stream`) will do, which is read once.
    """
    global _opened
    is_standard = path == STANDARD_INPUT
    if not is_stream(path):
        check_regular(path)
    elif not stream:
        raise UserError(f"{path}: a stream, but this is read more than once; write it to a file first")
    elif is_standard and sys.stdin is None:
        raise UserError("-: standard input is closed")
    try:
        source: Any = contextlib.nullcontext(sys.stdin.buffer) if is_standard else _unbuffered(path)
        with source as file:
            raw = file if isinstance(file, io.BufferedReader) else io.BufferedReader(file, _BLOCK_BYTES)
            head = raw.peek(HEAD_BYTES)
            unpack = next((UNPACKERS[start] for start in UNPACKERS if re.match(start, head)), None)
            unpacked = raw if unpack is None else unpack(raw)
            text = raw if unpack is None else io.BufferedReader(unpacked, _BLOCK_BYTES)
            # Each layer reads ahead: bytes count as read by how much of the unpacked text was given out.
            _opened = path, lambda: raw.tell() * text.tell() / max(1, unpacked.tell())
            if foreign := _foreign(text.peek(HEAD_BYTES)[:HEAD_BYTES]):
                raise UserError(f"{path}: {foreign}; give text in UTF-8")
            yield text
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        if out_of_space(error):  # of the caller, who writes
            raise
        raise UserError(f"{path}: cannot be read ({error}); is the file whole?") from None
    finally:
        _opened = path, lambda: path.stat().st_size


@contextlib.contextmanager
def _unbuffered(path: Path) -> Iterator[io.FileIO]:
    """Open a file, and close it by its descriptor.

    The garbage collector may meet a file before the generator that reads it, and Python warns of a file that
    closes itself.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        yield io.FileIO(descriptor, closefd=False)
    finally:
        os.close(descriptor)


def _foreign(head: bytes) -> str | None:
    """Say what the start of a file shows it to be, if that is no text in UTF-8."""
    for sign, name in FOREIGN.items():
        if re.search(sign, head, re.DOTALL):
            return name
    text = head.decode("utf-8", "replace")
    # A seventh of Czech in latin-2 is no UTF-8, which is read and marked; damaged text has few controls.
    odd = text.count("\ufffd") + 6 * len(_CONTROL.findall(text))
    return "binary data, or text in another encoding" if odd > max(16, 0.3 * len(text)) else None


def share_read(files: Sequence[Path]) -> float:
    """Return the share of the bytes of ``files``, which are read one after the other, that has been read."""
    path, bytes_read = _opened
    if path not in files:
        return 0.0
    sizes = [file.stat().st_size for file in files]
    return (sum(sizes[: files.index(path)]) + bytes_read()) / max(1, sum(sizes))


def read_lines(path: Path, max_bytes: int = MAX_LINE_BYTES, *, stream: bool = False) -> Iterator[Line]:
    """Yield the lines of a file (:func:`readable`); lines that end in CR alone are refused."""
    limit = max_bytes + 2  # a line may end in CR LF
    with readable(path, stream=stream) as text:
        number = 0
        start = text.peek()
        if b"\r" in start[:-1] and b"\n" not in start:
            raise UserError(f"{path}: its lines end in CR alone; convert it (tr '\\r' '\\n')")
        while raw := text.readline(limit if number else limit + len(BOM_UTF8)):
            number += 1
            if number == 1:
                raw = raw.removeprefix(BOM_UTF8)
            if raw.endswith(b"\n"):
                raw = raw.removesuffix(b"\n").removesuffix(b"\r")
            elif len(raw) > max_bytes:  # read on to the end of this line
                while (part := text.readline(_BLOCK_BYTES)) and not part.endswith(b"\n"):
                    pass
            if truncated := len(raw) > max_bytes:
                end = max_bytes
                while end > max_bytes - 4 and raw[end] & 0xC0 == 0x80:  # within a UTF-8 character
                    end -= 1
                raw = raw[:end]
            try:
                decoded, replaced = raw.decode("utf-8"), b"\0" in raw
            except UnicodeDecodeError:
                decoded, replaced = raw.decode("utf-8", errors="replace"), True
            yield Line(number, decoded.replace("\0", "\ufffd") if replaced else decoded, replaced, truncated)


def is_encodable(word: str) -> bool:
    """Tell whether a word can be written as UTF-8, which excludes lone surrogates."""
    return LONE_SURROGATE.search(word) is None


# Tables


def bad_row(path: Path, line: int, expected: str, value: str) -> UserError:
    """Return the error for a bad row."""
    return UserError(f"{path}:{line}: expected {expected}, found {value[:80]!r}")


_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def number_of(text: str) -> float | None:
    """Read a finite number in decimals; None for anything else, also what Python alone reads (1_0, ٣)."""
    value = float(text) if _DECIMAL.fullmatch(text.strip()) else math.nan
    return value if math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table."""

    path: Path
    line: int
    """1-based line of the file."""
    cells: tuple[str, ...]

    @property
    def where(self) -> str:
        """Return the file and line for messages."""
        return f"{self.path}:{self.line}"

    def number(self, place: int) -> float:
        """Return a cell as a finite number."""
        value = number_of(self.cells[place]) if place < len(self.cells) else None
        if value is None:
            raise bad_row(self.path, self.line, f"a number in column {place + 1}", "\t".join(self.cells))
        return value


def text_lines(path: Path, *, utf8: bool = True, blank: bool = False) -> Iterator[Line]:
    """Yield the lines of a text, and blank ones only if ``blank`` is true.

    Refused are lines over :data:`MAX_ROW_BYTES` and, with ``utf8``, of another encoding.
    """
    for line in read_lines(path, MAX_ROW_BYTES):
        if line.replaced and utf8:
            raise UserError(f"{path}:{line.number}: not UTF-8 text; convert it")
        if line.truncated:
            raise UserError(f"{path}:{line.number}: longer than {MAX_ROW_BYTES >> 20} MiB")
        if blank or line.text.strip():
            yield line


def read_rows(
    path: Path, count: int, *, more: bool = False, may_be_empty: bool = False
) -> Iterator[TableRow]:
    """Yield the rows, of ``count`` cells, of a table without a header line.

    ``more`` says whether a row may have more cells, which are kept, and blanks between them instead of tabs,
    ``may_be_empty`` whether cells may be empty.
    """
    for line in text_lines(path, utf8=False):  # some older sets contain invalid bytes
        by_blanks = more and "\t" not in line.text
        cells = tuple(cell.strip() for cell in line.text.split(None if by_blanks else "\t"))
        if len(cells) < count or (len(cells) > count and not more):
            raise bad_row(path, line.number, f"{count}{' or more' if more else ''} cells", line.text)
        if not may_be_empty and not all(cells[:count]):
            raise bad_row(path, line.number, "text in every cell", line.text)
        yield TableRow(path, line.number, cells)


def read_table(
    path: Path, columns: Sequence[str], *, may_be_empty: Collection[str] = (), unique: bool = False
) -> Iterator[TableRow]:
    """Yield the rows, at least one, of a table with a header line: the cells of ``columns``, in that order.

    Cells are not empty but in columns that ``may_be_empty``; with ``unique`` those of the first one differ.
    """
    lines = text_lines(path)
    first = next(lines, None)
    header = [] if first is None else first.text.split("\t")
    for name in columns:
        if name not in header:
            raise UserError(f"{path}:1: no column {name!r} (columns: {', '.join(header)})")
    places = [header.index(name) for name in columns]
    seen: set[str] = set()
    row = None
    for line in lines:
        cells = line.text.split("\t")
        if len(cells) != len(header):
            raise bad_row(path, line.number, f"{len(header)} cells as in the header", line.text)
        row = TableRow(path, line.number, tuple(cells[place].strip() for place in places))
        for name, cell in zip(columns, row.cells, strict=True):
            if not cell and name not in may_be_empty:
                raise UserError(f"{row.where}: column {name!r} is empty")
        if unique and row.cells[0] in seen:
            raise UserError(f"{row.where}: {columns[0]} {row.cells[0]!r} occurs twice")
        seen.update(row.cells[:1] if unique else ())
        yield row
    if row is None:
        raise UserError(f"{path}: holds no rows")
