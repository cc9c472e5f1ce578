"""Worker processes on this machine, one thread each: parse a part of a shard, send its arrays back.

A worker gets one part at a time, when it is idle, so only a few shards of text are in memory however long
the corpus is. A thread of the driver reads and tokenises while workers parse. A worker that dies is
replaced; a part whose worker died or failed is tried once more.
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
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from corpora.support.cli import LOGGER
from corpora.support.environment import environment
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


@dataclass(frozen=True, slots=True)
class _Ready:
    description: ParserDescription


@dataclass(frozen=True, slots=True)
class _Refused:
    """The parsers cannot be loaded, and the user can fix that."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Failed:
    reason: str
    lines: list[str] = field(default_factory=list)
    """What was logged."""


@dataclass(frozen=True, slots=True)
class _Done:
    result: ShardResult
    lines: list[str]


Message = _Ready | _Refused | _Failed | _Done
"""What a worker sends."""


@dataclass(eq=False)
class _Worker:
    process: SpawnProcess
    pipe: Connection
    spec: ShardSpec | None = None
    ready: bool = False


class LocalPool:
    """Parses in ``workers`` spawned processes.

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
        self, worker: _Worker, message: Message | None, failures: Failures, again: list[ShardSpec]
    ) -> ShardResult | None:
        """Handle a worker's message, or its death (None): return the result, or queue the part again."""
        spec, worker.spec = worker.spec, None
        if message is not None:
            assert isinstance(message, _Done | _Failed)
            for line in message.lines:
                log.warning("%s", line)
            if isinstance(message, _Done):
                return message.result
            reason = message.reason
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

    def _greet(self, worker: _Worker, message: Message | None) -> None:
        if message is None:
            code = worker.process.exitcode
            raise RuntimeError(f"a worker ended while it loaded the parsers (exit code {code})")
        if isinstance(message, _Refused):
            raise UserError(message.reason)
        if isinstance(message, _Failed):
            raise RuntimeError(f"a worker could not load the parsers: {message.reason}")
        assert isinstance(message, _Ready)
        self._description = self._description or message.description
        worker.ready = True

    def _send(self, worker: _Worker, spec: ShardSpec, options: ShardOptions) -> None:
        worker.spec = spec
        # If the worker has just died, the next wait notices.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            worker.pipe.send((options, spec))

    def _events(self, timeout_s: float | None) -> list[tuple[_Worker, Message | None]]:
        """Messages that have arrived, and None for each worker that has ended."""
        ready = wait([worker.pipe for worker in self._workers], timeout_s)
        events: list[tuple[_Worker, Message | None]] = []
        for worker in [worker for worker in self._workers if worker.pipe in ready]:
            try:
                events.append((worker, worker.pipe.recv()))
            except (EOFError, ConnectionResetError):
                worker.process.join()
                events.append((worker, None))
        return events

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=work, args=(theirs, self.factories), daemon=True)
        with environment(**ONE_THREAD):
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
    """Main function of a worker process: load the parsers, then parse parts until the driver ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C
    _die_with_parent()
    messages = Messages.install()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            parsers = LoadedParsers.make(factories)
            pipe.send(_Ready(parsers.describe()))
        except UserError as error:
            pipe.send(_Refused(str(error)))
            return
        except Exception:
            pipe.send(_Failed(traceback.format_exc()))
            return
        while True:
            options, spec = pipe.recv()
            pipe.send(_parse(options, spec, parsers, messages))
            _give_memory_back()


def _parse(options: ShardOptions, spec: ShardSpec, parsers: LoadedParsers, messages: Messages) -> Message:
    try:
        result = parse_shard(spec, parsers.dependency, parsers.constituency, options)
        return _Done(result, messages.take())
    except Exception:
        return _Failed(traceback.format_exc(), messages.take())


def _give_memory_back() -> None:
    """Return freed memory to the system: glibc keeps the fragments left by batches of changing shapes.

    Takes milliseconds per part and saves a worker 70 MB after three shards.
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
        if os.getppid() == 1:  # the parent had ended before the call
            os._exit(1)
