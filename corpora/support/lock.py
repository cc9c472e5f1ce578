"""One run at a time in a folder."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Iterator
from pathlib import Path

from corpora.support.errors import UserError
from corpora.support.files import LOCK


@contextlib.contextmanager
def locked(folder: Path, *, option: str = "--output", wait: bool = False) -> Iterator[None]:
    """Hold the folder's lock; the operating system frees it however this process ends.

    The lock's file stays in the folder: removing it would let two waiting runs in.

    Args:
        folder: made if it does not exist.
        option: the option that messages tell the user to change.
        wait: wait for another run that holds the lock, instead of refusing.

    Raises:
        UserError: another run holds it, or the folder cannot be written.
        RuntimeError: a worker process has imported the script that started it, whose lock this is.
    """
    from filelock import FileLock, Timeout

    # Python refuses to start processes at this point in the same way, but the worker would not get there: it
    # would wait for its own parent.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(
            "worker processes import the script that starts them: do the work under "
            "`if __name__ == '__main__':`"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK, timeout=-1 if wait else 0)
        lock.acquire()
    except Timeout:
        raise UserError(f"{folder}: another run is writing here; wait for it or stop it") from None
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror}); choose another {option}") from None
    try:
        yield
    finally:
        lock.release()
