"""Worker processes on this machine, one thread each: parse a part of a shard, send its arrays back.

A worker is sent one part at a time and only when idle, so memory is a few shards of text however
long the corpus is. Reading and tokenising go on in a thread of the driver while workers parse. A
worker that dies or fails is replaced and its part tried once more.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from corpora.support.cli import LOGGER
from corpora.support.errors import UserError
from parsing.cache.format import ShardResult
from parsing.pipeline.parse_shard import ShardOptions, parse_shard
from parsing.pipeline.read_ahead import read_ahead
from parsing.pipeline.split import ShardSpec
from parsing.pipeline.workers import (
    Failures,
    LoadedParsers,
    Messages,
    Parsed,
    ParserDescription,
    ParserFactories,
)

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
log = logging.getLogger(LOGGER)


@dataclass(eq=False)
class _Worker:
    process: Any
    pipe: Connection
    spec: ShardSpec | None = None
    ready: bool = False


class LocalPool:
    """Runs shards in ``workers`` spawned processes.

    Args:
        factories: how a worker makes its parsers.
        workers: number of processes, None for one per core.
    """

    def __init__(self, factories: ParserFactories, workers: int | None) -> None:
        self.factories = factories
        self._context = multiprocessing.get_context("spawn")
        self._count = workers or available_cores()
        self._workers: list[_Worker] = []
        self._description: ParserDescription | None = None

    def __enter__(self) -> LocalPool:
        self._workers = [self._start() for _ in range(self._count)]
        return self

    def __exit__(self, *exception: object) -> None:
        for worker in self._workers:
            worker.process.kill()  # what a worker writes is atomic: nothing to wait for
            worker.process.join()
            worker.pipe.close()
        self._workers = []

    def describe(self) -> ParserDescription:
        """Wait until a worker has loaded the parsers."""
        while self._description is None:
            for worker, message in self._events(None):
                self._greet(worker, message)
        return self._description

    def run(self, options: ShardOptions, parts: Iterator[ShardSpec]) -> Generator[Parsed, None, None]:
        """Parse every part (see :class:`parsing.pipeline.workers.WorkerPool`)."""
        failures = Failures()
        again: list[ShardSpec] = []
        with read_ahead(parts) as ahead:
            while True:
                idle = [w for w in self._workers if w.ready and w.spec is None]
                busy = [w for w in self._workers if w.spec is not None]
                while idle and (again or not ahead.at_end):
                    spec = again.pop() if again else ahead.next()
                    if spec is None:
                        break
                    self._send(idle.pop(), spec, options)
                    busy = [w for w in self._workers if w.spec is not None]
                if not busy and not again and ahead.at_end:
                    return
                # A worker is idle and the corpus is slow: look again soon.
                for worker, message in self._events(0.02 if idle and not ahead.at_end else None):
                    if not worker.ready and message is not None:
                        self._greet(worker, message)
                        continue
                    spec = worker.spec
                    result = self._settle(worker, message, failures, again)
                    if spec is not None and result is not None:
                        yield spec, result

    def _settle(
        self, worker: _Worker, message: Any, failures: Failures, again: list[ShardSpec]
    ) -> ShardResult | None:
        """A worker's answer, or its death (None): the result, or the part queued once more."""
        spec, worker.spec = worker.spec, None
        if message is not None:
            kind, value, lines = message
            for line in lines:
                log.warning("%s", line)
            if kind == "result":
                result: ShardResult = value
                return result
            reason = str(value)
        else:
            reason = f"its process ended with exit code {worker.process.exitcode} (-9: killed, memory?)"
            if spec is None and not worker.ready:
                raise RuntimeError(f"a worker could not start: {reason}")
            self._replace(worker)
        if spec is None:  # it died idle: nothing is lost
            return None
        failures.add(spec, reason)
        again.append(spec)
        return None

    def _greet(self, worker: _Worker, message: Any) -> None:
        if message is None:
            code = worker.process.exitcode
            raise RuntimeError(f"a worker ended while it loaded the parsers (exit code {code})")
        kind, value = message[:2]
        if kind == "refused":
            raise UserError(value)
        if kind == "fault":
            raise RuntimeError(f"a worker could not load the parsers: {value}")
        self._description = self._description or value
        worker.ready = True

    def _send(self, worker: _Worker, spec: ShardSpec, options: ShardOptions) -> None:
        worker.spec = spec
        # A worker that has just died is noticed by the next wait, like any other.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            worker.pipe.send((options, spec))

    def _events(self, timeout_s: float | None) -> list[tuple[_Worker, Any]]:
        """Messages that have come, and None for each worker that has ended without one."""
        sources: dict[Any, _Worker] = {w.pipe: w for w in self._workers}
        events = []
        for pipe in wait(list(sources), timeout_s):
            worker = sources[pipe]
            try:
                events.append((worker, worker.pipe.recv()))
            except (EOFError, ConnectionResetError):
                worker.process.join()
                events.append((worker, None))
        return events

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=work, args=(theirs, self.factories), daemon=True)
        with _environment(ONE_THREAD):
            process.start()
        theirs.close()
        return _Worker(process, ours)

    def _replace(self, worker: _Worker) -> None:
        worker.pipe.close()
        self._workers[self._workers.index(worker)] = self._start()


def available_cores() -> int:
    """Cores this process may use (a container may have fewer than the machine)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def work(pipe: Connection, factories: ParserFactories) -> None:
    """A worker's life: load the parsers, then shard after shard until the driver goes away."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's business
    _die_with_parent()
    messages = Messages.install()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            parsers = LoadedParsers.make(factories)
            pipe.send(("hello", parsers.describe()))
        except UserError as error:
            pipe.send(("refused", str(error)))
            return
        except Exception:
            pipe.send(("fault", traceback.format_exc()))
            return
        while True:
            options, spec = pipe.recv()
            pipe.send((*_parse(options, spec, parsers), messages.take()))
            _give_memory_back()


def _parse(options: ShardOptions, spec: ShardSpec, parsers: LoadedParsers) -> tuple[str, Any]:
    try:
        return "result", parse_shard(spec, parsers.dependency, parsers.constituency, options)
    except Exception:
        return "fault", traceback.format_exc()


def _give_memory_back() -> None:
    """Return freed memory to the system: glibc keeps what batches of ever new shapes leave in pieces.

    Milliseconds for a part of a second or two; 70 MB less in a worker after three shards.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _die_with_parent() -> None:
    """Ask Linux to end this process with its parent, even if that is killed."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() == 1:  # it was quicker than we
            os._exit(1)


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables for the processes started inside."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
