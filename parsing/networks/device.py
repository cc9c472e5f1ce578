"""The device of every command that takes ``--device``."""

from __future__ import annotations

import torch

from corpora.support.errors import UserError


def pick_device(device: str | torch.device | None = None, local_rank: int = 0) -> torch.device:
    """The device that a name stands for.

    Args:
        device: cpu, cuda, cuda:1, ...; None or ``auto`` takes a GPU if there is one.
        local_rank: number of this process on the machine; it chooses the GPU if the name does not.

    Raises:
        UserError: there is no such device here.
    """
    if device is None or device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and local_rank:
        device = f"cuda:{local_rank}"
    try:
        return torch.empty(1, device=device).device
    except (RuntimeError, AssertionError) as error:  # torch asserts that it was built with CUDA
        reason = str(error).splitlines()[0]
        raise UserError(f"device {str(device)!r} cannot be used ({reason}); --device takes another") from None
