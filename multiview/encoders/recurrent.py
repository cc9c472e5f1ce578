"""The trained views: DEP and CONST are Tree-LSTMs, SEQ is a bidirectional GRU.

DEP: attentive Child-Sum Tree-LSTM over dependency trees (Tai et al. 2015; attention: Zhou et al. 2016). Node
j with word x_j and children k (its dependents):

    q_j = W_q x_j + b_q   p_k = W_p h_k + b_p
    a_kj = q_j·p_k / (max(‖q_j‖, ε) max(‖p_k‖, ε))   α = softmax of a over children   h̃_j = Σ α_kj h_k
    i, o = σ(W x_j + U h̃_j + b)   u = tanh(W x_j + U h̃_j + b)
    f_kj = σ(W_f x_j + U_f h_k + b_f)   c_j = i∘u + Σ f_kj∘c_k   h_j = o∘tanh(c_j)

A word without dependents has h̃ = 0 and no forget gates; the sentence is the root's h. With relations
(``--encoder.relations``) p_k and the forget gate of a child have biases of its role r(k) to its head as well,
so that it matters which child is which: b_p + b_p^r(k), b_f + b_f^r(k).

CONST: binary N-ary Tree-LSTM over binarised constituency trees (Tai et al. 2015, equations 9-14, N = 2).

    word:      i = σ(W_i x + b_i)  o = σ(W_o x + b_o)  u = tanh(W_u x + b_u)  c = i∘u
    internal:  i = σ(U_il h_l + U_ir h_r + b_i), o and u alike
               f_l = σ(U_ll h_l + U_lr h_r + b_f)  f_r = σ(U_rl h_l + U_rr h_r + b_f)
               c = i∘u + f_l∘c_l + f_r∘c_r
    both:      h = o∘tanh(c); the sentence is the root's h.

SEQ: D/2 in each direction; the sentence is the last state of both.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
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
    start_gradients,
    workspace,
)
from parsing.trees.batch import Batch
from runtime.device import Products
from runtime.errors import UserError


@torch.no_grad()
def xavier_blocks_(weight: Tensor, rows: int, columns: int) -> None:
    """Initialise each [rows, columns] block of a fused weight by Xavier's rule, in place.

    Initialised as one matrix, a weight of [5D, 2D] would get values 1.7 times too small.
    """
    for block_row in weight.split(rows, 0):
        for block in block_row.split(columns, 1):
            nn.init.xavier_uniform_(block)


def kernels_for(x: Tensor) -> ModuleType:
    """Import the kernels of the device of ``x``, if it has any; ``kernels_numba`` describes their buffers."""
    if x.device.type == "cpu":
        from multiview.engines import kernels_numba

        return kernels_numba
    if x.device.type == "cuda" and find_spec("triton"):
        from multiview.engines import kernels_triton

        return kernels_triton
    raise UserError(f"{x.device}: the native engine needs a CPU, or CUDA with triton; try the engine dgl")


class DepBuffers(NamedTuple):
    """What the sweep of DEP writes and its gradients read; shapes as in :mod:`multiview.engines.plan`."""

    h: Tensor  # [N, D], by slot
    c: Tensor  # [N, D], by slot
    gates: Tensor  # [N, 3D], by rank: i, o, u
    parents: Tensor  # [I, 2D]: q and W_f x
    children: Tensor  # [E, 2D], by slot: p and the forget gate
    alpha: Tensor  # [E]
    cosine: Tensor  # [E], of q and p
    context: Tensor  # [I, D]: h̃
    parent_x: Tensor  # [I, size of a word vector]: x

    @staticmethod
    def shapes(plan: TreePlan, dim: int, word_dim: int) -> list[tuple[int, ...]]:
        """Return the shape of each buffer."""
        nodes, internal, edges = len(plan.node_of_rank), plan.internal, plan.edges
        by_node = [(nodes, dim), (nodes, dim), (nodes, 3 * dim)]
        by_edge = [(edges, 2 * dim), (edges,), (edges,)]
        return [*by_node, (internal, 2 * dim), *by_edge, (internal, dim), (internal, word_dim)]


class DepSweep(torch.autograd.Function):
    """Runs DEP over a batch: ``apply(...)`` returns roots [B, D] and all states [N, D] in slot order."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, token: Tensor, plan: TreePlan, *weight_tensors: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Go through the leaves; then, per level, the children's product, attention, h̃'s product, gates."""
        weights = DepWeights(*weight_tensors)
        kernels, products = kernels_for(x), Products.of(x)
        dim = weights.recurrent_weight.shape[1]
        shapes = DepBuffers.shapes(plan, dim, x.shape[1])
        *tensors, word_gates = workspace(x, *shapes, (len(x), 3 * dim))
        buffers = DepBuffers(*tensors)
        h, c, gates, parents, children, alpha, cosine, context, parent_x = buffers
        leaves, edges = plan.leaves, plan.edges

        token = token[plan.tensor("node_of_rank")]
        products.multiply_words(x, token, weights.input_weight, word_gates, gates)
        # A third of the tokens have dependents, hardly more than there are distinct words.
        torch.index_select(x.detach(), 0, token[leaves:], out=parent_x)
        products.mm(parent_x, products.cast(weights.parent_weight).t(), parents)
        child_product = products.cast(weights.child_weight).t()
        recurrent_product = products.cast(weights.recurrent_weight).t()
        multiply_children = products.mm
        if weights.role_bias is not None:
            multiply_children = products.addmm
            torch.index_select(weights.role_bias.detach(), 0, plan.tensor("role")[:edges], out=children)

        bind, slot = partial(kernels.bind, dim), plan.tensor("slot_of_rank")
        offsets = plan.tensor("child_offsets")
        inner_gates = gates[leaves:]
        bind("leaf_forward", gates, weights.bias, slot, h, c)(0, leaves)
        attend = bind("dep_attend", parents, children, weights.bias, h, offsets, alpha, cosine, context)
        activate = bind(
            "dep_forward", inner_gates, parents, children, weights.bias, slot[leaves:], h, c, offsets
        )
        for low, high, edge_low, edge_high in plan.levels():
            multiply_children(h[edge_low:edge_high], child_product, children[edge_low:edge_high])
            attend(low, high)
            products.addmm(context[low:high], recurrent_product, inner_gates[low:high])
            activate(low, high)
        ctx.save_for_backward(x, token, *weights, *buffers)
        ctx.plan, ctx.kernels, ctx.products = plan, kernels, products
        ctx.set_materialize_grads(False)
        return h[edges:].clone(), h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, droots: Tensor | None, dh_all: Tensor | None) -> tuple[Tensor | None, ...]:
        """Go through levels from the roots down; then each weight gradient is one product over all nodes."""
        x, token, *tensors = ctx.saved_tensors
        weights = DepWeights(*tensors[: len(DepWeights._fields)])
        buffers = DepBuffers(*tensors[len(DepWeights._fields) :])
        h, c, gates, parents, children, alpha, cosine, context, parent_x = buffers
        plan, products = ctx.plan, ctx.products
        leaves, edges, dim = plan.leaves, plan.edges, h.shape[1]
        shapes = [buffer.shape for buffer in (h, c, gates, parents, children, context)]
        dh, dc, dgates, dparents, dchildren, dcontext = workspace(h, *shapes)
        start_gradients(dh, dc, droots, dh_all, edges)
        dbias = x.new_zeros(6 * dim)
        child_product = products.cast(weights.child_weight)
        recurrent_product = products.cast(weights.recurrent_weight)

        bind, slot = partial(ctx.kernels.bind, dim), plan.tensor("slot_of_rank")
        offsets = plan.tensor("child_offsets")
        inner_dgates = dgates[leaves:]
        activate = bind(
            "dep_backward", gates[leaves:], children, slot[leaves:], c, offsets,
            dh, dc, inner_dgates, dparents, dchildren, dbias,
        )  # fmt: skip
        attend = bind(
            "dep_attend_backward", parents, children, h, offsets, alpha, cosine,
            dcontext, dparents, dchildren, dh, dbias,
        )  # fmt: skip
        for low, high, edge_low, edge_high in reversed(plan.levels()):
            activate(low, high)
            products.mm(inner_dgates[low:high], recurrent_product, dcontext[low:high])
            attend(dh_all is not None, low, high)
            products.addmm(dchildren[edge_low:edge_high], child_product, dh[edge_low:edge_high])
        bind("leaf_backward", gates, slot, c, dh, dc, dgates, dbias)(0, leaves)
        if ctx.kernels.BIAS_AFTERWARDS:
            torch.cat([dgates.sum(0), dparents.sum(0), dchildren[:, :dim].sum(0)], out=dbias)

        dwords = products.sum_by_word(dgates, token, len(x))
        drole_bias = None
        if weights.role_bias is not None:
            role = plan.tensor("role")[:edges]
            drole_bias = products.sum_by_word(dchildren, role, len(weights.role_bias))
        gradients = DepWeights(
            input_weight=products.gradient(dwords, x),
            parent_weight=products.gradient(dparents, parent_x),
            child_weight=products.gradient(dchildren, h[:edges]),
            recurrent_weight=products.gradient(inner_dgates, context),
            bias=dbias,
            role_bias=drole_bias,
        )
        dx = None
        if ctx.needs_input_grad[0]:
            dx = products.new_mm(dwords, products.cast(weights.input_weight))
            dparent_x = products.new_mm(dparents, products.cast(weights.parent_weight))
            dx += products.sum_by_word(dparent_x, token[leaves:], len(x))
        return dx, None, None, *gradients


