"""What :mod:`runtime.training_loop` trains: tasks, the position of a run, and checkpoints.

A checkpoint is a folder, ``step-00001200/``, with ``weights.safetensors``, ``optimiser.safetensors`` and the
record of both, ``state.json`` (position, random state). It is written under a temporary name, flushed and
renamed, so a kill or a full disk leaves the previous one as the newest.
"""

import contextlib
import logging
import math
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from runtime.cli import LOGGER
from runtime.errors import UserError
from runtime.files import read_record, write_record
from runtime.folders import write_folder

AnyBatch = TypeVar("AnyBatch")
Row = dict[str, Any]
"""Values of a step or an evaluation, by name; a line of the log."""
FILES = ("weights.safetensors", "optimiser.safetensors")
log = logging.getLogger(LOGGER)


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs to continue: weights, what else the next update reads, the loop's JSON values."""

    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    state: dict[str, Any]


class Checkpoints:
    """The newest ``keep`` checkpoints of one run, in a folder."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep

    def write(self, step: int, checkpoint: Checkpoint) -> None:
        """Write a checkpoint; an OSError (the disk is full or not writable) leaves earlier ones untouched."""
        temporary = self.folder / f".step-{step:08d}.tmp"
        for leftover in self.folder.glob(".step-*.tmp"):  # from a run that was killed while writing
            shutil.rmtree(leftover)
        try:
            with write_folder(self._path(step), temporary):
                for name, tensors in zip(FILES, (checkpoint.weights, checkpoint.optimiser), strict=True):
                    host_tensors = {
                        key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()
                    }
                    save_file(host_tensors, temporary / name)
                random_state = torch.get_rng_state().numpy().tobytes().hex()
                state = {**checkpoint.state, "random_state": random_state}
                write_record(temporary / "state.json", state, FILES)
        except SafetensorError as error:  # which it raises when the disk is full
            raise OSError(f"{temporary}: {error}") from None

    def prune(self, step: int) -> None:
        """Delete all checkpoints but the last ``keep`` up to a step."""
        # Later ones are damaged, since the run resumed from an earlier one.
        newest = [path for path in self.folders() if path <= self._path(step)][-self.keep :]
        for path in set(self.folders()) - set(newest):
            shutil.rmtree(path, ignore_errors=True)

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def folders(self) -> list[Path]:
        """Return the checkpoint folders, oldest first."""
        return sorted(self.folder.glob("step-*"))

    def load_newest(self, step: int | None = None) -> Checkpoint | None:
        """Load the newest undamaged checkpoint, or that of a step, and its random state."""
        for path in reversed(self.folders()) if step is None else [self._path(step)]:
            try:
                state = read_record(path / "state.json", FILES)
                random_state = np.frombuffer(bytes.fromhex(state["random_state"]), dtype=np.uint8)
                torch.set_rng_state(torch.from_numpy(random_state.copy()))
                return Checkpoint(load_file(path / FILES[0]), load_file(path / FILES[1]), state)
            except (UserError, OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
                log.warning("checkpoint %s is damaged and skipped (%s)", path, error)
        return None


def load_parameters(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy the tensors of an earlier ``dict(module.named_parameters())`` into the parameters."""
    parameters = dict(module.named_parameters())
    mismatches = sorted(tensors.keys() ^ parameters.keys())
    if not mismatches:
        mismatches = [name for name, value in parameters.items() if value.shape != tensors[name].shape]
    if mismatches:
        raise UserError(
            f"the saved state is of another model ({mismatches[0]}); delete its folder to start afresh"
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])


def adam_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return step counts and moments of torch's Adam family by ``adam.<number of the parameter>.<key>``."""
    # By name they can be stored without pickle.
    return {
        f"adam.{number}.{key}": value
        for number, entry in optimiser.state_dict()["state"].items()
        for key, value in entry.items()
    }


