"""The element-wise kernels of the native engine on the CPU, compiled by numba.

A kernel takes the buffers of the whole batch and the bounds of one level, so that nothing is sliced. It
finishes each row while the row is in the cache. Activations replace the pre-activations in place, and the
backward pass reads them there. Leaves and internal nodes are numbered in rank order, each from 0, and a
kernel computes the nodes from ``low`` to ``high - 1``.

| buffer | |
|---|---|
| ``gates`` | [N, 3D], or [I, 5D] for binary nodes: pre-activations without bias of i, o, u, f_l, f_r |
| ``bias`` | [4D] of i, o, u, f, or [6D] of i, o, u, q, f, p |
| ``slot`` | int64 [N]: slot of each node |
| ``h``, ``c`` | [slots, D]: states and memory cells, by slot |
| ``offsets`` | int64 [I + 1]: first child's slot of each internal node |
| ``parent_products`` | [I, 2D]: W_q x, then q in its place; W_f x |
| ``child_products`` | [E, 2D]: W_p h_k, then p_k in its place; U_f h_k, then f_k in its place |
| ``alpha``, ``cosine`` | [E]: attention, and cosine of q and p_k |
| ``context`` | [I, D]: h̃ |
| ``dgates``, ``dbias``, ... | gradients; those of gates are of the pre-activations, ``dbias`` is added to |

Each loop over a row writes one array only, so that the compiler can tell the operands apart and vectorise it.
Sums are taken in the order of children and nodes, so the bits of a result depend on the tree alone.

Legend of dimension suffixes: N nodes, I internal nodes, E edges, D hidden.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from multiview.engines.plan import NORM_FLOOR
from runtime.compiled import compiled, compiled_part
from runtime.compiled_math import sigmoid, tanh

BIAS_AFTERWARDS = False
"""Whether the gradient of the bias is summed once after the sweep, and not by the kernels of each level."""

# The compiler may reorder sums of products, in a fixed way, because they would not be vectorised otherwise.
_part_with_reordered_sums = functools.partial(compiled_part, fastmath={"reassoc", "contract", "nsz"})


def array(tensor: Tensor) -> Any:
    """Return the array that shares a tensor's memory."""
    return tensor.detach().numpy()


def attach(
    kernel: Callable[..., None], *, reads: Sequence[Tensor], writes: Sequence[Tensor]
) -> Callable[..., None]:
    """Return a kernel with its buffers bound to it, to be called with the bounds of a level.

    ``reads`` are its first arguments and ``writes`` the next: those that it writes, changes in place or adds
    to.
    """
    return functools.partial(kernel, *map(array, reads), *map(array, writes))


@compiled_part
def _activate(row, bias, cell):  # type: ignore[no-untyped-def]
    """Write i, o, u in place of their pre-activations, and c = i∘u."""
    dim = len(cell)
    io, b_io = row[: 2 * dim], bias[: 2 * dim]
    for j in range(2 * dim):
        io[j] = sigmoid(io[j] + b_io[j])
    i, u, b_u = row[:dim], row[2 * dim : 3 * dim], bias[2 * dim : 3 * dim]
    for j in range(dim):
        u[j] = tanh(u[j] + b_u[j])
    for j in range(dim):
        cell[j] = i[j] * u[j]


@compiled_part
def _through_output_gate(row, cell, state):  # type: ignore[no-untyped-def]
    """Write h = o∘tanh(c)."""
    dim = len(cell)
    o = row[dim : 2 * dim]
    for j in range(dim):
        state[j] = o[j] * tanh(cell[j])


