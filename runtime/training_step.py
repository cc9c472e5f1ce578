"""Steps of training: the batches of a run, the metrics of a step, and gradient descent."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from runtime.errors import UserError
from runtime.training_state import Position, Values, adam_tensors, load_adam

AnyJob = TypeVar("AnyJob")
AnyBatch = TypeVar("AnyBatch")


@dataclass(frozen=True)
class Steps(Generic[AnyJob, AnyBatch]):
    """The batches of a run."""

    of_epoch: Callable[[int], Sequence[AnyJob]]
    """Returns the jobs of an epoch, given its number; it is fast, because the loop first counts all jobs."""
    prepare: Callable[[AnyJob], AnyBatch]
    """Makes the batch of a job."""
    ahead: int = 0
    """The number of batches that a thread prepares in advance; 0 prepares each batch when it is needed."""

    def stream(self, jobs: Iterable[AnyJob]) -> Iterator[AnyBatch]:
        """Yield the batches of jobs, in order."""
        if not self.ahead:
            yield from map(self.prepare, jobs)
            return
        remaining = iter(jobs)
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="loader") as pool:
            waiting = [pool.submit(self.prepare, job) for job in islice(remaining, self.ahead)]
            try:
                while waiting:
                    ready = waiting.pop(0).result()
                    waiting += [pool.submit(self.prepare, job) for job in islice(remaining, 1)]
                    yield ready
            finally:
                pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class StepMetrics:
    """The metrics of one step; to read them is to wait for the device."""

    names: Sequence[str]
    values: Tensor
    """float64, one number per name."""
    sentences: int = 0
    """The number of sentences of the step, of all processes, if their rate is to be logged."""


def read_metrics(metrics: Sequence[StepMetrics], last_step: int, option: str) -> list[Values]:
    """Return the metrics of successive steps, the last of which has the number ``last_step``.

    Raises UserError if a value is not finite; such a step must not have changed the weights. The message
    names the ``option`` that sets the folder of the run.
    """
    if not metrics:
        return []
    values = iter(torch.cat([one.values for one in metrics]).tolist())
    rows = [dict(zip(one.names, islice(values, len(one.names)), strict=True)) for one in metrics]
    for step, row in enumerate(rows, last_step - len(rows) + 1):
        refuse_if_not_finite(step, row, f"another {option}")
    return rows


def refuse_if_not_finite(step: int, row: Mapping[str, float], folder: str) -> None:
    """Raise UserError if a metric of a step is not a finite number."""
    bad = [f"{name} {value}" for name, value in row.items() if not math.isfinite(value)]
    if bad:
        raise UserError(
            f"step {step}: {', '.join(bad)}; stopped before the update, start again with {folder} and a "
            "lower learning rate"
        )


class GradientDescent(Generic[AnyBatch]):
    """Updates a module by the gradient of its losses, with an optimiser of torch's Adam family.

    Args:
        module: whose weights the optimiser has.
        optimiser: of torch's Adam family.
        losses: the terms of a batch's loss, scalars by their names in the log, which are added.
        rate: the learning rate of the next step.
        clip: the largest norm of the gradient; 0 is no limit.
        seed: of torch, which is seeded before each step from it and the step's number; with None torch's
            random numbers are left alone.
    """

    def __init__(
        self,
        module: nn.Module,
        optimiser: torch.optim.Optimizer,
        losses: Callable[[Any], Mapping[str, Tensor]],
        rate: Callable[[Position], float],
        *,
        clip: float = 0.0,
        seed: int | None = None,
    ) -> None:
        self.module, self.adam, self.losses, self.rate = module, optimiser, losses, rate
        self.clip, self.seed = clip, seed

    def step(self, position: Position, batch: AnyBatch) -> StepMetrics:
        """Update the weights once, or raise UserError before that if a loss or the gradient is not finite."""
        if self.seed is not None:
            torch.manual_seed(self.seed * 1_000_003 + position.step)
        self.module.train()
        self.adam.zero_grad(set_to_none=True)
        losses = self.losses(batch)
        torch.autograd.backward(list(losses.values()))
        norm = float(nn.utils.clip_grad_norm_(self.module.parameters(), self.clip or math.inf))
        values = {name: loss.item() for name, loss in losses.items()}
        refuse_if_not_finite(position.step + 1, {**values, "norm of the gradient": norm}, "another folder")
        for group in self.adam.param_groups:
            group["lr"] = self.rate(position)
        self.adam.step()
        return StepMetrics([*values], torch.tensor([*values.values()], dtype=torch.float64))

    def tensors(self) -> dict[str, Tensor]:
        """Return Adam's step counts and moments."""
        return adam_tensors(self.adam)

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`tensors` returned; other names are ignored."""
        load_adam(self.adam, tensors)


def ramp(finished: float, total: float) -> float:
    """Return min(finished / total, 1), or 1 if ``total`` is 0.

    A warm-up over the first w steps is ``ramp(finished, w)``; a linear decay to zero over the rest of
    a run of r steps is ``ramp(r - finished, r - w)``.
    """
    return min(finished / total, 1.0) if total else 1.0


def cosine_decay(progress: float) -> float:
    """Return 0.1 + 0.45 (1 + cos(π p)), which falls from 1 to 0.1 as the ``progress`` p rises from 0 to 1."""
    return 0.1 + 0.45 * (1 + math.cos(math.pi * progress))
