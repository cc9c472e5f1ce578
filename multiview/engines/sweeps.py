"""The Tree-LSTMs over a batch: sweeps over the levels of its trees, with backward passes by hand.

In :class:`ConstSweep` the children of internal nodes 0..I-1 (in rank order) fill slots 0..2I-1. Viewed as
[I, 2D], their states are the input of every level's product and, after the sweep, an operand of the weight
gradient. In :class:`DepSweep` the children of a level are one slice of slots, so ``h_k @ [W_p; U_f]ᵀ`` is one
product per level; W_f and W_q are applied only to words with dependents, a third of all words.

Shapes: B sentences, T tokens, U distinct words, N nodes (I internal), E edges, D hidden, V word vector.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from multiview.engines import kernels_torch
from multiview.engines.memory import workspace
from multiview.engines.plan import ConstPlan, DepPlan
from parsing.networks.products import Products


def kernels_for(x: Tensor, engine: str) -> ModuleType:
    """The module with the kernels for tensors of the type and device of ``x``, see ``kernels_torch``.

    Args:
        x: any shape.
        engine: ``native`` takes the device's fastest kernels, ``torch`` the portable ones.
    """
    if engine == "native" and x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64):
        from multiview.engines import kernels_numba

        return kernels_numba
    if engine == "native" and x.device.type == "cuda" and find_spec("triton"):
        from multiview.engines import kernels_triton

        return kernels_triton
    return kernels_torch


def _steps(kernels: ModuleType) -> Callable[..., Callable[..., None]]:
    """Binds a kernel, by name, to its buffers; what is called with the bounds of a level remains."""
    return lambda name, *buffers: partial(getattr(kernels, name), *map(kernels.array, buffers))


class ConstSweep(torch.autograd.Function):
    """Binary Tree-LSTM over a batch: ``apply(...) -> roots [B, D], h [N, D] in slot order``."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        token: Tensor,
        input_weight: Tensor,
        recurrent_weight: Tensor,
        bias: Tensor,
        plan: ConstPlan,
        engine: str,
    ) -> tuple[Tensor, Tensor]:
        """Leaves, then one product and one fused step per level.

        Args:
            ctx: autograd's context.
            x: [U, V] vectors of distinct words.
            token: int64 [T], each token's word.
            input_weight: [3D, V], rows i, o, u.
            recurrent_weight: [5D, 2D], rows i, o, u, f_l, f_r; columns left child, right child.
            bias: [4D], of i, o, u, and one that both forget gates share.
            plan: the schedule, on the device of ``x``.
            engine: ``native`` or ``torch``.
        """
        kernels, products = kernels_for(x, engine), Products.of(x)
        hidden, tokens, internal = recurrent_weight.shape[1] // 2, plan.tokens, plan.internal
        states = (tokens + internal, hidden)
        shapes = states, states, (tokens, 3 * hidden), (internal, 5 * hidden), (len(x), 3 * hidden)
        h, c, leaf_gates, gates, word_gates = workspace(x, *shapes)
        products.of_words(x, token, input_weight, word_gates, leaf_gates)
        child_h, weight = _pairs(h, internal), products.cast(recurrent_weight).t()

        step, slot = _steps(kernels), plan.tensor("slot")
        step("leaf_forward", leaf_gates, bias, slot, h, c)(0, tokens)
        inner = step("const_forward", gates, bias, slot[tokens:], h, c)
        for low, high in plan.levels():
            products.mm(child_h[low:high], weight, gates[low:high])
            inner(low, high)
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
        plan, products = ctx.plan, ctx.products
        tokens, internal, hidden = plan.tokens, plan.internal, h.shape[1]
        dh, dc, dleaf, dgates = workspace(h, h.shape, h.shape, leaf_gates.shape, gates.shape)
        _start_gradients(dh, dc, droots, dh_all, 2 * internal)
        dbias = x.new_zeros(4 * hidden)
        child_dh, weight = _pairs(dh, internal), products.cast(recurrent_weight)
        product = products.mm if dh_all is None else products.addmm

        step, slot = _steps(ctx.kernels), plan.tensor("slot")
        inner = step("const_backward", gates, slot[tokens:], c, dh, dc, dgates, dbias)
        for low, high in reversed(plan.levels()):
            inner(low, high)
            product(dgates[low:high], weight, child_dh[low:high])
        step("leaf_backward", leaf_gates, slot, c, dh, dc, dleaf, dbias)(0, tokens)
        if ctx.kernels.BIAS_AFTERWARDS:
            dbias[: 3 * hidden] = dleaf.sum(0) + dgates[:, : 3 * hidden].sum(0)
            dbias[3 * hidden :] = dgates[:, 3 * hidden :].sum(0).view(2, hidden).sum(0)

        dwords = products.sum_by_word(dleaf, token, len(x))
        dx = products.new_mm(dwords, products.cast(input_weight)) if ctx.needs_input_grad[0] else None
        dinput_weight = products.gradient(dwords, x)
        drecurrent_weight = products.gradient(dgates, _pairs(h, internal))
        return dx, None, dinput_weight, drecurrent_weight, dbias, None, None