def load_adam(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore what :func:`adam_tensors` returned; other names are ignored."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("adam."):
            _, number, key = name.split(".")
            state.setdefault(int(number), {})[key] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


@dataclass
class Position:
    """How far a run has come; the JSON part of a checkpoint.

    ``within`` counts the finished steps of this ``epoch``, ``seconds`` the time over all resumptions,
    ``waited`` the evaluations since the one whose line is ``best``. ``sums`` has sum and number of each
    metric since the last evaluation, ``extra`` has JSON values of the task's. The whole run has ``steps``
    steps, and ``limit_s`` seconds unless that is 0.
    """

    step: int = 0
    epoch: int = 0
    within: int = 0
    seconds: float = 0.0
    best: Row = field(default_factory=dict)
    waited: int = 0
    sums: dict[str, list[float]] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    steps: int = 0
    limit_s: float = 0.0

    @property
    def progress(self) -> float:
        """The finished part of the run, from 0 to 1, by steps or by the clock, whichever is further."""
        by_steps = self.step / self.steps if self.steps else 1.0
        by_clock = self.seconds / self.limit_s if self.limit_s else 0.0
        return min(max(by_steps, by_clock), 1.0)


class Task(ABC, Generic[AnyBatch]):
    """A network that is trained, with an optimiser of torch's Adam family.

    A subclass has the three abstract methods, and either :meth:`loss` or a :meth:`step` of its own, with
    which go :meth:`take_metrics`, :meth:`optimiser_state` and :meth:`load`. It overrides others for reading
    ahead, averaged weights, or another choice of the best model.

    ``metric`` is the score that is largest for the best weights; without one the newest are the best.
    ``clip`` is the largest norm of the gradient; 0 is no limit. torch is seeded before each step from
    ``step_seed`` and the step's number; with None its random numbers are left alone. ``position`` is how far
    the run is, which the loop counts and resumes.
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
        self.position = Position()
        self._metrics: list[Row] = []

    @abstractmethod
    def batches(self, epoch: int) -> Sequence[AnyBatch]:
        """Return the batches of an epoch, from its number alone, fast: the loop first counts all epochs'."""

    def loss(self, batch: Any) -> Tensor:
        """Return the mean loss of a batch, a scalar with a gradient; a task with its own step needs none."""
        raise NotImplementedError

    @abstractmethod
    def learning_rate(self, position: Position) -> float:
        """Return the learning rate of the next step."""

    @abstractmethod
    def evaluate(self) -> Mapping[str, float]:
        """Score the module, which is in eval mode, on held-out data."""

    def prepare_batches(self, batches: Sequence[AnyBatch]) -> Iterable[Any]:
        """Yield the argument of :meth:`step` for each batch, in order."""
        return batches

    def loss_name(self, batch: Any) -> str:
        """Name the loss of a batch for the log."""
        return "loss"

    def step(self, position: Position, batch: Any) -> None:
        """Update the weights once; refuse to do so if the loss or the gradient is not finite."""
        if self.step_seed is not None:
            torch.manual_seed(self.step_seed * 1_000_003 + position.step)
        self.module.train()
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.loss(batch)
        name = self.loss_name(batch)
        torch.autograd.backward(loss)
        value = loss.item()
        norm = float(nn.utils.clip_grad_norm_(self.module.parameters(), self.clip or math.inf))
        if not (math.isfinite(value) and math.isfinite(norm)):
            raise UserError(
                f"step {position.step}: {name} {value}, norm of the gradient {norm}; stopped before the "
                "update, start again in another folder with a lower learning rate"
            )
        rate = self.learning_rate(position)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self._metrics.append({name: value})

    def take_metrics(self) -> list[Row]:
        """Return the metrics of the steps since the last call."""
        metrics, self._metrics = self._metrics, []
        return metrics

    @contextlib.contextmanager
    def evaluation_mode(self) -> Iterator[None]:
        """Put the module into eval mode, without gradients, while it is scored and stored."""
        self.module.eval()
        with torch.no_grad():
            yield

    def is_better(self, row: Row, best: Row) -> bool:
        """Tell whether an evaluation beats the best one before, ``{}`` if there is none."""
        return not self.metric or not best or row[self.metric] > best[self.metric]

    def keep_best(self, best_checkpoints: Checkpoints, row: Row) -> None:
        """Store the weights, which are the best so far; ``row`` is the line of their evaluation."""
        # The best before stay until a checkpoint has this line, since a killed run needs them.
        best_checkpoints.write(
            row["step"], Checkpoint(dict(self.module.named_parameters()), {}, {"row": row})
        )

    def after_evaluation(self, row: Row) -> None:
        """Do what should follow an evaluation, whose line in the log is ``row``."""

    def optimiser_state(self) -> dict[str, Tensor]:
        """Return what the next step reads besides the weights."""
        return adam_tensors(self.optimiser)

    def load(self, checkpoint: Checkpoint) -> None:
        """Load the weights and the optimiser's state."""
        load_parameters(self.module, checkpoint.weights)
        load_adam(self.optimiser, checkpoint.optimiser)


def ramp(part: float, total: float) -> float:
    """Return min(part / total, 1), and 1 where ``total`` is 0.

    A warm-up over the first w steps is ``ramp(finished, w)``; a linear decay to zero over the rest of a run
    of r steps is ``ramp(r - finished, r - w)``.
    """
    return min(part / total, 1.0) if total else 1.0


def cosine(part: float) -> float:
    """Return 0.1 + 0.45 (1 + cos(π p)): from 1 to 0.1 while ``part`` p of a run goes from 0 to 1."""
    return 0.1 + 0.45 * (1 + math.cos(math.pi * part))
