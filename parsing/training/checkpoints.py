"""Checkpoints of every training loop: written whole or not at all, only the newest few kept.

``step-00001200/`` holds ``weights.safetensors``, ``optimiser.safetensors`` and ``state.json``
(position, random state, versions, SHA-256 of the two files, under a seal of its own). A checkpoint is
written under a temporary name, flushed and renamed, so a kill or a full disk leaves the previous one as the
newest.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from corpora.support.cli import LOGGER
from corpora.support.errors import UserError
from corpora.support.files import fsync_path, read_record, sha256_file, write_record

log = logging.getLogger(LOGGER)

FORMAT = 2
_FILES = ("weights.safetensors", "optimiser.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to continue."""

    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    """Whatever the next update reads besides the weights: Adam's moments, averages of the weights."""
    state: dict[str, Any]
    """The loop's own JSON values; random state and versions are added when they are written."""


def versions() -> dict[str, str]:
    """Versions that bit-identical resumption depends on."""
    return {"torch": torch.__version__, "numpy": np.__version__}


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: holds one folder per checkpoint.
        keep: how many to keep.
    """

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self.keep = keep

    def save(self, step: int, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint, then delete all but the last ``keep`` up to it.

        Later ones are deleted too: the run resumed from an earlier one, so they are damaged.

        Raises:
            OSError: the disk is full or not writable; earlier checkpoints are untouched.
        """
        final = self.folder / f"step-{step:08d}"
        temporary = self.folder / f".step-{step:08d}.tmp"
        for left in self.folder.glob(".step-*.tmp"):  # from a run that was killed while writing
            shutil.rmtree(left)
        try:
            temporary.mkdir(parents=True)
            for name, tensors in zip(_FILES, (checkpoint.weights, checkpoint.optimiser), strict=True):
                _save_tensors(temporary / name, tensors)
            hashes = {name: sha256_file(temporary / name) for name in _FILES}
            random_state = torch.get_rng_state().numpy().tobytes().hex()
            extra = {"format": FORMAT, "sha256": hashes, "random_state": random_state, "versions": versions()}
            write_record(temporary / "state.json", {**checkpoint.state, **extra})
            for name in _FILES:
                fsync_path(temporary / name)
            fsync_path(temporary)
            shutil.rmtree(final, ignore_errors=True)
            os.replace(temporary, final)
            fsync_path(self.folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        kept = [path for path in self.listed() if path <= final][-self.keep :]
        for path in set(self.listed()) - set(kept):
            shutil.rmtree(path, ignore_errors=True)
        return final

    def listed(self) -> list[Path]:
        """Checkpoint folders, oldest first."""
        return sorted(self.folder.glob("step-*"))

    def newest(self) -> Checkpoint | None:
        """The newest whole checkpoint, or None; damaged ones are skipped with a warning."""
        for path in reversed(self.listed()):
            try:
                return self._load(path)
            except (UserError, OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
                log.warning("checkpoint %s is damaged and skipped (%s)", path, error)
        return None

    def _load(self, path: Path) -> Checkpoint:
        state = read_record(path / "state.json")
        if state["format"] != FORMAT:
            raise UserError(f"{path}: checkpoint format {state['format']}, this program reads {FORMAT}")
        for name in _FILES:
            if sha256_file(path / name) != state["sha256"][name]:
                raise UserError(f"{path / name}: content does not match its SHA-256")
        if state["versions"] != versions():
            log.warning(
                "%s was written by %s, this is %s: the resumed run may differ in the last bits",
                path,
                state["versions"],
                versions(),
            )
        random_state = np.frombuffer(bytes.fromhex(state["random_state"]), dtype=np.uint8)
        torch.set_rng_state(torch.from_numpy(random_state.copy()))
        return Checkpoint(load_file(path / _FILES[0]), load_file(path / _FILES[1]), state)


def _save_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Save as safetensors (the mapping may be empty); disk errors are raised as OSError."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(whole, path)
    except SafetensorError as error:
        raise OSError(f"{path}: {error}") from None


def check_same_run(folder: Path, saved: Mapping[str, object], wanted: Mapping[str, object]) -> None:
    """Refuse to continue from the checkpoint of another run.

    Args:
        folder: the checkpoint's folder, for the message.
        saved: the values that determine the run, from the checkpoint.
        wanted: those of this run.

    Raises:
        UserError: names the first value that differs.
    """
    for key in sorted(saved.keys() | wanted.keys()):
        if saved.get(key) != wanted.get(key):
            raise UserError(
                f"{folder}: was made with {key}={saved.get(key)!r}, not {wanted.get(key)!r}; "
                "give another --output or delete the folder"
            )


def parameters_of(module: nn.Module) -> dict[str, Tensor]:
    """Trainable and frozen parameters by name; a parameter that layers share appears once."""
    return dict(module.named_parameters())


def load_parameters(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy what :func:`parameters_of` returned into the parameters, in place.

    Raises:
        UserError: a name or a shape differs.
    """
    own = parameters_of(module)
    odd = sorted(tensors.keys() ^ own.keys())
    odd += [name for name in own if not odd and own[name].shape != tensors[name].shape]
    if odd:
        raise UserError(f"the saved state is of another model ({odd[0]}); delete its folder to start afresh")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(tensors[name])


def adam_tensors(optimiser: torch.optim.Optimizer, prefix: str = "") -> dict[str, Tensor]:
    """Step counts and moments of every parameter that was ever updated.

    Args:
        optimiser: any of torch's Adam family.
        prefix: put before each name.

    Returns:
        Tensors by ``<prefix><number of the parameter>.<what>``; the moments have the parameter's shape.
    """
    return {
        f"{prefix}{number}.{what}": value
        for number, entry in optimiser.state_dict()["state"].items()
        for what, value in entry.items()
    }


def load_adam(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor], prefix: str = "") -> None:
    """Restore what :func:`adam_tensors` returned; names without the prefix are ignored."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith(prefix):
            number, what = name.removeprefix(prefix).split(".")
            state.setdefault(int(number), {})[what] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
