"""Puts the nodes of a batch of trees in order for its sweeps; has their weights and their memory.

A node has a *rank*, its index in a stable sort by height, so that a level is a range of ranks. Its state is
kept in a *slot*, by the rank of its parent and its side, roots last. So the children of a level are one slice
of states, which nothing gathers or concatenates. Loader threads compute a plan with numpy.

A sweep on the CPU takes one block of memory for all its buffers, which is free again when its last tensor is
deleted. The C library would return hundreds of megabytes to the system each step, and ask for them again.

Shapes: B sentences, T tokens, N nodes (T for dependency trees, 2T - B for constituency trees), I internal
nodes, E edges (N - B), L levels of internal nodes, D hidden, V word vector, R roles.
"""

import math
import weakref
from bisect import bisect_left
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parsing.trees.batch import Batch, offsets_of
from runtime.process import shared_lock

IntArray = NDArray[np.integer]
NORM_FLOOR = 1e-8
"""ε of the attention's cosine: the smallest norm that is divided by."""
_ALIGNMENT_BYTES = 64  # a cache line, the widest vector register, and a multiple of every item's size
_SMALL_BYTES = 2**20  # of some sentences; the C library keeps so much
_SLACK = 1.25  # blocks are made a little larger than needed, so that the next batch fits as well

_free_blocks: list[NDArray[np.uint8]] = []
_lock = shared_lock()


class DepWeights(NamedTuple):
    """The weights of DEP, or their gradients."""

    input_weight: Tensor  # [3D, V]: W of i, o, u
    parent_weight: Tensor  # [2D, V]: W_q and W_f, applied to words with dependents
    child_weight: Tensor  # [2D, D]: W_p and U_f, applied to children's states
    recurrent_weight: Tensor  # [3D, D]: U of i, o, u, applied to h̃
    bias: Tensor  # [6D]: of i, o, u, q, f, p
    role_bias: Tensor | None = None  # with relations, [R, 2D]: of p and f, a row for each of ``CHILD_ROLES``


class ConstWeights(NamedTuple):
    """The weights of CONST, or their gradients."""

    input_weight: Tensor  # [3D, V]: W of i, o, u
    recurrent_weight: (
        Tensor  # [5D, 2D]: U of i, o, u, f_l, f_r (rows) from the left and right child (columns)
    )
    bias: Tensor  # [4D]: of i, o, u, and one that both forget gates share


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a batch is computed: arrays on the host and, after ``to``, their copies on a device."""

    sentences: int
    """B."""
    node_offsets: IntArray
    """int64 [B + 1] into the nodes in sentence order."""
    node_slot: IntArray
    """int64 [N]: slot of each node in sentence order; a constituency tree has its words first."""
    tensors: dict[str, Tensor] | None = None
    """The index arrays as tensors; the loop over levels still needs the arrays on the host."""

    def to(self, device: torch.device | str) -> Self:
        """Return the plan with its index arrays also on ``device``; itself if they are there."""
        device = torch.device(device)
        if self.tensors is not None and self.tensors["node_slot"].device == device:
            return self
        tensors = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                tensors[field.name] = to_device(torch.from_numpy(value), device)
        return replace(self, tensors=tensors)

    def tensor(self, name: str) -> Tensor:
        """Return the index array ``name`` on the plan's device."""
        assert self.tensors is not None, "move the plan with .to(device) first"
        return self.tensors[name]


@dataclass(frozen=True, kw_only=True)
class TreePlan(Plan):
    """Schedule of a batch of dependency trees, or of binary constituency trees.

    The first ranks are of nodes without children: in constituency trees the words in order. There the
    children of internal rank ``leaves + r`` sit in slots ``2r`` and ``2r + 1``, so slots 0..2I-1 read as [I,
    2D] are the inputs of the recursive product.
    """

    leaves: int
    """Number of nodes without children."""
    level_offsets: IntArray
    """int64 [L + 1] into the internal nodes in rank order."""
    child_offsets: IntArray
    """int64 [I + 1]: slots of the children of each internal node in rank order."""
    node_of_rank: IntArray
    """int64 [N]; the batch's words come before the internal nodes of constituency trees."""
    slot_of_rank: IntArray
    """int64 [N]."""
    role: IntArray | None = None
    """int64 [N]: role of each slot's word to its head, for an encoder with relations."""

    @property
    def internal(self) -> int:
        """I, the number of nodes with children."""
        return len(self.node_of_rank) - self.leaves

    @property
    def edges(self) -> int:
        """E, the number of nodes with a parent, and so the first slot of a root."""
        return len(self.node_of_rank) - self.sentences

    def levels(self) -> list[tuple[int, int, int, int]]:
        """List each level's internal nodes, and children's slots: ``(low, high, edge_low, edge_high)``."""
        nodes = pairwise(self.level_offsets.tolist())
        edges = pairwise(self.child_offsets[self.level_offsets].tolist())
        return [(*node_range, *edge_range) for node_range, edge_range in zip(nodes, edges, strict=True)]


