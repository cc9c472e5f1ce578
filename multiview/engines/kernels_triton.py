"""The element-wise kernels of the native engine on GPUs, in Triton: one launch per kernel and level.

Names, arguments and shapes are those of ``kernels_numba``. A Triton program computes one node and a block of
columns, or whole rows for the attention. Each value is written by one program, without atomics, and sums are
taken over a node's children in order, so the bits are the same in every run. The gradient of the bias is
summed once after the sweep.

docs/scaling.md says on which GPU the kernels ran; since then names, the order of arguments and ``attach``
have changed, and only Triton's interpreter has run them. ``TRITON_INTERPRET=1`` runs the kernels on the CPU,
as the tests do. The module is imported only where triton is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from multiview.engines.plan import NORM_FLOOR

BIAS_AFTERWARDS = True
"""True, because programs share no sums; ``kernels_numba`` says what it means."""

_BLOCK = 256  # columns of a program of the gate kernels; with whole rows a small level has too few programs


_level_kernel = partial(triton.jit, do_not_specialize=["low"])
"""The decorator of a kernel that takes a level's bounds. Without the option, Triton would compile the kernel
anew for a level that begins at 0, 1 or a multiple of 16."""


@triton.jit
def _tanh(x):  # type: ignore[no-untyped-def]
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _activate(gates, bias, h, c, memory, row, s, j, mask, D: tl.constexpr, columns: tl.constexpr):  # type: ignore[no-untyped-def]
    """Activate i, o, u in place; write c = i∘u + memory, h = o∘tanh(c) into slot ``s``."""
    at = gates + row * columns + j
    i = tl.sigmoid(tl.load(at, mask=mask, other=0.0) + tl.load(bias + j, mask=mask, other=0.0))
    o = tl.sigmoid(tl.load(at + D, mask=mask, other=0.0) + tl.load(bias + D + j, mask=mask, other=0.0))
    u = _tanh(tl.load(at + 2 * D, mask=mask, other=0.0) + tl.load(bias + 2 * D + j, mask=mask, other=0.0))
    tl.store(at, i, mask=mask)
    tl.store(at + D, o, mask=mask)
    tl.store(at + 2 * D, u, mask=mask)
    cell = i * u + memory
    tl.store(c + s * D + j, cell, mask=mask)
    tl.store(h + s * D + j, o * _tanh(cell), mask=mask)


@triton.jit
def _cell_gradient(gates, c, dh, dc, dgates, row, s, j, mask, D: tl.constexpr, columns: tl.constexpr):  # type: ignore[no-untyped-def]
    """Write the gradients of i, o, u; return that of c."""
    at, to = gates + row * columns + j, dgates + row * columns + j
    i, o = tl.load(at, mask=mask, other=0.0), tl.load(at + D, mask=mask, other=0.0)
    u, t = tl.load(at + 2 * D, mask=mask, other=0.0), _tanh(tl.load(c + s * D + j, mask=mask, other=0.0))
    dstate = tl.load(dh + s * D + j, mask=mask, other=0.0)
    total = tl.load(dc + s * D + j, mask=mask, other=0.0) + dstate * o * (1 - t * t)
    tl.store(to, total * u * i * (1 - i), mask=mask)
    tl.store(to + D, dstate * t * o * (1 - o), mask=mask)
    tl.store(to + 2 * D, total * i * (1 - u * u), mask=mask)
    return total


@_level_kernel
def leaf_forward(bias, slot, gates, h, c, low, D: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = low + tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    _activate(gates, bias, h, c, 0.0, row, tl.load(slot + row), j, j < D, D, 3 * D)


@_level_kernel
def leaf_backward(gates, slot, c, dh, dc, dgates, dbias, low, D: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = low + tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    _cell_gradient(gates, c, dh, dc, dgates, row, tl.load(slot + row), j, j < D, D, 3 * D)


@_level_kernel
def const_forward(bias, slot, gates, h, c, low, D: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    k = low + tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = j < D
    at, child = gates + k * 5 * D + j, c + 2 * k * D + j
    b_f = tl.load(bias + 3 * D + j, mask=mask, other=0.0)
    left = tl.sigmoid(tl.load(at + 3 * D, mask=mask, other=0.0) + b_f)
    right = tl.sigmoid(tl.load(at + 4 * D, mask=mask, other=0.0) + b_f)
    tl.store(at + 3 * D, left, mask=mask)
    tl.store(at + 4 * D, right, mask=mask)
    memory = left * tl.load(child, mask=mask, other=0.0) + right * tl.load(child + D, mask=mask, other=0.0)
    _activate(gates, bias, h, c, memory, k, tl.load(slot + k), j, mask, D, 5 * D)


@_level_kernel
def const_backward(gates, slot, c, dh, dc, dgates, dbias, low, D: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    k = low + tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = j < D
    total = _cell_gradient(gates, c, dh, dc, dgates, k, tl.load(slot + k), j, mask, D, 5 * D)
    for side in tl.static_range(2):
        at = k * 5 * D + (3 + side) * D + j
        child = (2 * k + side) * D + j
        f = tl.load(gates + at, mask=mask, other=0.0)
        tl.store(dgates + at, total * tl.load(c + child, mask=mask, other=0.0) * f * (1 - f), mask=mask)
        tl.store(dc + child, total * f, mask=mask)


@_level_kernel
def dep_attend(  # type: ignore[no-untyped-def]
    bias, h, offsets, parent_products, child_products, alpha, cosine, context, low,
    floor: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    k = low + tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    mask = j < D
    begin, end = tl.load(offsets + k), tl.load(offsets + k + 1)
    at = parent_products + k * 2 * D + j
    query = tl.load(at, mask=mask, other=0.0) + tl.load(bias + 3 * D + j, mask=mask, other=0.0)
    tl.store(at, query, mask=mask)
    query_norm = tl.maximum(tl.sqrt(tl.sum(query * query)), floor)
    b_p = tl.load(bias + 5 * D + j, mask=mask, other=0.0)
    total = tl.sum(query * 0)
    sum_of_states = query * 0
    for e in range(begin, end):
        at_key = child_products + e * 2 * D + j
        key = tl.load(at_key, mask=mask, other=0.0) + b_p
        tl.store(at_key, key, mask=mask)
        key_norm = tl.maximum(tl.sqrt(tl.sum(key * key)), floor)
        cos = tl.sum(query * key) / (query_norm * key_norm)
        weight = tl.exp(cos)
        tl.store(cosine + e, cos)
        total += weight
        sum_of_states += weight * tl.load(h + e * D + j, mask=mask, other=0.0)
    tl.debug_barrier()  # one thread stored the cosines, all read them
    for e in range(begin, end):
        tl.store(alpha + e, tl.exp(tl.load(cosine + e)) / total)
    tl.store(context + k * D + j, sum_of_states / total, mask=mask)


@_level_kernel
def dep_attend_backward(  # type: ignore[no-untyped-def]
    parent_products, child_products, h, offsets, alpha, cosine, dcontext,
    dparent_products, dchild_products, dh, dbias, accumulate: tl.constexpr, low,
    floor: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    k = low + tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    mask = j < D
    begin, end = tl.load(offsets + k), tl.load(offsets + k + 1)
    query = tl.load(parent_products + k * 2 * D + j, mask=mask, other=0.0)
    dcontext_row = tl.load(dcontext + k * D + j, mask=mask, other=0.0)
    query_norm = tl.sqrt(tl.sum(query * query))
    query_floor = tl.maximum(query_norm, floor)
    mean = tl.sum(query * 0)
    for e in range(begin, end):
        mean += tl.load(alpha + e) * tl.sum(dcontext_row * tl.load(h + e * D + j, mask=mask, other=0.0))
    dquery = query * 0
    along_query = tl.sum(query * 0)
    for e in range(begin, end):
        weight, cos = tl.load(alpha + e), tl.load(cosine + e)
        key = tl.load(child_products + e * 2 * D + j, mask=mask, other=0.0)
        dcosine = weight * (tl.sum(dcontext_row * tl.load(h + e * D + j, mask=mask, other=0.0)) - mean)
        key_norm = tl.sqrt(tl.sum(key * key))
        key_floor = tl.maximum(key_norm, floor)
        across = dcosine / (query_floor * key_floor)
        along_key = tl.where(key_norm > floor, dcosine * cos / (key_floor * key_floor), 0.0)
        along_query += dcosine * cos
        tl.store(dchild_products + e * 2 * D + j, across * query - along_key * key, mask=mask)
        dquery += across * key
        to = dh + e * D + j
        direct = weight * dcontext_row
        if accumulate:
            direct += tl.load(to, mask=mask, other=0.0)
        tl.store(to, direct, mask=mask)
    along_query = tl.where(query_norm > floor, along_query / (query_floor * query_floor), 0.0)
    tl.store(dparent_products + k * 2 * D + j, dquery - along_query * query, mask=mask)


@_level_kernel
def dep_forward(  # type: ignore[no-untyped-def]
    parent_products, bias, slot, offsets, gates, child_products, h, c, low,
    D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    k = low + tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = j < D
    from_parent = tl.load(parent_products + k * 2 * D + D + j, mask=mask, other=0.0)
    from_parent += tl.load(bias + 4 * D + j, mask=mask, other=0.0)
    memory = from_parent * 0
    for e in range(tl.load(offsets + k), tl.load(offsets + k + 1)):
        at = child_products + e * 2 * D + D + j
        f = tl.sigmoid(tl.load(at, mask=mask, other=0.0) + from_parent)
        tl.store(at, f, mask=mask)
        memory += f * tl.load(c + e * D + j, mask=mask, other=0.0)
    _activate(gates, bias, h, c, memory, k, tl.load(slot + k), j, mask, D, 3 * D)


@_level_kernel
def dep_backward(  # type: ignore[no-untyped-def]
    gates, child_products, slot, c, offsets, dh, dc, dgates, dparent_products, dchild_products, dbias, low,
    D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    k = low + tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = j < D
    s = tl.load(slot + k)
    total = _cell_gradient(gates, c, dh, dc, dgates, k, s, j, mask, D, 3 * D)
    dforget_input = total * 0
    for e in range(tl.load(offsets + k), tl.load(offsets + k + 1)):
        f = tl.load(child_products + e * 2 * D + D + j, mask=mask, other=0.0)
        dforget = total * tl.load(c + e * D + j, mask=mask, other=0.0) * f * (1 - f)
        tl.store(dchild_products + e * 2 * D + D + j, dforget, mask=mask)
        tl.store(dc + e * D + j, total * f, mask=mask)
        dforget_input += dforget
    tl.store(dparent_products + k * 2 * D + D + j, dforget_input, mask=mask)


def attach(kernel: Any, *, reads: Sequence[Tensor], writes: Sequence[Tensor]) -> Callable[..., None]:
    """Return a kernel with its buffers bound to it, to be called with the bounds of a level.

    The arguments are as in ``kernels_numba``. Triton's own launch inspects every argument, which takes 40 µs,
    and a step has some 200 launches. Therefore only the first level is launched by it; later levels launch
    the same compiled kernel with the addresses of the same buffers.
    """
    buffers = (*reads, *writes)
    dim = min(buffer.shape[1] for buffer in buffers if buffer.dim() == 2)  # states are the narrowest rows
    blocks = triton.cdiv(dim, _BLOCK)
    constants: dict[str, Any] = {"D": dim, "BLOCK": _BLOCK}
    options = {}
    if kernel in (dep_attend, dep_attend_backward):
        row_block, blocks = triton.next_power_of_2(dim), 1
        constants = {"floor": NORM_FLOOR, "D": dim, "BLOCK": row_block}
        options = {"num_warps": min(max(row_block // 256, 1), 16)}
    addresses = [buffer.data_ptr() for buffer in buffers]
    compiled_kernel = None

    def launch(*bounds: int) -> None:
        nonlocal compiled_kernel
        *flags, low, high = bounds
        if high == low:
            return
        grid = (high - low, blocks, 1)
        if compiled_kernel is None:  # always under the interpreter, which returns none
            compiled_kernel = kernel[grid](*buffers, *flags, low, **constants, **options)
        else:
            compiled_kernel[grid](*addresses, *flags, low, *constants.values())

    return launch
