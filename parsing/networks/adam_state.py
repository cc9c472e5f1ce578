"""Adam's state as named tensors and back, so that it can be stored without pickle."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


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