@dataclass(frozen=True, kw_only=True)
class SequencePlan(Plan):
    """A batch in the time-major order of a packed sequence, longest sentence first."""

    token_of_row: IntArray
    """int64 [T]: token of each packed row."""
    batch_sizes: IntArray
    """int64 [longest sentence]: number of sentences that have a token at each step."""
    sorted_sentences: IntArray
    """int64 [B]: sentence of each packed column."""
    unsorted_sentences: IntArray
    """int64 [B]: the inverse of ``sorted_sentences``."""


def plan_words(batch: Batch) -> Plan:
    """Plan the words of each sentence in order, for views without a recursion."""
    offsets = np.array(batch.sentence_offsets, dtype=np.int64)
    return Plan(sentences=len(offsets) - 1, node_offsets=offsets, node_slot=np.arange(int(offsets[-1])))


def plan_const(batch: Batch) -> TreePlan:
    """Schedule the batch's constituency trees; raise ValueError if one is no binary tree."""
    offsets = np.array(batch.sentence_offsets, dtype=np.int64)
    lengths, sentence_B = np.diff(offsets), np.arange(len(offsets) - 1)
    tokens = int(offsets[-1])
    sentence_T, sentence_I = np.repeat(sentence_B, lengths), np.repeat(sentence_B, lengths - 1)
    height_N = np.append(np.zeros(tokens, dtype=np.int32), np.array(batch.const_height, dtype=np.int32))
    own_child_I2 = np.stack([batch.left, batch.right], axis=1).astype(np.int64)
    is_outside_I2 = (own_child_I2 < 0) | (own_child_I2 >= 2 * lengths[sentence_I, None] - 1)
    root_B = _batch_numbers(2 * lengths - 2, sentence_B, offsets)
    child_I2 = _batch_numbers(own_child_I2, sentence_I[:, None], offsets)
    # A child outside its sentence becomes the root, which no node may have as a child.
    child_I2 = np.where(is_outside_I2, root_B[sentence_I, None], child_I2)
    _check_binary(child_I2, root_B, height_N, np.append(sentence_T, sentence_I))
    # In sentence order, a sentence's words come before its internal nodes.
    position_N = np.arange(len(height_N))
    position_N[:tokens] += (offsets[:-1] - sentence_B)[sentence_T]
    position_N[tokens:] += offsets[sentence_I + 1] - tokens
    parent_E = np.repeat(np.arange(tokens, len(height_N)), 2)
    node_offsets = 2 * offsets - np.arange(len(offsets))
    return _tree_plan(height_N, child_I2.ravel(), parent_E, root_B, position_N, node_offsets)


def _batch_numbers(node: IntArray, sentence: IntArray, offsets: IntArray) -> IntArray:
    """Return the numbers in the batch of nodes that are numbered within their sentences.

    A sentence numbers its n words, then its n - 1 internal nodes; the batch all words, then all internal
    nodes. Sentence b with words from ``first`` on: its word k is first + k in the batch, its internal node
    n + k is tokens + (first - b) + k, since each sentence before it has one internal node less than words.

    >>> _batch_numbers(np.arange(5), np.array(1), np.array([0, 2, 5]))  # the second, after one of 2 words
    array([2, 3, 4, 6, 7])
    """
    words, tokens = np.diff(offsets)[sentence], offsets[-1]
    return node + offsets[sentence] + np.where(node >= words, tokens - sentence - words, 0)


def _check_binary(child_I2: IntArray, root_B: IntArray, height_N: IntArray, sentence_N: IntArray) -> None:
    """Refuse sentences with a child as high as its parent, or a node that is not once a child or the root."""
    tokens = len(height_N) - len(child_I2)
    height_I = height_N[tokens:]
    is_wrong_I = (height_N[child_I2].max(axis=1, initial=0) >= height_I) | (height_I > len(child_I2))
    uses_N = np.bincount(np.append(child_I2, root_B), minlength=len(height_N))
    sentences = np.append(sentence_N[tokens:][is_wrong_I], sentence_N[uses_N != 1])
    _refuse(sentences, "left, right and const_height are no binary tree")


def plan_dep(batch: Batch) -> TreePlan:
    """Schedule the batch's dependency trees; raise ValueError if one is no tree with one root."""
    offsets = np.array(batch.sentence_offsets, dtype=np.int64)
    lengths, tokens = np.diff(offsets), int(offsets[-1])
    sentence_T, token_T = np.repeat(np.arange(len(lengths)), lengths), np.arange(tokens)
    head_T, height_T = np.asarray(batch.head), np.array(batch.dep_height, dtype=np.int32)
    words_T = lengths[sentence_T]
    is_wrong_T = (head_T < 0) | (head_T > words_T) | (height_T < 0) | (height_T >= words_T)
    child_E, root_B = np.flatnonzero(head_T != 0), np.flatnonzero(head_T == 0)
    parent_E = np.where(is_wrong_T, token_T, offsets[sentence_T] + head_T - 1)[child_E]
    children_T = np.bincount(parent_E, minlength=tokens)
    is_wrong_T |= (children_T > 0) != (height_T > 0)
    is_wrong_T[child_E] |= height_T[parent_E] <= height_T[child_E]
    roots_B = np.bincount(sentence_T[root_B], minlength=len(lengths))
    sentences = np.append(sentence_T[is_wrong_T], np.flatnonzero(roots_B != 1))
    _refuse(sentences, "head and dep_height are no tree with one root")
    return _tree_plan(height_T, child_E, parent_E, root_B, token_T, offsets)


