"""The order in which the nodes of a batch of trees are computed, and the weights and buffers of a sweep.

A node has a *rank*, its index in a stable sort of all nodes by height, so that a level is a range of ranks.
Its state is kept in a *slot*. Slots are sorted by the rank of the parent and then by the order of siblings,
with roots last, so that the states of a level's children are one slice and need not be gathered. The thread
that reads ahead computes a plan with numpy.

A sweep on the CPU takes one block of memory for all its buffers. The block is kept and used again after its
last tensor is deleted, because the C library would return hundreds of megabytes to the system in each step,
and ask for them again.

Legend of dimension suffixes: B sentences, T tokens, N nodes (T for dependency trees, 2T - B for constituency
trees), I internal nodes, E edges (N - B), L levels of internal nodes, D hidden, V word vector, R roles.
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
"""ε of the attention's cosine: a smaller norm is replaced by it before the division."""
_ALIGNMENT_BYTES = 64  # a cache line, the widest vector register, and a multiple of every item's size
_SMALL_BYTES = 2**20  # buffers of a few sentences, which the C library does not return to the system
_SLACK = 1.25  # a new block is larger than needed by this factor, so that the next batch fits as well

_free_blocks: list[NDArray[np.uint8]] = []
_lock = shared_lock()


class DepWeights(NamedTuple):
    """The weights of DEP, or their gradients."""

    input_weight: Tensor  # [3D, V]: W of i, o, u
    parent_weight: Tensor  # [2D, V]: W_q and W_f, applied to words with dependents
    child_weight: Tensor  # [2D, D]: W_p and U_f, applied to children's states
    recurrent_weight: Tensor  # [3D, D]: U of i, o, u, applied to h̃
    bias: Tensor  # [6D]: of i, o, u, q, f, p
    role_bias: Tensor | None = None  # [R, 2D] with relations: of p and f, a row for each of ``CHILD_ROLES``


class ConstWeights(NamedTuple):
    """The weights of CONST, or their gradients."""

    input_weight: Tensor  # [3D, V]: W of i, o, u
    recurrent_weight: (
        Tensor  # [5D, 2D]: U of i, o, u, f_l, f_r (rows) from the left and right child (columns)
    )
    bias: Tensor  # [4D]: of i, o, u, and one that both forget gates share


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The order in which a batch is computed: index arrays and, after :meth:`to`, copies on a device."""

    sentences: int
    """The number of sentences, B."""
    node_offsets: IntArray
    """int64 [B + 1], the first node of each sentence in sentence order, and N at the end."""
    node_slot: IntArray
    """int64 [N], the slot of each node in sentence order; a constituency tree has its words first."""
    tensors: dict[str, Tensor] | None = None
    """The index arrays as tensors on the device, by name. The loop over levels reads the arrays."""

    def to(self, device: torch.device | str) -> Self:
        """Return a plan with its index arrays on a device, too; itself if they are there already."""
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
        """Return an index array by its name, on the plan's device."""
        assert self.tensors is not None, "move the plan with .to(device) first"
        return self.tensors[name]


@dataclass(frozen=True, kw_only=True)
class TreePlan(Plan):
    """The plan of a batch of dependency trees, or of binary constituency trees.

    The first ranks are those of nodes without children; in constituency trees these are the words, in order.
    In a constituency tree the children of the internal node of rank ``leaves + r`` have slots ``2r`` and
    ``2r + 1``, so the states of the first 2I slots, viewed as [I, 2D], are the inputs of the recursive
    product.
    """

    leaves: int
    """The number of nodes without children."""
    level_offsets: IntArray
    """int64 [L + 1], the first internal node of each level, numbered in rank order, and I at the end."""
    child_offsets: IntArray
    """int64 [I + 1], the first child's slot of each internal node in rank order, and E at the end."""
    node_of_rank: IntArray
    """int64 [N], the node of each rank. Over the batch, words are numbered before internal nodes."""
    slot_of_rank: IntArray
    """int64 [N], the slot of the node of each rank."""
    role: IntArray | None = None
    """int64 [N], the role of each slot's word to its head, for an encoder with relations."""

    @property
    def internal(self) -> int:
        """I, the number of nodes with children."""
        return len(self.node_of_rank) - self.leaves

    @property
    def edges(self) -> int:
        """E, the number of nodes with a parent, which is also the first root's slot."""
        return len(self.node_of_rank) - self.sentences

    def levels(self) -> list[tuple[int, int, int, int]]:
        """Return, for each level, the ranges of its internal nodes and of their children's slots.

        Each is ``(low, high, edge_low, edge_high)``; internal nodes are numbered from 0 in rank order.
        """
        nodes = pairwise(self.level_offsets.tolist())
        edges = pairwise(self.child_offsets[self.level_offsets].tolist())
        return [(*node_range, *edge_range) for node_range, edge_range in zip(nodes, edges, strict=True)]


@dataclass(frozen=True, kw_only=True)
class SequencePlan(Plan):
    """The plan of a batch in the order of a packed sequence: by word position, longest sentence first."""

    token_of_row: IntArray
    """int64 [T], the token of each packed row."""
    batch_sizes: IntArray
    """int64 [longest sentence], the number of sentences that have a word at each position."""
    sorted_sentences: IntArray
    """int64 [B], the sentence of each packed column."""
    unsorted_sentences: IntArray
    """int64 [B], the packed column of each sentence."""


