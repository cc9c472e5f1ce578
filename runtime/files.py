"""Atomic files: a file under its final name is complete, even if the process is killed at any moment.

Only regular files are read and written here. A pipe or a device may never end, and a link inside a folder
leads out of it. Of outputs that the user names, :func:`output_file` follows the links.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import multiprocessing
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from runtime.errors import NO_ROOM, UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SEAL = "seal"
"""The key under which a record holds the digest of its other values."""
TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp")
"""Names of the temporary files of :func:`atomic_path`."""
LOCK = ".lock"
"""Name of the lock in a folder that a command owns, see :func:`locked`."""
BLOCK_ROWS = 65_536
"""Rows of an array that are checked at a time."""
ABANDONED_S = 3600
"""In a folder that runs share, a temporary file this old belongs to a run that was killed."""
SYSTEM_FOLDERS = (("/", "proc"), ("/", "sys"), ("/", "dev"))
"""Their files are devices, streams and switches, even where they look like regular files."""


def path_of(value: object, what: str) -> Path:
    """The path that a caller names; it may lead nowhere.

    Raises:
        UserError: it is no path, or none that a file can have; the message names ``what`` it was to be.
    """
    if not isinstance(value, str | os.PathLike):
        raise UserError(f"{what}: a {type(value).__name__} is no path")
    try:
        os.stat(value)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise UserError(f"{what} {os.fspath(value)!r:.80}: {getattr(error, 'strerror', error)}") from None
    return Path(value)


def check_regular(path: Path) -> None:
    """Refuse to read what is no regular file: a pipe or a device may never end.

    Raises:
        UserError: no such file, or something else.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the name
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    if not stat.S_ISREG(mode):
        raise UserError(f"{path}: {'a folder' if stat.S_ISDIR(mode) else 'a pipe or a device'}, not a file")


def output_file(path: Path) -> Path:
    """The regular file that writing to a name of the user's makes or replaces; links to it stay.

    Raises:
        UserError: the name leads to a folder, a pipe or a device, into a file, or nowhere.
    """
    place = Path(path)
    for _ in range(40):  # links, as many as Linux follows
        folder = place.parent.resolve()
        in_system = folder.parts[:2] in SYSTEM_FOLDERS and folder.parts[:3] != ("/", "dev", "shm")
        if not in_system and place.is_symlink():
            place = folder / place.readlink()
        elif in_system or (place.exists() and not place.is_file()) or not _folder_or_none(folder):
            break
        else:
            return place
    raise UserError(
        f"{path}: is not a regular file in a folder, which alone can be replaced; give another name"
    )


def _folder_or_none(path: Path) -> bool:
    """Whether a path is a folder, or one can be made there."""
    return next(above for above in (path, *path.parents) if above.exists()).is_dir()


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

    Raises:
        UserError: ``path`` is a link, a folder, a pipe or a device.
    """
    path = Path(path)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UserError(f"{path}: is not a regular file, which alone can be replaced; move it away")
    path.parent.mkdir(parents=True, exist_ok=True)
    # The start of a name says enough, and a long one stays within the file system's limit.
    fd, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".tmp", dir=path.parent)
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
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in NO_ROOM and error.filename is None:
            # A write to an open file does not say which one.
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def sweep(folder: Path, *, shared: bool = False) -> None:
    """Remove temporary files that killed runs left in ``folder`` and below.

    The folder may be missing. In one that is ``shared`` other runs may be writing now, so only old files go.
    """
    limit = time.time() - ABANDONED_S
    for path in own_files(folder) if folder.exists() else ():
        if TEMPORARY.fullmatch(path.name):
            with contextlib.suppress(OSError):
                if not shared or path.stat().st_mtime < limit:
                    path.unlink()


def own_files(folder: Path) -> Iterator[Path]:
    """The files of an output folder and below, without what other commands have locked.

    Raises:
        UserError: an entry is a link, a pipe or a device, through which a command would write elsewhere.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                # A subfolder with a lock belongs to another command, which may be running.
                yield from () if (path / LOCK).exists() else own_files(path)
            elif entry.is_file(follow_symlinks=False):
                yield path
            else:
                raise UserError(f"{path}: a link, a pipe or a device in an output folder; move it away")


