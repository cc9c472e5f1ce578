"""Attentive Child-Sum Tree-LSTM over a batch: a sweep over levels with a hand-written backward pass.

Shapes: N words (each one a node), I of them with dependents, E = N - B edges, D hidden, V word vector,
U distinct words.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from multiview.engines.buffers import Attention, AttentionGradients, CellGradients, Cells
from multiview.engines.kernels import Kernels
from multiview.engines.native_const import start_gradients
from multiview.engines.plan import DepPlan
from multiview.engines.workspace import Workspace
from parsing.networks.products import Products


class DepSweep(torch.autograd.Function):
    """States of all nodes of the batch: ``apply(...) -> roots [B, D], h [N, D] in slot order``.

    The children of a level are one slice of slots, so ``h_k @ [W_p; U_f]ᵀ`` is one product per level. W_f and
    W_q are applied only to words with dependents, a third of all words.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        token: Tensor,
        input_weight: Tensor,
        parent_weight: Tensor,
        child_weight: Tensor,
        recurrent_weight: Tensor,
        bias: Tensor,
        plan: DepPlan,
        kernels: Kernels,
        products: Products,
    ) -> tuple[Tensor, Tensor]:
        """Leaves; then, per level, the children's product, attention, the product with h̃ and the gates.

        Args:
            ctx: autograd's context.
            x: [U, V] vectors of distinct words.
            token: int64 [N], each token's word.
            input_weight: [3D, V], W of i, o, u.
            parent_weight: [2D, V], W_q and W_f.
            child_weight: [2D, D], W_p and U_f.
            recurrent_weight: [3D, D], U of i, o, u.
            bias: [6D], of i, o, u, q, f, p.
            plan: the schedule, on the device of ``x``.
            kernels: element-wise steps.
            products: matrix products.
        """
        hidden, nodes, leaves = recurrent_weight.shape[1], len(token), plan.leaves
        edges, internal = nodes - plan.sentences, plan.internal
        shapes = [(nodes, hidden)] * 2 + [(nodes, 3 * hidden), (internal, 2 * hidden), (edges, 2 * hidden)]
        once = (len(x), 3 * hidden), (internal, x.shape[1])
        work = Workspace(x, *shapes, (edges,), (edges,), (internal, hidden), *once)
        h, c, gates, parents, children, alpha, cosine, mixed, word_gates, parent_x = work.buffers
        token = token[plan.tensor("order")]
        products.of_words(x, token, input_weight, word_gates, gates)
        # A third of the tokens have dependents, hardly more than there are distinct words.
        torch.index_select(x.detach(), 0, token[leaves:], out=parent_x)
        products.mm(parent_x, products.cast(parent_weight).t(), parents)
        child_product = products.cast(child_weight).t()
        recurrent_product = products.cast(recurrent_weight).t()

        cells = kernels.view(Cells(gates, plan.tensor("slot"), h, c))
        tree = plan.tensor("child_offsets"), plan.tensor("edge_parent")
        attention = kernels.view(Attention(*tree, parents, children, alpha, cosine, mixed))
        biases = kernels.array(bias)
        kernels.leaf_forward(cells, biases, leaves)
        for level in plan.levels():
            low, high, edge_low, edge_high = level
            products.mm(h[edge_low:edge_high], child_product, children[edge_low:edge_high])
            kernels.dep_attend(cells, attention, biases, level)
            products.addmm(mixed[low:high], recurrent_product, gates[leaves + low : leaves + high])
            kernels.dep_forward(cells, attention, biases, leaves, level)
        roots = h[edges:].clone()
        ctx.save_for_backward(
            x, parent_x, token, input_weight, parent_weight, child_weight, recurrent_weight,
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
            x, parent_x, token, input_weight, parent_weight, child_weight, recurrent_weight,
            gates, parents, children, alpha, cosine, mixed, h, c,
        ) = ctx.saved_tensors  # fmt: skip
        plan, kernels, products = ctx.plan, ctx.kernels, ctx.products
        leaves, edges = plan.leaves, len(children)
        like = (h, c, gates, parents, children, mixed)
        work = Workspace(h, *(buffer.shape for buffer in like))
        dh, dc, dgates, dparents, dchildren, dmixed = work.buffers
        start_gradients(dh, dc, droots, dh_all, edges)
        dbias = x.new_zeros(6 * h.shape[1])
        child_product, recurrent_product = products.cast(child_weight), products.cast(recurrent_weight)

        view, tree = kernels.view, (plan.tensor("child_offsets"), plan.tensor("edge_parent"))
        cells = view(Cells(gates, plan.tensor("slot"), h, c))
        attention = view(Attention(*tree, parents, children, alpha, cosine, mixed))
        gradients = CellGradients(dgates, dbias, dh, dc)
        dattention = AttentionGradients(dparents, dchildren, dmixed)
        dcells, dattends = view(gradients), view(dattention)
        for level in reversed(plan.levels()):
            low, high, edge_low, edge_high = level
            kernels.dep_backward(cells, attention, dcells, dattends, leaves, level)
            products.mm(dgates[leaves + low : leaves + high], recurrent_product, dmixed[low:high])
            kernels.dep_attend_backward(
                cells, attention, dcells, dattends, level, accumulate=dh_all is not None
            )
            products.addmm(dchildren[edge_low:edge_high], child_product, dh[edge_low:edge_high])
        kernels.leaf_backward(cells, dcells, leaves)
        kernels.dep_bias(gradients, dattention)

        dwords, dx = products.sum_by_word(dgates, token, len(x)), None
        if ctx.needs_input_grad[0]:
            dx = products.new_mm(dwords, products.cast(input_weight))
            dx += products.sum_by_word(
                products.new_mm(dparents, products.cast(parent_weight)), token[leaves:], len(x)
            )
        return (
            dx,
            None,
            products.gradient(dwords, x),
            products.gradient(dparents, parent_x),
            products.gradient(dchildren, h[:edges]),
            products.gradient(dgates[leaves:], mixed),
            dbias,
            None,
            None,
            None,
        )
