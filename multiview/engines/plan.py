"""What sweeps over the trees of a batch share: the order of nodes, and memory.

A plan only holds integers, which loader threads compute with numpy. Each node has a *rank*, its place in a
stable sort by height, so a level is a range of ranks. Its state is kept in a *slot*. Slots are ordered by
(rank of the parent, side), with the roots last, in sentence order. Every node but a root has one parent, so
this is a permutation, and the children of a level are one contiguous slice of states. The recursive product
therefore needs no gather and no concatenation, and the gradient of every slot is written once.

A step on the CPU needs hundreds of megabytes. The C library would return them to the system and request them
again, with one page fault per 4 KB, a quarter of a step's time. So a sweep takes one block for all its
buffers, which is free again when its last tensor is deleted; for saved tensors that is the end of the
backward pass. On other devices torch's caching allocator does this.

Shapes: B sentences, T tokens, N nodes (T for dependency trees, 2T - B for constituency trees), I internal
nodes, E edges (N - B), L levels of internal nodes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import pairwise
from math import prod
from types import ModuleType
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parsing.trees.batch import Batch, offsets_of
from runtime.surroundings import shared_lock

IntArray = NDArray[np.integer]
NORM_FLOOR = 1e-8
"""ε of the attention's cosine: the smallest norm that is divided by."""
_ALIGNMENT_BYTES = 64  # a cache line, the widest vector register, and a multiple of every item's size
_SLACK = 1.25  # blocks are made a little larger than needed, so that the next batch fits as well

_free: list[NDArray[np.uint8]] = []
_lock = shared_lock()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Base class: arrays on the host and, after ``to``, their copies on a device."""

    sentences: int
    """B."""
    node_offsets: IntArray
    """int64 [B + 1] into the nodes in sentence order."""
    node_slot: IntArray
    """int64 [N]: slot of each node in sentence order; a constituency tree has its words first."""
    on: torch.device | None = None
    """Device of ``tensors``; None before ``to``."""
    tensors: dict[str, Tensor] | None = None
    """The index arrays as tensors; the loop over levels still needs the arrays on the host."""

    def to(self, device: torch.device | str) -> Self:
        """Return the plan with its index arrays also on ``device``, in one copy; itself if they are there."""
        device = torch.device(device)
        if self.on == device:
            return self
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        return replace(self, on=device, tensors=to_device(arrays, device))

    def tensor(self, name: str) -> Tensor:
        """Return the index array ``name`` on the plan's device."""
        assert self.tensors is not None, "move the plan with .to(device) first"
        return self.tensors[name]


@dataclass(frozen=True, kw_only=True)
class ConstPlan(Plan):
    """Schedule of a batch of binary constituency trees.

    Ranks 0..T-1 are the words in order, then internal nodes by height. The children of internal rank ``T +
    r`` sit in slots ``2r`` and ``2r + 1``, so slots 0..2I-1 read as [I, 2D] are the inputs of the recursive
    product.
    """

    tokens: int
    """T."""
    level_offsets: IntArray
    """int64 [L + 1] into the internal nodes in rank order."""
    slot: IntArray
    """int64 [N]: slot of each rank."""

    @property
    def internal(self) -> int:
        """I, the number of internal nodes."""
        return self.tokens - self.sentences

    def levels(self) -> list[tuple[int, int]]:
        """Return the internal nodes of each level: ``(low, high)``, lowest level first."""
        return list(pairwise(self.level_offsets.tolist()))


@dataclass(frozen=True, kw_only=True)
class DepPlan(Plan):
    """Schedule of a batch of dependency trees; the children of a node are its dependents in order."""

    leaves: int
    """Number of words without dependents: they hold the first ranks."""
    level_offsets: IntArray
    """int64 [L + 1] into the internal nodes in rank order."""
    child_offsets: IntArray
    """int64 [I + 1]: slots of the children of each internal node in rank order."""
    edge_parent: IntArray
    """int64 [E]: internal node (rank - leaves) above each child slot."""
    order: IntArray
    """int64 [N]: token of each rank."""
    slot: IntArray
    """int64 [N]: slot of each rank."""
    role: IntArray | None = None
    """int64 [N]: role of each slot's word to its head, for an encoder that asks."""

    @property
    def internal(self) -> int:
        """I, the number of words with dependents."""
        return len(self.order) - self.leaves

    def levels(self) -> list[tuple[int, int, int, int]]:
        """List each level's inner nodes, their children's slots: ``(low, high, edge_low, edge_high)``."""
        nodes = pairwise(self.level_offsets.tolist())
        edges = pairwise(self.child_offsets[self.level_offsets].tolist())
        return [(*node, *edge) for node, edge in zip(nodes, edges, strict=True)]


