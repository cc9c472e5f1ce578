"""Calls methods of workers, in this process or in worker processes, and returns futures.

A pool is made from the class of its workers and the argument of that class. A worker has a method
``describe``, which loads what the worker needs in its own process. A worker process computes with one thread.
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

from runtime.cli import LOGGER
from runtime.errors import UserError
from runtime.process import available_cores, temporarily

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
ADVICE = "take fewer workers, or free memory"
WorkerClass = Callable[[Any], Any]
"""Makes a worker in its process, from an argument that can be pickled."""
log = logging.getLogger(LOGGER)


class Pool(contextlib.AbstractContextManager["Pool"]):
    """A pool of one worker in this process, which for little work is faster than starting processes."""

    size = 1

    def __init__(self, worker_class: WorkerClass, argument: Any) -> None:
        self._worker = worker_class(argument)

    def __exit__(self, *error: object) -> None: ...

    def submit(self, method: str, *args: Any) -> Future[Any]:
        """Call a method of the worker at once; an error is raised here, not by the future."""
        future: Future[Any] = Future()
        future.set_result(getattr(self._worker, method)(*args))
        return future


class LocalPool(Pool):
    """A pool of spawned processes of one thread each.

    If the system lets no processes share a lock (for example with a read-only /dev/shm), there is one worker,
    in this process.

    Args:
        worker_class: makes a worker.
        arguments: the argument of ``worker_class``, or a list of arguments that the workers take in turn.
        workers: the number of processes; None is one per core.
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
            self._driver_end.close()  # ends the workers at once, even those that are computing
            self._executor.shutdown(cancel_futures=True)

    def submit(self, method: str, *args: Any) -> Future[Any]:
        """Call a method of the next idle worker; if a process has died, all are started anew."""
        if self._executor is None:
            return super().submit(method, *args)
        try:
            return self._executor.submit(_call_worker, method, *args)
        except BrokenExecutor:
            self._start()
            return self._executor.submit(_call_worker, method, *args)

    def _start(self) -> None:
        """Start the processes, each of which loads its worker."""
        context = multiprocessing.get_context("spawn")
        worker_end, self._driver_end = context.Pipe(duplex=False)
        set_up_arguments = (self._worker_class, self._arguments, context.Value("i", 0), worker_end)
        self._executor = ProcessPoolExecutor(self.size, context, _set_up_worker, set_up_arguments)
        # A terminal sends Ctrl-C to all processes. The new ones inherit the mask and never receive it; the
        # driver receives it after the start.
        signal_mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            # A spawned process inherits the variables, which libraries read when they are imported.
            with temporarily(os.environ, ONE_THREAD), _without_absent_script():
                for _ in range(self.size):  # each call starts a process, which loads its worker
                    self._executor.submit(_call_worker, "describe")
        except BaseException as error:
            self.__exit__()
            if isinstance(error, OSError):  # the system does not start another process
                reason = f"{self.size} workers cannot be started ({error.strerror})"
                raise UserError(f"{reason}; {ADVICE}") from None
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)


def _without_absent_script() -> contextlib.AbstractContextManager[Any]:
    """Hide the name of a main script that is no file, such as ``<stdin>``, which workers would try to run."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    is_absent = file is not None and not os.path.exists(file)
    return temporarily(vars(main), {"__file__": None}) if is_absent else contextlib.nullcontext()


_worker: Any
"""The worker of this process, if it is one of a :class:`LocalPool`."""
_computing = threading.Lock()


def _set_up_worker(
    worker_class: WorkerClass, arguments: Sequence[Any], worker_count: Any, worker_end: Connection
) -> None:
    """Make the worker of this process from the next argument; the process ends with its driver or pool."""
    global _worker

    # If the driver is killed, each worker would wait for its next call for ever. Therefore a thread
    # 1. waits until the driver's end of a pipe is closed, by the driver or, if that is dead, by the system;
    # 2. waits for a second if the worker is not computing, because it may be sending its result, and a driver
    #    that is closing its pool would wait for ever for the rest of that result;
    # 3. ends the process at once, because the main thread does not stop computing or waiting.
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
    """Call a method of the worker of this process, with one thread of torch."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    with _computing:
        try:
            return getattr(_worker, method)(*args)
        finally:
            give_memory_back()


def give_memory_back() -> None:
    """Return freed memory to the system; glibc keeps the fragments that batches of different shapes leave."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
