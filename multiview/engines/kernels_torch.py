"""The engines' element-wise steps in plain torch: runs on any device, and is the other kernels' oracle.

The kernels take the buffers of the whole batch and the range of one level, so that compiled ones pay for no
slicing. Gate columns are in the order i, o, u, then the forget gates; ``gates`` hold pre-activations
without bias on entry and activations on return, which is what the backward pass needs.

Shapes: n nodes of the level, m their children, I internal nodes, E edges, N nodes and as many slots, D
hidden.
"""

from __future__ import annotations

import torch
from torch import Tensor

NORM_FLOOR = 1e-8
"""ε of the cosine: the smallest norm that is divided by."""


def view(tensor: Tensor) -> Tensor:
    """A buffer in the form in which the kernels take it."""
    return tensor


def leaf_forward(gates: Tensor, bias: Tensor, slot: Tensor, h: Tensor, c: Tensor, count: int) -> None:
    """Nodes without children: c = i∘u, h = o∘tanh(c).

    Args:
        gates: [≥ count, 3D], the leaves first.
        bias: [≥ 3D], i, o, u first.
        slot: int64 [N], where each rank's state is kept; the leaves are the first ranks.
        h: [N, D], written.
        c: [N, D], written.
        count: number of leaves.
    """
    i, o, u = _activate_iou(gates[:count], bias, h.shape[1])
    _store(i * u, o, slot[:count], h, c)


def leaf_backward(
    gates: Tensor,
    slot: Tensor,
    c: Tensor,
    dh: Tensor,
    dc: Tensor,
    dgates: Tensor,
    dbias: Tensor,
    count: int,
) -> None:
    """Gradient of ``leaf_forward``: writes ``dgates``, adds to ``dbias`` [≥ 3D].

    Args:
        gates: activations.
        slot: as above.
        c: [N, D] cells.
        dh: [N, D], gradient of h by slot.
        dc: [N, D], gradient of c by slot.
        dgates: gradient of the pre-activations, rows as ``gates``.
        dbias: gradient of the bias.
        count: number of leaves.
    """
    cell = _through_output(gates[:count], slot[:count], c, dh, dc, dgates[:count])
    _through_input(gates[:count], cell, dgates[:count])
    dbias[: gates.shape[1]] += dgates[:count].sum(0)


def const_forward(
    gates: Tensor, bias: Tensor, slot: Tensor, h: Tensor, c: Tensor, low: int, high: int, words: int
) -> None:
    """Binary nodes: c = i∘u + f_l∘c_l + f_r∘c_r, h = o∘tanh(c) (Tai et al. 2015, equations 9-14, N = 2).

    Args:
        gates: [I, 5D], i, o, u, f_l, f_r.
        bias: [4D], of i, o, u and of both forget gates.
        slot: int64 [N]; internal node k has rank ``words + k``, its children slots 2k and 2k + 1.
        h: [N, D], written.
        c: [N, D], children read, nodes written.
        low: first internal node of the level.
        high: one past its last.
        words: T.
    """
    hidden = h.shape[1]
    i, o, u = _activate_iou(gates[low:high], bias, hidden)
    forget = gates[low:high, 3 * hidden :].unflatten(1, (2, hidden))
    forget.add_(bias[3 * hidden :]).sigmoid_()
    kept = forget * c[2 * low : 2 * high].view(-1, 2, hidden)
    _store(i * u + kept[:, 0] + kept[:, 1], o, slot[words + low : words + high], h, c)