class ConstSweep(torch.autograd.Function):
    """Runs CONST over a batch: ``apply(...)`` returns roots [B, D] and all states [N, D] in slot order."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, token: Tensor, plan: TreePlan, *weight_tensors: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Go through the leaves, then take one product and one fused step per level."""
        weights = ConstWeights(*weight_tensors)
        kernels, products = kernels_for(x), Products.of(x)
        dim, tokens, internal = weights.recurrent_weight.shape[1] // 2, plan.leaves, plan.internal
        states = (tokens + internal, dim)
        shapes = states, states, (tokens, 3 * dim), (internal, 5 * dim), (len(x), 3 * dim)
        h, c, leaf_gates, gates, word_gates = workspace(x, *shapes)
        products.multiply_words(x, token, weights.input_weight, word_gates, leaf_gates)
        child_h, recurrent_product = _pairs(h, internal), products.cast(weights.recurrent_weight).t()

        bind, slot = partial(kernels.bind, dim), plan.tensor("slot_of_rank")
        bind("leaf_forward", leaf_gates, weights.bias, slot, h, c)(0, tokens)
        activate = bind("const_forward", gates, weights.bias, slot[tokens:], h, c)
        for low, high, *_ in plan.levels():
            products.mm(child_h[low:high], recurrent_product, gates[low:high])
            activate(low, high)
        ctx.save_for_backward(
            x, token, weights.input_weight, weights.recurrent_weight, leaf_gates, gates, h, c
        )
        ctx.plan, ctx.kernels, ctx.products = plan, kernels, products
        ctx.set_materialize_grads(False)
        return h[plan.edges :].clone(), h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, droots: Tensor | None, dh_all: Tensor | None) -> tuple[Tensor | None, ...]:
        """Go through levels from the roots down; then each weight gradient is one product over all nodes."""
        x, token, input_weight, recurrent_weight, leaf_gates, gates, h, c = ctx.saved_tensors
        plan, products = ctx.plan, ctx.products
        tokens, internal, dim = plan.leaves, plan.internal, h.shape[1]
        dh, dc, dleaf_gates, dgates = workspace(h, h.shape, h.shape, leaf_gates.shape, gates.shape)
        start_gradients(dh, dc, droots, dh_all, plan.edges)
        dbias = x.new_zeros(4 * dim)
        child_dh, recurrent_product = _pairs(dh, internal), products.cast(recurrent_weight)
        multiply = products.mm if dh_all is None else products.addmm

        bind, slot = partial(ctx.kernels.bind, dim), plan.tensor("slot_of_rank")
        activate = bind("const_backward", gates, slot[tokens:], c, dh, dc, dgates, dbias)
        for low, high, *_ in reversed(plan.levels()):
            activate(low, high)
            multiply(dgates[low:high], recurrent_product, child_dh[low:high])
        bind("leaf_backward", leaf_gates, slot, c, dh, dc, dleaf_gates, dbias)(0, tokens)
        if ctx.kernels.BIAS_AFTERWARDS:
            dbias[: 3 * dim] = dleaf_gates.sum(0) + dgates[:, : 3 * dim].sum(0)
            dbias[3 * dim :] = dgates[:, 3 * dim :].sum(0).view(2, dim).sum(0)

        dwords = products.sum_by_word(dleaf_gates, token, len(x))
        dx = products.new_mm(dwords, products.cast(input_weight)) if ctx.needs_input_grad[0] else None
        gradients = ConstWeights(
            input_weight=products.gradient(dwords, x),
            recurrent_weight=products.gradient(dgates, _pairs(h, internal)),
            bias=dbias,
        )
        return dx, None, None, *gradients


