"""Worker processes on this machine, one thread each: parse a part of a shard, send its arrays back.

A worker gets one part at a time, when it is idle, so only a few shards of text are in memory however long
the corpus is. A thread of the driver reads and tokenises while workers parse. A worker that dies is
replaced; a part whose worker died or failed is tried once more. The others go on without a worker that
could not load the parsers: there may be no memory for it.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import multiprocessing
import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from corpora.support.cli import LOGGER
from corpora.support.environment import environment
from corpora.support.errors import UserError
from parsing.cache.format import ShardResult
from parsing.pipeline.device_worker import DeviceWorker
from parsing.pipeline.parse_shard import ShardOptions
from parsing.pipeline.read_ahead import read_ahead
from parsing.pipeline.split import ShardSpec
from parsing.pipeline.worker import Done, Failed, Message, Ready, Refused, work
from parsing.pipeline.workers import (
    Failures,
    Parsed,
    ParserDescription,
    ParserFactories,
    no_worker_left,
)

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
log = logging.getLogger(LOGGER)


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
        devices: how each device worker makes the parsers that workers then use instead of their own.
    """

    def __init__(
        self,
        factories: ParserFactories,
        workers: int | None,
        *,
        devices: Sequence[ParserFactories] = (),
    ) -> None:
        self.factories = factories
        self.devices = devices
        self._context = multiprocessing.get_context("spawn")
        self._count = workers or available_cores()
        self._workers: list[_Worker] = []
        self._device_workers: list[DeviceWorker] = []
        self._sources: Iterator[ParserFactories] = itertools.repeat(factories)
        """What the next worker makes its parsers from: workers share the devices evenly."""
        self._description: ParserDescription | None = None

    def __enter__(self) -> LocalPool:
        try:
            self._device_workers = [DeviceWorker(self._context, factories) for factories in self.devices]
            if self._device_workers:
                self._sources = itertools.cycle([device.factories for device in self._device_workers])
            for _ in range(self._count):
                self._add()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        for worker in self._workers:
            worker.process.kill()  # what a worker writes is atomic: nothing to wait for
            worker.process.join()
            worker.pipe.close()
        for device in self._device_workers:
            device.process.kill()
            device.process.join()
        self._workers, self._device_workers = [], []

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
                    if not worker.ready:
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
        if isinstance(message, Refused):
            raise UserError(message.reason)
        if message is not None:
            assert isinstance(message, Done | Failed)
            for line in message.lines:
                log.warning("%s", line)
            if isinstance(message, Done):
                return message.result
            reason, is_bug = message.reason, not message.out_of_memory
        else:
            reason, is_bug = _ending(worker), False
            self._forget(worker)
            self._add()
        if spec is None:  # it died idle: nothing is lost
            return None
        failures.add(spec, reason, is_bug=is_bug)
        again.append(spec)
        return None

    def _greet(self, worker: _Worker, message: Message | None) -> None:
        """Handle the first message of a worker, or its death while it loads the parsers (None)."""
        if isinstance(message, Refused):
            raise UserError(message.reason)
        if isinstance(message, Failed) and not message.out_of_memory:
            raise RuntimeError(f"a worker could not load the parsers: {message.reason}")
        if message is None or isinstance(message, Failed):
            reason = _ending(worker) if message is None else message.reason.strip().splitlines()[-1]
            self._forget(worker)
            if not self._workers:
                raise no_worker_left(reason)
            log.warning(
                "a worker could not load the parsers (%s); going on with %d", reason, len(self._workers)
            )
            return
        assert isinstance(message, Ready)
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
        process = self._context.Process(target=work, args=(theirs,), daemon=True)
        with environment(**ONE_THREAD):
            process.start()
        theirs.close()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the next wait notices
            ours.send(next(self._sources))
        return _Worker(process, ours)

    def _add(self) -> None:
        """Start one more worker, or go on without it if the system refuses."""
        try:
            self._workers.append(self._start())
        except OSError as error:
            if not self._workers:
                raise no_worker_left(str(error.strerror)) from None
            log.warning("no more than %d workers (%s)", len(self._workers), error.strerror)

    def _forget(self, worker: _Worker) -> None:
        worker.process.join()
        worker.pipe.close()
        self._workers.remove(worker)


def _ending(worker: _Worker) -> str:
    return f"its process ended with exit code {worker.process.exitcode} (-9: killed, memory?)"


def available_cores() -> int:
    """Cores this process may use (a container may have fewer than the machine)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
