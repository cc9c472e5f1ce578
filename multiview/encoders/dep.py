"""DEP: attentive Child-Sum Tree-LSTM over dependency trees (Tai et al. 2015; attention: Zhou et al. 2016).

Node j with word x_j and children k (its dependents):

    q_j = W_q x_j + b_q   p_k = W_p h_k + b_p
    a_kj = q_j·p_k / (max(‖q_j‖, ε) max(‖p_k‖, ε))   α = softmax of a over children   h̃_j = Σ α_kj h_k
    i, o = σ(W x_j + U h̃_j + b)   u = tanh(W x_j + U h̃_j + b)
    f_kj = σ(W_f x_j + U_f h_k + b_f)   c_j = i∘u + Σ f_kj∘c_k   h_j = o∘tanh(c_j)

A word without dependents has h̃ = 0 and no forget gates; the sentence is the root's h.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from multiview.encoders.registry import Encoder, register_view, xavier_blocks_
from multiview.engines.plan import DepPlan, Plan, plan_dep
from multiview.engines.sweeps import DepSweep
from parsing.cache.format import Batch


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
        if self.engine == "dgl":
            from multiview.engines.dgl_engine import plan_dep_graph

            return plan_dep_graph(batch)
        return plan_dep(batch)

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
