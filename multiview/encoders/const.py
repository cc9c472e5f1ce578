"""CONST: binary N-ary Tree-LSTM over binarised constituency trees (Tai et al. 2015, equations 9-14, N = 2).

word:      i = σ(W_i x + b_i)  o = σ(W_o x + b_o)  u = tanh(W_u x + b_u)  c = i∘u
internal:  i = σ(U_il h_l + U_ir h_r + b_i), o and u alike
           f_l = σ(U_ll h_l + U_lr h_r + b_f)  f_r = σ(U_rl h_l + U_rr h_r + b_f)
           c = i∘u + f_l∘c_l + f_r∘c_r
both:      h = o∘tanh(c); the sentence is the root's h.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from multiview.encoders.registry import Encoder, register_view, xavier_blocks_
from multiview.engines.plan import ConstPlan, Plan, plan_const
from multiview.engines.sweeps import ConstSweep
from parsing.cache.format import Batch


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
        if self.engine == "dgl":
            from multiview.engines.dgl_engine import plan_const_graph

            return plan_const_graph(batch)
        return plan_const(batch)

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
