"""The engines' element-wise steps in plain torch: runs on any device, and is the other kernels' oracle.

Each function handles the nodes of one level. Gate columns are in the order i, o, u, then the forget gates.
``pre`` arguments are replaced by the activations, which is what the backward pass needs.

Shapes: n nodes of the level, m their children (dependency), S slots, D hidden.
"""

from __future__ import annotations

import torch
from torch import Tensor

NORM_FLOOR = 1e-8
"""ε of the cosine: the smallest norm that is divided by."""


def leaf_forward(pre: Tensor, bias: Tensor, slot: Tensor, h: Tensor, c: Tensor) -> None:
    """A node without children: c = i∘u, h = o∘tanh(c).

    Args:
        pre: [n, 3D], W x on entry, the activations i, o, u on return.
        bias: [3D].
        slot: int64 [n], where the node's state is kept.
        h: [S, D], written.
        c: [S, D], written.
    """
    i, o, u = _activate_iou(pre, bias)
    cell = i * u
    c.index_copy_(0, slot, cell)
    h.index_copy_(0, slot, o * cell.tanh())


def leaf_backward(gates: Tensor, slot: Tensor, c: Tensor, dh: Tensor, dc: Tensor, dpre: Tensor) -> None:
    """Gradient of ``leaf_forward`` with respect to ``pre``, from those of the slots.

    Args:
        gates: [n, 3D], activations.
        slot: int64 [n].
        c: [S, D] cell states.
        dh: [S, D], gradients of h.
        dc: [S, D], gradients of c.
        dpre: [n, 3D], written.
    """
    cell_gradient = _through_output(gates, slot, c, dh, dc, dpre)
    _through_input(gates, cell_gradient, dpre)


def const_forward(pre: Tensor, bias: Tensor, child_c: Tensor, slot: Tensor, h: Tensor, c: Tensor) -> None:
    """Binary node: c = i∘u + f_l∘c_l + f_r∘c_r, h = o∘tanh(c) (Tai et al. 2015, equations 9-14, N = 2).

    Args:
        pre: [n, 5D], U [h_l; h_r] on entry, activations i, o, u, f_l, f_r on return.
        bias: [4D], of i, o, u and of both forget gates.
        child_c: [n, 2D], cells of the left and right children.
        slot: int64 [n].
        h: [S, D], written.
        c: [S, D], written.
    """
    hidden = h.shape[1]
    i, o, u = _activate_iou(pre[:, : 3 * hidden], bias[: 3 * hidden])
    forget = pre[:, 3 * hidden :]
    forget.unflatten(1, (2, hidden)).add_(bias[3 * hidden :])
    forget.sigmoid_()
    kept = forget * child_c
    cell = i * u + kept[:, :hidden] + kept[:, hidden:]
    c.index_copy_(0, slot, cell)
    h.index_copy_(0, slot, o * cell.tanh())


def const_backward(
    gates: Tensor,
    child_c: Tensor,
    slot: Tensor,
    c: Tensor,
    dh: Tensor,
    dc: Tensor,
    dpre: Tensor,
    child_dc: Tensor,
) -> None:
    """Gradient of ``const_forward`` with respect to ``pre`` [n, 5D] and the children's cells [n, 2D]."""
    hidden = c.shape[1]
    cell_gradient = _through_output(gates, slot, c, dh, dc, dpre)
    _through_input(gates, cell_gradient, dpre)
    forget = gates[:, 3 * hidden :]
    both = cell_gradient.repeat(1, 2)
    torch.mul(both, forget, out=child_dc)
    dpre[:, 3 * hidden :] = both * child_c * forget * (1 - forget)


def dep_attend(
    query: Tensor,
    query_bias: Tensor,
    keys: Tensor,
    key_bias: Tensor,
    child_h: Tensor,
    offsets: Tensor,
    parent: Tensor,
    weight: Tensor,
    cosine: Tensor,
    mixed: Tensor,
) -> None:
    """Attention over children: q = W_q x + b_q, p_k = W_p h_k + b_p, α = softmax(cos(q, p)), h̃ = Σ α_k h_k.

    Args:
        query: [n, D], W_q x on entry, q on return.
        query_bias: [D].
        keys: [m, D], W_p h_k on entry, p_k on return.
        key_bias: [D].
        child_h: [m, D].
        offsets: int64 [n + 1], the children of each node, from 0.
        parent: int64 [m], the node of each child, from 0.
        weight: [m], α, written.
        cosine: [m], written.
        mixed: [n, D], h̃, written.
    """
    query.add_(query_bias)
    keys.add_(key_bias)
    norms = query.norm(dim=1).clamp_min(NORM_FLOOR)[parent] * keys.norm(dim=1).clamp_min(NORM_FLOOR)
    torch.div((query[parent] * keys).sum(1), norms, out=cosine)
    # |cosine| <= 1: exp neither overflows nor vanishes, so the softmax needs no maximum.
    torch.exp(cosine, out=weight)
    weight.div_(_segment_sum(weight, offsets)[parent])
    mixed.copy_(_segment_sum(weight[:, None] * child_h, offsets))