def const_backward(
    gates: Tensor,
    slot: Tensor,
    c: Tensor,
    dh: Tensor,
    dc: Tensor,
    dgates: Tensor,
    dbias: Tensor,
    low: int,
    high: int,
    words: int,
) -> None:
    """Gradient of ``const_forward``: writes ``dgates`` and the children's ``dc``, adds to ``dbias`` [4D]."""
    hidden = c.shape[1]
    rows, drows = gates[low:high], dgates[low:high]
    cell = _through_output(rows, slot[words + low : words + high], c, dh, dc, drows)
    _through_input(rows, cell, drows)
    forget = rows[:, 3 * hidden :].unflatten(1, (2, hidden))
    children = slice(2 * low, 2 * high)
    cell = cell.unsqueeze(1)
    dforget = cell * c[children].view(-1, 2, hidden) * forget * (1 - forget)
    drows[:, 3 * hidden :] = dforget.flatten(1)
    dc[children] = (cell * forget).view(-1, hidden)
    dbias[: 3 * hidden] += drows[:, : 3 * hidden].sum(0)
    dbias[3 * hidden :] += dforget.sum((0, 1))


def const_bias(dleaf: Tensor, dgates: Tensor, dbias: Tensor) -> None:
    """Completes ``dbias`` after the sweep, in kernels that do not add to it on the way; these do."""


def dep_attend(
    parents: Tensor,
    children: Tensor,
    bias: Tensor,
    h: Tensor,
    offsets: Tensor,
    edge_parent: Tensor,
    alpha: Tensor,
    cosine: Tensor,
    mixed: Tensor,
    low: int,
    high: int,
    edge_low: int,
    edge_high: int,
) -> None:
    """Attention over children: q = W_q x + b_q, p_k = W_p h_k + b_p, α = softmax(cos(q, p)), h̃ = Σ α_k h_k.

    Args:
        parents: [I, 2D], W_q x and W_f x on entry; q in place of the first on return.
        children: [E, 2D], W_p h_k and U_f h_k on entry; p_k in place of the first on return.
        bias: [6D], of i, o, u, q, f, p.
        h: [N, D]; children are the first E slots.
        offsets: int64 [I + 1], slots of each node's children.
        edge_parent: int64 [E], node of each child.
        alpha: [E], written.
        cosine: [E], written.
        mixed: [I, D], h̃, written.
        low: first internal node of the level.
        high: one past its last.
        edge_low: first slot of its children.
        edge_high: one past their last.
    """
    hidden = h.shape[1]
    nodes, edges = slice(low, high), slice(edge_low, edge_high)
    parent, offsets = edge_parent[edges] - low, offsets[low : high + 1] - edge_low
    query = parents[nodes, :hidden].add_(bias[3 * hidden : 4 * hidden])
    keys = children[edges, :hidden].add_(bias[5 * hidden :])
    norms = query.norm(dim=1).clamp_min(NORM_FLOOR)[parent] * keys.norm(dim=1).clamp_min(NORM_FLOOR)
    torch.div((query[parent] * keys).sum(1), norms, out=cosine[edges])
    # |cosine| <= 1: exp neither overflows nor vanishes, so the softmax needs no maximum.
    weight = torch.exp(cosine[edges])
    torch.div(weight, _segment_sum(weight, offsets)[parent], out=alpha[edges])
    mixed[nodes] = _segment_sum(alpha[edges, None] * h[edges], offsets)


