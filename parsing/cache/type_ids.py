"""Ids of word types straight from a shard's bytes, without a Python string for a type met before.

Every shard lists its own types; most are those of earlier shards. A hash table of all types met so far,
compared byte for byte, gives their ids in a vocabulary: 13,000 types of a shard take 1 ms instead of the 6
that decoding and a dictionary take. Memory is bounded: past ``MAX_TYPES`` the table starts anew.

Shapes: U types asked for, S types of the shard.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from parsing.cache.format import Int32, UInt8, Vocabulary

MAX_TYPES = 1 << 18
"""Types kept (18 MB with their bytes)."""
SLOTS = 2 * MAX_TYPES


class TypeIds:
    """Ids in one vocabulary, by the bytes of a type."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._clear()

    def _clear(self) -> None:
        self._slots = np.full(SLOTS, -1, np.int32)
        self._ids = np.empty(MAX_TYPES, np.int32)
        self._ends = np.zeros(MAX_TYPES + 1, np.int64)
        self._bytes = np.empty(1 << 16, np.uint8)
        self._size = 0

    def __call__(self, blob: UInt8, offsets: NDArray[np.integer], which_U: Int32) -> Int32:
        """Ids of some types of a shard.

        Args:
            blob: UTF-8 of all types of the shard.
            offsets: [S+1], where each begins in ``blob``.
            which_U: numbers of the types asked for, each once.
        """
        out_U = np.empty(len(which_U), np.int32)
        missing = np.empty(len(which_U), np.int32)
        count = _find(blob, offsets, which_U, self._slots, self._ids, self._ends, self._bytes, out_U, missing)
        if count:
            self._learn(blob, offsets, which_U, out_U, missing[:count])
        return out_U

    def _learn(
        self, blob: UInt8, offsets: NDArray[np.integer], which_U: Int32, out_U: Int32, missing: Int32
    ) -> None:
        new = which_U[missing]
        data = blob.tobytes()
        pairs = zip(offsets[new].tolist(), offsets[new + 1].tolist(), strict=True)
        ids = self._vocabulary.lookup([data[a:b].decode("utf-8") for a, b in pairs])
        out_U[missing] = ids
        if self._size + len(new) > MAX_TYPES:
            self._clear()
        if len(new) > MAX_TYPES:  # a shard of a million types: not worth keeping
            return
        needed = int(self._ends[self._size] + (offsets[new + 1] - offsets[new]).sum())
        if needed > len(self._bytes):
            grown = np.empty(max(needed, 2 * len(self._bytes)), np.uint8)
            grown[: len(self._bytes)] = self._bytes
            self._bytes = grown
        self._ids[self._size : self._size + len(new)] = ids
        _insert(blob, offsets, new, self._slots, self._size, self._ends, self._bytes)
        self._size += len(new)


@njit(cache=True)
def _slot(blob: UInt8, low: int, high: int, slots: Int32, ends: NDArray[Any], stored: UInt8) -> np.int64:
    """The slot that holds the type ``blob[low:high]``, or the empty one where it belongs (FNV-1a, linear)."""
    code = np.uint64(14695981039346656037)
    for k in range(low, high):
        code = (code ^ np.uint64(blob[k])) * np.uint64(1099511628211)
    at = np.int64((code ^ (code >> np.uint64(32))) & np.uint64(len(slots) - 1))
    while slots[at] >= 0:
        entry = slots[at]
        first = ends[entry]
        if ends[entry + 1] - first == high - low:
            same = True
            for k in range(high - low):
                if stored[first + k] != blob[low + k]:
                    same = False
                    break
            if same:
                return at
        at = (at + 1) & (len(slots) - 1)
    return at


@njit(cache=True)
def _find(
    blob: UInt8,
    offsets: NDArray[Any],
    which: Int32,
    slots: Int32,
    ids: Int32,
    ends: NDArray[Any],
    stored: UInt8,
    out: Int32,
    missing: Int32,
) -> int:
    """Fill ``out`` with known ids and ``missing`` with the places of types not met; how many of these."""
    count = 0
    for u in range(len(which)):
        entry = slots[_slot(blob, offsets[which[u]], offsets[which[u] + 1], slots, ends, stored)]
        if entry >= 0:
            out[u] = ids[entry]
        else:
            missing[count] = u
            count += 1
    return count


@njit(cache=True)
def _insert(
    blob: UInt8,
    offsets: NDArray[Any],
    which: Int32,
    slots: Int32,
    size: int,
    ends: NDArray[Any],
    stored: UInt8,
) -> None:
    """Append new types to ``stored`` and point slots to them (of one listed twice, the later one stays)."""
    for u in range(len(which)):
        low, high = offsets[which[u]], offsets[which[u] + 1]
        at = _slot(blob, low, high, slots, ends, stored)
        begin = ends[size + u]
        for k in range(high - low):
            stored[begin + k] = blob[low + k]
        ends[size + u + 1] = begin + high - low
        slots[at] = size + u
