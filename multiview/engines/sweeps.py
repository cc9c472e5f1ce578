"""The native engine: DEP and CONST computed level by level, with their gradients (docs/equations.md).

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

A sweep multiplies the vectors of all words by the weights, computes the leaves, and then the levels from the
lowest up. Its gradient is computed for the levels from the roots down, and then for the leaves. A level is
computed by matrix products and by kernels, all of which work on buffers of the whole batch. Each kernel names
the buffers that it ``reads`` and those that it ``writes``; the latter include what it changes in place.
``dX`` is the gradient of X.

Legend of dimension suffixes: N nodes, I internal nodes, E edges, D hidden, V word vector, as in
:mod:`multiview.engines.plan`.
"""

from __future__ import annotations

from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from multiview.engines.plan import ConstWeights, DepWeights, TreePlan, workspace
from runtime.errors import UserError
from runtime.process import loading
from runtime.products import Products, TorchProducts, products_for, sum_by_word


def kernels_for(x: Tensor) -> ModuleType:
    """Return the module of kernels for the device of ``x``. Raises UserError if it has no kernels.

    The buffers of the kernels are described in :mod:`multiview.engines.kernels_numba`.
    """
    if x.device.type == "cpu":
        with loading():
            from multiview.engines import kernels_numba

        return kernels_numba
    if x.device.type == "cuda" and find_spec("triton"):
        with loading():
            from multiview.engines import kernels_triton

        return kernels_triton
    raise UserError(f"{x.device}: the native engine needs a CPU, or CUDA with triton; try the engine dgl")


class DepBuffers(NamedTuple):
    """The buffers that the sweep of DEP fills and that its gradient reads."""

    h: Tensor  # [N, D], by slot
    c: Tensor  # [N, D], by slot
    gates: Tensor  # [N, 3D], by rank: i, o, u
    parent_products: Tensor  # [I, 2D]: q and W_f x
    child_products: Tensor  # [E, 2D], by slot: p and the forget gate
    alpha: Tensor  # [E]
    cosine: Tensor  # [E], of q and p
    context: Tensor  # [I, D]: h̃
    parent_x: Tensor  # [I, V]: x


class DepSweep(torch.autograd.Function):
    """DEP over a batch: ``apply(...)`` returns the states of the roots [B, D] and, by slot, of all [N, D].

    Its arguments are those of :meth:`forward`.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, token: Tensor, plan: TreePlan, *weight_tensors: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Multiply the word vectors, then compute the leaves and the levels.

        Args:
            ctx: torch's context, in which the buffers are kept for the gradient.
            x: the vectors of the distinct words, [words, V].
            token: the word of each token, int64 [T].
            plan: the order of the nodes.
            weight_tensors: the fields of :class:`DepWeights`.
        """
        weights, kernels, products = DepWeights(*weight_tensors), kernels_for(x), products_for(x)
        token = token[plan.tensor("node_of_rank")]
        buffers = _dep_words(x, token, plan, weights, products)
        _dep_levels(plan, weights, buffers, kernels, products)
        ctx.save_for_backward(x, token, *weights, *buffers)
        ctx.plan, ctx.kernels, ctx.products = plan, kernels, products
        ctx.set_materialize_grads(False)
        return buffers.h[plan.edges :].clone(), buffers.h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, droots: Tensor | None, dh_all: Tensor | None) -> tuple[Tensor | None, ...]:
        """Differentiate the levels and leaves; then each weight's gradient is one product over all nodes."""
        x, token, *tensors = ctx.saved_tensors
        count = len(DepWeights._fields)
        weights, buffers = DepWeights(*tensors[:count]), DepBuffers(*tensors[count:])
        plan, products = ctx.plan, ctx.products
        dgates, dparent_products, dchild_products, dbias = _dep_levels_backward(
            plan, weights, buffers, droots, dh_all, ctx.kernels, products
        )
        dwords = sum_by_word(dgates, token, len(x))
        drole_bias = None
        if weights.role_bias is not None:
            role = plan.tensor("role")[: plan.edges]
            drole_bias = sum_by_word(dchild_products, role, len(weights.role_bias))
        gradients = DepWeights(
            input_weight=products.gradient(dwords, x),
            parent_weight=products.gradient(dparent_products, buffers.parent_x),
            child_weight=products.gradient(dchild_products, buffers.h[: plan.edges]),
            recurrent_weight=products.gradient(dgates[plan.leaves :], buffers.context),
            bias=dbias,
            role_bias=drole_bias,
        )
        dx = None
        if ctx.needs_input_grad[0]:
            dx = products.new_mm(dwords, products.cast(weights.input_weight))
            dparent_x = products.new_mm(dparent_products, products.cast(weights.parent_weight))
            dx += sum_by_word(dparent_x, token[plan.leaves :], len(x))
        return dx, None, None, *gradients