@compiled_part
def _cell_gradient(row, cell, dstate, dcell, drow, dbias, tanh_c, total):  # type: ignore[no-untyped-def]
    """Write the gradients of i, o, u and that of c (``total``); ``tanh_c`` [D] is scratch."""
    dim = len(cell)
    i, o, u = row[:dim], row[dim : 2 * dim], row[2 * dim : 3 * dim]
    di, do, du = drow[:dim], drow[dim : 2 * dim], drow[2 * dim : 3 * dim]
    for j in range(dim):
        tanh_c[j] = tanh(cell[j])
    for j in range(dim):
        do[j] = dstate[j] * tanh_c[j] * (o[j] - o[j] * o[j])
    for j in range(dim):
        total[j] = dcell[j] + dstate[j] * (o[j] - o[j] * tanh_c[j] * tanh_c[j])
    for j in range(dim):
        di[j] = total[j] * u[j] * (i[j] - i[j] * i[j])
    for j in range(dim):
        du[j] = total[j] * (i[j] - i[j] * u[j] * u[j])
    _add(dbias[: 3 * dim], drow[: 3 * dim])


@compiled_part
def _forget_gradient(forget, child_cell, total, dforget, dchild_cell):  # type: ignore[no-untyped-def]
    for j in range(len(total)):
        dforget[j] = total[j] * child_cell[j] * (forget[j] - forget[j] * forget[j])
    for j in range(len(total)):
        dchild_cell[j] = total[j] * forget[j]


@compiled_part
def _add(to, row):  # type: ignore[no-untyped-def]
    for j in range(len(to)):
        to[j] += row[j]


@compiled_part
def _add_scaled(to, scale, row):  # type: ignore[no-untyped-def]
    for j in range(len(to)):
        to[j] += scale * row[j]


@compiled_part
def _put_scaled(to, scale, row, accumulate):  # type: ignore[no-untyped-def]
    """Write the scaled row to ``to`` or, with ``accumulate``, add it."""
    if accumulate:
        _add_scaled(to, scale, row)
    else:
        for j in range(len(to)):
            to[j] = scale * row[j]


@_part_with_reordered_sums
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = a[0] * b[0]
    for j in range(1, len(a)):
        total += a[j] * b[j]
    return total


@compiled
def leaf_forward(bias, slot, gates, h, c, low, high):  # type: ignore[no-untyped-def]
    """Compute nodes without children: c = i∘u, h = o∘tanh(c)."""
    for r in range(low, high):
        row, cell = gates[r], c[slot[r]]
        _activate(row, bias, cell)
        _through_output_gate(row, cell, h[slot[r]])


@compiled
def leaf_backward(gates, slot, c, dh, dc, dgates, dbias, low, high):  # type: ignore[no-untyped-def]
    """The backward pass of ``leaf_forward``: write the gates' gradient and add to the bias's."""
    tanh_c, total = np.empty((2, c.shape[1]), c.dtype)
    for r in range(low, high):
        s = slot[r]
        _cell_gradient(gates[r], c[s], dh[s], dc[s], dgates[r], dbias, tanh_c, total)


@compiled
def const_forward(bias, slot, gates, h, c, low, high):  # type: ignore[no-untyped-def]
    """Compute binary nodes: c = i∘u + f_l∘c_l + f_r∘c_r, h = o∘tanh(c) (Tai et al. 2015, eq. 9-14, N = 2).

    The children of internal node k have the slots 2k and 2k + 1.
    """
    dim = h.shape[1]
    b_f = bias[3 * dim :]
    for k in range(low, high):
        row, s = gates[k], slot[k]
        cell = c[s]
        _activate(row, bias, cell)
        for side in range(2):
            forget, child = row[(3 + side) * dim : (4 + side) * dim], c[2 * k + side]
            for j in range(dim):
                forget[j] = sigmoid(forget[j] + b_f[j])
            for j in range(dim):
                cell[j] += forget[j] * child[j]
        _through_output_gate(row, cell, h[s])


