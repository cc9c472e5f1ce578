"""The element-wise steps in plain torch: they run on any device and are the oracle of the other kernels.

The kernels take the buffers of the whole batch and the bounds of one level, so that compiled kernels need no
slicing. Activations replace the pre-activations in place; the backward pass needs them. Nodes are numbered
from the first of their kind: of N nodes, the leaves come before the I internal ones. A level's nodes are
``low`` to ``high - 1``, their children the slots ``edge_low`` to ``edge_high - 1``.

| buffer | |
|---|---|
| ``gates`` | [N, 3D], or [I, 5D] for binary nodes: pre-activations without bias of i, o, u, f_l, f_r |
| ``bias`` | [4D] of i, o, u, f, or [6D] of i, o, u, q, f, p |
| ``slot`` | int64 [N]: slot of each node |
| ``h``, ``c`` | [slots, D] |
| ``offsets`` | int64 [I + 1]: slots of each internal node's children |
| ``edge_parent`` | int64 [E]: internal node above each child's slot |
| ``parents`` | [I, 2D]: W_q x, then q in its place; W_f x |
| ``children`` | [E, 2D]: W_p h_k, then p_k in its place; U_f h_k, then f_k in its place |
| ``alpha``, ``cosine`` | [E]: attention, and cosine of q and p_k |
| ``mixed`` | [I, D]: h̃ |
| ``dgates``, ``dbias``, ... | gradients; those of gates are of the pre-activations, ``dbias`` is added to |

Shapes: N nodes, I internal nodes, E edges, D hidden.
"""

from __future__ import annotations

import torch
from torch import Tensor

NORM_FLOOR = 1e-8
"""ε of the cosine: the smallest norm that is divided by."""
BIAS_AFTERWARDS = False
"""Whether the bias's gradient is summed after the sweep, not level by level."""


def array(tensor: Tensor) -> Tensor:
    """A buffer in the form in which these kernels take it."""
    return tensor


def leaf_forward(
    gates: Tensor, bias: Tensor, slot: Tensor, h: Tensor, c: Tensor, low: int, high: int
) -> None:
    """Nodes without children: c = i∘u, h = o∘tanh(c)."""
    i, o, u = _activate_iou(gates[low:high], bias, h.shape[1])
    _store(i * u, o, slot[low:high], h, c)


def leaf_backward(
    gates: Tensor, slot: Tensor, c: Tensor, dh: Tensor, dc: Tensor, dgates: Tensor, dbias: Tensor,
    low: int, high: int,
) -> None:  # fmt: skip
    """Gradient of ``leaf_forward``: writes the gates' gradient and adds to the bias's."""
    rows, drows = gates[low:high], dgates[low:high]
    cell = _through_output(rows, slot[low:high], c, dh, dc, drows)
    _through_input(rows, cell, drows)
    dbias[: gates.shape[1]] += drows.sum(0)


def const_forward(
    gates: Tensor, bias: Tensor, slot: Tensor, h: Tensor, c: Tensor, low: int, high: int
) -> None:
    """Binary nodes: c = i∘u + f_l∘c_l + f_r∘c_r, h = o∘tanh(c) (Tai et al. 2015, equations 9-14, N = 2).

    The children of internal node k have the slots 2k and 2k + 1.
    """
    hidden = h.shape[1]
    i, o, u = _activate_iou(gates[low:high], bias, hidden)
    forget = gates[low:high, 3 * hidden :].unflatten(1, (2, hidden))
    forget.add_(bias[3 * hidden :]).sigmoid_()
    kept = forget * c[2 * low : 2 * high].view(-1, 2, hidden)
    _store(i * u + kept[:, 0] + kept[:, 1], o, slot[low:high], h, c)


def const_backward(
    gates: Tensor, slot: Tensor, c: Tensor, dh: Tensor, dc: Tensor, dgates: Tensor, dbias: Tensor,
    low: int, high: int,
) -> None:  # fmt: skip
    """Gradient of ``const_forward``: writes that of gates and children's c and adds to that of the bias."""
    hidden = c.shape[1]
    rows, drows = gates[low:high], dgates[low:high]
    cell = _through_output(rows, slot[low:high], c, dh, dc, drows)
    _through_input(rows, cell, drows)
    forget = rows[:, 3 * hidden :].unflatten(1, (2, hidden))
    children = slice(2 * low, 2 * high)
    cell = cell.unsqueeze(1)
    dforget = cell * c[children].view(-1, 2, hidden) * forget * (1 - forget)
    drows[:, 3 * hidden :] = dforget.flatten(1)
    dc[children] = (cell * forget).view(-1, hidden)
    dbias[: 3 * hidden] += drows[:, : 3 * hidden].sum(0)
    dbias[3 * hidden :] += dforget.sum((0, 1))


