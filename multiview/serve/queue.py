"""A bounded queue of requests that worker processes answer, several waiting requests by one call.

Each worker is an executor of the standard library with one process, so a process that dies breaks no other
executor. Its requests are tried once more in another process; if that dies as well, they fail.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

from multiview.serve import worker
from runtime.errors import UserError

log = logging.getLogger("multiview.serve")
ATTEMPTS = 2
"""The number of processes that die over a request before it fails."""


class QueueFullError(Exception):
    """Is raised if so many requests wait that no further one is taken."""


class WorkerDiedError(Exception):
    """Is raised if all processes that tried a request died."""


@dataclass(eq=False)
class QueuedRequest:
    """The items of one request, for one function of :mod:`multiview.serve.worker`."""

    function: Callable[[Sequence[Any]], list[Any]]
    items: Sequence[Any]
    answer: asyncio.Future[list[Any]]
    deadline: float
    """The time of ``time.monotonic`` after which nobody waits for the answer."""
    attempts: int = field(default=0)


class WorkQueue:
    """Hands requests to worker processes.

    Args:
        open_args: the arguments of :func:`multiview.serve.worker.open_models`.
        workers: the number of worker processes.
        max_batch: the number of items that a worker takes at a time, at most, unless one request has more.
        size: the number of requests that may wait.
        timeout: the seconds after which a request fails.
    """

    def __init__(
        self, open_args: tuple[Any, ...], *, workers: int, max_batch: int, size: int, timeout: float
    ):
        self.open_args, self.max_batch, self.size, self.timeout = open_args, max_batch, size, timeout
        self.requests: deque[QueuedRequest] = deque()
        self.arrival = asyncio.Condition()
        self.pools: list[ProcessPoolExecutor | None] = [None] * workers
        self.loops: list[asyncio.Task[None]] = []
        self.fault = ""
        """Why the models cannot be opened; empty while they can."""
        self.digest = ""
        """The beginning of the hash of the model that answers."""
        self.ready_workers, self.deaths = 0, 0
        self.reload_failed = False
        """Whether the last :meth:`reload` failed to open the models, so that the old ones still answer."""
        self.reloading = asyncio.Lock()

    def start(self) -> None:
        """Start the worker processes, which open their models at the same time; until then requests wait."""
        # One thread a process: workers are how this service uses several cores.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        self.loops = [asyncio.create_task(self._serve(number)) for number in range(len(self.pools))]

    async def stop(self) -> None:
        """Wait until no request is left, then end the worker processes."""
        while self.requests:
            await asyncio.sleep(0.02)
        for loop in self.loops:
            loop.cancel()
        await asyncio.gather(*self.loops, return_exceptions=True)
        for pool in self.pools:
            if pool is not None:
                await asyncio.to_thread(pool.shutdown)

    @property
    def is_ready(self) -> bool:
        """Whether all workers have opened their models."""
        return self.ready_workers == len(self.pools)

    async def submit(self, function: Callable[[Sequence[Any]], list[Any]], items: Sequence[Any]) -> list[Any]:
        """Return the function's result for each item.

        Raises :class:`QueueFullError` if too many requests wait, TimeoutError after ``timeout`` seconds, and
        :class:`WorkerDiedError` if :data:`ATTEMPTS` processes died over the items.
        """
        if len(self.requests) >= self.size:
            raise QueueFullError
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        request = QueuedRequest(function, items, answer, time.monotonic() + self.timeout)
        async with self.arrival:
            self.requests.append(request)
            self.arrival.notify()
        try:
            return await asyncio.wait_for(answer, self.timeout)
        finally:  # or requests that timed out would fill the queue while no worker takes any
            if request in self.requests:
                self.requests.remove(request)

    async def reload(self) -> None:
        """Open the models anew in new processes, which replace all old ones at the same time.

        All replace them together so that two models never answer at the same time. Requests that the old
        processes have begun are finished by them. If the models cannot be opened, the old processes stay.
        """
        async with self.reloading:
            log.info("the models are opened anew; the old ones answer meanwhile")
            new: list[ProcessPoolExecutor | None] = [self._new_pool() for _ in self.pools]
            try:
                digests = await asyncio.gather(*(self._digest_of(pool) for pool in new))
                if len(set(digests)) > 1:
                    raise UserError("the folder was exchanged while it was opened")
            except Exception as error:
                log.error("the models cannot be opened; the old ones go on (%s)", error)
                self.reload_failed, leaving = True, new
            else:
                self.reload_failed, self.digest = False, digests[0]
                leaving, self.pools = self.pools, new
                log.info("%d processes have taken over, with model %s", len(digests), self.digest)
            for pool in leaving:
                if pool is not None:
                    pool.shutdown(wait=False)

    async def _digest_of(self, pool: ProcessPoolExecutor | None) -> str:
        """Wait until a process has opened the models, and return the beginning of the model's hash.

        Raises UserError or BrokenProcessPool if the process cannot open them.
        """
        return await asyncio.get_running_loop().run_in_executor(pool, worker.ready)

    def _new_pool(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")  # a fork would copy the server's sockets and threads
        return ProcessPoolExecutor(1, context, initializer=worker.open_models, initargs=self.open_args)

    async def _serve(self, number: int) -> None:
        """Answer requests by one worker process, and replace the process when it dies, until cancelled."""
        while True:
            while self.pools[number] is None:
                await self._open(number)
            self.ready_workers += 1
            try:
                while await self._serve_batch(number):
                    pass
            finally:
                self.ready_workers -= 1

    async def _open(self, number: int) -> None:
        """Try to open the models in a new process, which becomes the worker ``number`` if it can."""
        pool = self._new_pool()
        try:
            digest = await self._digest_of(pool)
        except (BrokenProcessPool, UserError) as error:
            fault = f"the models cannot be opened ({error})"
            if fault != self.fault:
                log.error("%s; this is tried again every second", fault)
            self.fault = fault
            pool.shutdown(wait=False)
            await asyncio.sleep(1)
            return
        self.fault = ""
        if self.pools[number] is None and digest == (self.digest or digest):
            self.pools[number], self.digest = pool, digest
            return
        pool.shutdown(wait=False)
        if self.pools[number] is None:  # the folder was exchanged without a signal
            await self.reload()

    async def _serve_batch(self, number: int, requests: Sequence[QueuedRequest] = ()) -> bool:
        """Answer the next requests by one call of a worker; return False if its process died over them.

        If the call raises an error, each request is tried alone, so that only those that fail are told so.
        """
        requests = requests or await self._next_requests()
        items = [item for request in requests for item in request.items]
        pool = self.pools[number]
        call: Future[list[Any]] | None = None
        try:
            assert pool is not None
            call = pool.submit(requests[0].function, items)
            results = await asyncio.wrap_future(call)
        except BrokenProcessPool:
            self.deaths += 1
            if self.pools[number] is pool:
                self.pools[number] = None
            had_begun = call is not None  # else it died while it had no work
            over = f"over {len(items)} items" if had_begun else "before a request"
            log.warning("process %d of %d died %s", number + 1, len(self.pools), over)
            await self._put_back(requests, attempts=int(had_begun))
            return False
        except Exception as error:
            if len(requests) == 1:
                if not requests[0].answer.done():
                    requests[0].answer.set_exception(error)
                return True
            for place, request in enumerate(requests):
                if not await self._serve_batch(number, [request]):
                    await self._put_back(requests[place + 1 :], attempts=0)
                    return False
            return True
        first = 0
        for request in requests:
            if not request.answer.done():
                request.answer.set_result(results[first : first + len(request.items)])
            first += len(request.items)
        return True

    async def _next_requests(self) -> list[QueuedRequest]:
        """Wait for a request, and return it with other waiting requests for the same function.

        Together they have at most ``max_batch`` items, and at most the share of one worker of all that wait,
        so that the other workers have work as well; the first request is taken whatever its size is.
        """
        waiting = self.requests
        async with self.arrival:
            while True:
                while waiting and (waiting[0].answer.done() or waiting[0].deadline < time.monotonic()):
                    waiting.popleft()  # its client has gone, or was told that it took too long
                if waiting:
                    break
                await self.arrival.wait()
            most = min(self.max_batch, -(-sum(len(each.items) for each in waiting) // len(self.pools)))
            requests = [waiting.popleft()]
            count = len(requests[0].items)
            for request in list(waiting):
                if request.function is requests[0].function and count + len(request.items) <= most:
                    waiting.remove(request)
                    requests.append(request)
                    count += len(request.items)
            return requests

    async def _put_back(self, requests: Sequence[QueuedRequest], attempts: int) -> None:
        """Put requests whose process died back to the front; those tried :data:`ATTEMPTS` times fail.

        ``attempts`` is 0 if the process had not begun them.
        """
        async with self.arrival:
            for request in reversed(requests):
                request.attempts += attempts
                if request.attempts >= ATTEMPTS:
                    if not request.answer.done():
                        request.answer.set_exception(WorkerDiedError())
                elif not request.answer.done():
                    self.requests.appendleft(request)
            self.arrival.notify_all()
