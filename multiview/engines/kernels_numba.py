"""The element-wise steps on the CPU, compiled: a row is finished while it is in cache.

Functions and arguments are those of ``kernels_torch``. Loops over a row write one array each, so that the
compiler can tell the operands apart and vectorise; ``error_model="numpy"`` because Python's division check
prevents that. Sums run in the order of children and nodes, so bits depend on the tree alone.

tanh in float32 is the rational approximation of Eigen (3e-7): 0.15 ns an element (measured, one core)
against 2.1 of ``torch.tanh`` and 12 of libm, whose calls do not vectorise; σ(x) = (1 + tanh(x/2)) / 2.
float64 uses libm.

Shapes: as in ``kernels_torch``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload
from torch import Tensor

from multiview.engines.buffers import Attention, AttentionGradients, CellGradients, Cells, Level
from multiview.engines.kernels_torch import NORM_FLOOR, Buffers

# cache: compiled once per machine. nogil: other threads run meanwhile.
_compiled = njit(cache=True, nogil=True, error_model="numpy")
# Sums of products may be reordered by the compiler (a fixed order of its own), else they do not vectorise.
_reordered = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})


def array(tensor: Tensor) -> Any:
    """A single buffer, likewise."""
    return tensor.detach().numpy()


def view(buffers: Buffers) -> Buffers:
    """A group of buffers as the arrays that share their memory."""
    arrays: Any = map(array, buffers)
    return type(buffers)(*arrays)


def _tanh(x: Any) -> Any:
    """Of one number; compiled code takes the overload below."""
    return math.tanh(x)


@overload(_tanh, jit_options={"error_model": "numpy"})
def _tanh_of_type(x):  # type: ignore[no-untyped-def]
    if x == types.float32:

        def rational(x):  # type: ignore[no-untyped-def]
            limit = np.float32(7.90531110763549805)  # tanh is 1 in float32 beyond
            x = limit if x > limit else x
            x = -limit if x < -limit else x
            y = x * x
            p = y * np.float32(-2.76076847742355e-16) + np.float32(2.00018790482477e-13)
            p = y * p + np.float32(-8.60467152213735e-11)
            p = y * p + np.float32(5.12229709037114e-08)
            p = y * p + np.float32(1.48572235717979e-05)
            p = y * p + np.float32(6.37261928875436e-04)
            p = y * p + np.float32(4.89352455891786e-03)
            q = y * np.float32(1.19825839466702e-06) + np.float32(1.18534705686654e-04)
            q = y * q + np.float32(2.26843463243900e-03)
            q = y * q + np.float32(4.89352518554385e-03)
            return x * p / q

        return rational
    return lambda x: math.tanh(x)


def _sigmoid(x: Any) -> Any:
    """Of one number; compiled code takes the overload below."""
    return 0.5 * math.tanh(0.5 * x) + 0.5


@overload(_sigmoid, jit_options={"error_model": "numpy"})
def _sigmoid_of_type(x):  # type: ignore[no-untyped-def]
    if x == types.float32:
        return lambda x: np.float32(0.5) + np.float32(0.5) * _tanh(np.float32(0.5) * x)
    return lambda x: 0.5 + 0.5 * _tanh(0.5 * x)


@_compiled
def _activate_iou(row, bias, hidden):  # type: ignore[no-untyped-def]
    io, b_io = row[: 2 * hidden], bias[: 2 * hidden]
    for j in range(2 * hidden):
        io[j] = _sigmoid(io[j] + b_io[j])
    u, b_u = row[2 * hidden : 3 * hidden], bias[2 * hidden : 3 * hidden]
    for j in range(hidden):
        u[j] = _tanh(u[j] + b_u[j])


@_compiled
def _through_input_gate(row, cell):  # type: ignore[no-untyped-def]
    """Writes c = i∘u."""
    hidden = len(cell)
    i, u = row[:hidden], row[2 * hidden : 3 * hidden]
    for j in range(hidden):
        cell[j] = i[j] * u[j]


@_compiled
def _through_output_gate(row, cell, state):  # type: ignore[no-untyped-def]
    """Writes h = o∘tanh(c)."""
    hidden = len(cell)
    o = row[hidden : 2 * hidden]
    for j in range(hidden):
        state[j] = o[j] * _tanh(cell[j])


@_compiled
def _cell_gradient(row, cell, dstate, dcell, drow, dbias, tanh_c, total):  # type: ignore[no-untyped-def]
    """Writes the gradients of i, o, u and that of c (``total``); ``tanh_c`` [D] is scratch."""
    hidden = len(cell)
    i, o, u = row[:hidden], row[hidden : 2 * hidden], row[2 * hidden : 3 * hidden]
    di, do, du = drow[:hidden], drow[hidden : 2 * hidden], drow[2 * hidden : 3 * hidden]
    for j in range(hidden):
        tanh_c[j] = _tanh(cell[j])
    for j in range(hidden):
        do[j] = dstate[j] * tanh_c[j] * (o[j] - o[j] * o[j])
    for j in range(hidden):
        total[j] = dcell[j] + dstate[j] * (o[j] - o[j] * tanh_c[j] * tanh_c[j])
    for j in range(hidden):
        di[j] = total[j] * u[j] * (i[j] - i[j] * i[j])
    for j in range(hidden):
        du[j] = total[j] * (i[j] - i[j] * u[j] * u[j])
    _add(dbias[: 3 * hidden], drow[: 3 * hidden])


@_compiled
def _forget_gradient(forget, child_cell, total, dforget, dchild_cell):  # type: ignore[no-untyped-def]
    for j in range(len(total)):
        dforget[j] = total[j] * child_cell[j] * (forget[j] - forget[j] * forget[j])
    for j in range(len(total)):
        dchild_cell[j] = total[j] * forget[j]


@_compiled
def _add(to, row):  # type: ignore[no-untyped-def]
    for j in range(len(to)):
        to[j] += row[j]


@_compiled
def _add_scaled(to, scale, row):  # type: ignore[no-untyped-def]
    for j in range(len(to)):
        to[j] += scale * row[j]


@_reordered
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = a[0] * b[0]
    for j in range(1, len(a)):
        total += a[j] * b[j]
    return total


@_compiled
def _leaf_forward(gates, bias, slot, h, c, count):  # type: ignore[no-untyped-def]
    hidden = h.shape[1]
    for r in range(count):
        row, cell = gates[r], c[slot[r]]
        _activate_iou(row, bias, hidden)
        _through_input_gate(row, cell)
        _through_output_gate(row, cell, h[slot[r]])


@_compiled
def _leaf_backward(gates, slot, c, dh, dc, dgates, dbias, count):  # type: ignore[no-untyped-def]
    tanh_c, total = np.empty((2, c.shape[1]), c.dtype)
    for r in range(count):
        s = slot[r]
        _cell_gradient(gates[r], c[s], dh[s], dc[s], dgates[r], dbias, tanh_c, total)


@_compiled
def _const_forward(gates, bias, slot, h, c, low, high, words):  # type: ignore[no-untyped-def]
    hidden = h.shape[1]
    b_f = bias[3 * hidden :]
    for k in range(low, high):
        row, s = gates[k], slot[words + k]
        cell = c[s]
        _activate_iou(row, bias, hidden)
        _through_input_gate(row, cell)
        for side in range(2):
            forget, child = row[(3 + side) * hidden : (4 + side) * hidden], c[2 * k + side]
            for j in range(hidden):
                forget[j] = _sigmoid(forget[j] + b_f[j])
            for j in range(hidden):
                cell[j] += forget[j] * child[j]
        _through_output_gate(row, cell, h[s])


@_compiled
def _const_backward(gates, slot, c, dh, dc, dgates, dbias, low, high, words):  # type: ignore[no-untyped-def]
    hidden = c.shape[1]
    tanh_c, total = np.empty((2, hidden), c.dtype)
    db_f = dbias[3 * hidden :]
    for k in range(low, high):
        row, drow, s = gates[k], dgates[k], slot[words + k]
        _cell_gradient(row, c[s], dh[s], dc[s], drow, dbias, tanh_c, total)
        for side in range(2):
            columns = slice((3 + side) * hidden, (4 + side) * hidden)
            _forget_gradient(row[columns], c[2 * k + side], total, drow[columns], dc[2 * k + side])
            _add(db_f, drow[columns])


@_compiled
def _dep_attend(  # type: ignore[no-untyped-def]
    parents, children, bias, h, offsets, alpha, cosine, mixed, low, high
):
    hidden = h.shape[1]
    b_q, b_p = bias[3 * hidden : 4 * hidden], bias[5 * hidden :]
    for k in range(low, high):
        query, to = parents[k, :hidden], mixed[k]
        _add(query, b_q)
        query_norm = max(math.sqrt(_dot(query, query)), NORM_FLOOR)
        total = 0.0
        for e in range(offsets[k], offsets[k + 1]):
            key = children[e, :hidden]
            _add(key, b_p)
            key_norm = max(math.sqrt(_dot(key, key)), NORM_FLOOR)
            cosine[e] = _dot(query, key) / (query_norm * key_norm)
            alpha[e] = math.exp(cosine[e])
            total += alpha[e]
        to[:] = 0
        for e in range(offsets[k], offsets[k + 1]):
            alpha[e] /= total
            _add_scaled(to, alpha[e], h[e])


@_compiled
def _dep_attend_backward(  # type: ignore[no-untyped-def]
    parents, children, h, offsets, alpha, cosine, dmixed, dparents, dchildren, dh, dbias,
    accumulate, low, high
):  # fmt: skip
    hidden = h.shape[1]
    db_q, db_p = dbias[3 * hidden : 4 * hidden], dbias[5 * hidden :]
    scales = np.empty(3, h.dtype)  # in the states' type: a float64 scale would widen the loops over rows
    for k in range(low, high):
        query, dquery, dmix = parents[k, :hidden], dparents[k, :hidden], dmixed[k]
        query_norm = math.sqrt(_dot(query, query))
        query_floor = max(query_norm, NORM_FLOOR)
        mean = 0.0
        for e in range(offsets[k], offsets[k + 1]):
            mean += alpha[e] * _dot(dmix, h[e])
        dquery[:] = 0
        along_query = 0.0
        for e in range(offsets[k], offsets[k + 1]):
            key, dkey, dstate = children[e, :hidden], dchildren[e, :hidden], dh[e]
            key_norm = math.sqrt(_dot(key, key))
            key_floor = max(key_norm, NORM_FLOOR)
            dcosine = alpha[e] * (_dot(dmix, h[e]) - mean)
            along_query += dcosine * cosine[e]
            scales[0] = dcosine / (query_floor * key_floor)
            scales[1] = dcosine * cosine[e] / (key_floor * key_floor) if key_norm > NORM_FLOOR else 0.0
            across, along_key, weight = scales[0], scales[1], alpha[e]
            for j in range(hidden):
                dkey[j] = across * query[j] - along_key * key[j]
            _add(db_p, dkey)
            _add_scaled(dquery, across, key)
            if accumulate:
                _add_scaled(dstate, weight, dmix)
            else:
                for j in range(hidden):
                    dstate[j] = weight * dmix[j]
        scales[2] = -along_query / (query_floor * query_floor) if query_norm > NORM_FLOOR else 0.0
        _add_scaled(dquery, scales[2], query)
        _add(db_q, dquery)


@_compiled
def _dep_forward(  # type: ignore[no-untyped-def]
    gates, parents, children, bias, slot, h, c, offsets, leaves, low, high
):
    hidden = h.shape[1]
    b_f = bias[4 * hidden : 5 * hidden]
    from_parent = np.empty(hidden, h.dtype)
    for k in range(low, high):
        row, s = gates[leaves + k], slot[leaves + k]
        cell, wf_x = c[s], parents[k, hidden:]
        _activate_iou(row, bias, hidden)
        _through_input_gate(row, cell)
        for j in range(hidden):
            from_parent[j] = wf_x[j] + b_f[j]
        for e in range(offsets[k], offsets[k + 1]):
            forget, child = children[e, hidden:], c[e]
            for j in range(hidden):
                forget[j] = _sigmoid(forget[j] + from_parent[j])
            for j in range(hidden):
                cell[j] += forget[j] * child[j]
        _through_output_gate(row, cell, h[s])


@_compiled
def _dep_backward(  # type: ignore[no-untyped-def]
    gates, children, slot, c, offsets, dh, dc, dgates, dparents, dchildren, dbias, leaves,
    low, high
):  # fmt: skip
    hidden = c.shape[1]
    tanh_c, total = np.empty((2, hidden), c.dtype)
    db_f = dbias[4 * hidden : 5 * hidden]
    for k in range(low, high):
        r = leaves + k
        s, dwf_x = slot[r], dparents[k, hidden:]
        _cell_gradient(gates[r], c[s], dh[s], dc[s], dgates[r], dbias, tanh_c, total)
        dwf_x[:] = 0
        for e in range(offsets[k], offsets[k + 1]):
            dforget = dchildren[e, hidden:]
            _forget_gradient(children[e, hidden:], c[e], total, dforget, dc[e])
            _add(dwf_x, dforget)
        _add(db_f, dwf_x)


def leaf_forward(cells: Cells, bias: Tensor, count: int) -> None:
    """See ``kernels_torch``."""
    gates, slot, h, c = cells
    _leaf_forward(gates, bias, slot, h, c, count)


def leaf_backward(cells: Cells, gradients: CellGradients, count: int) -> None:
    """See ``kernels_torch``."""
    gates, slot, _, c = cells
    dgates, dbias, dh, dc = gradients
    _leaf_backward(gates, slot, c, dh, dc, dgates, dbias, count)


def const_forward(cells: Cells, bias: Tensor, words: int, low: int, high: int) -> None:
    """See ``kernels_torch``."""
    gates, slot, h, c = cells
    _const_forward(gates, bias, slot, h, c, low, high, words)


def const_backward(cells: Cells, gradients: CellGradients, words: int, low: int, high: int) -> None:
    """See ``kernels_torch``."""
    gates, slot, _, c = cells
    dgates, dbias, dh, dc = gradients
    _const_backward(gates, slot, c, dh, dc, dgates, dbias, low, high, words)


def dep_attend(cells: Cells, attention: Attention, bias: Tensor, level: Level) -> None:
    """See ``kernels_torch``."""
    offsets, _, parents, children, alpha, cosine, mixed = attention
    _dep_attend(parents, children, bias, cells.h, offsets, alpha, cosine, mixed, level.low, level.high)


def dep_attend_backward(
    cells: Cells,
    attention: Attention,
    gradients: CellGradients,
    dattention: AttentionGradients,
    level: Level,
    *,
    accumulate: bool,
) -> None:
    """See ``kernels_torch``."""
    offsets, _, parents, children, alpha, cosine, _ = attention
    dparents, dchildren, dmixed = dattention
    _dep_attend_backward(
        parents, children, cells.h, offsets, alpha, cosine, dmixed, dparents, dchildren, gradients.h,
        gradients.bias, accumulate, level.low, level.high,
    )  # fmt: skip


def dep_forward(cells: Cells, attention: Attention, bias: Tensor, leaves: int, level: Level) -> None:
    """See ``kernels_torch``."""
    gates, slot, h, c = cells
    offsets, _, parents, children, *_ = attention
    _dep_forward(gates, parents, children, bias, slot, h, c, offsets, leaves, level.low, level.high)


def dep_backward(
    cells: Cells,
    attention: Attention,
    gradients: CellGradients,
    dattention: AttentionGradients,
    leaves: int,
    level: Level,
) -> None:
    """See ``kernels_torch``."""
    gates, slot, _, c = cells
    dgates, dbias, dh, dc = gradients
    dparents, dchildren, _ = dattention
    _dep_backward(
        gates, attention.children, slot, c, attention.offsets, dh, dc, dgates, dparents, dchildren, dbias,
        leaves, level.low, level.high,
    )  # fmt: skip


def const_bias(dleaf: Tensor, gradients: CellGradients) -> None:
    """See ``kernels_torch``."""


def dep_bias(gradients: CellGradients, dattention: AttentionGradients) -> None:
    """See ``kernels_torch``."""
