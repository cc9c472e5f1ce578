"""Matrix products in eight bits, an option at inference: exact sums of integers, equal on all processors.

    y[n, m] = s[n] t[m] Σ_k q[n, k] w[m, k]      q = round(63 x / max |x|)      w = round(127 W / max |W|)

Weights have 8 bits, and a scale t for each of their rows. Inputs have 7 bits and a scale s for each row, so
that the product of a row does not depend on the other rows. Processors without VNNI add products in pairs in
16 bits, which saturate above 32,767. The largest pair is 2 · 127 · 127 = 32,258, because fbgemm shifts inputs
by 64. Where fbgemm does not run or is slow, a float32 product of the integers gives the same sums, because a
float32 holds sums of up to 2,096 products exactly.

Legend of dimension suffixes: N rows, K inner dimension, M columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from runtime.compiled import compiled, compiled_part
from runtime.process import shared_lock

INPUT_STEPS, WEIGHT_STEPS = 63, 127
EXACT_TERMS = 2**24 // (INPUT_STEPS * WEIGHT_STEPS)
"""The number of products of integers whose sum a float32 holds exactly."""
MIN_TERMS = 48
"""The fewest terms of a sum for which fbgemm is used. With fewer, float32 is as fast, because each call of
fbgemm takes 30 microseconds."""
ROUNDER = np.float32(3 * 2**22)
"""If it is added to a number and subtracted again, the number is rounded to an integer, on all processors."""
NO_SCALE = 1e-30
"""A row whose inputs are all smaller counts as zero."""
SAMPLED = 32
"""The number of elements of a weight that are compared to notice changes that torch does not count."""
PACK_LOCK = shared_lock()
Arrange = Callable[[Tensor], Tensor]


@compiled_part
def quantise_row(x, steps, scale, n):  # type: ignore[no-untyped-def]
    """Write q of one row to ``steps`` [K], as float32, and s to ``scale[n]``."""
    x_bits, top_bits = x.view(np.int32), scale[n : n + 1].view(np.int32)
    top = np.int32(0)
    for j in range(len(x)):  # the bits of positive float32 are ordered as the numbers, NaN last
        top = max(top, x_bits[j] & np.int32(0x7FFFFFFF))
    top_bits[0] = top
    limit = scale[n]
    inverse = np.float32(0.0) if limit < NO_SCALE else np.float32(INPUT_STEPS) / limit
    for j in range(len(x)):
        steps[j] = (x[j] * inverse + ROUNDER) - ROUNDER
    scale[n] = limit / np.float32(INPUT_STEPS)


@compiled
def quantise_rows(x, steps, scale):  # type: ignore[no-untyped-def]
    """Quantise the rows of ``x`` [N, K]."""
    for n in range(len(x)):
        quantise_row(x[n], steps[n], scale, n)


@compiled
def write_products(sums, row_scale, column_scale, out, add):  # type: ignore[no-untyped-def]
    """Multiply the sums of integers by both scales; write the products [N, M] to ``out``, or ``add`` them."""
    for n in range(len(sums)):
        row, to, scale = sums[n], out[n], row_scale[n]
        if add:
            for m in range(len(row)):
                to[m] += row[m] * scale * column_scale[m]
        else:
            for m in range(len(row)):
                to[m] = row[m] * scale * column_scale[m]


class Int8Matrix:
    """A weight [M, K] in int8, packed for this processor."""

    def __init__(self, weight: Tensor) -> None:
        weight = weight.detach()
        scale_M = weight.abs().amax(dim=1) / WEIGHT_STEPS
        integers = (weight / scale_M.clamp(min=NO_SCALE)[:, None]).round()
        self.column_scale = scale_M.numpy()
        self.is_packed = weight.shape[1] >= MIN_TERMS and _has_fbgemm()
        self.operand: Any = _pack(integers) if self.is_packed else integers.t()

    def sums(self, steps_NK: Tensor) -> Tensor:
        """Return the sums of integers as float32 [N, M]."""
        if self.is_packed:
            multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default
            sums: Tensor = multiply(steps_NK, 1.0, INPUT_STEPS + 1, self.operand)
            return sums
        if steps_NK.shape[1] <= EXACT_TERMS:
            return torch.mm(steps_NK, self.operand)
        chunks = zip(steps_NK.split(EXACT_TERMS, dim=1), self.operand.split(EXACT_TERMS), strict=True)
        return torch.stack([torch.mm(*chunk).double() for chunk in chunks]).sum(0).float()

    def product(self, x_NK: Tensor, out: Tensor, *, add: bool = False) -> Tensor:
        """Write the product [N, M] to ``out``, or add it."""
        steps_NK, scale_N = quantised(x_NK)
        sums = self.sums(steps_NK)
        write_products(sums.numpy(), scale_N, self.column_scale, out.numpy(), add)
        return out


def quantised(x_NK: Tensor) -> tuple[Tensor, Any]:
    """Return q, as float32 [N, K], and s [N]."""
    x_NK = x_NK.contiguous()
    steps_NK, scale_N = torch.empty_like(x_NK), np.empty(len(x_NK), np.float32)
    quantise_rows(x_NK.numpy(), steps_NK.numpy(), scale_N)
    return steps_NK, scale_N


_matrices: Any = WeakIdKeyDictionary()


def int8_matrix(weight: Tensor, arrange: Arrange | None = None) -> Int8Matrix:
    """Return a weight in int8, from a cache unless the weight has changed.

    ``arrange`` makes the matrix [M, K] of the weight; it must be the same function in all calls.
    """
    # torch counts most changes, but not those by fused optimisers, which change nearly all elements.
    sample = weight.detach().numpy().reshape(-1)[:: max(1, weight.numel() // SAMPLED)].tobytes()
    version = (0 if weight.is_inference() else weight._version, weight.data_ptr(), sample)
    with PACK_LOCK:
        if _matrices.get(weight, (None, None))[0] != version:
            _matrices[weight] = version, Int8Matrix(arrange(weight) if arrange else weight)
        matrix: Int8Matrix = _matrices[weight][1]
        return matrix


def _has_fbgemm() -> bool:
    """Tell whether torch has fbgemm and may use AVX2, without which fbgemm does not run."""
    has_vectors = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    return has_vectors and torch.backends.quantized.engine in ("x86", "fbgemm")


def _pack(integers: Tensor) -> Any:
    """Pack integers [M, K] for fbgemm, with scales of 1."""
    ones, zeros = (
        torch.ones(len(integers), dtype=torch.float64),
        torch.zeros(len(integers), dtype=torch.int64),
    )
    with warnings.catch_warnings():  # torch is about to replace its quantised tensors (docs/log.md)
        warnings.simplefilter("ignore", UserWarning)
        weight = torch._make_per_channel_quantized_tensor(integers.to(torch.int8), ones, zeros, 0)
    return torch.ops.quantized.linear_prepack(weight, None)
