"""A bounded queue of requests that worker processes answer, several waiting ones in one call.

Each worker is one process (an executor of the standard library, so that a process that dies breaks that one
alone). Its items are tried once more in another process; the second time the request fails.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

from multiview.serve import worker
from runtime.errors import UserError

log = logging.getLogger("multiview.serve")
ATTEMPTS = 2
"""Processes that may die over the same items before the request fails."""


class QueueFullError(Exception):
    """So many requests wait that no further one is taken."""


class WorkerDiedError(Exception):
    """The processes that had a request died."""


@dataclass
class QueuedRequest:
    """The items of one request, for one function of :mod:`multiview.serve.worker`."""

    function: Callable[[Sequence[Any]], list[Any]]
    items: Sequence[Any]
    answer: asyncio.Future[list[Any]]
    deadline: float
    """The time of ``time.monotonic`` after which nobody waits for the answer."""
    attempts: int = field(default=0)


class WorkQueue:
    """Hands requests to worker processes; ``open_args`` are the arguments of their ``open_models``."""

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
        """Whether the models could not be opened when that was asked for last; the old ones answer."""
        self.reloading = asyncio.Lock()

    def start(self) -> None:
        """Start the processes; they open their models side by side, and requests wait meanwhile."""
        # One thread a process: workers are how this service uses several cores.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        self.loops = [asyncio.create_task(self._serve(number)) for number in range(len(self.pools))]

    async def stop(self) -> None:
        """Stop when no request is left, and end the processes."""
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
        """Return the function's results for the items, one each.

        A :class:`QueueFullError` where too many wait, a TimeoutError after ``timeout`` seconds, a
        :class:`WorkerDiedError` after ``ATTEMPTS`` processes died over the items.
        """
        if len(self.requests) >= self.size:
            raise QueueFullError
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        async with self.arrival:
            self.requests.append(QueuedRequest(function, items, answer, time.monotonic() + self.timeout))
            self.arrival.notify()
        return await asyncio.wait_for(answer, self.timeout)

    async def reload(self) -> None:
        """Open the models anew in as many new processes, which take over together.

        So no two models answer at a time. What is being computed ends with the old ones, and they go on where
        the new ones cannot be opened.
        """
        async with self.reloading:
            log.info("the models are opened anew; the old ones answer meanwhile")
            new: list[ProcessPoolExecutor | None] = [self._new_pool() for _ in self.pools]
            try:
                digests = await asyncio.gather(*(self._digest_of(pool) for pool in new))
                if len(set(digests)) > 1:
                    raise UserError("the folder was exchanged while it was opened")
            except (BrokenProcessPool, UserError) as error:
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
        """Wait until a process has opened the models; a UserError, or its death, says that it cannot."""
        return await asyncio.get_running_loop().run_in_executor(pool, worker.ready)

    def _new_pool(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")  # a fork would copy the server's sockets and threads
        return ProcessPoolExecutor(1, context, initializer=worker.open_models, initargs=self.open_args)

    async def _serve(self, number: int) -> None:
        """Answer requests by one worker process, for ever."""
        while True:
            while self.pools[number] is None:
                await self._open(number)
            self.ready_workers += 1
            try:
                while await self._answer(number):
                    pass
            finally:
                self.ready_workers -= 1

    async def _open(self, number: int) -> None:
        """Try to open the models in a new process."""
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

    async def _answer(self, number: int) -> bool:
        """Answer the next requests; return False if the process died over them."""
        requests = await self._next_requests()
        items = [item for request in requests for item in request.items]
        pool = self.pools[number]
        try:
            results = await asyncio.get_running_loop().run_in_executor(pool, requests[0].function, items)
        except BrokenProcessPool:
            self.deaths += 1
            if self.pools[number] is pool:
                self.pools[number] = None
            log.warning("process %d of %d died over %d items", number + 1, len(self.pools), len(items))
            await self._put_back(requests)
            return False
        except asyncio.CancelledError:
            raise
        except Exception as error:
            for request in requests:
                if not request.answer.done():
                    request.answer.set_exception(error)
            return True
        first = 0
        for request in requests:
            if not request.answer.done():
                request.answer.set_result(results[first : first + len(request.items)])
            first += len(request.items)
        return True

    async def _next_requests(self) -> list[QueuedRequest]:
        """Wait for a request, and take others for the same function with it, up to ``max_batch`` items.

        No worker takes more than its share of what waits, so that the others have work as well.
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

    async def _put_back(self, requests: Sequence[QueuedRequest]) -> None:
        """Queue requests whose process died again, first; one that has killed too many processes fails."""
        async with self.arrival:
            for request in reversed(requests):
                request.attempts += 1
                if request.attempts >= ATTEMPTS:
                    if not request.answer.done():
                        request.answer.set_exception(WorkerDiedError())
                else:
                    self.requests.appendleft(request)
            self.arrival.notify_all()
