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
from typing import Any, BinaryIO

from corpora.support.errors import UserError
from corpora.support.progress import progress

MAX_LINE_BYTES = 256 * 1024
OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
"""How to open a compressed file, by suffix."""
_BLOCK_BYTES = 1 << 20


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
    """The file itself, or every file below a folder, sorted by relative path; hidden ones left out.

    Args:
        path: a file or a folder.
        suffix: in a folder, keep only files with this suffix, or one of these (before a compression suffix).

    Raises:
        UserError: ``path`` does not exist, a name is not UTF-8, or the folder holds no such file.
    """
    found = [path] if path.is_file() else []
    if path.is_dir():
        found = sorted(path.rglob("*"), key=lambda file: file.relative_to(path).parts)
        found = [file for file in found if file.is_file() and stem(file).endswith(suffix)]
        found = [file for file in found if not any(p.startswith(".") for p in file.relative_to(path).parts)]
        if not found:
            raise UserError(f"{path}: no {suffix}{' ' if suffix else ''}files in this folder")
    if not found:
        raise UserError(f"{path}: no such file or folder")
    for file in found:  # documents are named after files
        if not is_encodable(str(file)):
            raise UserError(f"{os.fsencode(file)!r}: the name is not UTF-8; rename it")
    return found


def stem(path: Path) -> str:
    """The file's name without a compression suffix."""
    return path.name.removesuffix(path.suffix) if path.suffix in OPENERS else path.name


def relative_name(root: Path, file: Path) -> str:
    """The name of ``file``'s documents: its path below the corpus folder, or its own name."""
    return file.name if file == root else file.relative_to(root).as_posix()


def input_hash(root: Path, files: list[Path]) -> str:
    """SHA-256 over the names and bytes of the input files, in order; compressed ones as they are."""
    whole = hashlib.sha256()
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


@contextlib.contextmanager
def readable(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, decompressing ``.gz`` and ``.xz``, with read errors that name the file.

    Raises:
        UserError: the file is missing, truncated, or not what its suffix says.
    """
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as stream:
            yield io.BufferedReader(stream, _BLOCK_BYTES)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: a folder, expected a file") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise UserError(f"{path}: cannot be read ({error}); is the file whole?") from None


def read_lines(path: Path, max_bytes: int = MAX_LINE_BYTES) -> Iterator[Line]:
    """The lines of a file, one at a time.

    Raises:
        UserError: the file is missing, truncated or corrupt, or is UTF-16; the message names it.
    """
    limit = max_bytes + 2  # a line may end in CR LF
    with readable(path) as stream:
        number = 0
        while raw := stream.readline(limit if number else limit + len(BOM_UTF8)):
            number += 1
            if number == 1:
                if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
                    raise UserError(f"{path}: UTF-16 text; convert it to UTF-8 (iconv -f utf-16 -t utf-8)")
                raw = raw.removeprefix(BOM_UTF8)
            if raw.endswith(b"\n"):
                raw = raw.removesuffix(b"\n").removesuffix(b"\r")
            elif len(raw) > max_bytes:  # read on to the end of this line
                while (part := stream.readline(_BLOCK_BYTES)) and not part.endswith(b"\n"):
                    pass
            truncated = len(raw) > max_bytes
            yield Line(number, *decode(_cut(raw, max_bytes) if truncated else raw), truncated)


def _cut(raw: bytes, max_bytes: int) -> bytes:
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
