"""Training with several processes under torchrun: gathered features and summed gradients.

Gradients are summed here and not by DistributedDataParallel, for three reasons: the word rows of a step are
sparse, the loss is already divided by the anchors of all processes, and gradient caching runs several
backward passes per step. The result is the same for any number of processes, up to the order of additions.

Legend of dimension suffixes: B own sentences, C all sentences, D features, U own rows, E word-vector size.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from multiview.engines.memory import to_device
from multiview.training.data import Rows


@dataclass(frozen=True)
class DistributedContext:
    """The place of this process among all of them."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    """Number of the process on this machine, and of the GPU it uses."""
    hosts: dist.ProcessGroup | None = None
    """What the hosts tell each other without their GPUs; None is the default group."""

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and messages."""
        return self.rank == 0

    @classmethod
    def from_environment(cls, cuda: bool) -> DistributedContext:
        """Join the process group when started by torchrun; otherwise a single process."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "RANK" not in os.environ:
            return cls()
        if not dist.is_initialized():
            dist.init_process_group("nccl" if cuda else "gloo")
        hosts = dist.new_group(backend="gloo") if dist.get_backend() == "nccl" else None
        return cls(dist.get_rank(), dist.get_world_size(), int(os.environ.get("LOCAL_RANK", "0")), hosts)

    def close(self) -> None:
        """Leave the process group."""
        if self.world > 1:
            dist.destroy_process_group()

    def sum(self, values: Tensor) -> Tensor:
        """Sum a tensor of any shape over processes, in place."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def sum_on_hosts(self, values: Sequence[float]) -> list[float]:
        """Sum numbers over processes; the devices go on meanwhile."""
        total = torch.tensor(values, dtype=torch.float64)
        if self.world > 1:
            dist.all_reduce(total, group=self.hosts)
        sums: list[float] = total.tolist()
        return sums

    def barrier(self) -> None:
        """Wait for the other processes."""
        if self.world > 1:
            dist.barrier()

    def gather(self, features: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """The features of all processes, [C, D] per view, with gradients.

        Args:
            features: this process's features per view [B, D].
            sizes: B of every process.
        """
        if self.world == 1:
            return list(features)
        widths = [feature.shape[1] for feature in features]
        # One collective call for all views: fewer launches, and the same order on every process.
        joined: Tensor = _Gather.apply(torch.cat(list(features), dim=1), tuple(sizes), self.rank)  # type: ignore[no-untyped-call]
        return list(joined.split(widths, dim=1))

    def sum_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Sum the gradients of dense parameters over processes, through one flat buffer."""
        if self.world == 1:
            return
        flat = torch.cat(
            [(p.grad if p.grad is not None else torch.zeros_like(p)).flatten() for p in parameters]
        )
        dist.all_reduce(flat)
        for parameter, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            parameter.grad = part.view_as(parameter).clone()

    def sum_rows(self, rows: Rows, gradients: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Distinct rows of all processes, int64 on the device, and the sums of their gradients.

        Args:
            rows: of this process, U of them.
            gradients: per table [U, E].
        """
        if self.world == 1:
            return rows.table, list(gradients)
        everyone = self._everyone(rows.host)
        arrays = {"rows": everyone, "at": np.searchsorted(everyone, rows.host)}
        moved = to_device(arrays, rows.table.device)
        sums = []
        for gradient in gradients:
            total = gradient.new_zeros(len(everyone), gradient.shape[1])
            total[moved["at"]] = gradient
            dist.all_reduce(total)
            sums.append(total)
        return moved["rows"], sums

    def _everyone(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The distinct rows of all processes, ascending; only the hosts talk."""
        mine = [float(len(rows)) if rank == self.rank else 0.0 for rank in range(self.world)]
        sizes = [int(size) for size in self.sum_on_hosts(mine)]
        padded = torch.full((max(sizes),), -1)
        padded[: len(rows)] = torch.from_numpy(rows)
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded, group=self.hosts)
        found = [part[:size].numpy() for part, size in zip(parts, sizes, strict=True)]
        return np.unique(np.concatenate(found))


class _Gather(torch.autograd.Function):
    """Concatenate over processes; the gradient of a row is summed over all processes."""

    @staticmethod
    def forward(ctx: Any, own_BD: Tensor, sizes: tuple[int, ...], rank: int) -> Tensor:
        ctx.sizes, ctx.rank = sizes, rank
        padded = own_BD.new_zeros(max(sizes), own_BD.shape[1])
        padded[: len(own_BD)] = own_BD
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient_CD: Tensor) -> tuple[Tensor, None, None]:
        total_CD = gradient_CD.contiguous().clone()
        dist.all_reduce(total_CD)
        start = sum(ctx.sizes[: ctx.rank])
        return total_CD[start : start + ctx.sizes[ctx.rank]], None, None
