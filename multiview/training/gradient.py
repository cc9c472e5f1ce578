"""The gradient of one step: plain, cached over micro batches, or with gathered negatives.

Gradient caching (Gao et al. 2021) trains batches larger than memory: encode the micro batches without a
graph, differentiate the loss with respect to the features, then encode each micro batch again and push its
slice of that gradient through. Nothing in the encoders is random, so the result is the plain gradient.

Legend of dimension suffixes: B sentences, D hidden, U distinct word rows, E word-vector size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from multiview.training.data import Group, Micro, Step
from multiview.training.distributed import Processes
from multiview.training.network import MultiViewNetwork
from multiview.training.objective import ObjectiveValue, Rows


@dataclass
class StepResult:
    """Figures of a step over all processes, and the rows whose gradient it computed."""

    table_rows: Tensor
    """int64 [U], distinct rows over all processes."""
    row_gradients: list[Tensor]
    """[U, E] per table; empty with fixed vectors."""
    loss: float
    """Mean over the anchors of the step."""
    pair_loss: dict[str, float] = field(default_factory=dict)
    """Per pair of views, mean over anchors."""
    pair_accuracy: dict[str, float] = field(default_factory=dict)
    """Per pair, share of anchors whose best candidate is a neighbour."""


def step_gradient(
    network: MultiViewNetwork,
    step: Step,
    processes: Processes,
    *,
    fixed_rows: Tensor | None = None,
    autocast: bool = False,
) -> StepResult:
    """Compute the gradient of the step's mean loss; dense ones are left in ``.grad``.

    Args:
        network: parameters and objective.
        step: this process's share.
        processes: all of them.
        fixed_rows: word vectors [U, E] of ``step.table_rows`` when there are no trained tables.
        autocast: bfloat16 matrix products in the encoders.
    """
    objective = network.objective
    assert objective is not None
    device = next(network.parameters()).device
    table_rows = torch.from_numpy(step.table_rows).to(device)
    rows = [fixed_rows] if fixed_rows is not None else network.gather_rows(table_rows)
    scale = 1.0 / max(step.anchors, 1)
    values = [_group_backward(network, group, rows, scale, processes, autocast) for group in step.groups]
    processes.sum_gradients([p for n, p in network.named_parameters() if not n.startswith("tables.")])
    gradients = []
    if fixed_rows is None:
        gradients = [row.grad if row.grad is not None else torch.zeros_like(row) for row in rows]
    table_rows, gradients = processes.sum_rows(table_rows, gradients)
    return _summary(table_rows, gradients, values, objective.names, scale, processes)


def _group_backward(
    network: MultiViewNetwork,
    group: Group,
    rows: Sequence[Tensor],
    scale: float,
    processes: Processes,
    autocast: bool,
) -> ObjectiveValue:
    """Add the gradient of ``scale`` times the group's summed loss."""

    def encode(micro: Micro) -> list[Tensor]:
        with torch.autocast(rows[0].device.type, torch.bfloat16, enabled=autocast):
            return network.encode(micro, rows)

    objective = network.objective
    assert objective is not None
    if len(group.micros) == 1:
        features = encode(group.micros[0])
        value: ObjectiveValue = objective(features, group.rows, _candidates(features, group, processes))
        (value.loss * scale).backward()
        return value
    with torch.no_grad():
        parts = [encode(micro) for micro in group.micros]
    leaves = [torch.cat(view).requires_grad_() for view in zip(*parts, strict=True)]
    value = objective(leaves, group.rows, _candidates(leaves, group, processes))
    (value.loss * scale).backward()
    sizes = [micro.sentences for micro in group.micros]
    slices = zip(*(_gradient(leaf).split(sizes) for leaf in leaves), strict=True)
    for micro, gradient in zip(group.micros, slices, strict=True):
        torch.autograd.backward(encode(micro), list(gradient))
    return value


def _gradient(leaf: Tensor) -> Tensor:
    return leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)


def _candidates(
    features: Sequence[Tensor], group: Group, processes: Processes
) -> tuple[list[Tensor], Rows] | None:
    """All processes' features and rows when negatives are gathered."""
    if len(group.everyone) == 1:
        return None
    sizes = [len(rows) for rows in group.everyone]
    return processes.gather(features, sizes), Rows.concatenate(group.everyone)


def _summary(
    table_rows: Tensor,
    gradients: list[Tensor],
    values: Sequence[ObjectiveValue],
    names: Sequence[str],
    scale: float,
    processes: Processes,
) -> StepResult:
    """Means over the anchors of all processes."""
    figures = [sum(value.loss.item() for value in values)]
    figures += [sum(value.pair_loss[name] for value in values) for name in names]
    figures += [sum(value.pair_hits[name] for value in values) for name in names]
    device = table_rows.device if processes.world > 1 else torch.device("cpu")
    total = processes.sum(torch.tensor(figures, dtype=torch.float64, device=device)) * scale
    loss, *pairs = total.tolist()
    half = len(names)
    return StepResult(
        table_rows,
        gradients,
        loss,
        dict(zip(names, pairs[:half], strict=True)),
        dict(zip(names, pairs[half:], strict=True)),
    )
