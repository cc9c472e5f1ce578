"""Whether a shard's file is the one that was written, asked before HDF5 opens it.

HDF5 can loop for ever over a file in which one bit has changed, inside a call that nothing interrupts. So the
manifest lists the size and SHA-256 of every file. Caches of earlier versions list neither: a process of its
own reads their shards once, and is given up when it does not come to an end.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpora.support.cli import LOGGER
from corpora.support.errors import UserError
from corpora.support.files import read_json, sha256_file
from parsing.cache.format import ShardRow

TRIAL_S = 10
"""How long a trial may read one shard; a whole one takes a few hundredths of a second."""
READY = "ready"
log = logging.getLogger(LOGGER)

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
        if not row.file_sha256:
            raise UserError(f"{path}: damaged shard (a trial to read it failed); {remedy(path)}")
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


def with_checksums(folder: Path, rows: Sequence[ShardRow]) -> list[ShardRow]:
    """The rows of an earlier version's manifest with what they lack.

    Returns:
        A damaged or missing shard's row stays without a checksum, and :func:`check_file` refuses it.
    """
    log.info("%s: an earlier version wrote it without checksums; every shard is read on trial", folder)
    found = _trials([folder / row.file for row in rows])
    return [
        dataclasses.replace(row, file_bytes=size, file_sha256=of_file) if content == row.sha256 else row
        for row, (size, of_file, content) in zip(rows, found, strict=True)
    ]


def _trials(paths: list[Path]) -> Iterator[tuple[int, str, str]]:
    """Size, SHA-256 and content hash of each file, found in another process; empty hashes if it failed."""
    while paths:
        trial = subprocess.run(
            [sys.executable, "-c", "from parsing.cache.trial import main; raise SystemExit(main())"],
            input=json.dumps([str(path) for path in paths]),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        ready, *answers = trial.stdout.splitlines() or [""]
        if ready != READY:
            raise RuntimeError(f"shards could not be tried: {trial.stderr.strip()[-500:]}")
        for answer in answers:
            size, of_file, content = answer.split()
            yield int(size), of_file, content
        if len(answers) < len(paths):
            yield 0, "", ""
        paths = paths[len(answers) + 1 :]


def remedy(path: Path) -> str:
    """The end of a message about a damaged or missing shard: the command that restores it."""
    folder = path.parent
    try:  # parsing.run saves its command
        command = f"{read_json(folder / 'config.json')['command']} --output {shlex.quote(str(folder))}"
    except (UserError, KeyError, TypeError):
        return "make the cache again from where it came"
    return f"run: {command} (it makes only what is missing)"
