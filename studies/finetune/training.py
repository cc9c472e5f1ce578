"""Fine-tune towers: heads on sentence vectors, their objectives and scores, and the loop they train in.

The trainers of sentence-transformers and transformers pickle optimiser and random states and do not promise
identical weights after a kill. This loop, on :mod:`runtime.training_loop`, does: step ``s`` seeds torch with
a function of (seed, s) and takes its batch by number from a stream, so its whole state is the weights, Adam's
moments and s. Shapes: B pairs, D tower's width, C classes.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from runtime.cli import LOGGER
from runtime.files import atomic_path
from runtime.training_loop import Loop, Schedule
from runtime.training_task import Position, Row, Task, ramp
from senteval_runner.protocol.correlation import accuracy, pearson
from senteval_runner.towers import Concatenation, Pooling
from senteval_runner.towers.transformer import Tower
from studies.finetune.examples import Draw, Examples, Stream

log = logging.getLogger(LOGGER)
Features = Concatenation | Literal["one", "cosine"]
"""What a head sees: features of a pair of vectors, one vector, or the cosine of two."""
_WIDTH = {"one": 1, "uv": 2, "diff": 1, "prod": 1}
BATCH, SCORE_BATCH = 16, 64
"""Pairs per step of :func:`tune_pairs` (BURT, UNI); examples scored at a time."""


@dataclass(frozen=True)
class Turn:
    """Joins a task's stream of examples, which has its name, and the loss of one batch."""

    stream: Stream
    loss: Callable[[Examples], Tensor]


@dataclass(frozen=True, kw_only=True)
class TuningConfig:
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


class Turns(Task[int]):
    """Tasks that are trained in turn: a batch is the number of its step, a run is one epoch."""

    def __init__(
        self,
        model: nn.Module,
        turns: Sequence[Turn],
        config: TuningConfig,
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

    def after_evaluation(self, row: Row) -> None:
        """Log the scores."""
        values = (f"{key} {value:.4f}" for key, value in _scores(row).items() if isinstance(value, float))
        log.info("%s", "  ".join([f"step {row['step']:>6,}", *values]))


def fit(
    model: nn.Module,
    turns: Sequence[Turn],
    config: TuningConfig,
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
    schedule = Schedule(evaluate_first=True, evaluate_every=evaluate_every or steps)
    names = [task.stream.name for task in turns]
    run = {"cycle": names, "steps": steps, "seed": seed, "threads": torch.get_num_threads()}
    loop = Loop(task, schedule, folder, identity=run)
    if loop.is_resumed:
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


def combine(u_BD: Tensor, v_BD: Tensor, concatenation: Concatenation) -> Tensor:
    """Make features [B, ·D] of pairs: ``uv`` [u; v], ``diff`` |u−v|, ``prod`` u∗v, in this order (BURT)."""
    parts = {"uv": (u_BD, v_BD), "diff": ((u_BD - v_BD).abs(),), "prod": (u_BD * v_BD,)}
    return torch.cat([part for name in concatenation.split("-") for part in parts[name]], dim=-1)


class Head(nn.Module):
    """The head of one task: a linear layer whose initial weights depend on the seed alone, or the cosine.

    ``outputs`` are classes, or one value. One vector is that of a text, or of a pair that is read as one.
    ``pooling`` None is the tower's.
    """

    def __init__(
        self, dim: int, outputs: int, features: Features, seed: int, pooling: Pooling | None = None
    ) -> None:
        super().__init__()
        self.outputs, self.pooling = outputs, pooling
        self.features: Features = features
        if features != "cosine":
            width = sum(_WIDTH[part] for part in features.split("-"))
            self.linear = seeded_linear(width * dim, outputs, seed)

    def forward(self, tower: Tower, examples: Examples) -> Tensor:
        """Compute logits [B, C], or one value per example [B]; both texts of a pair share a forward pass."""
        if self.features == "one":
            texts: Sequence[Any] = examples.first if examples.second is None else examples.pairs
            out: Tensor = self.linear(tower.embed(texts, self.pooling))
        else:
            u_BD, v_BD = tower.embed(examples.texts, self.pooling).split(len(examples))
            if self.features == "cosine":
                return functional.cosine_similarity(u_BD, v_BD)
            out = self.linear(combine(u_BD, v_BD, self.features))
        return out[:, 0] if self.outputs == 1 else out

    def loss(self, tower: Tower, examples: Examples) -> Tensor:
        """Compute the objective.

        Of classes cross-entropy, the mean of −log softmax(logits)[target]; of a cosine the mean of
        (cosine − t)²; of one logit binary cross-entropy, the mean of −t log σ(x) − (1−t) log(1−σ(x)).
        """
        out = self(tower, examples)
        target = torch.from_numpy(examples.target).to(out.device)
        if self.outputs > 1:
            return functional.cross_entropy(out, target)
        if self.features == "cosine":
            return functional.mse_loss(out, target)
        return functional.binary_cross_entropy_with_logits(out, target.float())

    @torch.inference_mode()
    def score(self, tower: Tower, examples: Examples) -> float:
        """Measure accuracy, or the Pearson correlation with graded targets."""
        # Texts of similar length share a batch to save padding; the scores do not depend on it.
        order = np.argsort([len(text) for text in examples.first], kind="stable")
        starts = range(0, len(order), SCORE_BATCH)
        batches = [examples.take(order[start : start + SCORE_BATCH]) for start in starts]
        out = np.concatenate([self(tower, batch).float().cpu().numpy() for batch in batches])
        target = examples.target[order]
        if target.dtype == np.float32:
            return pearson(out, target)
        predicted = out.argmax(axis=1) if self.outputs > 1 else out > 0
        return accuracy(predicted.astype(np.int64), target)


def tune_pairs(
    tower: Tower, draw: Draw, name: str, *, epochs: int, learning_rate: float, seed: int, folder: Path
) -> Head:
    """Train a tower and a new head of two classes on [u; v; |u−v|], 16 pairs a step, as BURT and UNI do.

    The tower's weights move; ``seed`` is that of the head, the order of the pairs and dropout. A state of
    training in ``folder`` is resumed. The head is named ``name``.
    """
    head = Head(tower.dim, 2, "uv-diff", seed).to(next(tower.parameters()).device)
    stream = Stream(draw, BATCH, seed, name)
    fit(
        nn.ModuleDict({"tower": tower, name: head}),
        [Turn(stream, partial(head.loss, tower))],
        TuningConfig(learning_rate=learning_rate),
        steps=epochs * stream.batches_per_pass,
        evaluate=dict,
        seed=seed,
        folder=folder,
    )
    return head


def seeded_linear(inputs: int, outputs: int, seed: int) -> nn.Linear:
    """Make a linear layer whose weights depend on ``seed`` alone; the global generator is not touched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(inputs, outputs)


def save_tuned(tower: Tower, heads: nn.Module, folder: Path, name: str) -> None:
    """Write a tower as a model folder, and the weights of its heads beside it."""
    tower.cpu().save(folder)
    weights = {key: tensor.cpu().contiguous() for key, tensor in heads.state_dict().items()}
    with atomic_path(folder / name) as temporary:
        save_file(weights, temporary)
