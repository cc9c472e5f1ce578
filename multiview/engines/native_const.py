"""Binary constituency Tree-LSTM over a batch: a sweep over levels with a hand-written backward pass.

Shapes: T tokens, U distinct words, I internal nodes, N = T + I nodes, D hidden, E word vector.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from multiview.engines.buffers import CellGradients, Cells
from multiview.engines.kernels import Kernels
from multiview.engines.plan import ConstPlan
from multiview.engines.workspace import Workspace
from parsing.networks.products import Products


class ConstSweep(torch.autograd.Function):
    """States of all nodes of the batch: ``apply(...) -> roots [B, D], h [N, D] in slot order``.

    The children of internal nodes 0..I-1 (in rank order) fill slots 0..2I-1. Viewed as [I, 2D], their states
    are the input of every level's product and, after the sweep, an operand of the weight gradient.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        token: Tensor,
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
            x: [U, E] vectors of distinct words.
            token: int64 [T], each token's word.
            input_weight: [3D, E], rows i, o, u.
            recurrent_weight: [5D, 2D], rows i, o, u, f_l, f_r; columns left child, right child.
            bias: [4D], of i, o, u, and one that both forget gates share.
            plan: the schedule, on the device of ``x``.
            kernels: element-wise steps.
            products: matrix products.
        """
        hidden, tokens, internal = recurrent_weight.shape[1] // 2, plan.tokens, plan.internal
        states = (tokens + internal, hidden)
        work = Workspace(
            x, states, states, (tokens, 3 * hidden), (internal, 5 * hidden), (len(x), 3 * hidden)
        )
        h, c, leaf_gates, gates, word_gates = work.buffers
        products.of_words(x, token, input_weight, word_gates, leaf_gates)
        child_h, weight = _pairs(h, internal), products.cast(recurrent_weight).t()

        slot = plan.tensor("slot")
        cells = kernels.view(Cells(gates, slot, h, c))
        biases = kernels.array(bias)
        kernels.leaf_forward(kernels.view(Cells(leaf_gates, slot, h, c)), biases, tokens)
        for low, high in plan.levels():
            products.mm(child_h[low:high], weight, gates[low:high])
            kernels.const_forward(cells, biases, tokens, low, high)
        roots = h[2 * internal :].clone()
        ctx.save_for_backward(x, token, input_weight, recurrent_weight, leaf_gates, gates, h, c)
        ctx.plan, ctx.kernels, ctx.products = plan, kernels, products
        ctx.set_materialize_grads(False)
        return roots, h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, droots: Tensor | None, dh_all: Tensor | None) -> tuple[Tensor | None, ...]:
        """Levels from the roots down; then each weight gradient is one product over all nodes."""
        x, token, input_weight, recurrent_weight, leaf_gates, gates, h, c = ctx.saved_tensors
        plan, kernels, products = ctx.plan, ctx.kernels, ctx.products
        tokens, internal = plan.tokens, plan.internal
        work = Workspace(h, h.shape, h.shape, leaf_gates.shape, gates.shape)
        dh, dc, dleaf, dgates = work.buffers
        start_gradients(dh, dc, droots, dh_all, 2 * internal)
        dbias = x.new_zeros(4 * h.shape[1])
        child_dh, weight = _pairs(dh, internal), products.cast(recurrent_weight)
        product = products.mm if dh_all is None else products.addmm

        slot, view = plan.tensor("slot"), kernels.view
        leaf_cells, cells = view(Cells(leaf_gates, slot, h, c)), view(Cells(gates, slot, h, c))
        gradients = CellGradients(dgates, dbias, dh, dc)
        dleaf_cells, dcells = view(gradients._replace(gates=dleaf)), view(gradients)
        for low, high in reversed(plan.levels()):
            kernels.const_backward(cells, dcells, tokens, low, high)
            product(dgates[low:high], weight, child_dh[low:high])
        kernels.leaf_backward(leaf_cells, dleaf_cells, tokens)
        kernels.const_bias(dleaf, gradients)

        dwords = products.sum_by_word(dleaf, token, len(x))
        dx = products.new_mm(dwords, products.cast(input_weight)) if ctx.needs_input_grad[0] else None
        dinput_weight = products.gradient(dwords, x)
        drecurrent_weight = products.gradient(dgates, _pairs(h, internal))
        return dx, None, dinput_weight, drecurrent_weight, dbias, None, None, None


def start_gradients(
    dh: Tensor, dc: Tensor, droots: Tensor | None, dh_all: Tensor | None, first_root: int
) -> None:
    """Fill the gradients that are known before the sweep; other slots are written by their parent.

    Args:
        dh: [N, D], to fill.
        dc: [N, D], to fill.
        droots: [B, D], gradient of the roots; None if they were not used.
        dh_all: [N, D], gradient of all states; None if they were not used.
        first_root: slot of the first root.
    """
    dc[first_root:] = 0
    if dh_all is not None:
        dh.copy_(dh_all)
    else:
        dh[first_root:] = 0
    if droots is not None:
        dh[first_root:] += droots


def _pairs(states: Tensor, internal: int) -> Tensor:
    """States of the children as rows of left and right, [I, 2D]: a view of ``states`` [N, D]."""
    return states[: 2 * internal].view(internal, -1) if internal else states.new_empty(0, 2 * states.shape[1])