@compiled
def const_backward(gates, slot, c, dh, dc, dgates, dbias, low, high):  # type: ignore[no-untyped-def]
    """The backward pass of ``const_forward``: write the gradients of gates and of c, add to the bias's."""
    dim = c.shape[1]
    tanh_c, total = np.empty((2, dim), c.dtype)
    db_f = dbias[3 * dim :]
    for k in range(low, high):
        row, drow, s = gates[k], dgates[k], slot[k]
        _cell_gradient(row, c[s], dh[s], dc[s], drow, dbias, tanh_c, total)
        for side in range(2):
            columns = slice((3 + side) * dim, (4 + side) * dim)
            _forget_gradient(row[columns], c[2 * k + side], total, drow[columns], dc[2 * k + side])
            _add(db_f, drow[columns])


@compiled
def dep_attend(  # type: ignore[no-untyped-def]
    bias, h, offsets, parent_products, child_products, alpha, cosine, context, low, high
):
    """Attend to children: q = W_q x + b_q, p_k = W_p h_k + b_p, α = softmax(cos(q, p)), h̃ = Σ α_k h_k.

    |cosine| <= 1, so exp cannot overflow and the softmax need not subtract the maximum.
    """
    dim = h.shape[1]
    b_q, b_p = bias[3 * dim : 4 * dim], bias[5 * dim :]
    for k in range(low, high):
        query, to = parent_products[k, :dim], context[k]
        _add(query, b_q)
        query_norm = max(math.sqrt(_dot(query, query)), NORM_FLOOR)
        total = 0.0
        for e in range(offsets[k], offsets[k + 1]):
            key = child_products[e, :dim]
            _add(key, b_p)
            key_norm = max(math.sqrt(_dot(key, key)), NORM_FLOOR)
            cosine[e] = _dot(query, key) / (query_norm * key_norm)
            alpha[e] = math.exp(cosine[e])
            total += alpha[e]
        to[:] = 0
        for e in range(offsets[k], offsets[k + 1]):
            alpha[e] /= total
            _add_scaled(to, alpha[e], h[e])


@compiled
def dep_attend_backward(  # type: ignore[no-untyped-def]
    parent_products, child_products, h, offsets, alpha, cosine, dcontext,
    dparent_products, dchild_products, dh, dbias, accumulate, low, high
):  # fmt: skip
    """The backward pass of ``dep_attend``: write gradients of q and p, and α_k dh̃ into the children's ``dh``.

    With s_k = cos_k: ds_k = α_k (dα_k - Σ α dα), ∂s/∂p = (q̂ - s p̂) / ‖p‖, ∂s/∂q = (p̂ - s q̂) / ‖q‖,
    where the second terms vanish for norms below ε. ``accumulate`` adds to ``dh``, which then already holds
    the gradient of the states as outputs.
    """
    dim = h.shape[1]
    db_q, db_p = dbias[3 * dim : 4 * dim], dbias[5 * dim :]
    scales = np.empty(3, h.dtype)  # in the states' type: a float64 scale would widen the loops over rows
    for k in range(low, high):
        query, dquery, dcontext_row = parent_products[k, :dim], dparent_products[k, :dim], dcontext[k]
        query_norm = math.sqrt(_dot(query, query))
        query_floor = max(query_norm, NORM_FLOOR)
        mean = 0.0
        for e in range(offsets[k], offsets[k + 1]):
            mean += alpha[e] * _dot(dcontext_row, h[e])
        dquery[:] = 0
        along_query = 0.0
        for e in range(offsets[k], offsets[k + 1]):
            key, dkey, dstate = child_products[e, :dim], dchild_products[e, :dim], dh[e]
            key_norm = math.sqrt(_dot(key, key))
            key_floor = max(key_norm, NORM_FLOOR)
            dcosine = alpha[e] * (_dot(dcontext_row, h[e]) - mean)
            along_query += dcosine * cosine[e]
            scales[0] = dcosine / (query_floor * key_floor)
            scales[1] = dcosine * cosine[e] / (key_floor * key_floor) if key_norm > NORM_FLOOR else 0.0
            across, along_key, weight = scales[0], scales[1], alpha[e]
            for j in range(dim):
                dkey[j] = across * query[j] - along_key * key[j]
            _add(db_p, dkey)
            _add_scaled(dquery, across, key)
            _put_scaled(dstate, weight, dcontext_row, accumulate)
        scales[2] = -along_query / (query_floor * query_floor) if query_norm > NORM_FLOOR else 0.0
        _add_scaled(dquery, scales[2], query)
        _add(db_q, dquery)


