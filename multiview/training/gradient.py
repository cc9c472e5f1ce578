"""The network that is trained, the gradient of a step, and the update of the weights.

Gradient caching (Gao et al. 2021) trains on segments that do not fit into memory: the micro-batches are
encoded without a graph, the loss is differentiated with respect to the vectors of their views, and then each
micro-batch is encoded again and its part of that gradient is backpropagated. Nothing in the encoders is
random, so the gradient is the same as without caching.

Several processes under torchrun sum their gradients here and not by DistributedDataParallel, because the
gradients of word vectors are sparse, the loss is divided by the anchors of all processes, and caching runs
several backward passes a step. Experimental: several GPUs (NCCL) were never run.

Word tables are updated in one of two ways. ``dense`` is ``torch.optim.Adam`` over whole tables. With ``rows``
only the rows that a step reads are updated and have their moments decayed, as in SparseAdam; the bias
correction counts all steps.

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
    """The network that is trained: the views, the words and the objective.

    The objective may have weights of its own, which checkpoints have and model folders do not.
    """

    objective: Objective | MeaningObjective
    """The loss. Set after the constructor, since it is made for the widths of the views."""

    def positions_to_contrast(self, trained: Collection[str]) -> list[int]:
        """Return the positions of the trained views. Raises UserError if one is not as wide as the first."""
        positions = [position for position, view in enumerate(self.views) if view in trained]
        width = self.widths[0]
        for view in (self.encoder_list[position] for position in positions):
            if view.width != width:
                raise UserError(
                    f"view {view.name!r}: has {view.width} numbers, and the views that it is contrasted with "
                    f"have {width}; give views of one width"
                )
        return positions


@dataclass(frozen=True)
class DistributedContext:
    """This process's number among the processes of torchrun, and the sums over all of them."""

    rank: int = 0
    """The number of this process, from 0."""
    world: int = 1
    """The number of processes."""
    local_rank: int = 0
    """The number of this process on its machine, and of the GPU it uses."""
    hosts: dist.ProcessGroup | None = None
    """The process group that exchanges values between CPUs, while GPUs go on; None is the default group."""

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and messages."""
        return self.rank == 0

    @classmethod
    def from_environment(cls, device: str) -> DistributedContext:
        """Join the process group of torchrun, to compute on a device; without torchrun, stay alone."""
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
        """Sum a tensor of any shape over processes, in place, and return it."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def sum_on_hosts(self, values: Sequence[float]) -> list[float]:
        """Return the sums of numbers over processes; no GPU waits for it."""
        total = torch.tensor(values, dtype=torch.float64)
        if self.world > 1:
            dist.all_reduce(total, group=self.hosts)
        return list(total.tolist())

    def sum_rows(self, step: Step, gradients: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Sum the gradients of word vectors over processes, which read different rows of the tables.

        ``gradients`` are those of this process's rows, [own rows, E] for each table. Return the distinct rows
        of all processes, int64 [U] on the device, and for each table their summed gradients, [U, E].
        """
        if self.world == 1:
            return step.table_rows, list(gradients)
        # Rows are exchanged between CPUs, so that no GPU has to wait.
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
    """The metrics of a step and the gradient of its word vectors, both over all processes."""

    table_rows: Tensor
    """int64 [U], the distinct rows of the word tables that the processes read."""
    row_gradients: list[Tensor]
    """The gradient of these rows, [U, E] for each table; empty with fixed vectors."""
    metrics: Tensor
    """float64, a mean over the step's anchors of each metric, on the device."""
    names: Sequence[str]
    """The names of the metrics, in their order in ``metrics``."""


def step_gradient(
    network: MultiViewNetwork, step: Step, distributed: DistributedContext, *, autocast: bool = False
) -> StepResult:
    """Compute the gradient of the step's loss, a mean over the anchors of all processes.

    The gradients of word vectors are returned; those of all other parameters are left in their ``.grad``.

    Args:
        network: the network that is trained.
        step: this process's part of the step.
        distributed: the processes that train together.
        autocast: whether the matrix products of the encoders are in bfloat16.
    """
    leaves = step.leaves(network.words)
    scale = 1.0 / max(step.anchors, 1)
    sums = [_backpropagate(network, segment, leaves, scale, autocast) for segment in step.segments]
    if distributed.world > 1:  # one flat buffer, so that there is one exchange and not one per parameter
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
    """Backpropagate ``scale`` times a segment's summed loss; return the sums of its metrics over anchors."""

    def encode(micro_batch: MicroBatch) -> list[Tensor]:
        with torch.autocast(leaves[0].device.type, torch.bfloat16, enabled=autocast):
            return network.encode(micro_batch.tokens, micro_batch.plans, leaves)

    def backward(view_vectors: list[Tensor]) -> Tensor:
        sums: Tensor
        loss, sums = network.objective(view_vectors, segment.targets, segment.target_vectors)
        (loss * scale).backward()
        return sums

    micro_batches = segment.micro_batches
    if len(micro_batches) == 1:
        return backward(encode(micro_batches[0]))
    with torch.no_grad():
        parts = [encode(micro_batch) for micro_batch in micro_batches]
    view_vectors = [torch.cat(parts_of_view).requires_grad_() for parts_of_view in zip(*parts, strict=True)]
    sums = backward(view_vectors)
    sizes = [len(part[0]) for part in parts]
    gradients_of_views = [_gradient(vectors).split(sizes) for vectors in view_vectors]
    for micro_batch, *gradients in zip(micro_batches, *gradients_of_views, strict=True):
        vectors_with_graph, their_gradients = [], []
        for vectors, gradient in zip(encode(micro_batch), gradients, strict=True):
            if vectors.requires_grad:
                vectors_with_graph.append(vectors)
                their_gradients.append(gradient)
        if vectors_with_graph:  # there are none if only the read-out is trained
            torch.autograd.backward(vectors_with_graph, their_gradients)
    return sums


def _gradient(leaf: Tensor) -> Tensor:
    """Return the gradient of a leaf tensor, zero if nothing was backpropagated to it."""
    return leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)