def _dep_words(
    x: Tensor, token: Tensor, plan: TreePlan, weights: DepWeights, products: Products
) -> DepBuffers:
    """Return the buffers, with W x of all nodes, W_q x and W_f x of all parents, and the biases of roles."""
    nodes, internal, edges = len(token), plan.internal, plan.edges
    dim = weights.recurrent_weight.shape[1]
    shapes = {
        "h": (nodes, dim),
        "c": (nodes, dim),
        "gates": (nodes, 3 * dim),
        "parent_products": (internal, 2 * dim),
        "child_products": (edges, 2 * dim),
        "alpha": (edges,),
        "cosine": (edges,),
        "context": (internal, dim),
        "parent_x": (internal, x.shape[1]),
    }
    *tensors, word_gates = workspace(x, *shapes.values(), (len(x), 3 * dim))
    buffers = DepBuffers(**dict(zip(shapes, tensors, strict=True)))
    products.multiply_words(x, token, weights.input_weight, word_gates, buffers.gates)
    # A row a token: a third of the tokens have dependents, hardly more than the batch has distinct words.
    torch.index_select(x.detach(), 0, token[plan.leaves :], out=buffers.parent_x)
    products.mm(buffers.parent_x, products.factor(weights.parent_weight), buffers.parent_products)
    if weights.role_bias is not None:
        role = plan.tensor("role")[:edges]
        torch.index_select(weights.role_bias.detach(), 0, role, out=buffers.child_products)
    return buffers


def _dep_levels(
    plan: TreePlan, weights: DepWeights, buffers: DepBuffers, kernels: ModuleType, products: Products
) -> None:
    """Fill the buffers: of the leaves first, and then for each level with products, attention and states."""
    h, c, gates, parent_products, child_products, alpha, cosine, context, _ = buffers
    slot, offsets = plan.tensor("slot_of_rank"), plan.tensor("child_offsets")
    leaves, bias, inner_gates = plan.leaves, weights.bias, gates[plan.leaves :]
    child_factor = products.factor(weights.child_weight)
    recurrent_factor = products.factor(weights.recurrent_weight)
    multiply_children = products.mm if weights.role_bias is None else products.addmm

    kernels.attach(kernels.leaf_forward, reads=(bias, slot), writes=(gates, h, c))(0, leaves)
    attend = kernels.attach(
        kernels.dep_attend,
        reads=(bias, h, offsets),
        writes=(parent_products, child_products, alpha, cosine, context),
    )
    compute_states = kernels.attach(
        kernels.dep_forward,
        reads=(parent_products, bias, slot[leaves:], offsets),
        writes=(inner_gates, child_products, h, c),
    )
    for low, high, edge_low, edge_high in plan.levels():
        multiply_children(h[edge_low:edge_high], child_factor, child_products[edge_low:edge_high])
        attend(low, high)
        products.addmm(context[low:high], recurrent_factor, inner_gates[low:high])
        compute_states(low, high)


