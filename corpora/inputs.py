"""Read text files and streams, plain or compressed, by line in constant memory.

All readers treat irregular text in the same way:

- bytes that are not UTF-8, and NULs, become U+FFFD, and the line is marked (``has_replacements``);
- a line over 256 KiB is cut there, between characters, and is marked (``is_truncated``); the rest is read
  without being stored, so that a line of 1 GB takes 256 KiB of memory;
- a byte-order mark is removed; CR LF, LF and the end of the file end a line;
- the first bytes of a file, not its name, decide its format: compressed text is unpacked, other formats are
  refused.

Input that cannot be read raises a UserError that names file, line and value.
"""

import bz2
import contextlib
import gzip
import hashlib
import io
import itertools
import lzma
import os
import re
import shutil
import sys
import tempfile
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.errors import LONE_SURROGATE, UserError, out_of_space
from runtime.files import check_regular
from runtime.progress import progress

STANDARD_INPUT = Path("-")
MAX_LINE_BYTES = 256 * 1024
NOT_UTF8 = "has a lone surrogate, half a character, which UTF-8 cannot hold; replace it"
COMPRESSION_SUFFIXES = (".gz", ".xz", ".bz2", ".lzma")
DECOMPRESSORS: dict[bytes, Callable[[io.BufferedReader], Any]] = {
    rb"\x1f\x8b\x08": gzip.open,
    rb"\xfd7zXZ\0|\]\0\0": lzma.LZMAFile,
    rb"BZh[1-9](1AY&SY|\x17rE8P\x90)": bz2.BZ2File,
}
"""Functions that unpack compressed bytes, by a pattern of their first bytes."""
FOREIGN_FORMATS = {
    rb"\A(PK[\x03\x05]|7z\xbc\xaf|Rar!|\x1f\x9d|\x28\xb5\x2f\xfd|.{257}ustar)": "an archive (so is a .docx)",
    rb"\A(%PDF-|\{\\rtf)": "PDF or RTF",
    rb"\A(\xff\xfe|\xfe\xff|([^\0]\0){4}|(\0[^\0]){4})": "UTF-16 text (iconv -f utf-16 -t utf-8)",
    rb"\0{4}": "binary data",
}
"""Formats that are not UTF-8 text, by a pattern of a file's first bytes."""
HEAD_BYTES = 4096
_CONTROL_CHARACTER = re.compile("[\0-\x07\x0e-\x19]")
"""Matches characters that only damaged text has."""
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file, without its line break."""

    number: int
    """Line number, from 1."""
    text: str
    has_replacements: bool = False
    """Whether undecodable bytes or NULs became U+FFFD."""
    is_truncated: bool = False
    """Whether the line was cut at the reader's limit (:data:`MAX_LINE_BYTES`)."""


class ReadMeter:
    """Measures the share of some files that has been read; they are read one after the other.

    A reader that gets the meter tells it of every file that it opens.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        sizes = [file.stat().st_size for file in files]
        self._total_bytes = max(1, sum(sizes))
        self._bytes_before_file = dict(zip(files, itertools.accumulate([0, *sizes]), strict=False))
        self._bytes_before = 0
        self._bytes_read: Callable[[], float] = float

    def start_file(self, path: Path, bytes_read: Callable[[], float]) -> None:
        """Begin with the next file; ``bytes_read`` returns the number of bytes read of it, as on the disk."""
        self._bytes_before = self._bytes_before_file[path]
        self._bytes_read = bytes_read

    def share_read(self) -> float:
        """Return the share of all files' bytes that has been read, in [0, 1]."""
        return (self._bytes_before + self._bytes_read()) / self._total_bytes


def list_files(path: Path, suffix: str | tuple[str, ...] = "") -> list[Path]:
    """Return the file itself, or every file below a folder, sorted by relative path, without hidden ones.

    Of a folder, only files with the suffix, or one of several, are returned; a compression suffix may follow
    it. Raises UserError if a name is not UTF-8, or if there is a pipe, a device, or a link to a folder in
    which the link lies.
    """
    files = [path]
    if path.is_dir():
        files = [file for file in _walk(path) if stem(file).endswith(suffix)]
        files.sort(key=lambda file: file.relative_to(path).parts)
        if not files:
            raise UserError(f"{path}: no {suffix}{' ' if suffix else ''}files in this folder")
    for file in files:
        check_regular(file)
        # The name becomes part of the names of documents.
        if not is_encodable(str(file)):
            raise UserError(f"{os.fsencode(file)!r}: the name is not UTF-8; rename it")
    return files


