"""Functions that compiled code calls: tanh, sigmoid, and matrix products with few rows."""

import functools
import math
from typing import Any

import numba
import numba.extending
import numpy as np
from numba.core import config

from runtime.compiled import PART_OPTIONS, compiled_part

FEW_SEQUENCES = 0 if config.DISABLE_JIT else 4
"""The largest number of sequences whose recurrence is compiled together with its matrix products. For so few,
calls of torch would take most of the time."""


def tanh(x: Any) -> Any:
    """Return tanh of one number; compiled code for float32 uses Eigen's rational approximation (error 3e-7).

    It takes 0.15 ns per element (measured on one core). ``torch.tanh`` takes 2.1 ns, and libm 12 ns, because
    its calls are not vectorised.
    """
    return math.tanh(x)


@numba.extending.overload(tanh, jit_options=PART_OPTIONS)
def _tanh_of_type(x):  # type: ignore[no-untyped-def]
    if x == numba.types.float32:

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


def sigmoid(x: Any) -> Any:
    """Return σ(x) = (1 + tanh(x/2)) / 2 of one number, computed by :func:`tanh` in compiled code."""
    return 0.5 * math.tanh(0.5 * x) + 0.5


@numba.extending.overload(sigmoid, jit_options=PART_OPTIONS)
def _sigmoid_of_type(x):  # type: ignore[no-untyped-def]
    if x == numba.types.float32:
        return lambda x: np.float32(0.5) + np.float32(0.5) * tanh(np.float32(0.5) * x)
    return lambda x: 0.5 + 0.5 * tanh(0.5 * x)


@functools.partial(compiled_part, fastmath={"contract"})
def add_products(h, weight, sums, upwards):  # type: ignore[no-untyped-def]
    """Add ``h @ weight`` to ``sums`` [B, M], for few rows ``h`` [B, K] and a contiguous weight [K, M].

    The rows of the weight are read upwards or downwards. A recurrence that changes ``upwards`` at each step
    begins with the rows that are still in cache.
    """
    for position in range(len(weight)):
        k = position if upwards else len(weight) - 1 - position
        weight_k = weight[k]
        for b in range(len(sums)):
            row, h_k = sums[b], h[b, k]
            for j in range(len(row)):
                row[j] += h_k * weight_k[j]
