"""Runs workers on a Ray cluster, one actor per core or GPU (experimental: never run on a GPU).

This package must be installed on the machines; they need no common folder. Only this module imports Ray.
"""

from collections import Counter
from concurrent.futures import BrokenExecutor, Future
from typing import Any, Self

from parsing.pipeline.driver import MakeParser, Worker
from runtime.errors import UserError, extra
from runtime.pool import Pool

with extra("ray"):
    import ray
    from ray.exceptions import RayTaskError

LOCAL = "local"
"""The address that stands for a cluster of this machine alone, which is started for the run."""


class RayPool(Pool):
    """A pool of actors on a Ray cluster.

    Args:
        make: loads the parsers in an actor.
        workers: the number of actors; None is one per core, or one per GPU.
        address: the cluster's address, or :data:`LOCAL`.
        gpus: the number of GPUs of each actor.
    """

    def __init__(self, make: MakeParser, workers: int | None, *, address: str, gpus: int = 0) -> None:
        self._make, self._workers, self._address, self._gpus = make, workers, address, gpus

    def __enter__(self) -> Self:
        if self._address == LOCAL:
            options: dict[str, Any] = {"num_cpus": self._workers, "include_dashboard": False}
        else:
            options = {"address": self._address}
        try:
            ray.init(log_to_driver=False, **options)
        except Exception as error:  # Ray raises a plain Exception if a start times out
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UserError(f"--ray {self._address}: no Ray cluster answers ({reason})") from None
        resource, unit = ("GPU", "GPUs") if self._gpus else ("CPU", "cores")
        room = int(ray.cluster_resources().get(resource, 0))
        if not room:
            ray.shutdown()
            raise UserError(f"--ray {self._address}: the cluster has no {unit}")
        self.size = min(self._workers or room, room)  # Ray would wait for ever for cores that are not there
        # One core each, by which Ray sets OMP_NUM_THREADS. An actor sees only its own GPUs.
        self._remote: Any = ray.remote(num_cpus=1, num_gpus=self._gpus)(Worker)
        self._actors: list[Any] = [None] * self.size
        self._busy: Counter[int] = Counter()
        self._dead = set(range(self.size))
        for _ in range(self.size):
            self.submit("describe")  # loads the parsers before the first part comes
        return self

    def __exit__(self, *error: object) -> None:
        ray.shutdown()

    def submit(self, method: str, *args: Any) -> Future[Any]:
        """Call a method of the least busy actor; if it dies, the future raises BrokenExecutor."""
        while self._dead:
            self._actors[self._dead.pop()] = self._remote.remote(self._make)
        number = min(range(self.size), key=self._busy.__getitem__)
        actor = self._actors[number]
        answer: Future[Any] = Future()

        def pass_on(result: Future[Any]) -> None:
            self._busy[number] -= 1
            error = result.exception()
            if error is None:
                answer.set_result(result.result())
            elif isinstance(error, RayTaskError):
                answer.set_exception(error.cause)
            else:
                if self._actors[number] is actor:
                    self._dead.add(number)
                reason = str(error).strip() or type(error).__name__
                answer.set_exception(BrokenExecutor(reason.splitlines()[-1]))

        self._busy[number] += 1
        getattr(actor, method).remote(*args).future().add_done_callback(pass_on)
        return answer