@dataclass(frozen=True, kw_only=True)
class SequencePlan(Plan):
    """A batch in the time-major order of a packed sequence, longest sentence first."""

    packed: IntArray
    """int64 [T]: token of each packed row."""
    batch_sizes: IntArray
    """int64 [longest sentence]: number of sentences that have a token at each step."""
    sorted_sentences: IntArray
    """int64 [B]: sentence of each packed column."""
    unsorted_sentences: IntArray
    """int64 [B]: the inverse of ``sorted_sentences``."""


def plan_words(batch: Batch) -> Plan:
    """Return the words of each sentence in order, for views without a recursion."""
    offsets = np.array(batch.sentence_offsets, dtype=np.int64)
    return Plan(sentences=len(offsets) - 1, node_offsets=offsets, node_slot=np.arange(int(offsets[-1])))


def plan_const(batch: Batch) -> ConstPlan:
    """Schedule the batch's constituency trees.

    It is one function because each array is made of those before it.

    Raises:
        ValueError: a height is not above its children's, or an internal node is used twice.
    """
    # Nodes are numbered here as all words, then all internal nodes; a sentence has n and n - 1 of them.
    offsets = np.array(batch.sentence_offsets, dtype=np.int64)
    lengths, every_B = np.diff(offsets), np.arange(len(offsets) - 1)
    tokens = int(offsets[-1])
    internal = tokens - len(every_B)
    sentence_T, sentence_I = np.repeat(every_B, lengths), np.repeat(every_B, lengths - 1)
    words_I1 = lengths[sentence_I, None]
    height_I = np.array(batch.const_height, dtype=np.int32)
    height_N = np.append(np.zeros(tokens, dtype=np.int32), height_I)
    child_I2 = np.stack([batch.left, batch.right], axis=1).astype(np.int64)
    outside_I2 = (child_I2 < 0) | (child_I2 >= 2 * words_I1 - 1)
    first_I1 = offsets[sentence_I, None]
    child_I2 += first_I1 + (tokens - sentence_I[:, None] - words_I1) * (child_I2 >= words_I1)
    child_I2 = np.where(outside_I2, first_I1, child_I2)
    root_B = np.where(lengths == 1, offsets[:-1], tokens + offsets[1:] - every_B - 2)
    unsorted_I = height_N[child_I2].max(axis=1, initial=0) >= height_I
    used_N = np.bincount(np.append(child_I2, root_B), minlength=tokens + internal)
    _refuse(
        "left, right and const_height are no binary tree",
        sentence_I[outside_I2.any(axis=1) | unsorted_I | (height_I > internal)],
        np.append(sentence_T, sentence_I)[used_N != 1],
    )
    order_I = np.argsort(height_I, kind="stable")
    rank_N = np.arange(tokens + internal)
    rank_N[tokens + order_I] = np.arange(tokens, tokens + internal)
    slot_N = np.empty(tokens + internal, dtype=np.int64)
    slot_N[np.append(child_I2[order_I], root_B)] = np.arange(tokens + internal)
    slot, node_slot = np.empty_like(slot_N), np.empty_like(slot_N)
    slot[rank_N] = slot_N
    # In sentence order, a sentence's words come before its internal nodes.
    place_N = np.arange(tokens + internal)
    place_N[:tokens] += (offsets[:-1] - every_B)[sentence_T]
    place_N[tokens:] += offsets[sentence_I + 1] - tokens
    node_slot[place_N] = slot_N
    return ConstPlan(
        sentences=len(every_B),
        node_offsets=2 * offsets - np.arange(len(offsets)),
        tokens=tokens,
        level_offsets=offsets_of(np.bincount(height_I)[1:]),
        slot=slot,
        node_slot=node_slot,
    )


