"""The trained views: DEP and CONST are Tree-LSTMs, and SEQ is a bidirectional GRU.

:mod:`multiview.engines.sweeps`, which has their equations, or DGL computes DEP and CONST. SEQ has D/2 numbers
in each direction; the vector of a sentence is the concatenation of the last state of each direction.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from multiview.encoders.registry import ViewEncoder, register_view
from multiview.engines.plan import (
    ConstWeights,
    DepWeights,
    IntArray,
    Plan,
    SequencePlan,
    TreePlan,
    plan_const,
    plan_dep,
    plan_sequence,
)
from multiview.engines.sweeps import ConstSweep, DepSweep
from parsing.trees.batch import Batch
from runtime.errors import UserError
from runtime.process import loading
from runtime.products import products_for


@torch.no_grad()
def xavier_blocks_(weight: Tensor, rows: int, columns: int) -> None:
    """Initialise each [rows, columns] block of a fused weight by Xavier's rule, in place.

    If a weight [5D, 2D] were initialised as one matrix, its values would be 1.7 times too small.
    """
    for block_row in weight.split(rows, 0):
        for block in block_row.split(columns, 1):
            nn.init.xavier_uniform_(block)


class TreeLSTM(ViewEncoder):
    """A Tree-LSTM. Subclasses have a parameter for each field of ``weights_type``."""

    weights_type: ClassVar[type[DepWeights] | type[ConstWeights]]
    """The named tuple of the weights, in the order in which both engines take them."""
    sweep: ClassVar[type[torch.autograd.Function]]
    """The autograd function of the native engine."""

    def _initialise(self, forget_gates: int) -> None:
        """Draw each gate matrix by Xavier's rule; biases are 0, or ``forget_bias`` at ``forget_gates``."""
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                columns = self.word_dim if name in ("input_weight", "parent_weight") else self.dim
                xavier_blocks_(weight, self.dim, columns)
            else:
                nn.init.zeros_(weight)
                nn.init.constant_(weight.detach().split(self.dim)[forget_gates], self.forget_bias)

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Return the states of the roots, [B, D], and of all nodes, [N, D] in slot order."""
        assert isinstance(plan, TreePlan)
        plan = plan.to(x_UE.device)
        weights = self.weights_type(*(getattr(self, name) for name in self.weights_type._fields))
        if self.engine == "dgl":
            from multiview.engines.dgl_engine import tree_states

            return tree_states(nn.functional.embedding(token_N, x_UE), plan, weights)
        root_BD, h_ND = self.sweep.apply(x_UE, token_N, plan, *weights)
        return root_BD, h_ND


@register_view("dep")
class DepEncoder(TreeLSTM):
    """The view DEP: the vector of a sentence is the state of the root of its dependency tree."""

    requires = frozenset({"tokens", "dep"})
    weights_type, sweep = DepWeights, DepSweep

    def __init__(self, word_dim: int, dim: int, engine: str = "native", *, forget_bias: float = 0.0) -> None:
        super().__init__(word_dim, dim, engine, forget_bias=forget_bias)
        self.input_weight = nn.Parameter(torch.empty(3 * dim, word_dim))
        self.parent_weight = nn.Parameter(torch.empty(2 * dim, word_dim))
        self.child_weight = nn.Parameter(torch.empty(2 * dim, dim))
        self.recurrent_weight = nn.Parameter(torch.empty(3 * dim, dim))
        self.bias = nn.Parameter(torch.empty(6 * dim))
        self.register_parameter("role_bias", None)
        self._initialise(forget_gates=4)

    def use_relations(self) -> None:
        """Add biases, for p_k and the forget gate of each child, that depend on the role of the child."""
        from parsing.trees.child_roles import CHILD_ROLES  # here, because the import compiles functions

        self.role_bias = nn.Parameter(torch.empty(len(CHILD_ROLES), 2 * self.dim))
        nn.init.normal_(self.role_bias)

    def plan(self, batch: Batch) -> TreePlan:
        """Return the plan of the trees; it has the roles of the children if the view uses relations."""
        plan = plan_dep(batch)
        if self.role_bias is None:
            return plan
        from parsing.trees.child_roles import child_roles

        role = np.empty_like(plan.node_slot)
        role[plan.node_slot] = child_roles(batch)
        return replace(plan, role=role)


@register_view("const")
class ConstEncoder(TreeLSTM):
    """The view CONST: the vector of a sentence is the state of the root of its constituency tree."""

    requires = frozenset({"tokens", "const"})
    weights_type, sweep = ConstWeights, ConstSweep

    def __init__(self, word_dim: int, dim: int, engine: str = "native", *, forget_bias: float = 0.0) -> None:
        super().__init__(word_dim, dim, engine, forget_bias=forget_bias)
        self.input_weight = nn.Parameter(torch.empty(3 * dim, word_dim))
        self.recurrent_weight = nn.Parameter(torch.empty(5 * dim, 2 * dim))
        self.bias = nn.Parameter(torch.empty(4 * dim))
        self._initialise(forget_gates=3)

    def plan(self, batch: Batch) -> TreePlan:
        """Return the plan of the trees."""
        return plan_const(batch)


@register_view("seq")
class SeqEncoder(ViewEncoder):
    """The view SEQ: a sentence's vector is the last states of both directions. ``engine`` is ignored."""

    requires = frozenset({"tokens"})

    def __init__(self, word_dim: int, dim: int, engine: str = "native", *, forget_bias: float = 0.0) -> None:
        super().__init__(word_dim, dim, engine, forget_bias=forget_bias)
        if dim % 2:
            raise UserError(f"dim {dim}: view seq has two directions of half the width, give an even number")
        self.gru = nn.GRU(word_dim, dim // 2, bidirectional=True)
        for parameter in self.gru.parameters():
            if parameter.dim() == 2:
                xavier_blocks_(parameter, dim // 2, parameter.shape[1])
            else:
                nn.init.zeros_(parameter)

    def plan(self, batch: Batch) -> SequencePlan:
        """Return the plan of the sentences, packed as torch's ``PackedSequence``."""
        return plan_sequence(batch)

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Return the vectors of sentences, [B, D], and the states of all words, [T, D] in packed order."""
        assert isinstance(plan, SequencePlan)
        if not plan.sentences:
            return x_UE.new_empty(0, self.dim), x_UE.new_empty(0, self.dim)
        plan = plan.to(x_UE.device)
        token_of_row, column_B = plan.tensor("token_of_row"), plan.tensor("unsorted_sentences")
        # Most of the work is the product with the input weights, which torch's GRU computes for every token.
        # The loop over positions computes it once for each distinct word, which is twice as fast on a CPU.
        # Training uses torch's fused backward pass.
        has_kernel = x_UE.device.type == "cpu" and x_UE.dtype in (torch.float32, torch.float64)
        if has_kernel and not torch.is_grad_enabled():
            token_T = token_N[token_of_row]
            ahead_BH, ahead_TH = self._run_direction(x_UE, token_T, plan.batch_sizes, "")
            back_BH, back_TH = self._run_direction(x_UE, token_T, plan.batch_sizes, "_reverse")
            sentence_BD = torch.cat([ahead_BH, back_BH], dim=1).index_select(0, column_B)
            return sentence_BD, torch.cat([ahead_TH, back_TH], dim=1)
        inputs = PackedSequence(
            nn.functional.embedding(token_N, x_UE).index_select(0, token_of_row),
            torch.from_numpy(plan.batch_sizes),
            plan.tensor("sorted_sentences"),
            column_B,
        )
        words, last_states = self.gru(inputs)
        return last_states.transpose(0, 1).flatten(1), words.data

    def _run_direction(
        self, x_UE: Tensor, token_T: Tensor, batch_sizes: IntArray, suffix: str
    ) -> tuple[Tensor, Tensor]:
        """Return the last states, [B, D/2], and all states, [T, D/2], of a direction, in packed order."""
        with loading():
            from multiview.engines.kernels_numba import array, gru_forward  # numba takes time to import

        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weights = (getattr(self.gru, f"{name}_l0{suffix}") for name in names)
        input_weight, recurrent_weight, input_bias, recurrent_bias = weights
        products, half = products_for(x_UE), self.dim // 2
        gates_UG = products.new_mm(x_UE, products.factor(input_weight)).add_(input_bias)
        recurrent_factor = products.factor(recurrent_weight)
        state_BH = x_UE.new_zeros(int(batch_sizes[0]), half)
        states_TH = x_UE.new_empty(len(token_T), half)
        recurrent_BG = x_UE.new_empty(len(state_BH), 3 * half)
        buffers = (gates_UG, token_T, recurrent_BG, recurrent_bias, state_BH, states_TH)
        step = partial(gru_forward, *map(array, buffers))
        ends = np.cumsum(batch_sizes).tolist()
        positions = list(zip(ends, batch_sizes.tolist(), strict=True))
        for end, sentences in reversed(positions) if suffix else positions:
            products.mm(state_BH[:sentences], recurrent_factor, recurrent_BG[:sentences])
            step(end - sentences, end)
        return state_BH, states_TH