def dep_attend(
    parents: Tensor, children: Tensor, bias: Tensor, h: Tensor, offsets: Tensor, edge_parent: Tensor,
    alpha: Tensor, cosine: Tensor, mixed: Tensor, low: int, high: int, edge_low: int, edge_high: int,
) -> None:  # fmt: skip
    """Attention over children: q = W_q x + b_q, p_k = W_p h_k + b_p, α = softmax(cos(q, p)), h̃ = Σ α_k h_k.

    Writes q, p_k, α, the cosines and h̃.
    """
    hidden = h.shape[1]
    nodes, edges = slice(low, high), slice(edge_low, edge_high)
    parent, offsets = edge_parent[edges] - low, offsets[low : high + 1] - edge_low
    query = parents[nodes, :hidden].add_(bias[3 * hidden : 4 * hidden])
    keys = children[edges, :hidden].add_(bias[5 * hidden :])
    norms = query.norm(dim=1).clamp_min(NORM_FLOOR)[parent] * keys.norm(dim=1).clamp_min(NORM_FLOOR)
    torch.div((query[parent] * keys).sum(1), norms, out=cosine[edges])
    # |cosine| <= 1, so exp cannot overflow and the softmax need not subtract the maximum.
    weight = torch.exp(cosine[edges])
    torch.div(weight, _segment_sum(weight, offsets)[parent], out=alpha[edges])
    mixed[nodes] = _segment_sum(alpha[edges, None] * h[edges], offsets)


def dep_attend_backward(
    parents: Tensor, children: Tensor, h: Tensor, offsets: Tensor, edge_parent: Tensor, alpha: Tensor,
    cosine: Tensor, dmixed: Tensor, dparents: Tensor, dchildren: Tensor, dh: Tensor, dbias: Tensor,
    accumulate: bool, low: int, high: int, edge_low: int, edge_high: int,
) -> None:  # fmt: skip
    """Gradient of ``dep_attend``: writes that of q and p, and α_k dh̃ into the children's ``dh``.

    With s_k = cos_k: ds_k = α_k (dα_k - Σ α dα), ∂s/∂p = (q̂ - s p̂) / ‖p‖, ∂s/∂q = (p̂ - s q̂) / ‖q‖,
    where the second terms vanish for norms below ε. ``accumulate`` adds to ``dh``, which then already holds
    the gradient of the states as outputs.
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
    gates: Tensor, parents: Tensor, children: Tensor, bias: Tensor, slot: Tensor, h: Tensor, c: Tensor,
    offsets: Tensor, edge_parent: Tensor, low: int, high: int, edge_low: int, edge_high: int,
) -> None:  # fmt: skip
    """Nodes with children: f_k = σ(W_f x + U_f h_k + b_f), c = i∘u + Σ f_k∘c_k, h = o∘tanh(c).

    ``gates`` and ``slot`` are those of the internal nodes; f_k replaces the second half of ``children``.
    """
    hidden = h.shape[1]
    nodes, edges = slice(low, high), slice(edge_low, edge_high)
    parent, offsets = edge_parent[edges] - low, offsets[low : high + 1] - edge_low
    i, o, u = _activate_iou(gates[nodes], bias, hidden)
    from_parent = parents[nodes, hidden:] + bias[4 * hidden : 5 * hidden]
    forget = children[edges, hidden:].add_(from_parent[parent]).sigmoid_()
    _store(i * u + _segment_sum(forget * c[edges], offsets), o, slot[nodes], h, c)


def dep_backward(
    gates: Tensor, children: Tensor, slot: Tensor, c: Tensor, offsets: Tensor, edge_parent: Tensor,
    dh: Tensor, dc: Tensor, dgates: Tensor, dparents: Tensor, dchildren: Tensor, dbias: Tensor, low: int,
    high: int, edge_low: int, edge_high: int,
) -> None:  # fmt: skip
    """Gradient of ``dep_forward``.

    Writes the second halves of ``dparents`` and ``dchildren``, the children's ``dc`` and the nodes'
    ``dgates``; adds to the bias of i, o, u, f.
    """
    hidden = c.shape[1]
    nodes, edges = slice(low, high), slice(edge_low, edge_high)
    parent, offsets = edge_parent[edges] - low, offsets[low : high + 1] - edge_low
    cell = _through_output(gates[nodes], slot[nodes], c, dh, dc, dgates[nodes])
    _through_input(gates[nodes], cell, dgates[nodes])
    cell, forget = cell[parent], children[edges, hidden:]
    dforget = cell * c[edges] * forget * (1 - forget)
    dc[edges] = cell * forget
    dchildren[edges, hidden:] = dforget
    dparents[nodes, hidden:] = _segment_sum(dforget, offsets)
    dbias[: 3 * hidden] += dgates[nodes].sum(0)
    dbias[4 * hidden : 5 * hidden] += dforget.sum(0)


def _activate_iou(gates: Tensor, bias: Tensor, hidden: int) -> tuple[Tensor, Tensor, Tensor]:
    """In place on the first 3D columns: i = σ(pre_i + b_i), o = σ(pre_o + b_o), u = tanh(pre_u + b_u)."""
    io, u = gates[:, : 2 * hidden], gates[:, 2 * hidden : 3 * hidden]
    io.add_(bias[: 2 * hidden]).sigmoid_()
    u.add_(bias[2 * hidden : 3 * hidden]).tanh_()
    return io[:, :hidden], io[:, hidden:], u


def _store(cell: Tensor, o: Tensor, slot: Tensor, h: Tensor, c: Tensor) -> None:
    """Write c and h = o∘tanh(c) into the nodes' slots."""
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
    """Sum each node's rows in order; without atomics, so the bits are the same every time."""
    return torch.segment_reduce(rows, "sum", offsets=offsets, axis=0)
