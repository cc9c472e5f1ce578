"""DEP: attentive Child-Sum Tree-LSTM over dependency trees (Tai et al. 2015; attention: Zhou et al. 2016).

Node j with word x_j and children k (its dependents):

    q_j = W_q x_j + b_q   p_k = W_p h_k + b_p
    a_kj = q_j·p_k / (max(‖q_j‖, ε) max(‖p_k‖, ε))   α = softmax of a over children   h̃_j = Σ α_kj h_k
    i, o = σ(W x_j + U h̃_j + b)   u = tanh(W x_j + U h̃_j + b)
    f_kj = σ(W_f x_j + U_f h_k + b_f)   c_j = i∘u + Σ f_kj∘c_k   h_j = o∘tanh(c_j)

A word without dependents has h̃ = 0 and no forget gates; the sentence is the root's h.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from multiview.encoders.registry import Encoder, register_view, xavier_blocks_
from multiview.engines.native import kernels_for, start_gradients, steps, workspace
from multiview.engines.plan import DepPlan, Plan, plan_dep
from parsing.networks.device import Products
from parsing.trees.batch import Batch


@register_view("dep")
class DepEncoder(Encoder):
    """Attentive Child-Sum Tree-LSTM, root state."""

    requires = frozenset({"tokens", "dep"})

    def __init__(
        self, word_dim: int, hidden: int, engine: str = "native", *, forget_bias: float = 0.0
    ) -> None:
        super().__init__(word_dim, hidden, engine, forget_bias=forget_bias)
        self.input_weight = nn.Parameter(torch.empty(3 * hidden, word_dim))
        """[3D, E]: W of i, o, u."""
        self.parent_weight = nn.Parameter(torch.empty(2 * hidden, word_dim))
        """[2D, E]: W_q and W_f, applied to words with dependents."""
        self.child_weight = nn.Parameter(torch.empty(2 * hidden, hidden))
        """[2D, D]: W_p and U_f, applied to children's states."""
        self.recurrent_weight = nn.Parameter(torch.empty(3 * hidden, hidden))
        """[3D, D]: U of i, o, u, applied to h̃."""
        self.bias = nn.Parameter(torch.empty(6 * hidden))
        """[6D]: of i, o, u, q, f, p."""
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier for each matrix; biases 0, except ``forget_bias`` for the forget gates."""
        for weight in (self.input_weight, self.parent_weight):
            xavier_blocks_(weight, self.dim, self.word_dim)
        for weight in (self.child_weight, self.recurrent_weight):
            xavier_blocks_(weight, self.dim, self.dim)
        with torch.no_grad():
            self.bias.zero_()[4 * self.dim : 5 * self.dim] = self.forget_bias

    def plan(self, batch: Batch) -> Plan:
        """Reads ``head`` and ``dep_height``."""
        plan = plan_dep(batch)
        if self.engine != "dgl":
            return plan
        from multiview.engines.dgl_engine import GraphPlan

        return GraphPlan.of(plan)

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Roots [B, D] and all states [T, D] in slot order."""
        words = self.input_weight, self.parent_weight
        weights = *words, self.child_weight, self.recurrent_weight, self.bias
        plan = plan.to(x_UE.device)
        if self.engine == "dgl":
            from multiview.engines.dgl_engine import GraphPlan, dep_states

            assert isinstance(plan, GraphPlan)
            return dep_states(nn.functional.embedding(token_N, x_UE), *weights, plan)
        assert isinstance(plan, DepPlan)
        states: tuple[Tensor, Tensor] = DepSweep.apply(x_UE, token_N, *weights, plan, self.engine)  # type: ignore[no-untyped-call]
        return states


class DepSweep(torch.autograd.Function):
    """Attentive Child-Sum Tree-LSTM over a batch: ``apply(...) -> roots [B, D], h [N, D] in slot order``."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, token: Tensor, input_weight: Tensor, parent_weight: Tensor,
        child_weight: Tensor, recurrent_weight: Tensor, bias: Tensor, plan: DepPlan, engine: str,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Leaves; then, per level, the children's product, attention, the product with h̃ and the gates."""
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

        step, slot, inner_gates = steps(kernels), plan.tensor("slot"), gates[leaves:]
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
        start_gradients(dh, dc, droots, dh_all, edges)
        dbias = x.new_zeros(6 * hidden)
        child_product, recurrent_product = products.cast(child_weight), products.cast(recurrent_weight)

        step, slot, inner_dgates = steps(ctx.kernels), plan.tensor("slot"), dgates[leaves:]
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
