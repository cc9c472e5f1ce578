"""Atomic files: a file under its final name is complete, even if the process is killed at any moment.

Checkpoints, models, parsers and stored vectors have a *record*: a JSON file that holds the size and the
SHA-256 of the files beside it, and a digest of its own values, the seal. :mod:`runtime.folders` replaces all
files of a folder in one step.

Only regular files are read and written, because a pipe or a device may never end, and a link may lead out of
its folder. Links are followed only where the user names an output (:func:`output_file`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import multiprocessing
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from runtime.errors import DISK_FULL, UserError, printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SEAL = "seal"
"""The key under which a record holds the digest of its other values."""
TEMPORARY_NAME = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp")
"""Matches the names of the temporary files of :func:`atomic_path`."""
LOCK = ".lock"
"""The name of the lock in a folder that a command owns; see :func:`lock_folder`."""
BLOCK_ROWS = 65_536
"""The number of rows of an array that are checked at a time."""
STANDARD_OUTPUT = Path("-")
SYSTEM_FOLDERS = (("/", "proc"), ("/", "sys"), ("/", "dev"))
"""Folders of devices and kernel settings, which may look like regular files."""


def path_of(value: object, subject: str) -> Path:
    """Return a value as a path, which need not exist.

    Raises UserError, which begins with ``subject``, if the value is not a path.
    """
    if not isinstance(value, str | os.PathLike):
        raise UserError(f"{subject}: a {type(value).__name__} is no path")
    try:
        os.stat(value)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise UserError(f"{subject} {os.fspath(value)!r:.80}: {getattr(error, 'strerror', error)}") from None
    return Path(value)


def check_regular(path: Path) -> None:
    """Raise UserError if a path is not a regular file, because reading a pipe or a device may never end."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the name
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise UserError(f"{path}: {kind}, not a file")


def is_of_system(folder: Path) -> bool:
    """Tell whether a resolved folder is in :data:`SYSTEM_FOLDERS`, except for shared memory (/dev/shm)."""
    return folder.parts[:2] in SYSTEM_FOLDERS and folder.parts[:3] != ("/", "dev", "shm")


