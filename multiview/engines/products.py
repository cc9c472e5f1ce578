"""Matrix products of the engines, in one precision whatever autocast says."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Products:
    """Products with operands cast to ``dtype`` and float32 (or wider) results.

    Under bf16 autocast the products read bf16 while states, gates and gradients stay float32. Everything is
    written with ``out=``, which autocast leaves alone.
    """

    dtype: torch.dtype | None
    """Type of the operands; None leaves them as they are."""

    @classmethod
    def of(cls, x: Tensor) -> Products:
        """The precision that the surrounding autocast region asks for on the device of ``x``."""
        kind = x.device.type
        if torch.is_autocast_enabled(kind) and x.dtype == torch.float32:
            return cls(torch.get_autocast_dtype(kind))
        return cls(None)

    def cast(self, operand: Tensor) -> Tensor:
        """The operand in the products' type: weights are cast once per sweep, not once per level."""
        return operand if self.dtype is None else operand.to(self.dtype)

    def mm(self, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        """``out = a @ b``; ``out`` overlaps neither operand."""
        if self.dtype is None:
            return torch.mm(a, b, out=out)
        return out.copy_(self._narrow(a, b))

    def addmm(self, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        """``out += a @ b``."""
        if self.dtype is None:
            return torch.addmm(out, a, b, out=out)
        return out.add_(self._narrow(a, b))

    def new_mm(self, a: Tensor, b: Tensor) -> Tensor:
        """``a @ b`` in a tensor of its own, of the type of ``a``."""
        return self.mm(a, b, a.new_empty(a.shape[0], b.shape[1]))

    def _narrow(self, a: Tensor, b: Tensor) -> Tensor:
        with torch.autocast(a.device.type, enabled=False):
            return torch.mm(self.cast(a), self.cast(b))
