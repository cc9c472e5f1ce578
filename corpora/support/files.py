"""Atomic files: a file under its final name is complete, even if the process is killed at any moment."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpora.support.errors import UserError

MAX_JSON_BYTES = 512 * 1024 * 1024
"""The largest JSON that is read; published data sets have files of 150 MB, our own are far smaller."""


def fsync_path(path: Path) -> None:
    """Flush a file or folder to disk, so that a rename after it survives a power cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path``; on success flush it and rename it to ``path``.

    The temporary file lies in the same folder because ``os.replace`` is atomic only within
    one file system. On an error it is removed and ``path`` keeps what it held.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(fd)
    umask = os.umask(0)
    os.umask(umask)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp and safetensors make files 0600; a finished one follows the user's umask like any other.
        os.chmod(temporary, 0o666 & ~umask)
        fsync_path(temporary)
        os.replace(temporary, path)
        fsync_path(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically: sorted keys, two-space indent, final newline, no NaN."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON.

    Raises:
        UserError: the file cannot be read, is over :data:`MAX_JSON_BYTES`, or is not JSON that
            :func:`parse_json` takes; the message names file and position.
    """
    path = Path(path)
    try:
        with open(path, "rb") as stream:
            text = stream.read(MAX_JSON_BYTES + 1)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    if len(text) > MAX_JSON_BYTES:
        raise UserError(f"{path}: over {MAX_JSON_BYTES:,} bytes, too large for JSON")
    return parse_json(text, where=path)


def parse_json(text: str | bytes, *, where: Path | str) -> Any:
    """Parse JSON as RFC 8259 has it: no NaN, no lone surrogates, about 200 levels and 4,300 digits.

    The standard library's parser ends in a RecursionError, or reads what nothing can write again.

    Args:
        text: the JSON; bytes are UTF-8.
        where: the file, and the line if it holds more than this, for messages.

    Raises:
        UserError: it is not JSON or beyond a limit; the message names the position.
    """
    from pydantic_core import from_json

    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise UserError(f"{where}: not JSON ({error})") from None


def json_digest(value: object, length: int) -> str:
    """The first ``length`` hex digits of the SHA-256 of a value as JSON."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def sha256_file(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