def plan_words(batch: Batch) -> Plan:
    """Return the plan of a batch for views without a recursion, which read the words in order."""
    offsets = np.array(batch.sentence_offsets, dtype=np.int64)
    return Plan(sentences=len(offsets) - 1, node_offsets=offsets, node_slot=np.arange(int(offsets[-1])))


def plan_const(batch: Batch) -> TreePlan:
    """Return the plan of a batch's constituency trees; raise ValueError if one is no binary tree."""
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
    # In sentence order the nodes of a sentence are its words, and then its internal nodes.
    position_N = np.arange(len(height_N))
    position_N[:tokens] += (offsets[:-1] - sentence_B)[sentence_T]
    position_N[tokens:] += offsets[sentence_I + 1] - tokens
    parent_E = np.repeat(np.arange(tokens, len(height_N)), 2)
    node_offsets = 2 * offsets - np.arange(len(offsets))
    return _tree_plan(height_N, child_I2.ravel(), parent_E, root_B, position_N, node_offsets)


def _batch_numbers(node: IntArray, sentence: IntArray, offsets: IntArray) -> IntArray:
    """Return the numbers in the batch of nodes that are numbered within their sentences.

    Within a sentence of n words, words have numbers from 0 and internal nodes from n on. In the batch all
    words come before all internal nodes. Let ``first`` be the number in the batch of the first word of
    sentence b. Then its word k has the number first + k. Its internal node n + k has the number
    tokens + (first - b) + k, because each of the b sentences before has one internal node less than words.

    >>> _batch_numbers(np.arange(5), np.array(1), np.array([0, 2, 5]))  # the second, after one of 2 words
    array([2, 3, 4, 6, 7])
    """
    words, tokens = np.diff(offsets)[sentence], offsets[-1]
    return node + offsets[sentence] + np.where(node >= words, tokens - sentence - words, 0)


def _check_binary(child_I2: IntArray, root_B: IntArray, height_N: IntArray, sentence_N: IntArray) -> None:
    """Raise ValueError if a child is as high as its parent, or a node is not exactly once child or root."""
    tokens = len(height_N) - len(child_I2)
    height_I = height_N[tokens:]
    is_wrong_I = (height_N[child_I2].max(axis=1, initial=0) >= height_I) | (height_I > len(child_I2))
    uses_N = np.bincount(np.append(child_I2, root_B), minlength=len(height_N))
    sentences = np.append(sentence_N[tokens:][is_wrong_I], sentence_N[uses_N != 1])
    _refuse(sentences, "left, right and const_height are no binary tree")


def plan_dep(batch: Batch) -> TreePlan:
    """Return the plan of a batch's dependency trees; raise ValueError if one is no tree with one root."""
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
    """Raise ValueError, which names the first of the sentences with a problem, if there are any."""
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
    """Return the plan of trees whose nodes are numbered over the batch.

    Args:
        height_N: the height of each node, 0 for nodes without children.
        child_E: the child of each edge; siblings are in their order in the sentence.
        parent_E: the parent of each edge.
        root_B: the root of each sentence.
        position_N: the index of each node in sentence order.
        node_offsets: the first node of each sentence in sentence order, and at the end N.
    """
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
    """Return the plan of a batch in the order of torch's ``pack_padded_sequence``, made without padding."""
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
    """Return uninitialised buffers of the given shapes, of the type and on the device of ``like``."""
    step = _ALIGNMENT_BYTES // like.element_size()
    sizes = [math.ceil(math.prod(shape) / step) * step for shape in shapes]
    size_bytes = sum(sizes) * like.element_size()
    if like.device.type != "cpu" or size_bytes <= _SMALL_BYTES:
        return [like.new_empty(shape) for shape in shapes]
    block = _take_block(size_bytes)
    # torch keeps this view alive while a tensor uses its memory; then the finalizer puts the block back.
    memory = block[:size_bytes]
    # The finalizer takes no lock, because it may run on this thread while `_take_block` holds it.
    weakref.finalize(memory, _free_blocks.append, block).atexit = False
    parts = torch.from_numpy(memory).view(like.dtype).split(sizes)
    return [part[: math.prod(shape)].view(shape) for part, shape in zip(parts, shapes, strict=True)]


def _take_block(size_bytes: int) -> NDArray[np.uint8]:
    """Return the smallest free block that is large enough, or a new one in place of the largest block."""
    with _lock:
        blocks = sorted(_free_blocks, key=len)
        index = bisect_left(blocks, size_bytes, key=len)
        _free_blocks[:] = blocks[:index] + blocks[index + 1 :]
        if index < len(blocks):
            return blocks[index]
        del _free_blocks[-1:]
    # By numpy, because torch does not allocate huge pages.
    memory = np.empty(int(size_bytes * _SLACK) + _ALIGNMENT_BYTES, np.uint8)
    return memory[-memory.ctypes.data % _ALIGNMENT_BYTES :]


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a copy on a device of a tensor on the CPU, or the tensor itself if the device is the CPU.

    A copy from pinned memory is queued like a kernel, so neither this thread nor the device waits for it.
    torch keeps that memory until the copy is done.
    """
    if device.type == "cpu":
        return tensor
    host = tensor.pin_memory() if device.type == "cuda" else tensor
    return host.to(device, non_blocking=True)
