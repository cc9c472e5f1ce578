"""CONST: binary N-ary Tree-LSTM over binarised constituency trees (Tai et al. 2015, equations 9-14, N = 2).

word:      i = σ(W_i x + b_i)  o = σ(W_o x + b_o)  u = tanh(W_u x + b_u)  c = i∘u
internal:  i = σ(U_il h_l + U_ir h_r + b_i), o and u alike
           f_l = σ(U_ll h_l + U_lr h_r + b_f)  f_r = σ(U_rl h_l + U_rr h_r + b_f)
           c = i∘u + f_l∘c_l + f_r∘c_r
both:      h = o∘tanh(c); the sentence is the root's h.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from multiview.encoders.registry import Encoder, register_view, xavier_blocks_
from multiview.engines.native import kernels_for, start_gradients, steps, workspace
from multiview.engines.plan import ConstPlan, Plan, plan_const
from parsing.networks.device import Products
from parsing.trees.batch import Batch


@register_view("const")
class ConstEncoder(Encoder):
    """Binary Tree-LSTM, words at the leaves, root state."""

    requires = frozenset({"tokens", "const"})

    def __init__(
        self, word_dim: int, hidden: int, engine: str = "native", *, forget_bias: float = 0.0
    ) -> None:
        super().__init__(word_dim, hidden, engine, forget_bias=forget_bias)
        self.input_weight = nn.Parameter(torch.empty(3 * hidden, word_dim))
        """[3D, E]: W of i, o, u."""
        self.recurrent_weight = nn.Parameter(torch.empty(5 * hidden, 2 * hidden))
        """[5D, 2D]: U of i, o, u, f_l, f_r (rows) from the left and right child (columns)."""
        self.bias = nn.Parameter(torch.empty(4 * hidden))
        """[4D]: of i, o, u, and one that both forget gates share."""
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier for each gate matrix; biases 0, except ``forget_bias`` for the forget gates."""
        xavier_blocks_(self.input_weight, self.dim, self.word_dim)
        xavier_blocks_(self.recurrent_weight, self.dim, self.dim)
        with torch.no_grad():
            self.bias.zero_()[3 * self.dim :] = self.forget_bias

    def plan(self, batch: Batch) -> Plan:
        """Reads ``left``, ``right`` and ``const_height``."""
        plan = plan_const(batch)
        if self.engine != "dgl":
            return plan
        from multiview.engines.dgl_engine import GraphPlan

        return GraphPlan.of(plan)

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Roots [B, D] and all states [2T - B, D] in slot order."""
        weights = self.input_weight, self.recurrent_weight, self.bias
        plan = plan.to(x_UE.device)
        if self.engine == "dgl":
            from multiview.engines.dgl_engine import GraphPlan, const_states

            assert isinstance(plan, GraphPlan)
            return const_states(nn.functional.embedding(token_N, x_UE), *weights, plan)
        assert isinstance(plan, ConstPlan)
        states: tuple[Tensor, Tensor] = ConstSweep.apply(x_UE, token_N, *weights, plan, self.engine)  # type: ignore[no-untyped-call]
        return states


class ConstSweep(torch.autograd.Function):
    """Binary Tree-LSTM over a batch: ``apply(...) -> roots [B, D], h [N, D] in slot order``."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, token: Tensor, input_weight: Tensor, recurrent_weight: Tensor, bias: Tensor,
        plan: ConstPlan, engine: str,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Leaves, then one product and one fused step per level."""
        kernels, products = kernels_for(x, engine), Products.of(x)
        hidden, tokens, internal = recurrent_weight.shape[1] // 2, plan.tokens, plan.internal
        states = (tokens + internal, hidden)
        shapes = states, states, (tokens, 3 * hidden), (internal, 5 * hidden), (len(x), 3 * hidden)
        h, c, leaf_gates, gates, word_gates = workspace(x, *shapes)
        products.of_words(x, token, input_weight, word_gates, leaf_gates)
        child_h, weight = _pairs(h, internal), products.cast(recurrent_weight).t()

        step, slot = steps(kernels), plan.tensor("slot")
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
        start_gradients(dh, dc, droots, dh_all, 2 * internal)
        dbias = x.new_zeros(4 * hidden)
        child_dh, weight = _pairs(dh, internal), products.cast(recurrent_weight)
        product = products.mm if dh_all is None else products.addmm

        step, slot = steps(ctx.kernels), plan.tensor("slot")
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


def _pairs(states: Tensor, internal: int) -> Tensor:
    """States of the children as rows of left and right, [I, 2D]: a view of ``states`` [N, D]."""
    return states[: 2 * internal].view(internal, -1) if internal else states.new_empty(0, 2 * states.shape[1])