@contextlib.contextmanager
def locked(folder: Path, *, option: str = "--output", wait: bool = False) -> Iterator[None]:
    """Hold the lock of a folder, in which no temporary file of a killed run stays.

    The operating system frees the lock however this process ends. The lock's file stays in the folder:
    removing it would let two waiting runs in. Folders made for it go again if nothing was written, so that a
    refused command leaves nothing behind.

    Args:
        folder: made if it does not exist.
        option: the option that messages tell the user to change.
        wait: wait for another run that holds the lock, instead of refusing.

    Raises:
        UserError: another run holds it, the folder cannot be written, or it holds a link (:func:`own_files`).
        RuntimeError: a worker process has imported the script that started it, whose lock this is.
    """
    from filelock import FileLock, Timeout

    # It would wait for its own parent, so it never reaches the place where Python refuses it in the same way.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError("worker processes import this script: work under `if __name__ == '__main__':`")
    made: list[Path] = []
    try:
        made = [] if wait else [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for _ in own_files(folder):  # before the lock's own file is opened, which may be a link
            pass
        lock = FileLock(folder / LOCK, timeout=-1 if wait else 0)
        lock.acquire()
    except Timeout:
        raise UserError(f"{folder}: another run is writing here; wait for it or stop it") from None
    except OSError as error:
        _tidy(made)
        raise UserError(f"{folder}: cannot be written ({error.strerror}); choose another {option}") from None
    try:
        sweep(folder)
        yield
    finally:
        _tidy(made)
        lock.release()


def _tidy(folders: Sequence[Path]) -> None:
    """Remove the folders, innermost first, that hold nothing or a lock alone."""
    for folder in folders:
        with contextlib.suppress(OSError):
            if os.listdir(folder) == [LOCK]:
                (folder / LOCK).unlink()
            folder.rmdir()


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
        UserError: the file cannot be read or is not JSON that :func:`parse_json` takes; the message names
            file and position.
    """
    check_regular(path)
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    return parse_json(text, where=path)


def parse_json(text: str | bytes, *, where: Path | str) -> Any:
    """Parse JSON as RFC 8259 has it: no NaN, no lone surrogates, about 200 levels and 4,300 digits.

    The standard library's parser ends in a RecursionError, or reads what nothing can write again.

    ``where`` is the file, and the line if it holds more than this, for messages.

    Raises:
        UserError: it is not JSON or beyond a limit; the message names the position.
    """
    from pydantic_core import from_json

    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise UserError(f"{where}: not JSON ({error})") from None


def write_array(path: Path, array: NDArray[np.generic]) -> None:
    """Write a ``.npy`` file atomically; arrays of every shape, no objects.

    Raises:
        OSError: with its number and the file's name. numpy's own writer reports a full disk without either.
    """
    import numpy as np

    with atomic_path(path) as temporary, open(temporary, "wb") as stream:
        # Not the file itself: numpy would write past Python and lose the error.
        np.lib.format.write_array(SimpleNamespace(write=stream.write), array, allow_pickle=False)


def read_array(path: Path, dims: int) -> NDArray[Any]:
    """Map a ``.npy`` file of ``dims`` dimensions into memory, read-only: finite floats in the usual order.

    numpy believes a header whatever it says, and raises errors of any type over some.

    Raises:
        UserError: it is missing or holds something else, such as NaN (its place is named) or too few bytes.
    """
    import numpy as np

    check_regular(path)
    npy, size = np.lib.format, path.stat().st_size
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    try:
        with open(path, "rb") as stream:
            shape, by_columns, dtype = readers[npy.read_magic(stream)](stream)
            start = stream.tell()
        counts = all(type(number) is int and number >= 0 for number in shape)
    except Exception as error:
        raise UserError(f"{path}: no .npy file ({' '.join(repr(error).split()):.200})") from None
    floats = dtype in (np.float16, np.float32, np.float64) and not by_columns
    if not (floats and counts and len(shape) == dims and start + math.prod(shape) * dtype.itemsize == size):
        raise UserError(
            f"{path}: is {shape!r:.200} of {dtype} in {size} bytes, not {dims} dimensions of floats"
        )
    if 0 in shape:  # nothing to map
        return np.zeros(shape, dtype)
    array: NDArray[Any] = np.load(path, mmap_mode="r")
    rows = array.reshape(-1, shape[-1])
    for first in range(0, len(rows), BLOCK_ROWS):
        wrong = ~np.isfinite(rows[first : first + BLOCK_ROWS]).all(axis=1)
        if wrong.any():
            raise UserError(f"{path}: row {first + int(wrong.argmax())} is not finite")
    return array


def write_record(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON object atomically, with the digest of its values as ``seal``."""
    plain = json.loads(json.dumps(values, allow_nan=False))
    write_json(path, {**plain, SEAL: json_digest(plain, 64)})


def read_record(path: Path) -> dict[str, Any]:
    """Read what :func:`write_record` wrote, without the seal.

    Raises:
        UserError: the file is missing, is not JSON, or its values are not those that were written.
    """
    values = read_json(path)
    if not isinstance(values, dict) or SEAL not in values:
        raise UserError(f"{path}: not a record of this program (no {SEAL!r})")
    seal = values.pop(SEAL)
    if seal != json_digest(values, 64):
        raise UserError(f"{path}: damaged: its values do not match its {SEAL}")
    return values


def file_record(path: Path) -> dict[str, Any]:
    """Return size and SHA-256 of a file, for :func:`check_file`."""
    return {"bytes": path.stat().st_size, "sha256": sha256_file(path)}


def check_file(path: Path, bytes: int, sha256: str) -> None:
    """Compare a file with its record.

    Raises:
        UserError: it is missing, or not the file that was recorded.
    """
    check_regular(path)
    if path.stat().st_size != bytes:
        raise UserError(f"{path}: damaged: {path.stat().st_size} bytes, {bytes} were written")
    if sha256_file(path) != sha256:
        raise UserError(f"{path}: damaged: its content does not match its SHA-256")


def json_digest(value: object, length: int) -> str:
    """The first ``length`` hex digits of the SHA-256 of a value as JSON."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def sha256_file(path: Path) -> str:
    """Return the hex SHA-256 of a file's bytes.

    Raises:
        UserError: there is no such file, it is no regular one, or it cannot be read.
    """
    check_regular(path)
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
