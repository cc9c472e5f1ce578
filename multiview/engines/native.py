"""What the sweeps over trees share: the choice of kernels, buffers that are used again, copies to a device.

A step on the CPU needs hundreds of megabytes. The C library would return them to the system and request them
again, with one page fault per 4 KB, a quarter of a step's time. Here a sweep takes one block for all its
buffers. The block becomes free when its last tensor is deleted; for saved tensors that is the end of the
backward pass. On other devices torch's caching allocator does this.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from math import prod
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiview.engines import kernels_torch

_ALIGNMENT_BYTES = 64  # a cache line, the widest vector register, and a multiple of every item's size
_SLACK = 1.25  # blocks are made a little larger than needed, so that the next batch fits as well

_free: list[NDArray[np.uint8]] = []
_lock = threading.Lock()


def kernels_for(x: Tensor, engine: str) -> ModuleType:
    """The module with the kernels for tensors of the type and device of ``x``, see ``kernels_torch``.

    Args:
        x: any shape.
        engine: ``native`` takes the device's fastest kernels, ``torch`` the portable ones.
    """
    if engine == "native" and x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64):
        from multiview.engines import kernels_numba

        return kernels_numba
    if engine == "native" and x.device.type == "cuda" and find_spec("triton"):
        from multiview.engines import kernels_triton

        return kernels_triton
    return kernels_torch


def steps(kernels: ModuleType) -> Callable[..., Callable[..., None]]:
    """Binds a kernel, by name, to its buffers; what is called with the bounds of a level remains."""
    return lambda name, *buffers: partial(getattr(kernels, name), *map(kernels.array, buffers))


def start_gradients(
    dh: Tensor, dc: Tensor, droots: Tensor | None, dh_all: Tensor | None, first_root: int
) -> None:
    """Fill the gradients that are known before the sweep; other slots are written by their parent.

    Args:
        dh: [N, D], to fill.
        dc: [N, D], to fill.
        droots: [B, D], gradient of the roots; None if they were not used.
        dh_all: [N, D], gradient of all states; None if they were not used.
        first_root: slot of the first root.
    """
    dc[first_root:] = 0
    if dh_all is not None:
        dh.copy_(dh_all)
    else:
        dh[first_root:] = 0
    if droots is not None:
        dh[first_root:] += droots


def workspace(like: Tensor, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Uninitialised buffers of one sweep, of these shapes.

    Args:
        like: tensor whose type and device the buffers have.
        shapes: of the buffers, in order.
    """
    if like.device.type != "cpu":
        return [like.new_empty(shape) for shape in shapes]
    step = _ALIGNMENT_BYTES // like.element_size()
    sizes = [-(-prod(shape) // step) * step for shape in shapes]
    block = torch.from_numpy(_take(sum(sizes) * like.element_size())).view(like.dtype)
    parts = zip(block.split(sizes), shapes, strict=True)
    return [part[: prod(shape)].view(shape) for part, shape in parts]


def _take(size_bytes: int) -> NDArray[np.uint8]:
    """The smallest free block that is large enough, or else a new one that replaces the largest free one."""
    with _lock:
        fitting = [block for block in _free if len(block) >= size_bytes]
        memory = min(fitting, key=len) if fitting else _aligned(int(size_bytes * _SLACK))
        kept = [block for block in _free if block is not memory]
        _free[:] = kept if fitting else sorted(kept, key=len)[:-1]
    # torch keeps this view alive while a tensor uses its memory; after that the block is free again.
    lent = memory[:size_bytes]
    # Without the lock: a finalizer may run inside _take on the same thread.
    weakref.finalize(lent, _free.append, memory).atexit = False
    return lent


def _aligned(size_bytes: int) -> NDArray[np.uint8]:
    memory = np.empty(size_bytes + _ALIGNMENT_BYTES, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT_BYTES
    return memory[start : start + size_bytes]


def to_device(arrays: Mapping[str, NDArray[np.generic]], device: torch.device) -> dict[str, Tensor]:
    """Tensors of several arrays.

    On the CPU they share the arrays' memory. For another device the arrays are packed into one buffer: one
    copy of 400 kB takes as long as one of 4 kB. The buffer is in pinned memory, so the copy is queued like a
    kernel, and neither the thread that asks for it nor the device waits.

    Args:
        arrays: of any shapes and types, by name.
        device: where the tensors are needed.
    """
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    if device.type == "cpu":
        return tensors
    # torch keeps pinned memory until the copies from it are done, although nobody refers to it any more.
    return unpack(pack(tensors, pinned=device.type == "cuda").to(device, non_blocking=True), tensors)


def pack(tensors: Mapping[str, Tensor], *, pinned: bool) -> Tensor:
    """The bytes of several tensors of the CPU in one, uint8."""
    sizes = [_room(tensor) for tensor in tensors.values()]
    packed = torch.empty(sum(sizes), dtype=torch.uint8, pin_memory=pinned)
    for tensor, part in zip(tensors.values(), packed.split(sizes), strict=True):
        part[: tensor.nbytes].copy_(tensor.contiguous().view(-1).view(torch.uint8))
    return packed


def unpack(packed: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that :func:`pack` was given, as parts of the packed one; ``like`` has their shapes."""
    parts = packed.split([_room(tensor) for tensor in like.values()])
    return {
        name: part[: tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        for (name, tensor), part in zip(like.items(), parts, strict=True)
    }


def _room(tensor: Tensor) -> int:
    return -(-tensor.nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