def output_file(path: Path) -> Path:
    """Return the regular file to which the name of an output leads, through links.

    Temporary files that killed runs left beside it are removed. Raises UserError if the name leads to
    anything else.
    """
    refusal = UserError(
        f"{path}: is not a regular file in a folder, which alone can be replaced; give another name"
    )
    file = Path(path)
    if file == STANDARD_OUTPUT or "\0" in str(path):
        raise refusal
    for _ in range(40):  # links, as many as Linux follows
        folder = file.parent.resolve()
        in_system = is_of_system(folder)
        nearest_existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        if not in_system and file.is_symlink():
            file = folder / file.readlink()
        elif in_system or (file.exists() and not file.is_file()) or not nearest_existing.is_dir():
            break
        else:
            _remove_leftovers(file)
            return file
    raise refusal


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files of an output that no writer has locked, because the writer is dead."""
    with contextlib.suppress(OSError):
        for name in os.listdir(path.parent):
            if name.startswith(_temporary_prefix(path)) and TEMPORARY_NAME.fullmatch(name):
                descriptor = os.open(path.parent / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(path.parent / name)
                except BlockingIOError:  # another run is writing it now
                    pass
                finally:
                    os.close(descriptor)


def _temporary_prefix(path: Path) -> str:
    return f".{path.name[:40]}."  # a whole long name would be over the file system's limit


def fsync_path(path: Path) -> None:
    """Flush a file or folder to disk, so that a rename after it survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside ``path``; at the end flush it and rename it to ``path``.

    The temporary file is in the same folder, because ``os.replace`` is atomic only within one file system. On
    an error it is removed, and ``path`` is not changed. Raises UserError if ``path`` is a link, a pipe or a
    device.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UserError(f"{path}: is not a regular file, which alone can be replaced; move it away")
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=_temporary_prefix(path), suffix=".tmp", dir=path.parent)
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # shows that the writer is alive
    umask = os.umask(0)
    os.umask(umask)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp and safetensors make files of mode 0600; the finished file gets the usual mode of the umask.
        os.chmod(temporary, 0o666 & ~umask)
        fsync_path(temporary)
        os.replace(temporary, path)
        fsync_path(path.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in DISK_FULL and error.filename is None:
            # The error of a write to an open file does not have its name.
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    finally:
        os.close(descriptor)


def own_files(folder: Path) -> Iterator[Path]:
    """Yield the files in an output folder and below it, without subfolders that belong to other commands.

    Raises UserError if there is a link, a pipe or a device, through which a command would write elsewhere.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                # A subfolder that has a lock belongs to another command.
                yield from () if (path / LOCK).exists() else own_files(path)
            elif entry.is_file(follow_symlinks=False):
                yield path
            else:
                raise UserError(f"{path}: a link, a pipe or a device in an output folder; move it away")


@contextlib.contextmanager
def lock_folder(folder: Path, *, option: str = "--output", wait: bool = False) -> Iterator[None]:
    """Hold the lock of a folder, and remove the temporary files that a killed run left in it.

    The operating system releases the lock however the process ends. The file of the lock stays in the folder,
    because two waiting runs could get the lock if it were removed. Folders that are made here are removed if
    nothing was written, so that a refused command leaves nothing behind.

    Args:
        folder: the folder, which is made if it does not exist.
        option: the option that messages tell the user to change.
        wait: whether to wait for another run that holds the lock.

    Raises UserError if another run holds the lock and ``wait`` is False, if the folder cannot be written, or,
    at the end, if it was removed or renamed meanwhile.
    """
    from filelock import FileLock, Timeout

    # A script without a main guard would wait here for its own parent process, and never reach the error
    # that Python raises in this case.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError("worker processes import this script: work under `if __name__ == '__main__':`")
    new_folders: list[Path] = []
    try:
        if folder == STANDARD_OUTPUT or "\0" in str(folder):
            raise UserError(f"{printable(str(folder))}: no name of a folder; choose another {option}")
        resolved = folder.resolve()
        if len(resolved.parts) == 1 or is_of_system(resolved):
            raise UserError(f"{folder}: the system's own folder; choose another {option}")
        if not wait:
            new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for _ in own_files(folder):  # before the lock is opened, because it may be a link
            pass
        lock = FileLock(folder / LOCK, timeout=-1 if wait else 0)
        lock.acquire()
        status = os.stat(folder)
    except Timeout:
        raise UserError(f"{folder}: another run is writing here; wait for it or stop it") from None
    except OSError as error:
        _remove_unused(new_folders)
        raise UserError(f"{folder}: cannot be written ({error.strerror}); choose another {option}") from None
    try:
        for path in own_files(folder):
            if TEMPORARY_NAME.fullmatch(path.name):
                path.unlink(missing_ok=True)
        yield
        _check_same_folder(folder, status)
    except OSError:
        _check_same_folder(folder, status)
        raise
    finally:
        _remove_unused(new_folders)
        lock.release()


def _check_same_folder(folder: Path, status: os.stat_result) -> None:
    """Raise UserError if a folder is no longer the one with this ``status``."""
    if not folder.is_dir() or not os.path.samestat(folder.stat(), status):
        raise UserError(
            f"{folder}: was removed or renamed while this run wrote there; if it was renamed, give it its "
            "name again, and start the same command again"
        )


def _remove_unused(folders: Sequence[Path]) -> None:
    """Remove those of the folders, given innermost first, that are empty or have only a lock."""
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
    """Return the content of a JSON file, by the rules of :func:`parse_json`."""
    check_regular(path)
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    return parse_json(text, where=path)


def parse_json(text: str | bytes, *, where: Path | str) -> Any:
    """Parse JSON by RFC 8259: without NaN and lone surrogates, up to about 200 levels and 4,300 digits.

    The parser of the standard library would raise a RecursionError, or accept values that cannot be written
    again. Raises UserError if the text is no such JSON; the message begins with ``where``, the file and
    perhaps its line.
    """
    from pydantic_core import from_json

    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise UserError(f"{where}: not JSON ({error})") from None


def write_array(path: Path, array: NDArray[np.generic]) -> None:
    """Write an array of any shape, but not of objects, to a ``.npy`` file atomically."""
    import numpy as np

    with atomic_path(path) as temporary, open(temporary, "wb") as stream:
        # If numpy wrote to the file itself, the error of a full disk would have no number and no file name.
        np.lib.format.write_array(SimpleNamespace(write=stream.write), array, allow_pickle=False)


def read_array(path: Path, dims: int) -> NDArray[Any]:
    """Map a ``.npy`` file of ``dims`` dimensions into memory, read-only: finite floats in C order.

    numpy itself trusts every header, and raises errors of any type. Raises UserError if the content is
    anything else, such as a NaN, whose row is named, or too few bytes.
    """
    import numpy as np

    check_regular(path)
    size = path.stat().st_size
    try:
        array: Any = np.lib.format.open_memmap(path, mode="r")
        shape, is_whole = array.shape, array.offset + array.nbytes == size
        is_usual = array.dtype in (np.float16, np.float32, np.float64) and array.flags.c_contiguous
    except Exception as error:
        raise UserError(f"{path}: no .npy file ({' '.join(repr(error).split()):.200})") from None
    if not (is_usual and is_whole and len(shape) == dims):
        raise UserError(
            f"{path}: is {shape!r:.200} of {array.dtype} in {size} bytes, not {dims} dimensions of floats"
        )
    rows = array.reshape(-1, shape[-1]) if array.size else array
    for first in range(0, len(rows), BLOCK_ROWS):
        is_wrong = ~np.isfinite(rows[first : first + BLOCK_ROWS]).all(axis=-1)
        if is_wrong.any():
            raise UserError(f"{path}: row {first + int(is_wrong.argmax())} is not finite")
    finite_array: NDArray[Any] = array
    return finite_array


def write_record(path: Path, values: Mapping[str, Any], files: Iterable[str] = ()) -> None:
    """Write values as a JSON object atomically, with their digest as ``seal``.

    The object also has the size and the SHA-256 of ``files`` of the same folder, by name, under the key
    ``files``.
    """
    json_values = json.loads(json.dumps(values, allow_nan=False))
    if hashes := {name: file_record(path.parent / name) for name in files}:
        json_values["files"] = hashes
    write_json(path, {**json_values, SEAL: json_digest(json_values, 64)})


def read_record(path: Path, files: Iterable[str] = ()) -> dict[str, Any]:
    """Return the values that :func:`write_record` wrote, without the seal.

    Raises UserError if a value was changed since, or if one of ``files`` was changed or is not listed.
    """
    return unsealed(read_json(path), path, files)


def unsealed(values: Any, path: Path, files: Iterable[str] = ()) -> dict[str, Any]:
    """Return the values of a record that was parsed, after the checks of :func:`read_record`."""
    if not isinstance(values, dict) or SEAL not in values:
        raise UserError(f"{path}: not a record of this program (no {SEAL!r})")
    seal = values.pop(SEAL)
    if seal != json_digest(values, 64):
        raise UserError(f"{path}: damaged: its values do not match its {SEAL}")
    check_files(path, values.get("files"), files)
    return values


def check_files(path: Path, hashes: Any, files: Iterable[str]) -> None:
    """Raise UserError if a file was changed, or is not in ``hashes``, the value ``files`` of a record."""
    for name in files:
        try:
            size, sha256 = hashes[name]["bytes"], hashes[name]["sha256"]
        except (KeyError, TypeError):
            raise UserError(f"{path}: files: does not list {name}") from None
        file = path.parent / name
        check_regular(file)
        if file.stat().st_size != size:
            raise UserError(f"{file}: damaged: {file.stat().st_size} bytes, {size} were written")
        if sha256_file(file) != sha256:
            raise UserError(f"{file}: damaged: its content does not match its SHA-256")


def file_record(path: Path) -> dict[str, Any]:
    """Return size and SHA-256 of a file, for :func:`check_files`."""
    return {"bytes": path.stat().st_size, "sha256": sha256_file(path)}


def json_digest(value: object, length: int) -> str:
    """Return the first ``length`` hex digits of the SHA-256 of a value as JSON."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def sha256_file(path: Path) -> str:
    """Return the hex SHA-256 of a regular file's bytes."""
    check_regular(path)
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
