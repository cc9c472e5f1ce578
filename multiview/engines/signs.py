"""Weighted sums of random signs, compiled: no sign is kept in memory.

A key stands for K signs, which SplitMix64 (Steele, Lea & Flood 2014) makes from it: number c is ``mix(key +
c · golden)``, c from 1, and gives eight bytes, lowest first. Bit j, from the lowest, of the i-th byte of all
is the sign of place j · K / 8 + i, so that one instruction counts the bits of many places.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = (np.uint64(value) for value in (30, 27, 31))
_ONE = np.uint8(1)
_MOST = 255
"""Keys whose signs are counted in bytes before they are added up."""


@dataclass(frozen=True)
class Targets:
    """Where the sum of each group of keys goes: M places in all, group by group."""

    row: NDArray[np.int64]
    """[M], a row of the result."""
    weight: NDArray[np.float32]
    """[M], what the group counts there."""
    offsets: NDArray[np.int64]
    """[G + 1], where the places of each group begin."""

    @staticmethod
    def themselves(groups: int) -> Targets:
        """Each group in a row of its own, with weight 1."""
        every = np.arange(groups + 1)
        return Targets(every[:-1], np.ones(groups, np.float32), every)

    def times(self, factor_G: NDArray[np.floating]) -> Targets:
        """Each group times a factor."""
        weight_M = self.weight * np.repeat(factor_G, np.diff(self.offsets)).astype(np.float32)
        return Targets(self.row, weight_M, self.offsets)


@njit(cache=True, nogil=True)
def mixed(value):  # type: ignore[no-untyped-def]
    """SplitMix64's finaliser, of a number or an array: every bit of the result hangs on every bit of it."""
    value = (value ^ (value >> _30)) * _FIRST
    value = (value ^ (value >> _27)) * _SECOND
    return value ^ (value >> _31)


def add_signs(
    key_N: NDArray[np.uint64], offsets: NDArray[np.integer], targets: Targets, summed: NDArray[np.float32]
) -> None:
    """Add the sum of each group's signs, over the root of K, to its targets.

    Args:
        key_N: the keys.
        offsets: [G + 1], where each group of keys begins.
        targets: of the G groups.
        summed: [rows, K], which the sums are added to; K is a multiple of 64.
    """
    weight_M = (targets.weight / summed.shape[1] ** 0.5).astype(np.float32)
    _add_signs(key_N, offsets, targets.row, weight_M, targets.offsets, summed)


@njit(cache=True, nogil=True)
def _add_signs(key_N, offsets, row_M, weight_M, target_offsets, summed):  # type: ignore[no-untyped-def]
    width = summed.shape[1]
    number = np.empty(width // 64, np.uint64)
    byte = number.view(np.uint8)
    count, signs = np.empty(width, np.uint8), np.empty(width, np.float32)
    for group in range(len(offsets) - 1):
        signs[:] = 0
        for start in range(offsets[group], offsets[group + 1], _MOST):
            stop = min(start + _MOST, offsets[group + 1])
            count[:] = 0
            for n in range(start, stop):
                counter = key_N[n]
                for c in range(len(number)):
                    counter += GOLDEN
                    number[c] = mixed(counter)
                for j in range(8):
                    part = count[j * len(byte) : (j + 1) * len(byte)]
                    for i in range(len(byte)):
                        part[i] += (byte[i] >> np.uint8(j)) & _ONE
            keys = np.float32(stop - start)
            for k in range(width):
                signs[k] += np.float32(2) * np.float32(count[k]) - keys
        for m in range(target_offsets[group], target_offsets[group + 1]):
            row, weight = summed[row_M[m]], weight_M[m]
            for k in range(width):
                row[k] += weight * signs[k]
