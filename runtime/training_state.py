"""The state of a training run, which saves and restores itself, and the folders that it is saved in.

A checkpoint is a folder, ``step-00001200/``, with ``weights.safetensors``, ``optimiser.safetensors`` and the
record of both, ``state.json`` (position, random state). It is written under a temporary name, flushed and
renamed, so a kill or a full disk leaves the previous one as the newest.
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
"""Values of a step or an evaluation, by name; a line of the log."""
FILES = ("weights.safetensors", "optimiser.safetensors")
END = ("steps", "limit_s")
"""Fields of a position that are set anew when a run is resumed."""
log = logging.getLogger(LOGGER)


@dataclass
class Position:
    """How far a run has come; the JSON part of a checkpoint, in which a missing field has its default.

    ``within`` counts the finished steps of this ``epoch``, ``seconds`` the time over all resumptions,
    ``sentences`` those of the finished steps of all processes, ``waited`` the evaluations since the one whose
    line is ``best``. ``first`` has the scores before the first step, ``sums`` sum and number of each metric
    since the last evaluation. The run began with so many ``threads`` (0: it does not say), its last start had
    ``world`` processes; the whole of it has ``steps`` steps, and ``limit_s`` seconds unless that is 0.
    """

    step: int = 0
    epoch: int = 0
    within: int = 0
    seconds: float = 0.0
    sentences: int = 0
    first: Values = field(default_factory=dict)
    best: Values = field(default_factory=dict)
    waited: int = 0
    sums: dict[str, list[float]] = field(default_factory=dict)
    threads: int = 0
    world: int = 1
    steps: int = 0
    limit_s: float = 0.0

    @property
    def progress(self) -> float:
        """The finished part of the run, from 0 to 1, by steps or by the clock, whichever is further."""
        by_steps = self.step / self.steps if self.steps else 1.0
        by_clock = self.seconds / self.limit_s if self.limit_s else 0.0
        return min(max(by_steps, by_clock), 1.0)

    def restore(self, values: Mapping[str, Any]) -> None:
        """Take up saved fields, but not where the run ends."""
        for name in values.keys() & self.__dataclass_fields__.keys() - set(END):
            setattr(self, name, values[name])


class Optimiser(Protocol):
    """The state that a step reads besides the weights, as named tensors."""

    def tensors(self) -> dict[str, Tensor]:
        """Return all state."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`tensors` returned; other names are ignored."""


@dataclass(frozen=True)
class Checkpoint:
    """The stored state of a run: weights, other tensors that the next update reads, and JSON values."""

    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    record: dict[str, Any]


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
                record = {**checkpoint.record, "random_state": random_state}
                write_record(temporary / "state.json", record, FILES)
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
                record = read_record(path / "state.json", FILES)
                random_state = np.frombuffer(bytes.fromhex(record["random_state"]), dtype=np.uint8)
                torch.set_rng_state(torch.from_numpy(random_state.copy()))
                return Checkpoint(load_file(path / FILES[0]), load_file(path / FILES[1]), record)
            except (UserError, OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
                log.warning("checkpoint %s is damaged and skipped (%s)", path, error)
        return None


@dataclass
class TrainingState:
    """A module, what its updates remember, and how far its run is.

    Where there are ``averages`` of the weights, by the parameters' names, these are scored and kept in place
    of the weights.
    """

    module: nn.Module
    optimiser: Optimiser
    position: Position
    averages: dict[str, Tensor] = field(default_factory=dict)

    def checkpoint(self, identity: Mapping[str, Any]) -> Checkpoint:
        """Return all that :meth:`restore` takes up, and the values that tell the run from others."""
        averages = {f"average.{name}": value for name, value in self.averages.items()}
        return Checkpoint(
            dict(self.module.named_parameters()),
            self.optimiser.tensors() | averages,
            {"position": asdict(self.position), "identity": dict(identity)},
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state of a checkpoint."""
        self.position.restore(checkpoint.record["position"])
        load_parameters(self.module, checkpoint.weights)
        self.optimiser.load(checkpoint.optimiser)
        for name, average in self.averages.items():
            average.copy_(checkpoint.optimiser[f"average.{name}"])

    @contextlib.contextmanager
    def evaluation(self) -> Iterator[None]:
        """Put the module into eval mode, without gradients, and averages in place of its weights."""
        self.module.eval()
        with torch.no_grad():
            if not self.averages:
                yield
                return
            weights = {name: p.detach().clone() for name, p in self.module.named_parameters()}
            load_parameters(self.module, self.averages)
            yield
            load_parameters(self.module, weights)


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