def dep_attend_backward(
    parents: Tensor,
    children: Tensor,
    h: Tensor,
    offsets: Tensor,
    edge_parent: Tensor,
    alpha: Tensor,
    cosine: Tensor,
    dmixed: Tensor,
    dparents: Tensor,
    dchildren: Tensor,
    dh: Tensor,
    dbias: Tensor,
    accumulate: bool,
    low: int,
    high: int,
    edge_low: int,
    edge_high: int,
) -> None:
    """Gradient of ``dep_attend``: writes those of q and p, puts α_k dh̃ into the children's ``dh``.

    With s_k = cos_k: ds_k = α_k (dα_k - Σ α dα), ∂s/∂p = (q̂ - s p̂) / ‖p‖, ∂s/∂q = (p̂ - s q̂) / ‖q‖,
    where the second terms vanish for norms below ε.

    Args:
        parents: [I, 2D], q first.
        children: [E, 2D], p first.
        h: [N, D].
        offsets: int64 [I + 1].
        edge_parent: int64 [E].
        alpha: [E].
        cosine: [E].
        dmixed: [I, D], gradient of h̃.
        dparents: [I, 2D], first half written.
        dchildren: [E, 2D], first half written.
        dh: [N, D], the children's written, or added to.
        dbias: [6D], those of q and p added to.
        accumulate: ``dh`` holds gradients of the states themselves already.
        low: first internal node of the level.
        high: one past its last.
        edge_low: first slot of its children.
        edge_high: one past their last.
    """
    hidden = h.shape[1]
    nodes, edges = slice(low, high), slice(edge_low, edge_high)
    parent, offsets = edge_parent[edges] - low, offsets[low : high + 1] - edge_low
    query, keys, weight = parents[nodes, :hidden], children[edges, :hidden], alpha[edges]
    dmixed_of_child = dmixed[nodes][parent]
    direct = weight[:, None] * dmixed_of_child
    dh[edges] = dh[edges] + direct if accumulate else direct
    dweight = (dmixed_of_child * h[edges]).sum(1)
    dcosine = weight * (dweight - _segment_sum(weight * dweight, offsets)[parent])
    query_norm, key_norm = query.norm(dim=1), keys.norm(dim=1)
    query_floor, key_floor = query_norm.clamp_min(NORM_FLOOR), key_norm.clamp_min(NORM_FLOOR)
    across = dcosine / (query_floor[parent] * key_floor)
    along = dcosine * cosine[edges]
    along_key = along / key_floor.square() * (key_norm > NORM_FLOOR)
    along_query = _segment_sum(along, offsets) / query_floor.square() * (query_norm > NORM_FLOOR)
    dkeys = across[:, None] * query[parent] - along_key[:, None] * keys
    dquery = _segment_sum(across[:, None] * keys, offsets) - along_query[:, None] * query
    dchildren[edges, :hidden] = dkeys
    dparents[nodes, :hidden] = dquery
    dbias[3 * hidden : 4 * hidden] += dquery.sum(0)
    dbias[5 * hidden :] += dkeys.sum(0)


def dep_forward(
    gates: Tensor,
    parents: Tensor,
    children: Tensor,
    bias: Tensor,
    slot: Tensor,
    h: Tensor,
    c: Tensor,
    offsets: Tensor,
    edge_parent: Tensor,
    leaves: int,
    low: int,
    high: int,
    edge_low: int,
    edge_high: int,
) -> None:
    """Nodes with children: f_k = σ(W_f x + U_f h_k + b_f), c = i∘u + Σ f_k∘c_k, h = o∘tanh(c).

    Args:
        gates: [N, 3D] by rank, W x + U h̃ on entry, i, o, u on return.
        parents: [I, 2D], second half W_f x.
        children: [E, 2D], second half U_f h_k on entry, f_k on return.
        bias: [6D], of i, o, u, q, f, p.
        slot: int64 [N]; internal node k has rank ``leaves + k``.
        h: [N, D], written.
        c: [N, D], children read, nodes written.
        offsets: int64 [I + 1].
        edge_parent: int64 [E].
        leaves: number of leaves.
        low: first internal node of the level.
        high: one past its last.
        edge_low: first slot of its children.
        edge_high: one past their last.
    """
    hidden = h.shape[1]
    nodes, edges = slice(low, high), slice(edge_low, edge_high)
    parent, offsets = edge_parent[edges] - low, offsets[low : high + 1] - edge_low
    ranks = slice(leaves + low, leaves + high)
    i, o, u = _activate_iou(gates[ranks], bias, hidden)
    from_parent = parents[nodes, hidden:] + bias[4 * hidden : 5 * hidden]
    forget = children[edges, hidden:].add_(from_parent[parent]).sigmoid_()
    _store(i * u + _segment_sum(forget * c[edges], offsets), o, slot[ranks], h, c)


