"""Adam over the network, with word tables updated densely or only in the rows a step uses.

- ``dense``: exactly ``torch.optim.Adam``. Rows without gradient still move because of their moments. The
  row gradients are written into a zeroed buffer, and only those rows are cleared afterwards.
- ``rows``: only the rows of the step move and decay their moments (as in SparseAdam); the bias correction
  counts all steps. At 50k x 300 and 2k distinct words a batch it writes 25x less.

Legend of dimension suffixes: U rows of the step, W table rows, E word-vector size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from multiview.training.gradient import MultiViewNetwork
from parsing.training.task import adam_tensors, load_adam

BETAS = (0.9, 0.999)
EPSILON = 1e-8


class FusedAdam(torch.optim.Adam):
    """torch's Adam in one kernel per device, which reads on the device whether to do anything."""

    found_inf: Tensor | None = None
    """float32 scalar: the step changes nothing where it is 1. torch looks for this name."""


class Optimiser:
    """Adam on a network's dense parameters and word tables.

    Args:
        network: the parameters.
        table_rate: factor on the rate of the tables.
        table_update: ``dense`` or ``rows``.
    """

    def __init__(self, network: MultiViewNetwork, *, table_rate: float, table_update: str) -> None:
        self.network = network
        self.table_rate = table_rate
        self.rows_only = table_update == "rows"
        self.steps = 0
        tables = list(network.tables)
        own = {id(table) for table in tables}
        self.dense = [p for p in network.parameters() if id(p) not in own]
        groups = [{"params": self.dense, "scale": 1.0}]
        self.first: list[Tensor] = []
        self.second: list[Tensor] = []
        if self.rows_only:
            self.first = [torch.zeros_like(table) for table in tables]
            self.second = [torch.zeros_like(table) for table in tables]
        elif tables:
            groups.append({"params": tables, "scale": table_rate})
        self.adam = FusedAdam(groups, betas=BETAS, eps=EPSILON, fused=True)

    def zero(self) -> None:
        """Clear the gradients of the dense parameters."""
        for parameter in self.dense:
            parameter.grad = None

    def gradient_norm(self, row_gradients: Sequence[Tensor]) -> Tensor:
        """Euclidean norm of the whole gradient, that of the word rows [U, E] included; a scalar."""
        gradients = [p.grad for p in self.dense if p.grad is not None]
        return torch.nn.utils.get_total_norm([*gradients, *row_gradients])

    @torch.no_grad()
    def step(
        self,
        table_rows: Tensor,
        row_gradients: Sequence[Tensor],
        *,
        rate: float,
        scale: Tensor | None = None,
        skip: Tensor | None = None,
    ) -> None:
        """Apply one update; nothing in it waits for the device.

        Args:
            table_rows: int64 [U], distinct rows.
            row_gradients: per table [U, E].
            rate: learning rate of the step.
            scale: factor on all gradients (clipping), a scalar of their type; None is 1.
            skip: float32 scalar, 1 to change no weight and no moment; None is 0.
        """
        self.steps += 1
        if scale is not None:
            torch._foreach_mul_([p.grad for p in self.dense if p.grad is not None], scale)
            row_gradients = [gradient * scale for gradient in row_gradients]
        self.adam.found_inf = skip
        for group in self.adam.param_groups:
            group["lr"] = rate * group["scale"]
        if self.rows_only:
            self._update_rows(table_rows, row_gradients, rate * self.table_rate, skip)
            self.adam.step()
            return
        for table, gradient in zip(self.network.tables, row_gradients, strict=True):
            if table.grad is None:
                table.grad = torch.zeros_like(table)
            table.grad[table_rows] = gradient
        self.adam.step()
        for table in self.network.tables:
            table.grad[table_rows] = 0

    def _update_rows(
        self, rows: Tensor, gradients: Sequence[Tensor], rate: float, skip: Tensor | None
    ) -> None:
        """Update the rows of the step: m ← β1 m + (1-β1) g, v ← β2 v + (1-β2) g², w ← w − lr m̂ / (√v̂ + ε)."""
        kept = torch.zeros((), device=rows.device) if skip is None else skip
        rate /= 1 - BETAS[0] ** self.steps
        correction = math.sqrt(1 - BETAS[1] ** self.steps)
        tables = list(self.network.tables)
        for table, first, second, gradient in zip(tables, self.first, self.second, gradients, strict=True):
            m_UE = first[rows].lerp_(gradient, 1 - BETAS[0])
            v_UE = second[rows].mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
            w_UE = table[rows] - rate * m_UE / (v_UE.sqrt() / correction + EPSILON)
            for whole, new_UE in ((first, m_UE), (second, v_UE), (table, w_UE)):
                whole[rows] = torch.where(kept > 0, whole[rows], new_UE)

    def state(self) -> dict[str, Tensor]:
        """All state as named tensors, for a checkpoint."""
        state = {"steps": torch.tensor(self.steps)}
        for name, tensors in (("first", self.first), ("second", self.second)):
            state |= {f"rows.{name}.{index}": tensor for index, tensor in enumerate(tensors)}
        return state | adam_tensors(self.adam)

    def load(self, state: dict[str, Tensor]) -> None:
        """Restore what :meth:`state` returned."""
        self.steps = int(state["steps"])
        for name, tensors in (("first", self.first), ("second", self.second)):
            for index, tensor in enumerate(tensors):
                tensor.copy_(state[f"rows.{name}.{index}"])
        load_adam(self.adam, state)
