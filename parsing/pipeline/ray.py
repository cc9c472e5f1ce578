"""Run ``parse_shard`` on a Ray cluster, one actor per core.

The machines need no common folder, but they need this package installed. Ray is imported here only.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Generator, Iterator
from typing import Any

from corpora.support.cli import LOGGER
from corpora.support.errors import MissingExtraError, UserError, out_of_memory
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
    no_worker_left,
)
from parsing.trees.parsers import DeviceLost

try:
    import ray
    from ray.exceptions import OutOfMemoryError, RayActorError, RayError, RayTaskError
except ImportError:
    raise MissingExtraError("ray", "ray") from None

POLL_S = 0.02
log = logging.getLogger(LOGGER)


class ShardActor:
    """Parsers loaded once in a process of the cluster.

    They are not loaded in ``__init__``, because Ray keeps only the text of an error raised there.
    """

    def __init__(self, factories: ParserFactories) -> None:
        self._factories = factories
        self.messages = Messages.install()

    @functools.cached_property
    def parsers(self) -> LoadedParsers:
        """Loaded on first use."""
        return LoadedParsers.make(self._factories)

    def describe(self) -> ParserDescription:
        """Identities of the parsers, and the names of their ids."""
        return self.parsers.describe()

    def parse(self, spec: ShardSpec, options: ShardOptions) -> tuple[ShardResult, list[str]]:
        """The arrays of a shard and the lines logged meanwhile."""
        result = parse_shard(spec, self.parsers.dependency, self.parsers.constituency, options)
        return result, self.messages.take()


class RayPool:
    """Parses on the actors of a Ray cluster.

    Args:
        factories: how an actor makes its parsers.
        workers: number of actors, None for one per core of the cluster.
        address: of a running cluster (``auto``, ``host:port``); None starts one on this machine.
        gpus_per_worker: GPUs of each actor, perhaps a fraction; 0 for actors on CPUs.
    """

    def __init__(
        self,
        factories: ParserFactories,
        workers: int | None,
        *,
        address: str | None = None,
        gpus_per_worker: float = 0.0,
    ) -> None:
        self._gpus = gpus_per_worker
        self.factories = factories
        self._workers = workers
        self._address = address
        self._actors: list[Any] = []

    def __enter__(self) -> RayPool:
        own: dict[str, Any] = {} if self._address else {"num_cpus": self._workers, "include_dashboard": False}
        try:
            ray.init(address=self._address, log_to_driver=False, **own)
        except Exception as error:  # a start that times out is a plain Exception
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            if self._address is None:
                raise UserError(f"--pool ray: Ray did not start on this machine ({reason})") from None
            raise UserError(f"--address {self._address}: no Ray cluster answers ({reason})") from None
        most = self._most_actors()
        count = min(self._workers or most, most) if self._gpus else self._workers or most
        self._actors = [self._start() for _ in range(count)]
        return self

    def __exit__(self, *exception: object) -> None:
        for actor in self._actors:
            ray.kill(actor)
        ray.shutdown()

    def _most_actors(self) -> int:
        """As many as the cluster has cores, or fractions of a GPU.

        Raises:
            UserError: the cluster has too few GPUs for one actor.
        """
        resources = ray.cluster_resources()
        if not self._gpus:
            return int(resources.get("CPU", 1))
        gpus = resources.get("GPU", 0)
        if gpus < self._gpus:
            ray.shutdown()
            raise UserError(f"--gpus-per-worker {self._gpus:g}: the cluster has {gpus:g} GPUs")
        return int(gpus / self._gpus)

    def _start(self) -> Any:
        # One core each (Ray sets OMP_NUM_THREADS by it). Ray must not restart actors: we count attempts.
        # Of GPUs, Ray shows an actor its own only.
        options: dict[str, Any] = {"num_cpus": 1, "num_gpus": self._gpus}
        remote: Any = ray.remote(**options, max_restarts=0, max_task_retries=0)(ShardActor)
        actor = remote.remote(self.factories)
        actor.describe.remote()  # loads the parsers now, not with the first part
        return actor

    def describe(self) -> ParserDescription:
        """Ask the first actor that has loaded the parsers; the others go on without one that could not."""
        asked = {actor.describe.remote(): actor for actor in self._actors}
        reason = "the cluster has no cores"
        while asked:
            (reference, *_), _ = ray.wait(list(asked))
            actor = asked.pop(reference)
            try:
                description: ParserDescription = ray.get(reference)
            except RayError as error:
                if isinstance(error, RayTaskError) and isinstance(error.cause, UserError):
                    raise error.cause from None
                if not _lacks_memory(error):
                    raise
                reason = str(error).strip().splitlines()[-1]
                log.warning("an actor could not load the parsers (%s)", reason)
                self._actors.remove(actor)
            else:
                return description
        raise no_worker_left(reason)

    def run(self, options: ShardOptions, parts: Iterator[ShardSpec]) -> Generator[Parsed, None, None]:
        """Parse on the cluster (see :class:`parsing.pipeline.workers.WorkerPool`)."""
        idle = list(self._actors)
        running: dict[Any, tuple[Any, ShardSpec]] = {}
        failures = Failures()
        again: list[ShardSpec] = []
        with read_ahead(parts) as ahead:
            while running or again or not ahead.at_end:
                while idle and (again or not ahead.at_end):
                    spec = again.pop() if again else ahead.next()
                    if spec is None:
                        break
                    actor = idle.pop()
                    running[actor.parse.remote(spec, options)] = (actor, spec)
                if not running:  # the corpus is slow
                    time.sleep(POLL_S)
                    continue
                # An actor is idle and the corpus is slow: look again soon.
                wait_s = POLL_S if idle and not ahead.at_end else None
                done, _ = ray.wait(list(running), timeout=wait_s)
                for reference in done:
                    actor, spec = running.pop(reference)
                    try:
                        result, lines = ray.get(reference)
                    except RayError as error:
                        if isinstance(error, RayTaskError) and isinstance(error.cause, DeviceLost):
                            raise error.cause from None
                        reason = str(error).strip().splitlines()[-1]
                        failures.add(spec, reason, is_bug=not _lacks_memory(error))
                        again.append(spec)
                        idle.append(self._replaced(actor) if isinstance(error, RayActorError) else actor)
                        continue
                    idle.append(actor)
                    for line in lines:
                        log.warning("%s", line)
                    yield spec, result

    def _replaced(self, actor: Any) -> Any:
        """A new actor in place of a dead one."""
        self._actors[self._actors.index(actor)] = fresh = self._start()
        return fresh


def _lacks_memory(error: RayError) -> bool:
    """Whether an actor died, or memory ran out in it; other errors are bugs."""
    return isinstance(error, RayActorError | OutOfMemoryError) or out_of_memory(error)
