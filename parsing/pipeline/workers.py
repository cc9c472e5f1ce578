"""Where parts of a corpus are parsed: in this process, or in processes that take parts as they are idle.

A pool calls methods of its :class:`Worker` objects and returns futures; that of a cluster is in
:mod:`parsing.pipeline.ray`. Workers have no say in what comes out.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any, Self
from unittest.mock import patch

from corpora.support.cli import LOGGER
from corpora.support.errors import UserError, out_of_memory
from parsing.cache.format import Batch, Inventories
from parsing.text_parser import TextParser

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
SHOWN_FAULTS = 20
"""Faults of one part that the log has; all are flagged."""
FEWER = "take fewer --workers, or free memory; the same command resumes"
MakeParser = Callable[[], TextParser]
"""Loads the parsers where they are to work; it must be picklable for a pool of processes."""
log = logging.getLogger(LOGGER)


@dataclass(frozen=True, slots=True)
class Part:
    """Some sentences of a shard."""

    shard: int
    start: int
    """The first sentence's place in the shard."""
    sentences: list[tuple[str, ...]]
    flags: list[int]
    """Set by the reader of the text."""

    def __str__(self) -> str:
        return f"shard {self.shard}, sentences {self.start} to {self.start + len(self.sentences)}"


class Worker:
    """Parsers that are loaded once, when they are first needed."""

    def __init__(self, make: MakeParser) -> None:
        self._make = make

    @functools.cached_property
    def parser(self) -> TextParser:
        """The parsers."""
        return self._make()

    def describe(self) -> tuple[dict[str, Any], Inventories]:
        """What decides the trees, and the names of their ids."""
        return self.parser.identity, self.parser.inventories

    def parse(self, sentences: Sequence[Sequence[str]], flags: Sequence[int]) -> tuple[Batch, list[str]]:
        """Trees of a part, and the faults to tell the user of."""
        faults: list[str] = []
        return self.parser.arrays(sentences, flags, faults.append), faults[:SHOWN_FAULTS]


class Pool(AbstractContextManager["Pool"]):
    """Parses in this process: for a few sentences that is faster than starting workers."""

    size = 1
    """Workers."""

    def __init__(self, make: MakeParser) -> None:
        self._worker = Worker(make)

    def __exit__(self, *error: object) -> None: ...

    def submit(self, method: str, *args: Any) -> Future[Any]:
        """Call a method of a worker; here at once, and its error is raised."""
        future: Future[Any] = Future()
        future.set_result(getattr(self._worker, method)(*args))
        return future


class LocalPool(Pool):
    """Parses in spawned processes on this machine, one thread each; None is one per core.

    Several ``makes``, one per GPU, are shared evenly by the processes.
    """

    def __init__(self, makes: MakeParser | Sequence[MakeParser], workers: int | None = None) -> None:
        self._makes = [makes] if callable(makes) else list(makes)
        self.size = workers or available_cores()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *error: object) -> None:
        self._executor.shutdown(cancel_futures=True)

    def submit(self, method: str, *args: Any) -> Future[Any]:
        """Call a method of the next idle process's worker; all are started anew once one has died."""
        try:
            return self._executor.submit(_call, method, *args)
        except BrokenExecutor:
            self._start()
            return self._executor.submit(_call, method, *args)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        begin = (self._makes, context.Value("i", 0))
        self._executor = ProcessPoolExecutor(self.size, context, _begin, begin)
        try:
            with patch.dict(os.environ, ONE_THREAD):
                for _ in range(self.size):  # starts a process each, which loads its parsers
                    self._executor.submit(_call, "describe")
        except OSError as error:  # the system refuses another process
            self._executor.shutdown(cancel_futures=True)
            raise UserError(f"{self.size} workers cannot be started ({error.strerror}); {FEWER}") from None


_worker: Worker
"""Of this process, if it is one of a :class:`LocalPool`."""


def _begin(makes: Sequence[MakeParser], started: Any) -> None:
    """Begin a process, which takes its turn among ``makes`` and ends with its parent, however that ends."""
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    with started.get_lock():
        _worker = Worker(makes[started.value % len(makes)])
        started.value += 1


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _call(method: str, *args: Any) -> Any:
    """Call a method of this process's worker."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    try:
        return getattr(_worker, method)(*args)
    finally:
        give_memory_back()


def parse_parts(pool: Pool, parts: Iterator[Part]) -> Iterator[tuple[Part, Batch]]:
    """Trees of every part, in the order in which they are done.

    A part that fails, or whose worker dies, is tried again, then with nothing else at work: there may be no
    memory for two, and it shows which part is at fault. Dead workers are replaced.

    Raises:
        UserError: the corpus could not be read, the device is lost, or a part's workers died or had no memory
            twice.
        RuntimeError: the parsers failed twice on one part.
    """
    running: dict[Future[tuple[Batch, list[str]]], Part] = {}
    again: list[Part] = []
    while True:
        alone = bool(again) and not running
        while (alone or not again) and len(running) < (1 if alone else 2 * pool.size):
            part = again.pop() if alone else next(parts, None)
            if part is None:
                break
            running[pool.submit("parse", part.sentences, part.flags)] = part
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            part = running.pop(future)
            try:
                batch, faults = future.result()
            except UserError:
                raise
            except Exception as error:
                no_memory = isinstance(error, BrokenExecutor) or out_of_memory(error)
                reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                if alone and no_memory:
                    raise UserError(f"{part}: its worker failed twice ({reason}); {FEWER}") from None
                if alone:
                    raise RuntimeError(f"{part}: failed twice") from error
                log.warning("%s: its worker failed (%s); trying again", part, reason)
                again.append(part)
            else:
                for fault in faults:
                    log.warning("%s", fault)
                yield part, batch


def available_cores() -> int:
    """Cores this process may use (a container may have fewer than the machine)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def give_memory_back() -> None:
    """Return freed memory to the system: glibc keeps the fragments left by batches of changing shapes."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
