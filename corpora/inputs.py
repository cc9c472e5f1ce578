"""Input files: plain or compressed, read line by line in flat memory, hashed for a corpus's identity.

Every reader treats unclean text the same way:

- bytes that are not UTF-8, and NULs, become U+FFFD, and the line is marked ``replaced``;
- a line over 256 KiB is cut there (between characters) and marked ``truncated``; the rest is skipped
  without holding it in memory, so a 1 GB line costs 256 KiB;
- a byte-order mark is dropped; CR LF and LF end a line, and so does the end of the file.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import lzma
import os
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from corpora.support.errors import MissingExtraError, UserError
from corpora.support.progress import progress

MAX_LINE_BYTES = 256 * 1024
COMPRESSED = (".gz", ".xz", ".zst")
_BLOCK_BYTES = 1 << 20
# Compressed bytes read at once. Four can hold 128 KiB of one character, so these hold up to 8 MiB.
_ZSTD_BYTES = 256
_UTF16_MARKS = (BOM_UTF16_LE, BOM_UTF16_BE)


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


def list_files(path: Path, suffixes: tuple[str, ...] | None = None) -> list[Path]:
    """The file itself, or every file below a folder, sorted by relative path; hidden ones left out.

    Args:
        path: a file or a folder.
        suffixes: in a folder, keep only files with these suffixes (before a compression suffix).

    Raises:
        UserError: ``path`` does not exist, a name is not UTF-8, or the folder holds no such file.
    """
    if path.is_file():
        return [_utf8_name(path)]
    if not path.is_dir():
        raise UserError(f"{path}: no such file or folder")
    found = []
    for file in path.rglob("*"):
        parts = file.relative_to(path).parts
        if file.is_file() and not any(part.startswith(".") for part in parts):
            found.append((parts, _utf8_name(file)))
    files = [file for _, file in sorted(found) if suffixes is None or stem(file).endswith(suffixes)]
    if not files:
        raise UserError(f"{path}: no {' or '.join(suffixes) + ' ' if suffixes else ''}files in this folder")
    return files


def _utf8_name(path: Path) -> Path:
    """``path``, if the name can be stored: documents are named after files.

    Raises:
        UserError: the name holds a byte that is not UTF-8.
    """
    if not is_encodable(str(path)):
        raise UserError(f"{os.fsencode(path)!r}: the name is not UTF-8; rename it")
    return path


def stem(path: Path) -> str:
    """The file's name without a compression suffix."""
    return path.name.removesuffix(path.suffix) if path.suffix in COMPRESSED else path.name


def corpus_name(path: Path) -> str:
    """The name of a corpus that is a file or folder: the file's name without suffixes."""
    return path.resolve().name.split(".")[0] or "text"


def relative_name(root: Path, file: Path) -> str:
    """The name of ``file``'s documents: its path below the corpus folder, or its own name."""
    return file.name if file == root else file.relative_to(root).as_posix()


