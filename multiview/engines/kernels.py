"""The choice of kernels: several modules implement the functions of ``kernels_torch``."""

from __future__ import annotations

from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

from multiview.engines import kernels_torch

Kernels = ModuleType
"""A module with the functions that ``kernels_torch`` documents."""


def kernels_for(x: Tensor, engine: str) -> Kernels:
    """The kernels for tensors of the type and device of ``x``.

    Args:
        x: any shape.
        engine: ``native`` takes the device's fastest kernels, ``torch`` the portable ones.
    """
    if engine == "native" and x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64):
        from multiview.engines import kernels_numba

        return kernels_numba
    if engine == "native" and x.device.type == "cuda" and find_spec("triton"):
        from multiview.engines import kernels_triton

        return kernels_triton
    return kernels_torch
