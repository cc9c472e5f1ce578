"""A fine-tuning run's tensors by name, as :mod:`multiview.training.checkpoints` stores them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from corpora.support.errors import UserError


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Adam's moments and step counts under ``<parameter number>/<what>``."""
    return {
        f"{index}/{what}": value
        for index, entry in optimiser.state_dict()["state"].items()
        for what, value in entry.items()
    }


def load_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Inverse of :func:`optimiser_tensors`; parameters never stepped have no entry and stay so."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, what = name.split("/")
        state.setdefault(int(index), {})[what] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Trainable and frozen parameters by name; shared ones once."""
    return dict(model.named_parameters())


def load_weights(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copy parameters in place.

    Raises:
        UserError: a name or a shape differs.
    """
    own = weights(model)
    odd = sorted(tensors.keys() ^ own.keys())
    odd += [name for name in own if not odd and own[name].shape != tensors[name].shape]
    if odd:
        raise UserError(f"the saved state is of another model ({odd[0]}); delete its folder to start afresh")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(tensors[name])