def _dep_levels_backward(
    plan: TreePlan,
    weights: DepWeights,
    buffers: DepBuffers,
    droots: Tensor | None,
    dh_all: Tensor | None,
    kernels: ModuleType,
    products: TorchProducts,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of the gates' pre-activations, of both products and of the bias.

    ``droots`` and ``dh_all`` are those of the roots and of all states, see :func:`_start_gradients`.
    """
    h, c, gates, parent_products, child_products, alpha, cosine, context, _ = buffers
    slot, offsets = plan.tensor("slot_of_rank"), plan.tensor("child_offsets")
    leaves, dim = plan.leaves, h.shape[1]
    shapes = [buffer.shape for buffer in (h, c, gates, parent_products, child_products, context)]
    dh, dc, dgates, dparent_products, dchild_products, dcontext = workspace(h, *shapes)
    _start_gradients(dh, dc, droots, dh_all, plan.edges)
    dbias, inner_dgates = h.new_zeros(6 * dim), dgates[leaves:]
    child_weight = products.cast(weights.child_weight)
    recurrent_weight = products.cast(weights.recurrent_weight)

    states_backward = kernels.attach(
        kernels.dep_backward,
        reads=(gates[leaves:], child_products, slot[leaves:], c, offsets, dh),
        writes=(dc, inner_dgates, dparent_products, dchild_products, dbias),
    )
    attention_backward = kernels.attach(
        kernels.dep_attend_backward,
        reads=(parent_products, child_products, h, offsets, alpha, cosine, dcontext),
        writes=(dparent_products, dchild_products, dh, dbias),
    )
    for low, high, edge_low, edge_high in reversed(plan.levels()):
        states_backward(low, high)
        products.mm(inner_dgates[low:high], recurrent_weight, dcontext[low:high])
        attention_backward(dh_all is not None, low, high)
        products.addmm(dchild_products[edge_low:edge_high], child_weight, dh[edge_low:edge_high])
    kernels.attach(kernels.leaf_backward, reads=(gates, slot, c, dh, dc), writes=(dgates, dbias))(0, leaves)
    if kernels.BIAS_AFTERWARDS:
        torch.cat([dgates.sum(0), dparent_products.sum(0), dchild_products[:, :dim].sum(0)], out=dbias)
    return dgates, dparent_products, dchild_products, dbias


class ConstSweep(torch.autograd.Function):
    """CONST over a batch: ``apply(...)`` returns the states of the roots [B, D] and, by slot, of all [N, D].

    Its arguments are those of :meth:`forward`.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, token: Tensor, plan: TreePlan, *weight_tensors: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Multiply the word vectors and compute the leaves; then run one product and one kernel per level.

        Args:
            ctx: torch's context, in which the buffers are kept for the gradient.
            x: the vectors of the distinct words, [words, V].
            token: the word of each token, int64 [T].
            plan: the order of the nodes.
            weight_tensors: the fields of :class:`ConstWeights`.
        """
        weights, kernels, products = ConstWeights(*weight_tensors), kernels_for(x), products_for(x)
        dim, leaves, internal = weights.recurrent_weight.shape[1] // 2, plan.leaves, plan.internal
        states = (leaves + internal, dim)
        shapes = states, states, (leaves, 3 * dim), (internal, 5 * dim), (len(x), 3 * dim)
        h, c, leaf_gates, gates, word_gates = workspace(x, *shapes)
        slot, bias, child_h = plan.tensor("slot_of_rank"), weights.bias, _pairs(h, internal)
        recurrent_factor = products.factor(weights.recurrent_weight)

        compute_states = kernels.attach(
            kernels.const_forward, reads=(bias, slot[leaves:]), writes=(gates, h, c)
        )
        products.multiply_words(x, token, weights.input_weight, word_gates, leaf_gates)
        kernels.attach(kernels.leaf_forward, reads=(bias, slot), writes=(leaf_gates, h, c))(0, leaves)
        for low, high, *_ in plan.levels():
            products.mm(child_h[low:high], recurrent_factor, gates[low:high])
            compute_states(low, high)
        ctx.save_for_backward(x, token, *weights, h, c, leaf_gates, gates)
        ctx.plan, ctx.kernels, ctx.products = plan, kernels, products
        ctx.set_materialize_grads(False)
        return h[plan.edges :].clone(), h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, droots: Tensor | None, dh_all: Tensor | None) -> tuple[Tensor | None, ...]:
        """Differentiate the levels and leaves; then each weight's gradient is one product over all nodes."""
        x, token, input_weight, recurrent_weight, _, h, c, leaf_gates, gates = ctx.saved_tensors
        plan, kernels, products = ctx.plan, ctx.kernels, ctx.products
        leaves, internal, dim, slot = plan.leaves, plan.internal, h.shape[1], plan.tensor("slot_of_rank")
        dh, dc, dleaf_gates, dgates = workspace(h, h.shape, h.shape, leaf_gates.shape, gates.shape)
        _start_gradients(dh, dc, droots, dh_all, plan.edges)
        dbias, child_dh = x.new_zeros(4 * dim), _pairs(dh, internal)
        recurrent_weight = products.cast(recurrent_weight)
        put_product = products.mm if dh_all is None else products.addmm

        states_backward = kernels.attach(
            kernels.const_backward, reads=(gates, slot[leaves:], c, dh), writes=(dc, dgates, dbias)
        )
        for low, high, *_ in reversed(plan.levels()):
            states_backward(low, high)
            put_product(dgates[low:high], recurrent_weight, child_dh[low:high])
        leaves_backward = kernels.attach(
            kernels.leaf_backward, reads=(leaf_gates, slot, c, dh, dc), writes=(dleaf_gates, dbias)
        )
        leaves_backward(0, leaves)
        if kernels.BIAS_AFTERWARDS:
            dbias[: 3 * dim] = dleaf_gates.sum(0) + dgates[:, : 3 * dim].sum(0)
            dbias[3 * dim :] = dgates[:, 3 * dim :].sum(0).view(2, dim).sum(0)

        dwords = sum_by_word(dleaf_gates, token, len(x))
        dx = products.new_mm(dwords, products.cast(input_weight)) if ctx.needs_input_grad[0] else None
        gradients = ConstWeights(
            input_weight=products.gradient(dwords, x),
            recurrent_weight=products.gradient(dgates, _pairs(h, internal)),
            bias=dbias,
        )
        return dx, None, None, *gradients


def _start_gradients(
    dh: Tensor, dc: Tensor, droots: Tensor | None, dh_all: Tensor | None, first_root: int
) -> None:
    """Fill ``dh`` and ``dc`` [N, D] before the backward sweep, which writes the slots of all children.

    ``droots`` [B, D] is the gradient of the roots, ``dh_all`` [N, D] that of all states; each is None if the
    loss does not depend on it. The roots have slots from ``first_root`` on.
    """
    dc[first_root:] = 0
    if dh_all is not None:
        dh.copy_(dh_all)
    else:
        dh[first_root:] = 0
    if droots is not None:
        dh[first_root:] += droots


def _pairs(states: Tensor, internal: int) -> Tensor:
    """Return the states of the left and right child of each internal node, [I, 2D]: a view of ``states``."""
    return states[: 2 * internal].view(internal, 2 * states.shape[1])
