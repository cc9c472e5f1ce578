"""Memory for the buffers of a sweep on the CPU, reused from step to step.

A step needs hundreds of megabytes. The C library would return them to the system and request them again,
with one page fault per 4 KB: a quarter of a step's time at D = 300 (measured: 80,000 faults, 0.16 of 0.62 s).
Here a sweep takes one block for all its buffers. The block becomes free when its last tensor is deleted; for
saved tensors that is the end of the backward pass. On other devices torch's caching allocator does this.
"""

from __future__ import annotations

import threading
import weakref

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_ALIGNMENT_BYTES = 64  # a cache line, and the width of the widest vector register
_SLACK = 1.25  # blocks are made a little larger than needed, so that the next batch fits as well

_free: list[NDArray[np.uint8]] = []
_lock = threading.Lock()


class Workspace:
    """Buffers of one sweep, all of one type on one device.

    Args:
        like: tensor whose type and device the buffers have.
        shapes: of the buffers, in order.
    """

    def __init__(self, like: Tensor, *shapes: tuple[int, ...]) -> None:
        self._like = like
        self._position = 0
        self._block: Tensor | None = None
        if like.device.type == "cpu":
            step = _ALIGNMENT_BYTES // like.element_size()
            self._sizes = [-(-int(np.prod(shape)) // step) * step for shape in shapes]
            block = _take(sum(self._sizes) * like.element_size())
            self._block = torch.from_numpy(block).view(like.dtype)
        self.buffers = [self._carve(i, shape) for i, shape in enumerate(shapes)]
        """Uninitialised tensors of these shapes."""

    def _carve(self, index: int, shape: tuple[int, ...]) -> Tensor:
        if self._block is None:
            return self._like.new_empty(shape)
        start = sum(self._sizes[:index])
        return self._block[start : start + int(np.prod(shape))].view(shape)


def release() -> None:
    """Return the memory that no tensor uses to the system."""
    with _lock:
        _free.clear()


def _take(size_bytes: int) -> NDArray[np.uint8]:
    """The smallest free block that is large enough, or else a new one that replaces the largest free one."""
    with _lock:
        fitting = [block for block in _free if len(block) >= size_bytes]
        memory = min(fitting, key=len) if fitting else _aligned(int(size_bytes * _SLACK))
        kept = [block for block in _free if block is not memory]
        _free[:] = kept if fitting else sorted(kept, key=len)[:-1]
    # torch keeps this view alive while a tensor uses its memory; after that the block is free again.
    lent = memory[:size_bytes]
    weakref.finalize(lent, _give_back, memory).atexit = False
    return lent


def _give_back(memory: NDArray[np.uint8]) -> None:
    _free.append(memory)  # without the lock: a finalizer may run inside _take on the same thread


def _aligned(size_bytes: int) -> NDArray[np.uint8]:
    memory = np.empty(size_bytes + _ALIGNMENT_BYTES, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT_BYTES
    return memory[start : start + size_bytes]