def plan_dep(batch: Batch) -> DepPlan:
    """Schedule of the batch's dependency trees.

    Raises:
        ValueError: a sentence without exactly one root, or a height that is not above its dependents'.
    """
    offsets = np.array(batch.sentence_offsets, dtype=np.int64)
    lengths = np.diff(offsets)
    tokens = int(offsets[-1])
    sentence_T = np.repeat(np.arange(len(lengths)), lengths)
    head_T, height_T = np.asarray(batch.head), np.array(batch.dep_height, dtype=np.int32)
    words_T = lengths[sentence_T]
    outside_T = (head_T < 0) | (head_T > words_T) | (height_T < 0) | (height_T >= words_T)
    child_E, root_B = np.flatnonzero(head_T != 0), np.flatnonzero(head_T == 0)
    parent_E = np.where(outside_T, np.arange(tokens), offsets[sentence_T] + head_T - 1)[child_E]
    children_T = np.bincount(parent_E, minlength=tokens)
    unsorted_T = outside_T | ((children_T > 0) != (height_T > 0))
    unsorted_T[child_E] |= height_T[parent_E] <= height_T[child_E]
    roots_B = np.bincount(sentence_T[root_B], minlength=len(lengths))
    _refuse(
        "head and dep_height are no tree with one root", sentence_T[unsorted_T], np.flatnonzero(roots_B != 1)
    )
    order = np.argsort(height_T, kind="stable")
    leaves = int((height_T == 0).sum())
    rank_T = np.empty_like(order)
    rank_T[order] = np.arange(tokens)
    above_E = rank_T[parent_E] - leaves
    siblings = np.argsort(above_E, kind="stable")  # they keep their order
    slot_T = np.empty_like(order)
    slot_T[np.append(child_E[siblings], root_B)] = np.arange(tokens)
    return DepPlan(
        sentences=len(lengths),
        node_offsets=offsets,
        leaves=leaves,
        level_offsets=offsets_of(np.bincount(height_T)[1:]),
        child_offsets=offsets_of(children_T[order[leaves:]]),
        edge_parent=above_E[siblings],
        order=order,
        slot=slot_T[order],
        node_slot=slot_T,
    )


def plan_sequence(batch: Batch) -> SequencePlan:
    """Pack the batch as a sequence, in the order of ``pack_padded_sequence`` but without padding."""
    offsets = np.array(batch.sentence_offsets, dtype=np.int64)
    lengths, tokens = np.diff(offsets), int(offsets[-1])
    by_length = np.argsort(-lengths, kind="stable")
    column_B = np.empty_like(by_length)
    column_B[by_length] = np.arange(len(by_length))
    batch_sizes = len(lengths) - np.cumsum(np.bincount(lengths)[:-1])
    step_T = np.arange(tokens) - np.repeat(offsets[:-1], lengths)
    row_T = offsets_of(batch_sizes)[step_T] + np.repeat(column_B, lengths)
    packed = np.empty_like(row_T)
    packed[row_T] = np.arange(tokens)
    return SequencePlan(
        sentences=len(lengths),
        node_offsets=offsets,
        packed=packed,
        batch_sizes=batch_sizes,
        sorted_sentences=by_length,
        unsorted_sentences=column_B,
        node_slot=row_T,
    )


def _refuse(what: str, *bad: IntArray) -> None:
    sentences = np.concatenate(bad)
    if len(sentences):
        raise ValueError(f"sentence {sentences.min()} of the batch: {what}")


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
    """Return the uninitialised buffers of one sweep, of these shapes.

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
    """Take the smallest free block that is large enough, or a new one in place of the largest free one."""
    with _lock:
        fitting = [block for block in _free if len(block) >= size_bytes]
        memory = min(fitting, key=len) if fitting else _aligned(int(size_bytes * _SLACK))
        others = [block for block in _free if block is not memory]
        _free[:] = others if fitting else sorted(others, key=len)[:-1]
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
    """Make tensors of several arrays.

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
    """Return the bytes of several tensors of the CPU in one, uint8."""
    sizes = [_room(tensor) for tensor in tensors.values()]
    packed = torch.empty(sum(sizes), dtype=torch.uint8, pin_memory=pinned)
    for tensor, part in zip(tensors.values(), packed.split(sizes), strict=True):
        part[: tensor.nbytes].copy_(tensor.contiguous().view(-1).view(torch.uint8))
    return packed


def unpack(packed: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Give the tensors that :func:`pack` was given, as parts of the packed one; ``like`` has their shapes."""
    parts = packed.split([_room(tensor) for tensor in like.values()])
    return {
        name: part[: tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        for (name, tensor), part in zip(like.items(), parts, strict=True)
    }


def _room(tensor: Tensor) -> int:
    return -(-tensor.nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
