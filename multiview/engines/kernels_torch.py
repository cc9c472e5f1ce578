"""The element-wise steps in plain torch: they run on any device and are the oracle of the other kernels.

The kernels take the buffers of the whole batch (see ``buffers``) and the range of one level, so that compiled
kernels need no slicing. Activations replace the pre-activations in place; the backward pass needs them.

Shapes: n nodes of the level, m their children, I internal nodes, E edges, N nodes and as many slots, D
hidden.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from multiview.engines.buffers import Attention, AttentionGradients, CellGradients, Cells, Level

Buffers = TypeVar("Buffers", Cells, CellGradients, Attention, AttentionGradients)

NORM_FLOOR = 1e-8
"""ε of the cosine: the smallest norm that is divided by."""


def array(tensor: Tensor) -> Tensor:
    """A single buffer of any shape, in the form in which the kernels take it."""
    return tensor


def view(buffers: Buffers) -> Buffers:
    """A group of buffers in the form in which the kernels take it."""
    return buffers


def leaf_forward(cells: Cells, bias: Tensor, count: int) -> None:
    """Nodes without children: c = i∘u, h = o∘tanh(c).

    Args:
        cells: of the leaves, which hold the first ranks; states are written.
        bias: [≥ 3D], i, o, u first.
        count: number of leaves.
    """
    gates, slot, h, c = cells
    i, o, u = _activate_iou(gates[:count], bias, h.shape[1])
    _store(i * u, o, slot[:count], h, c)


def leaf_backward(cells: Cells, gradients: CellGradients, count: int) -> None:
    """Gradient of ``leaf_forward``: writes the gates' gradient and adds to the bias's."""
    gates, slot, _, c = cells
    dgates, dbias, dh, dc = gradients
    cell = _through_output(gates[:count], slot[:count], c, dh, dc, dgates[:count])
    _through_input(gates[:count], cell, dgates[:count])
    dbias[: gates.shape[1]] += dgates[:count].sum(0)


def const_forward(cells: Cells, bias: Tensor, words: int, low: int, high: int) -> None:
    """Binary nodes: c = i∘u + f_l∘c_l + f_r∘c_r, h = o∘tanh(c) (Tai et al. 2015, equations 9-14, N = 2).

    Args:
        cells: of internal nodes; node k has rank ``words + k``, its children slots 2k and 2k + 1.
        bias: [4D], of i, o, u and of both forget gates.
        words: T.
        low: first internal node of the level.
        high: one past its last.
    """
    gates, slot, h, c = cells
    hidden = h.shape[1]
    i, o, u = _activate_iou(gates[low:high], bias, hidden)
    forget = gates[low:high, 3 * hidden :].unflatten(1, (2, hidden))
    forget.add_(bias[3 * hidden :]).sigmoid_()
    kept = forget * c[2 * low : 2 * high].view(-1, 2, hidden)
    _store(i * u + kept[:, 0] + kept[:, 1], o, slot[words + low : words + high], h, c)


def const_backward(cells: Cells, gradients: CellGradients, words: int, low: int, high: int) -> None:
    """Gradient of ``const_forward``: writes that of gates and children's c and adds to that of the bias."""
    gates, slot, _, c = cells
    dgates, dbias, dh, dc = gradients
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


def const_bias(dleaf: Tensor, gradients: CellGradients) -> None:
    """Complete the bias's gradient after the sweep. Nothing to do here: these kernels add to it in the sweep.

    Args:
        dleaf: [T, 3D], gradient of the leaves' gates.
        gradients: of the internal nodes.
    """


def dep_attend(cells: Cells, attention: Attention, bias: Tensor, level: Level) -> None:
    """Attention over children: q = W_q x + b_q, p_k = W_p h_k + b_p, α = softmax(cos(q, p)), h̃ = Σ α_k h_k.

    Args:
        cells: h is read; the children fill the first E slots.
        attention: products on entry; q, p_k, α, the cosines and h̃ on return.
        bias: [6D], of i, o, u, q, f, p.
        level: which nodes.
    """
    h = cells.h
    offsets, edge_parent, parents, children, alpha, cosine, mixed = attention
    low, high, edge_low, edge_high = level
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
    cells: Cells,
    attention: Attention,
    gradients: CellGradients,
    dattention: AttentionGradients,
    level: Level,
    *,
    accumulate: bool,
) -> None:
    """Gradient of ``dep_attend``: writes that of q and p, and α_k dh̃ into the children's ``dh``.

    With s_k = cos_k: ds_k = α_k (dα_k - Σ α dα), ∂s/∂p = (q̂ - s p̂) / ‖p‖, ∂s/∂q = (p̂ - s q̂) / ‖q‖,
    where the second terms vanish for norms below ε.

    Args:
        cells: h is read.
        attention: as ``dep_attend`` left it.
        gradients: h of the children is written or added to; the bias of q and p is added to.
        dattention: mixed holds that of h̃; the first halves of parents and children are written.
        level: which nodes.
        accumulate: add to the gradient of h, which already holds that of the states as outputs.
    """
    h = cells.h
    offsets, edge_parent, parents, children, alpha, cosine, _ = attention
    dh, dbias = gradients.h, gradients.bias
    dparents, dchildren, dmixed = dattention
    low, high, edge_low, edge_high = level
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


def dep_forward(cells: Cells, attention: Attention, bias: Tensor, leaves: int, level: Level) -> None:
    """Nodes with children: f_k = σ(W_f x + U_f h_k + b_f), c = i∘u + Σ f_k∘c_k, h = o∘tanh(c).

    Args:
        cells: gates by rank, W x + U h̃ on entry; internal node k has rank ``leaves + k``.
        attention: reads the second halves of parents and children; f_k replaces the latter.
        bias: [6D], of i, o, u, q, f, p.
        leaves: number of leaves.
        level: which nodes.
    """
    gates, slot, h, c = cells
    offsets, edge_parent, parents, children, *_ = attention
    low, high, edge_low, edge_high = level
    hidden = h.shape[1]
    nodes, edges = slice(low, high), slice(edge_low, edge_high)
    parent, offsets = edge_parent[edges] - low, offsets[low : high + 1] - edge_low
    ranks = slice(leaves + low, leaves + high)
    i, o, u = _activate_iou(gates[ranks], bias, hidden)
    from_parent = parents[nodes, hidden:] + bias[4 * hidden : 5 * hidden]
    forget = children[edges, hidden:].add_(from_parent[parent]).sigmoid_()
    _store(i * u + _segment_sum(forget * c[edges], offsets), o, slot[ranks], h, c)


def dep_backward(
    cells: Cells,
    attention: Attention,
    gradients: CellGradients,
    dattention: AttentionGradients,
    leaves: int,
    level: Level,
) -> None:
    """Gradient of ``dep_forward``.

    Writes the second halves of ``dattention``, the children's ``dc`` and the nodes' ``dgates``; adds to the
    bias of i, o, u, f.
    """
    gates, slot, _, c = cells
    offsets, edge_parent, _, children, *_ = attention
    dgates, dbias, dh, dc = gradients
    dparents, dchildren, _ = dattention
    low, high, edge_low, edge_high = level
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


def dep_bias(gradients: CellGradients, dattention: AttentionGradients) -> None:
    """As ``const_bias``."""


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
