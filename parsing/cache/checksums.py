"""Whether a shard's file is the one that was written, asked before HDF5 opens it.

HDF5 can loop for ever over a file in which one bit has changed, inside a call that nothing interrupts. So the
manifest lists the size and SHA-256 of every file.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from corpora.support.errors import UserError
from corpora.support.files import read_json, sha256_file
from parsing.cache.format import ShardRow

Check = tuple[Path, int, int, str]
"""Path, size and time of change of a file, and its row."""
_passed: set[Check] = set()
"""What this process need not check again."""


def check_file(path: Path, row: ShardRow) -> Check | None:
    """Check a shard's file against its row.

    Returns:
        What to give :func:`passed` when the rest of the shard is right, too; None if that was done before.

    Raises:
        UserError: missing, or not the file that was written.
    """
    try:
        status = path.stat()
        check = (path.absolute(), status.st_size, status.st_mtime_ns, repr(row))
        if check in _passed:
            return None
        if status.st_size != row.file_bytes:
            raise UserError(
                f"{path}: not a readable shard ({status.st_size:,} bytes, manifest.json lists "
                f"{row.file_bytes:,}); {remedy(path)}"
            )
        if sha256_file(path) != row.file_sha256:
            raise UserError(f"{path}: damaged shard (its SHA-256 is not the one listed); {remedy(path)}")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file, though the manifest lists it; {remedy(path)}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); {remedy(path)}") from None
    return check


def passed(check: Check) -> None:
    """Remember that a shard is right, for as long as file and row do not change."""
    _passed.add(check)


def remedy(path: Path) -> str:
    """The end of a message about a damaged or missing shard: the command that restores it."""
    folder = path.parent
    try:  # parsing.run saves its command
        command = f"{read_json(folder / 'config.json')['command']} --output {shlex.quote(str(folder))}"
    except (UserError, KeyError, TypeError):
        return "make the cache again from where it came"
    return f"run: {command} (it makes only what is missing)"