class DepSweep(torch.autograd.Function):
    """Attentive Child-Sum Tree-LSTM over a batch: ``apply(...) -> roots [B, D], h [N, D] in slot order``."""

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
        engine: str,
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
            engine: ``native`` or ``torch``.
        """
        kernels, products = kernels_for(x, engine), Products.of(x)
        hidden, nodes, leaves = recurrent_weight.shape[1], len(token), plan.leaves
        edges, internal = nodes - plan.sentences, plan.internal
        shapes = [(nodes, hidden)] * 2 + [(nodes, 3 * hidden), (internal, 2 * hidden), (edges, 2 * hidden)]
        once = (len(x), 3 * hidden), (internal, x.shape[1])
        h, c, gates, parents, children, alpha, cosine, mixed, word_gates, parent_x = workspace(
            x, *shapes, (edges,), (edges,), (internal, hidden), *once
        )
        token = token[plan.tensor("order")]
        products.of_words(x, token, input_weight, word_gates, gates)
        # A third of the tokens have dependents, hardly more than there are distinct words.
        torch.index_select(x.detach(), 0, token[leaves:], out=parent_x)
        products.mm(parent_x, products.cast(parent_weight).t(), parents)
        child_product = products.cast(child_weight).t()
        recurrent_product = products.cast(recurrent_weight).t()

        step, slot, inner_gates = _steps(kernels), plan.tensor("slot"), gates[leaves:]
        tree = plan.tensor("child_offsets"), plan.tensor("edge_parent")
        step("leaf_forward", gates, bias, slot, h, c)(0, leaves)
        attend = step("dep_attend", parents, children, bias, h, *tree, alpha, cosine, mixed)
        inner = step("dep_forward", inner_gates, parents, children, bias, slot[leaves:], h, c, *tree)
        for level in plan.levels():
            low, high, edge_low, edge_high = level
            products.mm(h[edge_low:edge_high], child_product, children[edge_low:edge_high])
            attend(*level)
            products.addmm(mixed[low:high], recurrent_product, inner_gates[low:high])
            inner(*level)
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
        plan, products = ctx.plan, ctx.products
        leaves, edges, hidden = plan.leaves, len(children), h.shape[1]
        like = (h, c, gates, parents, children, mixed)
        dh, dc, dgates, dparents, dchildren, dmixed = workspace(h, *(buffer.shape for buffer in like))
        _start_gradients(dh, dc, droots, dh_all, edges)
        dbias = x.new_zeros(6 * hidden)
        child_product, recurrent_product = products.cast(child_weight), products.cast(recurrent_weight)

        step, slot, inner_dgates = _steps(ctx.kernels), plan.tensor("slot"), dgates[leaves:]
        tree = plan.tensor("child_offsets"), plan.tensor("edge_parent")
        inner = step(
            "dep_backward", gates[leaves:], children, slot[leaves:], c, *tree,
            dh, dc, inner_dgates, dparents, dchildren, dbias,
        )  # fmt: skip
        attend = step(
            "dep_attend_backward", parents, children, h, *tree, alpha, cosine,
            dmixed, dparents, dchildren, dh, dbias,
        )  # fmt: skip
        for level in reversed(plan.levels()):
            low, high, edge_low, edge_high = level
            inner(*level)
            products.mm(inner_dgates[low:high], recurrent_product, dmixed[low:high])
            attend(dh_all is not None, *level)
            products.addmm(dchildren[edge_low:edge_high], child_product, dh[edge_low:edge_high])
        step("leaf_backward", gates, slot, c, dh, dc, dgates, dbias)(0, leaves)
        if ctx.kernels.BIAS_AFTERWARDS:
            torch.cat([dgates.sum(0), dparents.sum(0), dchildren[:, :hidden].sum(0)], out=dbias)

        dwords, dx = products.sum_by_word(dgates, token, len(x)), None
        if ctx.needs_input_grad[0]:
            dx = products.new_mm(dwords, products.cast(input_weight))
            dparent_x = products.new_mm(dparents, products.cast(parent_weight))
            dx += products.sum_by_word(dparent_x, token[leaves:], len(x))
        weights = (
            products.gradient(dwords, x),
            products.gradient(dparents, parent_x),
            products.gradient(dchildren, h[:edges]),
            products.gradient(inner_dgates, mixed),
        )
        return dx, None, *weights, dbias, None, None


def _start_gradients(
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