@compiled
def dep_forward(  # type: ignore[no-untyped-def]
    parent_products, bias, slot, offsets, gates, child_products, h, c, low, high
):
    """Compute nodes with children: f_k = σ(W_f x + U_f h_k + b_f), c = i∘u + Σ f_k∘c_k, h = o∘tanh(c).

    ``gates`` and ``slot`` are those of the internal nodes; f_k replaces U_f h_k in ``child_products``.
    """
    dim = h.shape[1]
    b_f = bias[4 * dim : 5 * dim]
    from_parent = np.empty(dim, h.dtype)
    for k in range(low, high):
        row, s = gates[k], slot[k]
        cell, wf_x = c[s], parent_products[k, dim:]
        _activate(row, bias, cell)
        for j in range(dim):
            from_parent[j] = wf_x[j] + b_f[j]
        for e in range(offsets[k], offsets[k + 1]):
            forget, child = child_products[e, dim:], c[e]
            for j in range(dim):
                forget[j] = sigmoid(forget[j] + from_parent[j])
            for j in range(dim):
                cell[j] += forget[j] * child[j]
        _through_output_gate(row, cell, h[s])


@compiled
def dep_backward(  # type: ignore[no-untyped-def]
    gates, child_products, slot, c, offsets, dh, dc, dgates, dparent_products, dchild_products, dbias,
    low, high
):  # fmt: skip
    """The backward pass of ``dep_forward``: add to the gradient of the bias of i, o, u, f."""
    dim = c.shape[1]
    tanh_c, total = np.empty((2, dim), c.dtype)
    db_f = dbias[4 * dim : 5 * dim]
    for k in range(low, high):
        s, dwf_x = slot[k], dparent_products[k, dim:]
        _cell_gradient(gates[k], c[s], dh[s], dc[s], dgates[k], dbias, tanh_c, total)
        dwf_x[:] = 0
        for e in range(offsets[k], offsets[k + 1]):
            dforget = dchild_products[e, dim:]
            _forget_gradient(child_products[e, dim:], c[e], total, dforget, dc[e])
            _add(dwf_x, dforget)
        _add(db_f, dwf_x)


@compiled
def gru_forward(gates, token, recurrent, bias, h, states, low, high):  # type: ignore[no-untyped-def]
    """Take one position of a GRU: r, z = σ(W x + U h + b), n = tanh(W x + r∘(U h + b)), h ← n + z∘(h - n).

    ``gates`` [U, 3D] are W x + b of every distinct word, in torch's order r, z, n; ``token`` int64 [T] is
    each packed token's word. The sentences that run come first in ``recurrent`` [B, 3D], which is U h and
    overwritten, and in ``h`` [B, D]. ``low`` to ``high - 1`` are the position's packed tokens, whose
    ``states`` [T, D] are written.
    """
    dim = h.shape[1]
    for k in range(high - low):
        inputs, row, state, out = gates[token[low + k]], recurrent[k], h[k], states[low + k]
        in_rz, rz, b_rz = inputs[: 2 * dim], row[: 2 * dim], bias[: 2 * dim]
        for j in range(2 * dim):
            rz[j] = sigmoid(in_rz[j] + (rz[j] + b_rz[j]))
        r, z, n = row[:dim], row[dim : 2 * dim], row[2 * dim :]
        in_n, b_n = inputs[2 * dim :], bias[2 * dim :]
        for j in range(dim):
            n[j] = tanh(in_n[j] + r[j] * (n[j] + b_n[j]))
        for j in range(dim):
            state[j] = n[j] + z[j] * (state[j] - n[j])
        out[:] = state
