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
FILES = ("weights.safetensors", "optimiser.safetensors")
VERSIONS = {"torch": torch.__version__, "numpy": np.__version__}
"""What bit-identical resumption depends on."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to continue."""

    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    """Whatever the next update reads besides the weights: Adam's moments, averages of the weights."""
    state: dict[str, Any]
    """The loop's own JSON values; random state and versions are added when they are written."""


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
            for name, tensors in zip(FILES, (checkpoint.weights, checkpoint.optimiser), strict=True):
                whole = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
                save_file(whole, temporary / name)
                fsync_path(temporary / name)
            hashes = {name: sha256_file(temporary / name) for name in FILES}
            random_state = torch.get_rng_state().numpy().tobytes().hex()
            extra = {"format": FORMAT, "sha256": hashes, "random_state": random_state, "versions": VERSIONS}
            write_record(temporary / "state.json", {**checkpoint.state, **extra})
            fsync_path(temporary)
            shutil.rmtree(final, ignore_errors=True)
            os.replace(temporary, final)
            fsync_path(self.folder)
        except SafetensorError as error:  # its name for a full disk
            raise OSError(f"{temporary}: {error}") from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        kept = [path for path in self.listed() if path <= final][-self.keep :]
        for path in set(self.listed()) - set(kept):
            shutil.rmtree(path, ignore_errors=True)
        return final

    def listed(self) -> list[Path]:
        """Checkpoint folders, oldest first."""
        return sorted(self.folder.glob("step-*"))

    def newest(self) -> Checkpoint | None:
        """The newest whole checkpoint, or None; damaged ones are skipped with a warning.

        torch's random state becomes that of the checkpoint.
        """
        for path in reversed(self.listed()):
            try:
                state = read_record(path / "state.json")
                hashes = {name: sha256_file(path / name) for name in FILES}
                if state["format"] != FORMAT or state["sha256"] != hashes:
                    raise UserError("another format, or content that does not match its SHA-256")
                random_state = np.frombuffer(bytes.fromhex(state["random_state"]), dtype=np.uint8)
                torch.set_rng_state(torch.from_numpy(random_state.copy()))
                found = Checkpoint(load_file(path / FILES[0]), load_file(path / FILES[1]), state)
            except (UserError, OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
                log.warning("checkpoint %s is damaged and skipped (%s)", path, error)
                continue
            if state["versions"] != VERSIONS:
                message = "%s was written by %s, this is %s: the resumed run may differ in the last bits"
                log.warning(message, path, state["versions"], VERSIONS)
            return found
        return None


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


def adam_tensors(optimiser: torch.optim.Optimizer, prefix: str) -> dict[str, Tensor]:
    """Step counts and moments of torch's Adam family, so that they can be stored without pickle.

    Returns:
        Tensors by ``<prefix><number of the parameter>.<what>``; the moments have the parameter's shape.
    """
    return {
        f"{prefix}{number}.{what}": value
        for number, entry in optimiser.state_dict()["state"].items()
        for what, value in entry.items()
    }


def load_adam(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor], prefix: str) -> None:
    """Restore what :func:`adam_tensors` returned; names without the prefix are ignored."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith(prefix):
            number, what = name.removeprefix(prefix).split(".")
            state.setdefault(int(number), {})[what] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
