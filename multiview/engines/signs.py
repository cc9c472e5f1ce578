"""Weighted sums of random signs, compiled: no sign is kept in memory.

A key stands for K signs, which SplitMix64 (Steele, Lea & Flood 2014) makes from it: number c is ``mix(key +
c · golden)``, c from 1, and gives 64 signs, lowest byte first, highest bit of a byte first.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _8, _BYTE = (np.uint64(value) for value in (30, 27, 31, 8, 255))
_SIGNS = (2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1) - 1).astype(np.float32)


@njit(cache=True, nogil=True)
def mixed(value):  # type: ignore[no-untyped-def]
    """SplitMix64's finaliser, of a number or an array: every bit of the result hangs on every bit of it."""
    value = (value ^ (value >> _30)) * _FIRST
    value = (value ^ (value >> _27)) * _SECOND
    return value ^ (value >> _31)


def signed_sums(
    key_N: NDArray[np.uint64], weight_N: NDArray[np.float32], offsets: NDArray[np.integer], width: int
) -> NDArray[np.float32]:
    """The weighted sum of each group's signs over the root of K, float32 [B, K].

    Args:
        key_N: the keys.
        weight_N: what each counts.
        offsets: [B + 1], where each group of keys begins.
        width: K, a multiple of 64.
    """
    summed: NDArray[np.float32] = np.zeros((len(offsets) - 1, width), np.float32)
    _add_signs(key_N, weight_N, offsets, (_SIGNS / width**0.5).astype(np.float32), summed)
    return summed


@njit(cache=True, nogil=True)
def _add_signs(key_N, weight_N, offsets, sign_of_byte, summed_BK):  # type: ignore[no-untyped-def]
    numbers = summed_BK.shape[1] // 64
    for b in range(len(offsets) - 1):
        for n in range(offsets[b], offsets[b + 1]):
            weight = weight_N[n]
            counter = key_N[n]
            for number in range(numbers):
                counter += GOLDEN
                bits = mixed(counter)
                for byte in range(8):
                    signs = sign_of_byte[np.int64(bits & _BYTE)]
                    row = summed_BK[b, number * 64 + byte * 8 : number * 64 + byte * 8 + 8]
                    for k in range(8):
                        row[k] += weight * signs[k]
                    bits >>= _8
