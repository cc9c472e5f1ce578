"""Fine-tuning on :mod:`runtime.training_loop`: alternating tasks, warm-up, best weights on dev.

The trainers of sentence-transformers and transformers pickle optimiser and random states and do not promise
identical weights after a kill. This loop does: step ``s`` seeds torch with a function of (seed, s) and takes
its batch by number from a stream, so its whole state is the weights, Adam's moments and s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from runtime.cli import LOGGER
from runtime.training_loop import Loop, Plan
from runtime.training_task import Position, ramp
from runtime.training_task import Task as LoopTask
from studies.finetune.examples import Examples, Stream

Row = dict[str, Any]
log = logging.getLogger(LOGGER)


@dataclass(frozen=True)
class Task:
    """A stream of examples, named as the task, and the loss of one batch."""

    stream: Stream
    loss: Callable[[Examples], Tensor]


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """How the weights are trained: AdamW, by default as in BURT."""

    learning_rate: float
    """The rate at its peak."""
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-9
    weight_decay: float = 0.0
    """Decoupled decay, per step."""
    warmup: float = 0.1
    """Fraction of all steps in which the rate rises linearly."""
    decay: bool = True
    """Decay the rate linearly to 0 at the last step; otherwise it is constant after the warm-up."""

    def rate(self, step: int, steps: int) -> float:
        """Compute the rate at ``step`` (0-based): peak · (s+1)/w while s < w; then · (S−s)/(S−w), or 1."""
        rising = max(1, round(self.warmup * steps)) if self.warmup > 0 else 0
        falling = ramp(steps - step, steps - rising) if self.decay else 1.0
        return self.learning_rate * ramp(step + 1, rising) * falling


class Turns(LoopTask[int]):
    """Tasks that are trained in turn: a batch is the number of its step, a run is one epoch."""

    def __init__(
        self,
        model: nn.Module,
        turns: Sequence[Task],
        config: LoopConfig,
        steps: int,
        evaluate: Callable[[], Row],
        select: str,
        seed: int,
    ) -> None:
        optimiser = torch.optim.AdamW(
            [parameter for parameter in model.parameters() if parameter.requires_grad],
            betas=config.betas,
            eps=config.epsilon,
            weight_decay=config.weight_decay,
            fused=True,  # 13 ms instead of 93 for MiniLM's 22M weights on one thread
        )
        super().__init__(model, optimiser, metric=select, step_seed=seed)
        self.turns, self.config, self.steps, self.scores = turns, config, steps, evaluate

    def batches(self, epoch: int) -> Sequence[int]:
        """Number the steps."""
        return range(self.steps)

    def loss_name(self, batch: int) -> str:
        """Name the loss after the task of a step."""
        return f"loss/{self.turns[batch % len(self.turns)].stream.name}"

    def loss(self, batch: int) -> Tensor:
        """Compute the loss of a step's task on its next batch, of which earlier steps had the ones before."""
        rounds, place = divmod(batch, len(self.turns))
        task = self.turns[place]
        number = rounds * self.turns.count(task) + self.turns[:place].count(task)
        return task.loss(task.stream.batch(number))

    def learning_rate(self, position: Position) -> float:
        """Take the configured rate."""
        return self.config.rate(position.step, self.steps)

    def evaluate(self) -> Row:
        """Score the weights."""
        return self.scores()

    def is_better(self, row: Row, best: Row) -> bool:
        """Prefer the higher score, where one selects; the weights before the first step are no result."""
        return bool(self.metric) and row["step"] > 0 and super().is_better(row, best)

    def evaluated(self, row: Row) -> None:
        """Log the scores."""
        values = (f"{key} {value:.4f}" for key, value in _scores(row).items() if isinstance(value, float))
        log.info("%s", "  ".join([f"step {row['step']:>6,}", *values]))


def fit(
    model: nn.Module,
    turns: Sequence[Task],
    config: LoopConfig,
    *,
    steps: int,
    evaluate: Callable[[], Row],
    seed: int,
    folder: Path,
    evaluate_every: int = 0,
    select: str = "",
) -> list[Row]:
    """Train ``model`` in place; return one row of scores per evaluation.

    Scores have names and are fractions; ``evaluate`` is called in eval mode without gradients, before the
    first step, every ``evaluate_every`` steps (0: never) and after the last. Step s trains the task
    ``turns[s % len(turns)]``. The weights with the highest score ``select`` are kept, by default the last
    ones. A state found in ``folder`` is resumed. Raises UserError: the loss or gradient is not finite, or the
    saved state belongs to another run; KeyboardInterrupt: stopped by Ctrl-C or SIGTERM, with a state saved.
    """
    task = Turns(model, turns, config, steps, evaluate, select, seed)
    plan = Plan(evaluate_first=True, evaluate_every=evaluate_every or steps)
    names = [task.stream.name for task in turns]
    run = {"cycle": names, "steps": steps, "seed": seed, "threads": torch.get_num_threads()}
    loop = Loop(task, plan, folder, identity=run)
    if loop.resumed:
        log.info("resumed at step %d of %d", loop.position.step, steps)
    if loop.run():
        raise KeyboardInterrupt
    if select:
        loop.load_best()
    model.eval()
    return [_scores(row) for row in loop.history]


def _scores(row: Row) -> Row:
    """Drop from a line of the log what differs between equal runs."""
    return {key: value for key, value in row.items() if key not in ("kind", "epoch", "minutes")}