def dep_backward(
    gates: Tensor,
    children: Tensor,
    slot: Tensor,
    c: Tensor,
    offsets: Tensor,
    edge_parent: Tensor,
    dh: Tensor,
    dc: Tensor,
    dgates: Tensor,
    dparents: Tensor,
    dchildren: Tensor,
    dbias: Tensor,
    leaves: int,
    low: int,
    high: int,
    edge_low: int,
    edge_high: int,
) -> None:
    """Gradient of ``dep_forward``; adds to ``dbias`` of i, o, u, f.

    Writes the second halves of ``dparents`` and ``dchildren``, the children's ``dc`` and the nodes'
    ``dgates``.
    """
    hidden = c.shape[1]
    nodes, edges = slice(low, high), slice(edge_low, edge_high)
    parent, offsets = edge_parent[edges] - low, offsets[low : high + 1] - edge_low
    ranks = slice(leaves + low, leaves + high)
    cell = _through_output(gates[ranks], slot[ranks], c, dh, dc, dgates[ranks])
    _through_input(gates[ranks], cell, dgates[ranks])
    cell, forget = cell[parent], children[edges, hidden:]
    dforget = cell * c[edges] * forget * (1 - forget)
    dc[edges] = cell * forget
    dchildren[edges, hidden:] = dforget
    dparents[nodes, hidden:] = _segment_sum(dforget, offsets)
    dbias[: 3 * hidden] += dgates[ranks].sum(0)
    dbias[4 * hidden : 5 * hidden] += dforget.sum(0)


def dep_bias(dgates: Tensor, dparents: Tensor, dchildren: Tensor, dbias: Tensor) -> None:
    """As ``const_bias``."""


def _activate_iou(gates: Tensor, bias: Tensor, hidden: int) -> tuple[Tensor, Tensor, Tensor]:
    """In place on the first 3D columns: i = σ(pre_i + b_i), o = σ(pre_o + b_o), u = tanh(pre_u + b_u)."""
    io, u = gates[:, : 2 * hidden], gates[:, 2 * hidden : 3 * hidden]
    io.add_(bias[: 2 * hidden]).sigmoid_()
    u.add_(bias[2 * hidden : 3 * hidden]).tanh_()
    return io[:, :hidden], io[:, hidden:], u


def _store(cell: Tensor, o: Tensor, slot: Tensor, h: Tensor, c: Tensor) -> None:
    """Keeps c and h = o∘tanh(c) in the nodes' slots."""
    c.index_copy_(0, slot, cell)
    h.index_copy_(0, slot, o * cell.tanh())


def _through_output(gates: Tensor, slot: Tensor, c: Tensor, dh: Tensor, dc: Tensor, dgates: Tensor) -> Tensor:
    """Through h = o∘tanh(c): writes the gradient of o's pre-activation, returns that of c [n, D]."""
    hidden = c.shape[1]
    o = gates[:, hidden : 2 * hidden]
    tanh_c, dh_node = c[slot].tanh(), dh[slot]
    dgates[:, hidden : 2 * hidden] = dh_node * tanh_c * o * (1 - o)
    return dc[slot] + dh_node * o * (1 - tanh_c.square())


def _through_input(gates: Tensor, cell: Tensor, dgates: Tensor) -> None:
    """Through c = i∘u + …: writes the gradients of the pre-activations of i and u."""
    hidden = cell.shape[1]
    i, u = gates[:, :hidden], gates[:, 2 * hidden : 3 * hidden]
    dgates[:, :hidden] = cell * u * i * (1 - i)
    dgates[:, 2 * hidden : 3 * hidden] = cell * i * (1 - u.square())


def _segment_sum(rows: Tensor, offsets: Tensor) -> Tensor:
    """Sum of each node's rows, in order: no atomics, so the same bits every time."""
    return torch.segment_reduce(rows, "sum", offsets=offsets, axis=0)
