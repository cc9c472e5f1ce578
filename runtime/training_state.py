"""The state of a training run, and its checkpoints.

A checkpoint is a folder, such as ``step-00001200/``, with ``weights.safetensors``, ``optimiser.safetensors``
and ``state.json``. The latter holds the position, the random state and the hashes of the other two files. The
folder is written under a temporary name, flushed and renamed, so that a kill or a full disk leaves the
previous checkpoint as the newest.
"""

import contextlib
import logging
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from runtime.cli import LOGGER
from runtime.errors import UserError
from runtime.files import read_record, write_record
from runtime.folders import write_folder

Values = dict[str, Any]
"""The values of a step or an evaluation, by name; a line of the log."""
FILES = ("weights.safetensors", "optimiser.safetensors")
END = ("steps", "limit_s")
"""The fields of a position that a resumed run computes anew: the end of the run."""
log = logging.getLogger(LOGGER)


@dataclass
class Position:
    """The progress of a run: the JSON part of a checkpoint, in which a missing field has its default."""

    step: int = 0
    """Finished steps."""
    epoch: int = 0
    """Finished epochs."""
    within: int = 0
    """Finished steps of the current epoch."""
    seconds: float = 0.0
    """Training time over all resumptions."""
    sentences: int = 0
    """Sentences of the finished steps, of all processes."""
    first: Values = field(default_factory=dict)
    """The scores before the first step."""
    best: Values = field(default_factory=dict)
    """The log line of the best evaluation."""
    waited: int = 0
    """Evaluations since the best one."""
    sums: dict[str, list[float]] = field(default_factory=dict)
    """The sum and the number of the values of each metric since the last evaluation."""
    threads: int = 0
    """Threads that the run began with; 0 is unknown."""
    world: int = 1
    """Processes of the last start."""
    steps: int = 0
    """Steps of the whole run."""
    limit_s: float = 0.0
    """The time limit of the whole run; 0 is none."""

    @property
    def progress(self) -> float:
        """The finished share of the run, from 0 to 1, by steps or by time, whichever is larger."""
        by_steps = self.step / self.steps if self.steps else 1.0
        by_clock = self.seconds / self.limit_s if self.limit_s else 0.0
        return min(max(by_steps, by_clock), 1.0)

    def restore(self, values: Mapping[str, Any]) -> None:
        """Set the fields to saved values, except for those in :data:`END`."""
        for name in values.keys() & self.__dataclass_fields__.keys() - set(END):
            setattr(self, name, values[name])


class Optimiser(Protocol):
    """An optimiser whose state can be saved as named tensors."""

    def tensors(self) -> dict[str, Tensor]:
        """Return the whole state."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`tensors` returned; other names are ignored."""


@dataclass(frozen=True)
class Checkpoint:
    """The stored state of a run: its weights, the other tensors of its state, and JSON values."""

    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    record: dict[str, Any]
    random_state: Tensor | None = None
    """The state of torch's generator of the CPU when the checkpoint was written; uint8."""


class Checkpoints:
    """The newest ``keep`` checkpoints of one run, in a folder."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep

    def write(self, step: int, checkpoint: Checkpoint) -> None:
        """Write a checkpoint; if the disk is full or not writable, raise OSError and keep earlier ones."""
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
                record = {**checkpoint.record, "random_state": random_state}
                write_record(temporary / "state.json", record, FILES)
        except SafetensorError as error:  # raised when the disk is full
            raise OSError(f"{temporary}: {error}") from None

    def prune(self, step: int) -> None:
        """Delete all checkpoints except the last ``keep`` up to a step."""
        # Later ones are damaged, because the run was resumed from an earlier one.
        newest = [path for path in self.folders() if path <= self._path(step)][-self.keep :]
        for path in set(self.folders()) - set(newest):
            shutil.rmtree(path, ignore_errors=True)

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def folders(self) -> list[Path]:
        """Return the checkpoint folders, oldest first."""
        return sorted(self.folder.glob("step-*"))

    def load_newest(self, step: int | None = None) -> Checkpoint | None:
        """Return the newest undamaged checkpoint, or that of a step, or None."""
        for path in reversed(self.folders()) if step is None else [self._path(step)]:
            try:
                record = read_record(path / "state.json", FILES)
                random_state = np.frombuffer(bytes.fromhex(record["random_state"]), dtype=np.uint8)
                weights, optimiser = (load_file(path / name) for name in FILES)
                return Checkpoint(weights, optimiser, record, torch.from_numpy(random_state.copy()))
            except (UserError, OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
                log.warning("checkpoint %s is damaged and skipped (%s)", path, error)
        return None


@dataclass
class TrainingState:
    """A module, its optimiser, and the position of its run.

    If there are ``averages`` of the weights, by the names of the parameters, they are scored and stored as
    the best weights in place of the current ones.
    """

    module: nn.Module
    optimiser: Optimiser
    position: Position
    averages: dict[str, Tensor] = field(default_factory=dict)

    def checkpoint(self, identity: Mapping[str, Any]) -> Checkpoint:
        """Return the checkpoint of the current state, with the values ``identity`` that identify the run."""
        averages = {f"average.{name}": value for name, value in self.averages.items()}
        return Checkpoint(
            dict(self.module.named_parameters()),
            self.optimiser.tensors() | averages,
            {"position": asdict(self.position), "identity": dict(identity)},
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Set module, optimiser, position and averages to those of a checkpoint."""
        self.position.restore(checkpoint.record["position"])
        load_parameters(self.module, checkpoint.weights)
        self.optimiser.load(checkpoint.optimiser)
        for name, average in self.averages.items():
            average.copy_(checkpoint.optimiser[f"average.{name}"])

    @contextlib.contextmanager
    def evaluation(self) -> Iterator[None]:
        """Put the module into eval mode, without gradients and with the averages as its weights."""
        self.module.eval()
        with torch.no_grad():
            if not self.averages:
                yield
                return
            weights = {name: p.detach().clone() for name, p in self.module.named_parameters()}
            load_parameters(self.module, self.averages)
            try:
                yield
            finally:
                load_parameters(self.module, weights)


def load_parameters(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy tensors into the parameters of these names. Raises UserError if names or shapes differ."""
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
    """Return step counts and moments of an optimiser of torch's Adam family as named tensors.

    The names are ``adam.<number of the parameter>.<key>``; named tensors are stored without pickle.
    """
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