class Optimiser:
    """Adam for the word tables and for all other parameters of a network, called dense, that need a gradient.

    ``table_rate`` is a factor on the learning rate of word tables; ``table_update`` is ``dense`` or ``rows``.
    """

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
        """Whether only the rows that a step reads are updated; else ``adam`` updates whole tables."""
        self.moments: dict[str, Tensor] = {}
        """First and second moments of the gradients of each table, [W, E], if only rows are updated."""
        groups = [{"params": self.dense, "scale": 1.0}]
        if self.updates_rows:
            for name in ("first", "second"):
                for index, table in enumerate(self.tables):
                    self.moments[f"rows.{name}.{index}"] = torch.zeros_like(table)
        elif self.tables:
            groups.append({"params": self.tables, "scale": table_rate})
        self.adam = torch.optim.Adam(groups, betas=BETAS, eps=EPSILON, fused=True)

    def clear_gradients(self) -> None:
        """Remove the gradients of the dense parameters."""
        for weight in self.dense:
            weight.grad = None

    def _dense_gradients(self) -> list[Tensor]:
        return [weight.grad for weight in self.dense if weight.grad is not None]

    def gradient_norm(self, row_gradients: Sequence[Tensor]) -> Tensor:
        """Return the Euclidean norm of the gradient, with that of the word rows, a scalar on the device."""
        return torch.nn.utils.get_total_norm([*self._dense_gradients(), *row_gradients])

    @torch.no_grad()
    def step(self, result: StepResult, *, rate: float, scale: Tensor | None, skip: Tensor) -> None:
        """Update the weights by a gradient; nothing in it waits for the device.

        Args:
            result: has the gradient of the word rows; those of dense parameters are in their ``.grad``.
            rate: the learning rate.
            scale: a scalar of the gradients' type that all of them are multiplied by (clipping); None for 1.
            skip: a float32 scalar; if it is 1, no weight and no moment changes.
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
        """Update the rows that a step read: w ← w − rate m̂ / (√v̂ + ε), in which m̂ = m / (1-β1^t).

        The moments are m ← β1 m + (1-β1) g and v ← β2 v + (1-β2) g², and v̂ = v / (1-β2^t) with t all steps.
        ``rows`` are int64 [U], ``gradients`` [U, E] for each table. Nothing changes if ``skip`` is 1.
        """
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
        """Return the whole state by name, for a checkpoint."""
        return {"steps": torch.tensor(self.steps), **self.moments, **adam_tensors(self.adam)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`tensors` returned."""
        self.steps = int(tensors["steps"])
        for name, moment in self.moments.items():
            moment.copy_(tensors[name])
        load_adam(self.adam, tensors)
