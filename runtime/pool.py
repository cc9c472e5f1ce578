"""Calls methods of workers, in this process or in processes of its own, and returns futures.

A pool gets the class of its workers and what one is made of. A worker has a method ``describe``, which loads
what it needs where it works; its process computes with one thread.
"""

import contextlib
import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, Self
from unittest.mock import patch

from runtime.cli import LOGGER
from runtime.errors import UserError
from runtime.process import available_cores

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
ADVICE = "take fewer workers, or free memory"
WorkerClass = Callable[[Any], Any]
"""Makes a worker, in the process in which it works, from an argument that can be pickled."""
log = logging.getLogger(LOGGER)


class Pool(contextlib.AbstractContextManager["Pool"]):
    """A pool with one worker, in this process, which for little work is faster than starting processes."""

    size = 1

    def __init__(self, worker_class: WorkerClass, argument: Any) -> None:
        self._worker = worker_class(argument)

    def __exit__(self, *error: object) -> None: ...

    def submit(self, method: str, *args: Any) -> Future[Any]:
        """Call a method of a worker: here at once, so that its error is raised here."""
        future: Future[Any] = Future()
        future.set_result(getattr(self._worker, method)(*args))
        return future


class LocalPool(Pool):
    """A pool of spawned processes of one thread each; ``workers`` of them, or one per core for None.

    Each takes one of the ``arguments``, in turn.
    Where the system lets no processes share a lock (a read-only /dev/shm), this process works alone.
    """

    _executor: ProcessPoolExecutor | None = None

    def __init__(self, worker_class: WorkerClass, arguments: Any, workers: int | None = None) -> None:
        self._arguments = list(arguments) if isinstance(arguments, list | tuple) else [arguments]
        super().__init__(worker_class, self._arguments[0])
        self._worker_class = worker_class
        self.size = workers or available_cores()

    def __enter__(self) -> Self:
        try:
            self._start()
        except (OSError, ImportError) as error:
            log.warning("no processes can be started (%s): this one works alone", error)
            self.size = 1
        return self

    def __exit__(self, *error: object) -> None:
        if self._executor is not None:
            self._driver_end.close()  # ends the workers at once, whatever they still have to do
            self._executor.shutdown(cancel_futures=True)

    def submit(self, method: str, *args: Any) -> Future[Any]:
        """Call a method of the next idle process's worker; all are started anew once one has died."""
        if self._executor is None:
            return super().submit(method, *args)
        try:
            return self._executor.submit(_call_worker, method, *args)
        except BrokenExecutor:
            self._start()
            return self._executor.submit(_call_worker, method, *args)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        worker_end, self._driver_end = context.Pipe(duplex=False)
        set_up_arguments = (self._worker_class, self._arguments, context.Value("i", 0), worker_end)
        self._executor = ProcessPoolExecutor(self.size, context, _set_up_worker, set_up_arguments)
        # A terminal sends Ctrl-C to all; processes that start now never see it, the driver does afterwards.
        signal_mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            # Of the standard library, patch alone sets variables and puts the old ones back.
            with patch.dict(os.environ, ONE_THREAD), _without_absent_script():
                for _ in range(self.size):  # each call starts a process, which loads its worker
                    self._executor.submit(_call_worker, "describe")
        except BaseException as error:
            self.__exit__()
            if isinstance(error, OSError):  # the system refuses another process
                reason = f"{self.size} workers cannot be started ({error.strerror})"
                raise UserError(f"{reason}; {ADVICE}") from None
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)


def _without_absent_script() -> contextlib.AbstractContextManager[Any]:
    """Hide the name ``<stdin>`` of a script on standard input: workers would look for it, and need none."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    is_absent = file is not None and not os.path.exists(file)
    return patch.object(main, "__file__", None) if is_absent else contextlib.nullcontext()


_worker: Any
"""The worker of this process, if it is one of a :class:`LocalPool`."""
_computing = threading.Lock()


def _set_up_worker(
    worker_class: WorkerClass, arguments: Sequence[Any], worker_count: Any, worker_end: Connection
) -> None:
    """Make this process's worker from the next argument; the process ends with its driver or pool."""
    global _worker

    # If the driver is killed, each worker would wait for its next part for ever. So a thread
    # 1. waits until the driver's end of a pipe is closed, by the driver or, once that is dead, by the system;
    # 2. waits a second if the worker is not computing: it may be sending its answer, and a driver that
    #    lives and closes its pool would wait for ever for the rest of half an answer;
    # 3. ends the process at once, since the main thread leaves neither its computation nor its wait.
    def end_with_driver() -> None:
        worker_end.poll(None)
        if not _computing.locked():
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=end_with_driver, daemon=True).start()
    with worker_count.get_lock():
        _worker = worker_class(arguments[worker_count.value % len(arguments)])
        worker_count.value += 1


def _call_worker(method: str, *args: Any) -> Any:
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    with _computing:
        try:
            return getattr(_worker, method)(*args)
        finally:
            give_memory_back()


def give_memory_back() -> None:
    """Return freed memory to the system: glibc keeps the fragments that batches of changing shapes leave."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