def _refuse(sentences: IntArray, problem: str) -> None:
    if len(sentences):
        raise ValueError(f"sentence {sentences.min()} of the batch: {problem}")


def _tree_plan(
    height_N: IntArray,
    child_E: IntArray,
    parent_E: IntArray,
    root_B: IntArray,
    position_N: IntArray,
    node_offsets: IntArray,
) -> TreePlan:
    """Rank nodes and give them slots; siblings come in order, ``position_N`` are those in sentence order."""
    node_of_rank = np.argsort(height_N, kind="stable")
    numbers = np.arange(len(node_of_rank))
    rank_N, slot_N, node_slot = (np.empty_like(numbers) for _ in range(3))
    rank_N[node_of_rank] = numbers
    edges_by_parent = np.argsort(rank_N[parent_E], kind="stable")
    slot_N[np.append(child_E[edges_by_parent], root_B)] = numbers
    node_slot[position_N] = slot_N
    leaves = int((height_N == 0).sum())
    children_N = np.bincount(parent_E, minlength=len(numbers))
    return TreePlan(
        sentences=len(root_B),
        node_offsets=node_offsets,
        node_slot=node_slot,
        leaves=leaves,
        level_offsets=offsets_of(np.bincount(height_N)[1:]),
        child_offsets=offsets_of(children_N[node_of_rank[leaves:]]),
        node_of_rank=node_of_rank,
        slot_of_rank=slot_N[node_of_rank],
    )


def plan_sequence(batch: Batch) -> SequencePlan:
    """Pack the batch as a sequence, in the order of ``pack_padded_sequence`` but without padding."""
    offsets = np.array(batch.sentence_offsets, dtype=np.int64)
    lengths, tokens = np.diff(offsets), int(offsets[-1])
    sorted_sentences = np.argsort(-lengths, kind="stable")
    column_B = np.empty_like(sorted_sentences)
    column_B[sorted_sentences] = np.arange(len(lengths))
    batch_sizes = len(lengths) - np.cumsum(np.bincount(lengths)[:-1])
    step_T = np.arange(tokens) - np.repeat(offsets[:-1], lengths)
    row_T = offsets_of(batch_sizes)[step_T] + np.repeat(column_B, lengths)
    token_of_row = np.empty_like(row_T)
    token_of_row[row_T] = np.arange(tokens)
    return SequencePlan(
        sentences=len(lengths),
        node_offsets=offsets,
        node_slot=row_T,
        token_of_row=token_of_row,
        batch_sizes=batch_sizes,
        sorted_sentences=sorted_sentences,
        unsorted_sentences=column_B,
    )


def workspace(like: Tensor, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Return uninitialised buffers of these shapes for one sweep, with the type and device of ``like``."""
    step = _ALIGNMENT_BYTES // like.element_size()
    sizes = [math.ceil(math.prod(shape) / step) * step for shape in shapes]
    size_bytes = sum(sizes) * like.element_size()
    if like.device.type != "cpu" or size_bytes <= _SMALL_BYTES:
        return [like.new_empty(shape) for shape in shapes]
    block = _take_block(size_bytes)
    # torch keeps this view alive while a tensor uses its memory; after that the block is free again.
    memory = block[:size_bytes]
    # Without the lock: a finalizer may run in this function on the same thread.
    weakref.finalize(memory, _free_blocks.append, block).atexit = False
    parts = torch.from_numpy(memory).view(like.dtype).split(sizes)
    return [part[: math.prod(shape)].view(shape) for part, shape in zip(parts, shapes, strict=True)]


def _take_block(size_bytes: int) -> NDArray[np.uint8]:
    """Take the smallest free block that is large enough, or a new one in place of the largest free one."""
    with _lock:
        blocks = sorted(_free_blocks, key=len)
        index = bisect_left(blocks, size_bytes, key=len)
        _free_blocks[:] = blocks[:index] + blocks[index + 1 :]
        if index < len(blocks):
            return blocks[index]
        del _free_blocks[-1:]
    memory = np.empty(int(size_bytes * _SLACK) + _ALIGNMENT_BYTES, np.uint8)  # torch has no huge pages
    return memory[-memory.ctypes.data % _ALIGNMENT_BYTES :]


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor of the CPU to a device; on the CPU return the tensor itself.

    From pinned memory the copy is queued like a kernel: neither the thread that asks for it nor the device
    waits. torch keeps that memory until the copy is done.
    """
    if device.type == "cpu":
        return tensor
    host = tensor.pin_memory() if device.type == "cuda" else tensor
    return host.to(device, non_blocking=True)
