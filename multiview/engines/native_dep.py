"""Attentive Child-Sum Tree-LSTM over a batch: level-scheduled sweep with a hand-written backward pass.

Shapes: N words (each one a node), I of them with dependents, E = N - B edges, D hidden, V word vector.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from multiview.engines.kernels import Kernels
from multiview.engines.native_const import slot_gradients
from multiview.engines.plan import DepPlan
from multiview.engines.products import Products


class DepSweep(torch.autograd.Function):
    """States of all nodes of the batch: ``apply(...) -> roots [B, D], h [N, D] in slot order``.

    The children of a level are one slice of slots, which makes ``h_k @ [W_p; U_f]ᵀ`` one product per level;
    W_f and W_q are applied to words with dependents only (a third of them).
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        input_weight: Tensor,
        parent_weight: Tensor,
        child_weight: Tensor,
        recurrent_weight: Tensor,
        bias: Tensor,
        plan: DepPlan,
        kernels: Kernels,
        products: Products,
    ) -> tuple[Tensor, Tensor]:
        """Leaves; then per level the children's product, attention, the product with h̃, the gates.

        Args:
            ctx: autograd's context.
            x: [N, V] word vectors.
            input_weight: [3D, V], W of i, o, u.
            parent_weight: [2D, V], W_q and W_f.
            child_weight: [2D, D], W_p and U_f.
            recurrent_weight: [3D, D], U of i, o, u.
            bias: [6D], of i, o, u, q, f, p.
            plan: the schedule, on the device of ``x``.
            kernels: element-wise steps.
            products: matrix products.
        """
        hidden, nodes, leaves, internal = recurrent_weight.shape[1], len(x), plan.leaves, plan.internal
        slot = plan.tensor("slot")
        b_iou, b_q, b_f, b_p = bias.split([3 * hidden, hidden, hidden, hidden])
        x = x.index_select(0, plan.tensor("order"))
        gates = products.new_mm(x, products.cast(input_weight).t())
        parents = products.new_mm(x[leaves:], products.cast(parent_weight).t())
        query, forget_input = parents[:, :hidden], parents[:, hidden:]

        h, c = x.new_empty(2, nodes, hidden)
        children = x.new_empty(nodes - plan.sentences, 2 * hidden)
        keys, forget = children[:, :hidden], children[:, hidden:]
        alpha, cosine = x.new_empty(2, len(children))
        mixed = x.new_empty(internal, hidden)
        kernels.leaf_forward(gates[:leaves], b_iou, slot[:leaves], h, c)

        child_weight, recurrent_weight_t = (
            products.cast(child_weight).t(),
            products.cast(recurrent_weight).t(),
        )
        for level in _levels(plan):
            node, edge, rank, offsets, parent = level
            products.mm(h[edge], child_weight, children[edge])
            kernels.dep_attend(
                query[node],
                b_q,
                keys[edge],
                b_p,
                h[edge],
                offsets,
                parent,
                alpha[edge],
                cosine[edge],
                mixed[node],
            )
            products.addmm(mixed[node], recurrent_weight_t, gates[rank])
            kernels.dep_forward(
                gates[rank],
                b_iou,
                forget_input[node],
                b_f,
                forget[edge],
                c[edge],
                offsets,
                parent,
                slot[rank],
                h,
                c,
            )
        roots = h[len(children) :].clone()
        ctx.save_for_backward(
            x, input_weight, parent_weight, child_weight, recurrent_weight,
            gates, parents, children, alpha, cosine, mixed, h, c,
        )  # fmt: skip
        ctx.plan, ctx.kernels, ctx.products = plan, kernels, products
        ctx.set_materialize_grads(False)
        return roots, h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, droots: Tensor | None, dh_all: Tensor | None) -> tuple[Tensor | None, ...]:
        """Levels from the roots down; then each weight gradient is one product over all nodes."""
        (
            x, input_weight, parent_weight, child_weight_t, recurrent_weight,
            gates, parents, children, alpha, cosine, mixed, h, c,
        ) = ctx.saved_tensors  # fmt: skip
        plan, kernels, products = ctx.plan, ctx.kernels, ctx.products
        hidden, leaves, edges = h.shape[1], plan.leaves, len(children)
        slot = plan.tensor("slot")
        query, keys, forget = parents[:, :hidden], children[:, :hidden], children[:, hidden:]
        dh, dc = slot_gradients(h, droots, dh_all, edges)
        dgates, dparents, dchildren = map(torch.empty_like, (gates, parents, children))
        dquery, dforget_input = dparents[:, :hidden], dparents[:, hidden:]
        dkeys, dforget = dchildren[:, :hidden], dchildren[:, hidden:]
        dmixed = torch.empty_like(mixed)

        child_weight, cast_recurrent_weight = child_weight_t.t(), products.cast(recurrent_weight)
        for node, edge, rank, offsets, parent in reversed(_levels(plan)):
            kernels.dep_backward(
                gates[rank], forget[edge], c[edge], offsets, parent, slot[rank], c, dh, dc,
                dgates[rank], dforget_input[node], dforget[edge], dc[edge],
            )  # fmt: skip
            products.mm(dgates[rank], cast_recurrent_weight, dmixed[node])
            kernels.dep_attend_backward(
                query[node], keys[edge], h[edge], offsets, parent, alpha[edge], cosine[edge], dmixed[node],
                dquery[node], dkeys[edge], dh[edge], dh_all is not None,
            )  # fmt: skip
            products.addmm(dchildren[edge], child_weight, dh[edge])
        kernels.leaf_backward(gates[:leaves], slot[:leaves], c, dh, dc, dgates[:leaves])

        dx = None
        if ctx.needs_input_grad[0]:
            dx_ranked = products.new_mm(dgates, products.cast(input_weight))
            products.addmm(dparents, products.cast(parent_weight), dx_ranked[leaves:])
            dx = torch.empty_like(dx_ranked).index_copy_(0, plan.tensor("order"), dx_ranked)
        dbias = torch.cat([dgates.sum(0), dparents.sum(0), dkeys.sum(0)])
        return (
            dx,
            products.new_mm(dgates.t(), x),
            products.new_mm(dparents.t(), x[leaves:]),
            products.new_mm(dchildren.t(), h[:edges]),
            products.new_mm(dgates[leaves:].t(), mixed),
            dbias,
            None,
            None,
            None,
        )


class _Level(NamedTuple):
    """Where one level lies: its nodes, their children and how those are grouped."""

    node: slice
    """Internal nodes in rank order."""
    edge: slice
    """Slots of their children."""
    rank: slice
    """Ranks of the nodes."""
    offsets: Tensor
    """int64 [n + 1]: children of each node, from 0."""
    parent: Tensor
    """int64 [m]: node of each child, from 0."""


def _levels(plan: DepPlan) -> list[_Level]:
    bounds = plan.level_offsets.tolist()
    edges = plan.child_offsets[plan.level_offsets].tolist()
    offsets, parent = plan.tensor("child_offsets"), plan.tensor("edge_parent")
    return [
        _Level(
            slice(low, high),
            slice(edge_low, edge_high),
            slice(plan.leaves + low, plan.leaves + high),
            offsets[low : high + 1] - edge_low,
            parent[edge_low:edge_high] - low,
        )
        for low, high, edge_low, edge_high in zip(bounds[:-1], bounds[1:], edges[:-1], edges[1:], strict=True)
    ]
