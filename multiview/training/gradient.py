"""The gradient of one step: plain, cached over micro-batches, or with gathered negatives.

Gradient caching (Gao et al. 2021) trains batches that do not fit into memory: encode the micro-batches
without a graph, differentiate the loss with respect to the features, then encode each micro-batch again and
backpropagate its part of that gradient. Nothing in the encoders is random, so the gradient is the same.

Legend of dimension suffixes: B sentences, D hidden, U distinct word rows, E word-vector size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from multiview.training.data import Group, MicroBatch, Step
from multiview.training.distributed import DistributedContext
from multiview.training.network import MultiViewNetwork
from multiview.training.objective import ObjectiveValue


@dataclass
class StepResult:
    """Metrics of a step over all processes, and the gradient of its word vectors."""

    table_rows: Tensor
    """int64 [U], distinct rows over all processes."""
    row_gradients: list[Tensor]
    """[U, E] per table; empty with fixed vectors."""
    metrics: Tensor
    """float64, means over the step's anchors of what :attr:`Objective.metrics` names. They stay on the
    device, see ``unread``."""


def step_gradient(
    network: MultiViewNetwork,
    step: Step,
    distributed: DistributedContext,
    *,
    autocast: bool = False,
) -> StepResult:
    """Compute the gradient of the step's mean loss; those of dense parameters are left in ``.grad``.

    Args:
        network: parameters and objective.
        step: this process's part of the step.
        distributed: this process among all.
        autocast: bfloat16 matrix products in the encoders.
    """
    rows = step.rows.leaves(network.words)
    scale = 1.0 / max(step.anchors, 1)
    values = [_group_backward(network, group, rows, scale, distributed, autocast) for group in step.groups]
    distributed.sum_gradients([p for n, p in network.named_parameters() if not n.startswith("words.")])
    table_rows, gradients = distributed.sum_rows(
        step.rows, [_gradient(leaf) for leaf in rows if leaf.requires_grad]
    )
    sums = torch.zeros_like(values[0].sums())
    for value in values:
        sums += value.sums()
    return StepResult(table_rows, gradients, distributed.sum(sums) * scale)


def _group_backward(
    network: MultiViewNetwork,
    group: Group,
    rows: Sequence[Tensor],
    scale: float,
    distributed: DistributedContext,
    autocast: bool,
) -> ObjectiveValue:
    """Add the gradient of ``scale`` times the group's summed loss."""

    def encode(micro_batch: MicroBatch) -> list[Tensor]:
        with torch.autocast(rows[0].device.type, torch.bfloat16, enabled=autocast):
            return network.encode(micro_batch.tokens, micro_batch.plans, rows)

    objective, micro_batches = network.objective, group.micro_batches
    if len(micro_batches) == 1:
        features = encode(micro_batches[0])
        others = _candidates(features, group, distributed)
        value: ObjectiveValue = objective(features, group.targets, others, group.teacher)
        (value.loss * scale).backward()
        return value
    with torch.no_grad():
        parts = [encode(micro_batch) for micro_batch in micro_batches]
    leaves = [torch.cat(view).requires_grad_() for view in zip(*parts, strict=True)]
    value = objective(leaves, group.targets, _candidates(leaves, group, distributed), group.teacher)
    (value.loss * scale).backward()
    sizes = [micro_batch.sentences for micro_batch in micro_batches]
    slices = zip(*(_gradient(leaf).split(sizes) for leaf in leaves), strict=True)
    for micro_batch, gradient in zip(micro_batches, slices, strict=True):
        torch.autograd.backward(encode(micro_batch), list(gradient))
    return value


def _gradient(leaf: Tensor) -> Tensor:
    return leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)


def _candidates(
    features: Sequence[Tensor], group: Group, distributed: DistributedContext
) -> list[Tensor] | None:
    """All processes' features when negatives are gathered."""
    return None if len(group.sizes) == 1 else distributed.gather(features, group.sizes)