def dep_attend_backward(
    query: Tensor,
    keys: Tensor,
    child_h: Tensor,
    offsets: Tensor,
    parent: Tensor,
    weight: Tensor,
    cosine: Tensor,
    dmixed: Tensor,
    dquery: Tensor,
    dkeys: Tensor,
    child_dh: Tensor,
    accumulate: bool,
) -> None:
    """Gradient of ``dep_attend``.

    Writes ``dquery`` [n, D], ``dkeys`` [m, D] and α_k dh̃ into ``child_dh`` [m, D]. With s_k = cos_k: ds_k
    = α_k (dα_k - Σ α dα), ∂s/∂p = (q̂ - s p̂) / ‖p‖, ∂s/∂q = (p̂ - s q̂) / ‖q‖, where the second terms
    vanish for norms below ε.
    """
    dmixed_of_child = dmixed[parent]
    direct = weight[:, None] * dmixed_of_child
    child_dh.add_(direct) if accumulate else child_dh.copy_(direct)
    dweight = (dmixed_of_child * child_h).sum(1)
    dcosine = weight * (dweight - _segment_sum(weight * dweight, offsets)[parent])
    query_norm, key_norm = query.norm(dim=1), keys.norm(dim=1)
    query_floor, key_floor = query_norm.clamp_min(NORM_FLOOR), key_norm.clamp_min(NORM_FLOOR)
    across = dcosine / (query_floor[parent] * key_floor)
    along_key = dcosine * cosine / key_floor.square() * (key_norm > NORM_FLOOR)
    along_query = _segment_sum(dcosine * cosine, offsets) / query_floor.square() * (query_norm > NORM_FLOOR)
    torch.sub(across[:, None] * query[parent], along_key[:, None] * keys, out=dkeys)
    torch.sub(_segment_sum(across[:, None] * keys, offsets), along_query[:, None] * query, out=dquery)


def dep_forward(
    pre: Tensor,
    bias: Tensor,
    forget_input: Tensor,
    forget_bias: Tensor,
    forget: Tensor,
    child_c: Tensor,
    offsets: Tensor,
    parent: Tensor,
    slot: Tensor,
    h: Tensor,
    c: Tensor,
) -> None:
    """Node with children: f_k = σ(W_f x + U_f h_k + b_f), c = i∘u + Σ f_k∘c_k, h = o∘tanh(c).

    Args:
        pre: [n, 3D], W x + U h̃ on entry, the activations i, o, u on return.
        bias: [3D].
        forget_input: [n, D], W_f x.
        forget_bias: [D].
        forget: [m, D], U_f h_k on entry, f_k on return.
        child_c: [m, D].
        offsets: int64 [n + 1], the children of each node, from 0.
        parent: int64 [m].
        slot: int64 [n].
        h: [S, D], written.
        c: [S, D], written.
    """
    i, o, u = _activate_iou(pre, bias)
    forget.add_((forget_input + forget_bias)[parent]).sigmoid_()
    cell = i * u + _segment_sum(forget * child_c, offsets)
    c.index_copy_(0, slot, cell)
    h.index_copy_(0, slot, o * cell.tanh())


def dep_backward(
    gates: Tensor,
    forget: Tensor,
    child_c: Tensor,
    offsets: Tensor,
    parent: Tensor,
    slot: Tensor,
    c: Tensor,
    dh: Tensor,
    dc: Tensor,
    dpre: Tensor,
    dforget_input: Tensor,
    dforget: Tensor,
    child_dc: Tensor,
) -> None:
    """Gradient of ``dep_forward``: writes ``dpre``, ``dforget_input``, ``dforget`` and ``child_dc``."""
    cell_gradient = _through_output(gates, slot, c, dh, dc, dpre)
    _through_input(gates, cell_gradient, dpre)
    of_child = cell_gradient[parent]
    torch.mul(of_child, forget, out=child_dc)
    dforget.copy_(of_child * child_c * forget * (1 - forget))
    dforget_input.copy_(_segment_sum(dforget, offsets))


def _activate_iou(pre: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """In place: i = σ(pre_i + b_i), o = σ(pre_o + b_o), u = tanh(pre_u + b_u)."""
    hidden = pre.shape[1] // 3
    pre.add_(bias)
    pre[:, : 2 * hidden].sigmoid_()
    pre[:, 2 * hidden :].tanh_()
    return pre[:, :hidden], pre[:, hidden : 2 * hidden], pre[:, 2 * hidden :]


def _through_output(gates: Tensor, slot: Tensor, c: Tensor, dh: Tensor, dc: Tensor, dpre: Tensor) -> Tensor:
    """Through h = o∘tanh(c): writes the gradient of o's pre-activation, returns that of c [n, D]."""
    hidden = c.shape[1]
    o = gates[:, hidden : 2 * hidden]
    tanh_c, dh_node = c[slot].tanh(), dh[slot]
    dpre[:, hidden : 2 * hidden] = dh_node * tanh_c * o * (1 - o)
    return dc[slot] + dh_node * o * (1 - tanh_c.square())


def _through_input(gates: Tensor, cell_gradient: Tensor, dpre: Tensor) -> None:
    """Through c = i∘u + …: writes the gradients of the pre-activations of i and u."""
    hidden = cell_gradient.shape[1]
    i, u = gates[:, :hidden], gates[:, 2 * hidden : 3 * hidden]
    dpre[:, :hidden] = cell_gradient * u * i * (1 - i)
    dpre[:, 2 * hidden : 3 * hidden] = cell_gradient * i * (1 - u.square())


def _segment_sum(rows: Tensor, offsets: Tensor) -> Tensor:
    """Sum of each node's rows, in order: no atomics, so the same bits every time."""
    return torch.segment_reduce(rows, "sum", offsets=offsets, axis=0)
