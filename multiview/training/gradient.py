"""The network that is trained, the gradient of a step, plain or cached over micro-batches, and the update.

Gradient caching (Gao et al. 2021) trains batches that do not fit into memory: encode the micro-batches
without a graph, differentiate the loss by the features, then encode each micro-batch again and backpropagate
its part. Nothing in the encoders is random, so the gradient is the same.

Several processes under torchrun sum their gradients here and not by DistributedDataParallel: word rows are
sparse, the loss is divided by the anchors of all processes, and caching runs several backward passes a step.
Experimental: several GPUs (NCCL) were never run.

Word tables are updated ``dense``, exactly by ``torch.optim.Adam``, or by ``rows``: only those of the step
move and decay their moments (as in SparseAdam), and the bias correction counts all steps.

Legend of dimension suffixes: B sentences, D hidden, U distinct word rows, E word-vector size.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from multiview.encoders.registry import ViewStack
from multiview.engines.plan import to_device
from multiview.training.data import MicroBatch, Segment, Step
from multiview.training.objective import MeaningObjective, Objective
from runtime.errors import UserError
from runtime.training_state import adam_tensors, load_adam

BETAS = (0.9, 0.999)
EPSILON = 1e-8


class MultiViewNetwork(ViewStack):
    """The views and their objective, which a program sets; a model folder keeps only the views."""

    objective: Objective | MeaningObjective

    def positions_to_contrast(self, trained: Collection[str]) -> list[int]:
        """Return the positions of the trained views, which are compared; they are as wide as the first."""
        positions = [position for position, view in enumerate(self.views) if view in trained]
        width = self.widths[0]
        for view in (self.encoder_list[position] for position in positions):
            if view.width != width:
                raise UserError(
                    f"view {view.name!r}: is {view.width} wide, the views that it is compared with {width}"
                )
        return positions


@dataclass(frozen=True)
class DistributedContext:
    """The number of this process among all of them."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    """Number of the process on this machine, and of the GPU it uses."""
    hosts: dist.ProcessGroup | None = None
    """The group in which hosts exchange values without their GPUs; None is the default group."""

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and messages."""
        return self.rank == 0

    @classmethod
    def from_environment(cls, device: str) -> DistributedContext:
        """Join the process group when started by torchrun, to compute on a device; else a single process."""
        on_cuda = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
        if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "RANK" not in os.environ:
            return cls()
        if not dist.is_initialized():
            dist.init_process_group("nccl" if on_cuda else "gloo")
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
        return list(total.tolist())

    def sum_rows(self, step: Step, gradients: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Return the rows of all processes, int64 on the device, and their summed gradients per table."""
        if self.world == 1:
            return step.table_rows, list(gradients)
        # Only the hosts talk about rows, so that the devices need not wait.
        rows_of_processes: list[list[int]] = [[]] * self.world
        dist.all_gather_object(rows_of_processes, step.rows.tolist(), group=self.hosts)
        all_rows = np.unique(np.concatenate([np.array(rows, dtype=np.int64) for rows in rows_of_processes]))
        device = step.table_rows.device
        table_rows = to_device(torch.from_numpy(all_rows), device)
        positions = to_device(torch.from_numpy(np.searchsorted(all_rows, step.rows)), device)
        sums = []
        for gradient in gradients:
            gradient_of_all_rows = gradient.new_zeros(len(all_rows), gradient.shape[1])
            sums.append(self.sum(gradient_of_all_rows.index_copy_(0, positions, gradient)))
        return table_rows, sums


@dataclass
class StepResult:
    """Metrics of a step over all processes, and the gradient of its word vectors."""

    table_rows: Tensor
    """int64 [U], distinct rows over all processes."""
    row_gradients: list[Tensor]
    """[U, E] per table; empty with fixed vectors."""
    metrics: Tensor
    """float64, means over the step's anchors. They stay on the device, since to read one waits for it."""
    names: Sequence[str]
    """The names of the metrics, in the order of the objective."""


def step_gradient(
    network: MultiViewNetwork, step: Step, distributed: DistributedContext, *, autocast: bool = False
) -> StepResult:
    """Compute the gradient of the step's mean loss; those of dense parameters are left in ``.grad``."""
    leaves = step.leaves(network.words)
    scale = 1.0 / max(step.anchors, 1)
    sums = [_backpropagate(network, segment, leaves, scale, autocast) for segment in step.segments]
    if distributed.world > 1:  # through one flat buffer
        dense = [weight for name, weight in network.named_parameters() if not name.startswith("words.")]
        buffer = distributed.sum(torch.cat([_gradient(weight).flatten() for weight in dense]))
        parts = buffer.split([weight.numel() for weight in dense])
        for weight, part in zip(dense, parts, strict=True):
            weight.grad = part.view_as(weight).clone()
    row_gradients = [_gradient(leaf) for leaf in leaves if leaf.requires_grad]
    table_rows, row_gradients = distributed.sum_rows(step, row_gradients)
    names = network.objective.metrics_of(step.segments[0].targets)
    return StepResult(table_rows, row_gradients, distributed.sum(torch.stack(sums).sum(0)) * scale, names)


def _backpropagate(
    network: MultiViewNetwork, segment: Segment, leaves: Sequence[Tensor], scale: float, autocast: bool
) -> Tensor:
    """Add the gradient of ``scale`` times the segment's summed loss; return its sums."""

    def encode(micro_batch: MicroBatch) -> list[Tensor]:
        with torch.autocast(leaves[0].device.type, torch.bfloat16, enabled=autocast):
            return network.encode(micro_batch.tokens, micro_batch.plans, leaves)

    def backward(features: list[Tensor]) -> Tensor:
        value: tuple[Tensor, Tensor] = network.objective(features, segment.targets, segment.teacher)
        loss, sums = value
        (loss * scale).backward()
        return sums

    micro_batches = segment.micro_batches
    if len(micro_batches) == 1:
        return backward(encode(micro_batches[0]))
    with torch.no_grad():
        parts = [encode(micro_batch) for micro_batch in micro_batches]
    features = [torch.cat(parts_of_view).requires_grad_() for parts_of_view in zip(*parts, strict=True)]
    sums = backward(features)
    sizes = [len(part[0]) for part in parts]
    gradients_of_views = [_gradient(feature).split(sizes) for feature in features]
    for micro_batch, *gradients in zip(micro_batches, *gradients_of_views, strict=True):
        features_with_graph, their_gradients = [], []
        for feature, gradient in zip(encode(micro_batch), gradients, strict=True):
            if feature.requires_grad:
                features_with_graph.append(feature)
                their_gradients.append(gradient)
        if features_with_graph:  # else the read-out is trained alone
            torch.autograd.backward(features_with_graph, their_gradients)
    return sums


def _gradient(leaf: Tensor) -> Tensor:
    return leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)