def _walk(folder: Path, parents: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Yield the files in a folder and its subfolders, also through links, without hidden files."""
    real_folder = folder.resolve()
    if real_folder in parents:
        raise UserError(f"{folder}: a link to a folder that it lies in; remove it")
    for path in folder.iterdir():
        if not path.name.startswith("."):
            yield from _walk(path, (*parents, real_folder)) if path.is_dir() else [path]


def stem(path: Path) -> str:
    """Return the file's name without a compression suffix."""
    return path.stem if path.suffix.lower() in COMPRESSION_SUFFIXES else path.name


def relative_name(root: Path, file: Path) -> str:
    """Return the name of ``file``'s documents: its path below the corpus folder, or its own name."""
    return file.name if file == root else file.relative_to(root).as_posix()


def input_hash(root: Path, files: list[Path]) -> str:
    """Return the SHA-256 of the names and the bytes on disk of the input files, in order."""
    digest_of_all = hashlib.sha256()
    for file in files:
        check_regular(file)
    total_bytes = sum(file.stat().st_size for file in files)
    with progress(total=total_bytes, unit="B", description="hashing input") as bar:
        for file in files:
            digest = hashlib.sha256()
            with open(file, "rb") as stream:
                while block := stream.read(_BLOCK_BYTES):
                    digest.update(block)
                    bar.update(len(block))
            digest_of_all.update(f"{relative_name(root, file)}\0{digest.hexdigest()}\n".encode())
    return digest_of_all.hexdigest()


def is_stream(path: Path) -> bool:
    """Tell whether a path can be read only once: ``-``, standard input, or a pipe as in ``<(zcat x.gz)``."""
    with contextlib.suppress(OSError):  # a name that is too long; an error follows when the path is opened
        return path == STANDARD_INPUT or path.is_fifo()
    return False


@contextlib.contextmanager
def as_file(spec: str) -> Iterator[str]:
    """Yield the name of a file that can be read repeatedly: ``spec``, or a temporary copy of a stream."""
    if not is_stream(Path(spec)):
        yield spec
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "standard-input")
        with open_text(Path(spec), stream=True) as stream, open(copy, "wb") as target:
            shutil.copyfileobj(stream, target)
        yield str(copy)


@contextlib.contextmanager
def open_text(
    path: Path, *, stream: bool = False, meter: ReadMeter | None = None
) -> Iterator[io.BufferedReader]:
    """Open a text, compressed or not; ``stream`` allows one that can be read only once (:func:`is_stream`).

    Raises UserError if the file is missing, damaged, not regular, or not a text.
    """
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
            openers = [opener for pattern, opener in DECOMPRESSORS.items() if re.match(pattern, head)]
            unpacked = openers[0](raw) if openers else raw
            text = io.BufferedReader(unpacked, _BLOCK_BYTES) if openers else raw
            if meter is not None:
                # Each layer reads ahead, so the bytes read are estimated by the share of unpacked text used.
                meter.start_file(path, lambda: raw.tell() * text.tell() / max(1, unpacked.tell()))
            if foreign_format := _foreign_format(text.peek(HEAD_BYTES)[:HEAD_BYTES]):
                raise UserError(f"{path}: {foreign_format}; give text in UTF-8")
            yield text
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        if out_of_space(error):  # the caller of this generator has raised it while writing
            raise
        raise UserError(f"{path}: cannot be read ({error}); is the file whole?") from None
    finally:
        if meter is not None:
            meter.start_file(path, lambda: path.stat().st_size)


@contextlib.contextmanager
def _unbuffered(path: Path) -> Iterator[io.FileIO]:
    """Open a file, and close it by its descriptor.

    The garbage collector may delete a file object before the generator that reads it, and Python warns of an
    open file object that is deleted.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        yield io.FileIO(descriptor, closefd=False)
    finally:
        os.close(descriptor)


def _foreign_format(head: bytes) -> str | None:
    """Return the format of a file by its first bytes, or None if it is UTF-8 text."""
    for pattern, name in FOREIGN_FORMATS.items():
        if re.search(pattern, head, re.DOTALL):
            return name
    text = head.decode("utf-8", "replace")
    # A seventh of the bytes of Czech in latin-2 is not UTF-8; such text is read and marked. Control
    # characters have a larger weight, because they are rare even in damaged text.
    damage = text.count("\ufffd") + 6 * len(_CONTROL_CHARACTER.findall(text))
    return "binary data, or text in another encoding" if damage > max(16, 0.3 * len(text)) else None


def read_lines(
    path: Path, max_bytes: int = MAX_LINE_BYTES, *, stream: bool = False, meter: ReadMeter | None = None
) -> Iterator[Line]:
    """Yield the lines of a text (:func:`open_text`). Raises UserError if the lines end in CR alone."""
    limit = len(BOM_UTF8) + max_bytes + len(b"\r\n")
    with open_text(path, stream=stream, meter=meter) as text:
        beginning = text.peek()
        if b"\r" in beginning[:-1] and b"\n" not in beginning:
            raise UserError(f"{path}: its lines end in CR alone; convert it (tr '\\r' '\\n')")
        number = 0
        while raw := text.readline(limit):
            number += 1
            if number == 1:
                raw = raw.removeprefix(BOM_UTF8)
            if raw.endswith(b"\n"):
                raw = raw.removesuffix(b"\n").removesuffix(b"\r")
            elif len(raw) > max_bytes:
                while (part := text.readline(_BLOCK_BYTES)) and not part.endswith(b"\n"):
                    pass  # skip the rest of the line
            is_truncated = len(raw) > max_bytes
            if is_truncated:
                end = max_bytes
                while end > max_bytes - 4 and raw[end] & 0xC0 == 0x80:  # within a UTF-8 character
                    end -= 1
                raw = raw[:end]
            line = raw.decode("utf-8", errors="replace").replace("\0", "\ufffd")
            yield Line(number, line, has_replacements=line.encode() != raw, is_truncated=is_truncated)


def is_encodable(word: str) -> bool:
    """Tell whether a word can be written as UTF-8, which excludes lone surrogates."""
    return LONE_SURROGATE.search(word) is None