def _pairs(states: Tensor, internal: int) -> Tensor:
    """Return the states of the children as rows of left and right, [I, 2D]: a view of ``states`` [N, D]."""
    return states[: 2 * internal].view(internal, -1) if internal else states.new_empty(0, 2 * states.shape[1])


class TreeLSTM(ViewEncoder):
    """A Tree-LSTM; subclasses have a parameter for each field of ``weights_type``."""

    tree_plan: ClassVar[staticmethod[[Batch], TreePlan]]
    """Makes the native plan."""
    weights_type: ClassVar[type[DepWeights] | type[ConstWeights]]
    """The weights in the order in which both engines take them."""
    sweep: ClassVar[type[torch.autograd.Function]]
    """The native engine."""
    reference: ClassVar[str]
    """The function of ``dgl_engine`` that computes the same."""

    def _initialise(self, forget_gates: int) -> None:
        """Draw each gate matrix by Xavier's rule; biases are 0, those of ``forget_gates`` ``forget_bias``."""
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                columns = self.word_dim if name in ("input_weight", "parent_weight") else self.dim
                xavier_blocks_(weight, self.dim, columns)
            else:
                nn.init.zeros_(weight)
                nn.init.constant_(weight.detach().split(self.dim)[forget_gates], self.forget_bias)

    def plan(self, batch: Batch) -> Plan:
        """Schedule the trees, by their heads or children and their heights."""
        plan = self.tree_plan(batch)
        if self.engine != "dgl":
            return plan
        from multiview.engines.dgl_engine import GraphPlan

        return GraphPlan.of(plan)

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Return the roots [B, D] and all states [N, D] in slot order."""
        plan = plan.to(x_UE.device)
        weights = self.weights_type(*(getattr(self, name) for name in self.weights_type._fields))
        if self.engine == "dgl":
            from multiview.engines import dgl_engine

            compute_states = getattr(dgl_engine, self.reference)
            root_BD, h_ND = compute_states(nn.functional.embedding(token_N, x_UE), plan, weights)
        else:
            root_BD, h_ND = self.sweep.apply(x_UE, token_N, plan, *weights)
        return root_BD, h_ND


@register_view("dep")
class DepEncoder(TreeLSTM):
    """The view DEP: a sentence is the state of the root of its dependency tree."""

    requires = frozenset({"tokens", "dep"})
    tree_plan = staticmethod(plan_dep)
    weights_type, sweep, reference = DepWeights, DepSweep, "dep_states"

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
        """Let the role of each child enter."""
        from parsing.trees.child_roles import CHILD_ROLES  # here: it compiles

        self.role_bias = nn.Parameter(torch.empty(len(CHILD_ROLES), 2 * self.dim))
        nn.init.normal_(self.role_bias)

    def plan(self, batch: Batch) -> Plan:
        """Schedule the trees, by heads and heights; with relations their roles are part of the plan."""
        plan = super().plan(batch)
        if self.role_bias is None:
            return plan
        from parsing.trees.child_roles import child_roles

        role = np.empty_like(plan.node_slot)
        role[plan.node_slot] = child_roles(batch)
        return replace(plan, role=role)  # type: ignore[call-arg]


@register_view("const")
class ConstEncoder(TreeLSTM):
    """The view CONST: a sentence is the state of the root of its constituency tree."""

    requires = frozenset({"tokens", "const"})
    tree_plan = staticmethod(plan_const)
    weights_type, sweep, reference = ConstWeights, ConstSweep, "const_states"

    def __init__(self, word_dim: int, dim: int, engine: str = "native", *, forget_bias: float = 0.0) -> None:
        super().__init__(word_dim, dim, engine, forget_bias=forget_bias)
        self.input_weight = nn.Parameter(torch.empty(3 * dim, word_dim))
        self.recurrent_weight = nn.Parameter(torch.empty(5 * dim, 2 * dim))
        self.bias = nn.Parameter(torch.empty(4 * dim))
        self._initialise(forget_gates=3)


@register_view("seq")
class SeqEncoder(ViewEncoder):
    """The view SEQ: a sentence is the last state of both directions. ``engine`` is ignored."""

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
        """Pack the sentences, by ``sentence_offsets``."""
        return plan_sequence(batch)

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Return sentence vectors [B, D] and both directions' states at each word [T, D] in packed order."""
        assert isinstance(plan, SequencePlan)
        if not plan.sentences:
            return x_UE.new_empty(0, self.dim), x_UE.new_empty(0, self.dim)
        plan = plan.to(x_UE.device)
        token_of_row, column_B = plan.tensor("token_of_row"), plan.tensor("unsorted_sentences")
        # The inputs are most of the work, and torch's GRU computes them for every token. With a loop over
        # positions they are computed once a word: twice as fast on a CPU, where a position takes no longer to
        # launch than to compute. Training keeps torch's fused backward pass.
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
        """Return the last states [B, D/2] and all states [T, D/2] of a direction, in packed order."""
        from multiview.engines.kernels_numba import array, gru_forward  # numba takes time to import

        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weights = (getattr(self.gru, f"{name}_l0{suffix}") for name in names)
        input_weight, recurrent_weight, input_bias, recurrent_bias = weights
        products, half = Products.of(x_UE), self.dim // 2
        gates_UG = products.new_mm(x_UE, input_weight.t()).add_(input_bias)
        state_BH = x_UE.new_zeros(int(batch_sizes[0]), half)
        states_TH = x_UE.new_empty(len(token_T), half)
        recurrent_BG = x_UE.new_empty(len(state_BH), 3 * half)
        buffers = (gates_UG, token_T, recurrent_BG, recurrent_bias, state_BH, states_TH)
        step = partial(gru_forward, *map(array, buffers))
        ends = np.cumsum(batch_sizes).tolist()
        positions = list(zip(ends, batch_sizes.tolist(), strict=True))
        for end, sentences in reversed(positions) if suffix else positions:
            products.mm(state_BH[:sentences], recurrent_weight.t(), recurrent_BG[:sentences])
            step(end - sentences, end)
        return state_BH, states_TH
