"""Writes arrays that are larger than memory, piece by piece; a run that was killed is continued.

Until all rows are written, they are in ``NAME.part``, and the record ``NAME.part.json`` has the number of
complete rows and the values that decide them. After a kill the same call goes on from there, and the finished
file has the same bytes.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from runtime.errors import UserError
from runtime.files import fsync_path, read_record, write_array, write_record
from runtime.progress import progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PIECE = 8192
"""The number of rows of a piece, the most that a kill can lose."""


def write_rows(
    path: Path, identity: Mapping[str, Any], count: int, rows_of: Callable[[int, int], "NDArray[np.float32]"]
) -> int:
    """Write an array, float32 [count, D], to a ``.npy`` file; return the number of rows computed now.

    Args:
        path: the file.
        identity: JSON values that decide the rows.
        count: the number of rows; up to :data:`PIECE` rows are computed and written at once.
        rows_of: computes the rows from ``first`` to ``stop`` (excluded), converted to float32.
    """
    import numpy as np

    if count <= PIECE:
        write_array(path, np.asarray(rows_of(0, count), np.float32))
        return count
    partial, record_path = (path.with_name(f"{path.name}{end}") for end in (".part", ".part.json"))
    identity = {**identity, "count": count}
    with _opened(partial) as stream:
        done, size = _done(record_path, identity, partial)
        stream.truncate(size)
        stream.seek(size)
        with progress(total=count, initial=done, description=f"write {path.name}") as bar:
            for first in range(done, count, PIECE):
                rows = np.ascontiguousarray(rows_of(first, min(first + PIECE, count)), np.float32)
                if not first:
                    shape = {"descr": "<f4", "fortran_order": False, "shape": (count, rows.shape[1])}
                    np.lib.format.write_array_header_1_0(stream, shape)
                stream.write(rows.tobytes())
                stream.flush()
                os.fsync(stream.fileno())
                write_record(record_path, {**identity, "rows": first + len(rows), "bytes": stream.tell()})
                bar.update(len(rows))
        os.replace(partial, path)
    fsync_path(path.parent)
    record_path.unlink()
    return count - done


@contextlib.contextmanager
def _opened(partial: Path) -> Iterator[IO[bytes]]:
    """Open the partial file and lock it. Raises UserError if another run has the lock."""
    partial.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+b") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{partial}: another run is writing it; wait for it or stop it") from None
        yield stream


def _done(record_path: Path, identity: Mapping[str, Any], partial: Path) -> tuple[int, int]:
    """Return the number of complete rows, and of bytes, of a partial file; (0, 0) for another identity."""
    try:
        record = read_record(record_path)
        rows, size = int(record.pop("rows")), int(record.pop("bytes"))
    except (UserError, LookupError, TypeError, ValueError):
        return 0, 0
    return (rows, size) if record == identity and partial.stat().st_size >= size else (0, 0)


def check_room(path: Path, size: int) -> None:
    """Raise UserError if the disk has less free space than ``size`` bytes."""
    free = shutil.disk_usage(path.parent).free
    if free < size:
        raise UserError(f"{path}: needs {size / 1e9:.1f} GB of disk, and {free / 1e9:.1f} are free there")