class Optimiser:
    """Applies Adam to a network's dense parameters and word tables, but for those that need no gradient."""

    def __init__(
        self, network: MultiViewNetwork, *, table_rate: float = 1.0, table_update: str = "dense"
    ) -> None:
        self.tables = [table for table in network.words.tables if table.requires_grad]
        self.table_rate = table_rate
        ids_of_tables = set(map(id, self.tables))
        trained = [weight for weight in network.parameters() if weight.requires_grad]
        self.dense = [weight for weight in trained if id(weight) not in ids_of_tables]
        self.steps = 0
        self.updates_rows = table_update == "rows"
        """Whether only the rows of a step are updated, by ``moments``; else Adam has the tables as well."""
        self.moments: dict[str, Tensor] = {}
        groups = [{"params": self.dense, "scale": 1.0}]
        if self.updates_rows:
            for name in ("first", "second"):
                for index, table in enumerate(self.tables):
                    self.moments[f"rows.{name}.{index}"] = torch.zeros_like(table)
        elif self.tables:
            groups.append({"params": self.tables, "scale": table_rate})
        self.adam = torch.optim.Adam(groups, betas=BETAS, eps=EPSILON, fused=True)

    def clear_gradients(self) -> None:
        """Clear the gradients of the dense parameters."""
        for weight in self.dense:
            weight.grad = None

    def _dense_gradients(self) -> list[Tensor]:
        return [weight.grad for weight in self.dense if weight.grad is not None]

    def gradient_norm(self, row_gradients: Sequence[Tensor]) -> Tensor:
        """Compute the Euclidean norm of the gradient, that of the word rows [U, E] included; a scalar."""
        return torch.nn.utils.get_total_norm([*self._dense_gradients(), *row_gradients])

    @torch.no_grad()
    def step(self, result: StepResult, *, rate: float, scale: Tensor | None, skip: Tensor) -> None:
        """Apply one update; nothing in it waits for the device.

        All gradients are multiplied by ``scale`` (clipping), a scalar of their type, where there is one. If
        ``skip``, a float32 scalar, is 1, no weight and no moment changes.
        """
        table_rows, row_gradients = result.table_rows, result.row_gradients
        self.steps += 1
        if scale is not None:
            torch._foreach_mul_(self._dense_gradients(), scale)
            row_gradients = [gradient * scale for gradient in row_gradients]
        self.adam.found_inf = skip  # type: ignore[attr-defined]  # torch's fused kernel reads it
        for group in self.adam.param_groups:
            group["lr"] = rate * group["scale"]
        if self.updates_rows:
            self._update_rows(table_rows, row_gradients, rate * self.table_rate, skip)
            self.adam.step()
            return
        for table, gradient in zip(self.tables, row_gradients, strict=True):
            if table.grad is None:
                table.grad = torch.zeros_like(table)
            table.grad[table_rows] = gradient
        self.adam.step()
        for table in self.tables:
            table.grad[table_rows] = 0

    def _update_rows(self, rows: Tensor, gradients: Sequence[Tensor], rate: float, skip: Tensor) -> None:
        """Update the rows of the step: m ← β1 m + (1-β1) g, v ← β2 v + (1-β2) g², w ← w − lr m̂ / (√v̂ + ε)."""
        rate /= 1 - BETAS[0] ** self.steps
        correction = math.sqrt(1 - BETAS[1] ** self.steps)
        for index, (table, gradient) in enumerate(zip(self.tables, gradients, strict=True)):
            first, second = self.moments[f"rows.first.{index}"], self.moments[f"rows.second.{index}"]
            m_UE = first[rows].lerp_(gradient, 1 - BETAS[0])
            v_UE = second[rows].mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
            w_UE = table[rows] - rate * m_UE / (v_UE.sqrt() / correction + EPSILON)
            for values, new_UE in ((first, m_UE), (second, v_UE), (table, w_UE)):
                values[rows] = torch.where(skip > 0, values[rows], new_UE)

    def tensors(self) -> dict[str, Tensor]:
        """Return all state, for a checkpoint."""
        return {"steps": torch.tensor(self.steps), **self.moments, **adam_tensors(self.adam)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`tensors` returned."""
        self.steps = int(tensors["steps"])
        for name, moment in self.moments.items():
            moment.copy_(tensors[name])
        load_adam(self.adam, tensors)
