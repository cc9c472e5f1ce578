"""Binary constituency Tree-LSTM over a batch: level-scheduled sweep with a hand-written backward pass.

Shapes: T words, I internal nodes, N = T + I nodes, D hidden, E word vector.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from multiview.engines.kernels import Kernels
from multiview.engines.plan import ConstPlan
from multiview.engines.products import Products


class ConstSweep(torch.autograd.Function):
    """States of all nodes of the batch: ``apply(...) -> roots [B, D], h [N, D] in slot order``.

    The children of internal nodes 0..I-1 (in rank order) fill slots 0..2I-1, so those states read as [I,
    2D] are at once the input of every level's product and, after the sweep, the one operand of the weight
    gradient.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        input_weight: Tensor,
        recurrent_weight: Tensor,
        bias: Tensor,
        plan: ConstPlan,
        kernels: Kernels,
        products: Products,
    ) -> tuple[Tensor, Tensor]:
        """Leaves, then one product and one fused step per level.

        Args:
            ctx: autograd's context.
            x: [T, E] word vectors.
            input_weight: [3D, E], rows i, o, u.
            recurrent_weight: [5D, 2D], rows i, o, u, f_l, f_r; columns left child, right child.
            bias: [4D], i, o, u and the one that both forget gates share.
            plan: the schedule, on the device of ``x``.
            kernels: element-wise steps.
            products: matrix products.
        """
        hidden, tokens, internal = recurrent_weight.shape[1] // 2, plan.tokens, plan.internal
        slot = plan.tensor("slot")
        h, c = x.new_empty(2, tokens + internal, hidden)
        leaf_gates = products.new_mm(x, products.cast(input_weight).t())
        kernels.leaf_forward(leaf_gates, bias[: 3 * hidden], slot[:tokens], h, c)

        gates = x.new_empty(internal, 5 * hidden)
        child_h, child_c = _pairs(h, internal), _pairs(c, internal)
        weight = products.cast(recurrent_weight).t()
        for low, high in _levels(plan):
            products.mm(child_h[low:high], weight, gates[low:high])
            kernels.const_forward(
                gates[low:high], bias, child_c[low:high], slot[tokens + low : tokens + high], h, c
            )
        roots = h[2 * internal :].clone()
        ctx.save_for_backward(x, input_weight, recurrent_weight, leaf_gates, gates, h, c)
        ctx.plan, ctx.kernels, ctx.products = plan, kernels, products
        ctx.set_materialize_grads(False)
        return roots, h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, droots: Tensor | None, dh_all: Tensor | None) -> tuple[Tensor | None, ...]:
        """Levels from the roots down; then each weight gradient is one product over all nodes."""
        x, input_weight, recurrent_weight, leaf_gates, gates, h, c = ctx.saved_tensors
        plan, kernels, products = ctx.plan, ctx.kernels, ctx.products
        tokens, internal = plan.tokens, plan.internal
        slot = plan.tensor("slot")
        dh, dc = slot_gradients(h, droots, dh_all, 2 * internal)
        child_h, child_c = _pairs(h, internal), _pairs(c, internal)
        child_dh, child_dc = _pairs(dh, internal), _pairs(dc, internal)

        dgates = torch.empty_like(gates)
        weight = products.cast(recurrent_weight)
        product = products.mm if dh_all is None else products.addmm
        for low, high in reversed(_levels(plan)):
            kernels.const_backward(
                gates[low:high],
                child_c[low:high],
                slot[tokens + low : tokens + high],
                c,
                dh,
                dc,
                dgates[low:high],
                child_dc[low:high],
            )
            product(dgates[low:high], weight, child_dh[low:high])
        dleaf = torch.empty_like(leaf_gates)
        kernels.leaf_backward(leaf_gates, slot[:tokens], c, dh, dc, dleaf)

        hidden = h.shape[1]
        summed = dgates.sum(0)
        dbias = torch.cat([dleaf.sum(0) + summed[: 3 * hidden], summed[3 * hidden :].view(2, -1).sum(0)])
        dx = products.new_mm(dleaf, products.cast(input_weight)) if ctx.needs_input_grad[0] else None
        dinput_weight = products.new_mm(dleaf.t(), x)
        drecurrent_weight = products.new_mm(dgates.t(), child_h)
        return dx, dinput_weight, drecurrent_weight, dbias, None, None, None


def slot_gradients(
    h: Tensor, droots: Tensor | None, dh_all: Tensor | None, first_root: int
) -> tuple[Tensor, Tensor]:
    """Gradients of h and c by slot: the roots' are known, others are written by their parent."""
    dh = torch.empty_like(h) if dh_all is None else dh_all.clone()
    dc = torch.empty_like(h)
    dc[first_root:] = 0
    if dh_all is None:
        dh[first_root:] = 0 if droots is None else droots
    elif droots is not None:
        dh[first_root:] += droots
    return dh, dc


def _levels(plan: ConstPlan) -> list[tuple[int, int]]:
    bounds = plan.level_offsets.tolist()
    return list(pairwise(bounds))


def _pairs(states: Tensor, internal: int) -> Tensor:
    """The children's states of all internal nodes as rows [left, right]: [I, 2D], a view."""
    return states[: 2 * internal].view(internal, -1) if internal else states.new_empty(0, 2 * states.shape[1])