def input_hash(root: Path, files: list[Path]) -> str:
    """SHA-256 over the names and bytes of the input files, in order.

    Compressed files are hashed as they are, which costs no more than reading them once (about 1 GB/s).
    """
    total = sum(file.stat().st_size for file in files)
    whole = hashlib.sha256()
    with progress(total=total, unit="B", description="hashing input") as bar:
        for file in files:
            one = hashlib.sha256()
            with open(file, "rb") as stream:
                while block := stream.read(_BLOCK_BYTES):
                    one.update(block)
                    bar.update(len(block))
            whole.update(f"{relative_name(root, file)}\0{one.hexdigest()}\n".encode())
    return whole.hexdigest()


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, decompressing ``.gz``, ``.xz`` and ``.zst`` by suffix."""
    if path.suffix == ".gz":
        return io.BufferedReader(cast(io.RawIOBase, gzip.open(path, "rb")), _BLOCK_BYTES)
    if path.suffix == ".xz":
        return io.BufferedReader(cast(io.RawIOBase, lzma.open(path, "rb")), _BLOCK_BYTES)
    if path.suffix == ".zst":
        return io.BufferedReader(_ZstdFile(path), _BLOCK_BYTES)
    return open(path, "rb", buffering=_BLOCK_BYTES)


class _ZstdFile(io.RawIOBase):
    """Consecutive Zstandard frames. Unlike the library's reader, a truncated last frame is an error."""

    def __init__(self, path: Path) -> None:
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError("zstandard", "zstd") from None
        self._new_frame = zstandard.ZstdDecompressor().decompressobj
        self._error = zstandard.ZstdError
        self._file = open(path, "rb", buffering=_BLOCK_BYTES)  # noqa: SIM115 (closed by close)
        self._frame = self._new_frame()
        self._inside = False
        self._ready = b""
        self._input = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            self._input = self._input or self._file.read(_ZSTD_BYTES)
            if not self._input:
                if self._inside:
                    raise EOFError("compressed file ended before the end of a frame")
                return 0
            self._decompress()
        part, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def _decompress(self) -> None:
        try:
            self._ready = self._frame.decompress(self._input)
        except self._error as error:
            raise OSError(str(error)) from None
        self._inside, self._input = True, b""
        if self._frame.eof:
            self._input = self._frame.unused_data
            self._frame, self._inside = self._new_frame(), False

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def read_lines(path: Path, max_bytes: int = MAX_LINE_BYTES) -> Iterator[Line]:
    """The lines of a file, one at a time.

    Raises:
        UserError: the file is missing, truncated or corrupt, or is UTF-16; the message names it.
    """
    with readable(path) as stream:
        yield from _cut_lines(path, stream, max_bytes)


@contextlib.contextmanager
def readable(path: Path) -> Iterator[BinaryIO]:
    """:func:`open_bytes` with read errors that name the file.

    Raises:
        UserError: the file is missing, truncated, or not what its suffix says.
    """
    try:
        with open_bytes(path) as stream:
            yield stream
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: a folder, expected a file") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise UserError(f"{path}: cannot be read ({error}); is the file whole?") from None


def _cut_lines(path: Path, stream: BinaryIO, max_bytes: int) -> Iterator[Line]:
    number = 0
    limit = max_bytes + 2  # a line may end in CR LF
    while raw := stream.readline(limit if number else limit + len(BOM_UTF8)):
        number += 1
        if number == 1:
            if raw.startswith(_UTF16_MARKS):
                raise UserError(f"{path}: UTF-16 text; convert it to UTF-8 (iconv -f utf-16 -t utf-8)")
            raw = raw.removeprefix(BOM_UTF8)
        if raw.endswith(b"\n"):
            raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        elif len(raw) > max_bytes:
            _skip_to_line_end(stream)
        truncated = len(raw) > max_bytes
        if truncated:
            raw = _cut_at_character(raw, max_bytes)
        text, replaced = decode(raw)
        yield Line(number, text, replaced, truncated)


def _skip_to_line_end(stream: BinaryIO) -> None:
    while part := stream.readline(_BLOCK_BYTES):
        if part.endswith(b"\n"):
            return


def _cut_at_character(raw: bytes, max_bytes: int) -> bytes:
    """At most ``max_bytes`` bytes, without splitting a UTF-8 character (continuation bytes are 10xxxxxx)."""
    end = max_bytes
    while end > max_bytes - 4 and raw[end] & 0xC0 == 0x80:
        end -= 1
    return raw[:end]


def decode(raw: bytes) -> tuple[str, bool]:
    """Decode UTF-8 with undecodable bytes and NULs as U+FFFD; also whether there were any."""
    try:
        text, is_clean = raw.decode("utf-8"), b"\0" not in raw
    except UnicodeDecodeError:
        text, is_clean = raw.decode("utf-8", errors="replace"), False
    return (text, False) if is_clean else (text.replace("\0", "\ufffd"), True)


def is_encodable(word: str) -> bool:
    """Whether a word can be written as UTF-8, which excludes lone surrogates."""
    return word.isascii() or not any("\ud800" <= character <= "\udfff" for character in word)


def encodable(word: str) -> str:
    """A word with its lone surrogates replaced."""
    return word.encode("utf-8", "replace").decode("utf-8")
