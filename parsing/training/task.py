"""What :mod:`parsing.training.loop` trains: the methods that a task has, and how far a run has come."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from corpora.support.errors import UserError
from parsing.training.checkpoints import (
    Checkpoint,
    Checkpoints,
    adam_tensors,
    load_adam,
    load_parameters,
    parameters_of,
)

Batch = TypeVar("Batch")
Row = dict[str, Any]
"""Values of a step or an evaluation by name."""


@dataclass
class Position:
    """How far a run has come; the JSON part of a checkpoint."""

    step: int = 0
    """Steps done."""
    epoch: int = 0
    """Epoch of the next step."""
    within: int = 0
    """Steps of that epoch already done."""
    seconds: float = 0.0
    """Training time, counted over resumptions."""
    best: Row = field(default_factory=dict)
    """The best evaluation's line."""
    sums: dict[str, list[float]] = field(default_factory=dict)
    """Sum and number of each metric since the last evaluation."""
    extra: dict[str, Any] = field(default_factory=dict)
    """JSON values that the caller wants kept."""
    steps: int = 0
    """Steps of the whole run, without a time limit."""
    limit_s: float = 0.0
    """Time limit; 0 is none."""

    @property
    def progress(self) -> float:
        """Fraction of the run that is done, by steps or by the clock, whichever is further."""
        by_clock = self.seconds / self.limit_s if self.limit_s else 0.0
        return min(max(self.step / self.steps if self.steps else 1.0, by_clock), 1.0)


class Task(ABC, Generic[Batch]):
    """What is trained.

    Args:
        module: the network.
        optimiser: of torch's Adam family; its groups may have a ``scale`` of the learning rate.
        metric: the score that is largest for the best weights; without one the newest are the best.
        clip: largest norm of the gradient; 0 is no limit.
        step_seed: torch is seeded from this and the step's number before each step; None leaves its random
            numbers alone.
    """

    def __init__(
        self,
        module: nn.Module,
        optimiser: torch.optim.Optimizer,
        *,
        metric: str = "",
        clip: float = 0.0,
        step_seed: int | None = None,
    ) -> None:
        self.module, self.optimiser = module, optimiser
        self.metric, self.clip, self.step_seed = metric, clip, step_seed
        self._metrics: list[Row] = []

    @abstractmethod
    def batches(self, epoch: int) -> Sequence[Batch]:
        """The batches of an epoch, from its number alone; cheap, for it is called for all epochs at first."""

    @abstractmethod
    def loss(self, batch: Any) -> Tensor:
        """Mean loss of a batch, a scalar to be differentiated."""

    @abstractmethod
    def learning_rate(self, position: Position) -> float:
        """Of the next step."""

    @abstractmethod
    def evaluate(self) -> Mapping[str, float]:
        """Scores on held-out data, the module being in eval mode."""

    def prepared(self, batches: Sequence[Batch]) -> Iterable[Any]:
        """What :meth:`step` gets for each batch, in order."""
        return batches

    def gradients(self, batch: Any) -> Row:
        """Leave the gradients of a batch in the parameters; return its metrics, the loss among them."""
        loss = self.loss(batch)
        torch.autograd.backward(loss)
        return {"loss": loss.item()}

    def step(self, position: Position, batch: Any) -> None:
        """One update of the weights.

        Raises:
            UserError: the loss or the gradient is not finite; the weights are those before the step.
        """
        if self.step_seed is not None:
            torch.manual_seed(self.step_seed * 1_000_003 + position.step)
        self.module.train()
        self.optimiser.zero_grad(set_to_none=True)
        metrics = self.gradients(batch)
        norm = float(nn.utils.clip_grad_norm_(self.module.parameters(), self.clip or math.inf))
        if not all(map(math.isfinite, (norm, *metrics.values()))):
            shown = ", ".join(f"{name} {value}" for name, value in metrics.items())
            raise UserError(
                f"step {position.step}: {shown}, norm of the gradient {norm}; stopped before the update, "
                "start again in another folder with a lower learning rate"
            )
        rate = self.learning_rate(position)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group.get("scale", 1.0)
        self.optimiser.step()
        self._metrics.append(metrics)

    def read(self) -> list[Row]:
        """Metrics of the steps since the last call."""
        metrics, self._metrics = self._metrics, []
        return metrics

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Around :meth:`evaluate` and :meth:`keep_best`."""
        self.module.eval()
        with torch.no_grad():
            yield

    def is_better(self, row: Row, best: Row) -> bool:
        """Whether an evaluation beats the best one before, ``{}`` if there is none."""
        return not self.metric or not best or row[self.metric] > best[self.metric]

    def keep_best(self, bests: Checkpoints, row: Row) -> None:
        """Store the weights, which are the best so far; ``row`` is their evaluation's line."""
        bests.save(row["step"], Checkpoint(self.weights(), {}, {"row": row}))

    def logged(self, row: Row) -> None:
        """A line was written to the log."""

    def weights(self) -> dict[str, Tensor]:
        """What a checkpoint keeps of the module."""
        return parameters_of(self.module)

    def optimiser_state(self) -> dict[str, Tensor]:
        """What else the next step reads."""
        return adam_tensors(self.optimiser, "adam.")

    def load(self, found: Checkpoint) -> None:
        """Take up weights and the optimiser's state."""
        load_parameters(self.module, found.weights)
        load_adam(self.optimiser, found.optimiser, "adam.")


def ramp(part: float, whole: float) -> float:
    """min(part / whole, 1), and 1 where ``whole`` is 0.

    A warm-up over the first w of a run is ``ramp(done, w)``; a linear decay to zero over the rest of a run
    of length r is ``ramp(left, r - w)``.
    """
    return min(part / whole, 1.0) if whole else 1.0


def cosine(part: float) -> float:
    """0.1 + 0.45 (1 + cos(π p)): falls from 1 to 0.1 while ``part`` p of a run goes from 0 to 1."""
    return 0.1 + 0.45 * (1 + math.cos(math.pi * part))
