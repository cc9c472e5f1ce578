"""In which order the tree nodes of a batch are computed, and where each state is kept.

A plan only holds integers. The loader thread computes it with numba, so the training loop spends no time on
it. Each node has a *rank*, its place in a stable counting sort by height, so a level is a range of ranks. Its
state is kept in a *slot*. Slots are ordered by (rank of the parent, side), with the roots last, in sentence
order. Every node but a root has one parent, so this is a permutation, and the children of a level are one
contiguous slice of states. The recursive product therefore needs no gather and no concatenation, and the
gradient of every slot is written once.

Shapes: B sentences, T tokens, N nodes (T for dependency trees, 2T - B for constituency trees), I internal
nodes, E edges (N - B), L levels of internal nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Protocol, Self

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from multiview.engines.buffers import Level
from multiview.engines.transfer import to_device

IntArray = NDArray[np.integer]


class TreeBatch(Protocol):
    """What a plan reads: concatenated sentences with token offsets and the trees of a view."""

    @property
    def sentence_offsets(self) -> IntArray:
        """int64 [B + 1], from 0; every sentence has at least one token."""

    @property
    def head(self) -> IntArray:
        """Integers [T], 1-based within the sentence, 0 for the root."""

    @property
    def dep_height(self) -> IntArray:
        """Integers [T]: 0 for a word without dependents, else 1 + that of its highest dependent."""

    @property
    def left(self) -> IntArray:
        """Integers [T - B], left child of each internal node: words 0..n-1, internal nodes n..2n-2."""

    @property
    def right(self) -> IntArray:
        """Integers [T - B], right child."""

    @property
    def const_height(self) -> IntArray:
        """Integers [T - B]: 1 + that of the higher child; words have height 0."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Base class: arrays on the host and, after ``to``, their copies on a device."""

    sentences: int
    """B."""
    on: torch.device | None = None
    """Device of ``tensors``; None before ``to``."""
    tensors: dict[str, Tensor] | None = None
    """The index arrays as tensors; the loop over levels still needs the arrays on the host."""

    def to(self, device: torch.device | str) -> Self:
        """The plan with its index arrays also on ``device``, in one copy; itself if they are there."""
        device = torch.device(device)
        if self.on == device:
            return self
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        return replace(self, on=device, tensors=to_device(arrays, device))

    def tensor(self, name: str) -> Tensor:
        """Index array ``name`` on the plan's device."""
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
    node_slot: IntArray
    """int64 [N]: slot of each node in sentence order (a sentence's words, then its internal nodes)."""
    node_height: IntArray
    """int32 [N]: height of each node in sentence order."""

    @property
    def internal(self) -> int:
        """I, the number of internal nodes."""
        return self.tokens - self.sentences

    def levels(self) -> list[tuple[int, int]]:
        """Internal nodes of each level: ``(low, high)``, lowest level first."""
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
    node_slot: IntArray
    """int64 [N]: slot of each token."""
    node_height: IntArray
    """int32 [N]: height of each token."""

    @property
    def internal(self) -> int:
        """I, the number of words with dependents."""
        return len(self.order) - self.leaves

    def levels(self) -> list[Level]:
        """Internal nodes of each level and their children's slots, lowest level first."""
        nodes = pairwise(self.level_offsets.tolist())
        edges = pairwise(self.child_offsets[self.level_offsets].tolist())
        return [Level(*node, *edge) for node, edge in zip(nodes, edges, strict=True)]


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
    node_slot: IntArray
    """int64 [T]: packed row of each token."""
    node_height: IntArray
    """int32 [T]: zeros, since a sequence has no levels."""


def plan_const(batch: TreeBatch) -> ConstPlan:
    """Schedule of the batch's constituency trees.

    Raises:
        ValueError: a height is not above its children's, or an internal node is used twice.
    """
    offsets = np.ascontiguousarray(batch.sentence_offsets, dtype=np.int64)
    levels, slot, node_slot, height, bad = _const_layout(
        offsets, _int32(batch.left), _int32(batch.right), _int32(batch.const_height)
    )
    if bad >= 0:
        raise ValueError(f"sentence {bad} of the batch: left, right and const_height are no binary tree")
    return ConstPlan(
        sentences=len(offsets) - 1,
        tokens=int(offsets[-1]),
        level_offsets=levels,
        slot=slot,
        node_slot=node_slot,
        node_height=height,
    )


def plan_dep(batch: TreeBatch) -> DepPlan:
    """Schedule of the batch's dependency trees.

    Raises:
        ValueError: a sentence without exactly one root, or a height that is not above its dependents'.
    """
    offsets = np.ascontiguousarray(batch.sentence_offsets, dtype=np.int64)
    height = _int32(batch.dep_height)
    leaves, levels, child_offsets, edge_parent, order, slot, node_slot, bad = _dep_layout(
        offsets, _int32(batch.head), height
    )
    if bad >= 0:
        raise ValueError(f"sentence {bad} of the batch: head and dep_height are no tree with one root")
    return DepPlan(
        sentences=len(offsets) - 1,
        leaves=leaves,
        level_offsets=levels,
        child_offsets=child_offsets,
        edge_parent=edge_parent,
        order=order,
        slot=slot,
        node_slot=node_slot,
        node_height=height.copy(),  # a cache returns read-only views, and torch needs writable arrays
    )


def plan_sequence(batch: TreeBatch) -> SequencePlan:
    """The batch as a packed sequence, as ``pack_padded_sequence`` would order it, but without padding."""
    offsets = np.ascontiguousarray(batch.sentence_offsets, dtype=np.int64)
    lengths = np.diff(offsets)
    by_length = np.argsort(-lengths, kind="stable")
    inverse = np.empty_like(by_length)
    inverse[by_length] = np.arange(len(by_length))
    packed, batch_sizes, row = _packed_layout(offsets, by_length)
    return SequencePlan(
        sentences=len(lengths),
        packed=packed,
        batch_sizes=batch_sizes,
        sorted_sentences=by_length,
        unsorted_sentences=inverse,
        node_slot=row,
        node_height=np.zeros(len(packed), dtype=np.int32),
    )


def _int32(array: IntArray) -> IntArray:
    return np.ascontiguousarray(array, dtype=np.int32)


@njit(cache=True, nogil=True)
def _count_levels(height, first):  # type: ignore[no-untyped-def]
    """Start of each height >= ``first`` in the order of a stable counting sort; [highest - first + 2]."""
    highest = first - 1
    for i in range(len(height)):
        highest = max(highest, height[i])
    starts = np.zeros(highest - first + 2, np.int64)
    for i in range(len(height)):
        starts[height[i] - first + 1] += 1
    for level in range(1, len(starts)):
        starts[level] += starts[level - 1]
    return starts


@njit(cache=True, nogil=True)
def _const_layout(offsets, left, right, height):  # type: ignore[no-untyped-def]
    sentences = len(offsets) - 1
    tokens = offsets[-1]
    internal = tokens - sentences
    nodes = tokens + internal
    slot = np.full(nodes, -1, np.int64)
    node_slot = np.zeros(nodes, np.int64)
    node_height = np.zeros(nodes, np.int32)
    for i in range(sentences):
        for k in range(offsets[i] - i, offsets[i + 1] - i - 1):
            if height[k] < 1 or height[k] > internal:
                return np.zeros(1, np.int64), slot, node_slot, node_height, i
    levels = _count_levels(height, 1)
    rank = np.empty(nodes, np.int64)  # of words, then of internal nodes in sentence order
    cursor = levels.copy()
    for k in range(internal):
        rank[tokens + k] = tokens + cursor[height[k] - 1]
        cursor[height[k] - 1] += 1
    bad = -1
    node = 0
    for i in range(sentences):
        start = offsets[i]
        n = offsets[i + 1] - start
        base = start - i
        for j in range(n):
            rank[start + j] = start + j
        for j in range(n - 1):
            for side in range(2):
                child = left[base + j] if side == 0 else right[base + j]
                if child < 0 or child >= n + j:
                    bad = i
                    continue
                below = start + child if child < n else tokens + base + child - n
                if (child >= n and height[base + child - n] >= height[base + j]) or slot[rank[below]] >= 0:
                    bad = i
                slot[rank[below]] = 2 * (rank[tokens + base + j] - tokens) + side
        root = rank[start] if n == 1 else rank[tokens + base + n - 2]
        if slot[root] >= 0:
            bad = i
        slot[root] = 2 * internal + i
        for j in range(n):
            node_slot[node + j] = slot[rank[start + j]]
        for j in range(n - 1):
            node_slot[node + n + j] = slot[rank[tokens + base + j]]
            node_height[node + n + j] = height[base + j]
        node += 2 * n - 1
    return levels, slot, node_slot, node_height, bad


@njit(cache=True, nogil=True)
def _dep_layout(offsets, head, height):  # type: ignore[no-untyped-def]
    sentences = len(offsets) - 1
    tokens = offsets[-1]
    order = np.zeros(tokens, np.int64)
    slot = np.zeros(tokens, np.int64)
    node_slot = np.zeros(tokens, np.int64)
    edge_parent = np.zeros(max(tokens - sentences, 0), np.int64)
    parent = np.full(tokens, -1, np.int64)
    children = np.zeros(tokens, np.int64)
    bad = -1
    for i in range(sentences):
        start = offsets[i]
        n = offsets[i + 1] - start
        roots = 0
        for j in range(n):
            t = start + j
            if head[t] < 0 or head[t] > n or height[t] < 0 or height[t] >= n:
                bad = i
            elif head[t] == 0:
                roots += 1
            else:
                parent[t] = start + head[t] - 1
                children[parent[t]] += 1
                if height[parent[t]] <= height[t]:
                    bad = i
        for j in range(n):
            if (children[start + j] > 0) != (height[start + j] > 0):
                bad = i
        if roots != 1:
            bad = i
    if bad >= 0:
        return 0, slot[:1], slot, edge_parent, order, slot, node_slot, bad
    starts = _count_levels(height, 0)
    leaves = starts[1] if len(starts) > 1 else 0
    cursor = starts.copy()
    rank = np.empty(tokens, np.int64)
    for t in range(tokens):
        rank[t] = cursor[height[t]]
        cursor[height[t]] += 1
        order[rank[t]] = t
    child_offsets = np.zeros(tokens - leaves + 1, np.int64)
    for r in range(leaves, tokens):
        child_offsets[r - leaves + 1] = child_offsets[r - leaves] + children[order[r]]
    next_slot = child_offsets.copy()
    root_slot = tokens - sentences
    for t in range(tokens):  # tokens ascend, so siblings keep their order and roots that of the sentences
        if parent[t] < 0:
            s = root_slot
            root_slot += 1
        else:
            above = rank[parent[t]] - leaves
            s = next_slot[above]
            next_slot[above] += 1
            edge_parent[s] = above
        slot[rank[t]] = s
        node_slot[t] = s
    levels = starts[1:] - leaves if len(starts) > 1 else np.zeros(1, np.int64)
    return leaves, levels, child_offsets, edge_parent, order, slot, node_slot, bad


@njit(cache=True, nogil=True)
def _packed_layout(offsets, by_length):  # type: ignore[no-untyped-def]
    tokens = offsets[-1]
    steps = offsets[by_length[0] + 1] - offsets[by_length[0]] if len(by_length) else 0
    packed = np.empty(tokens, np.int64)
    row = np.empty(tokens, np.int64)
    batch_sizes = np.zeros(steps, np.int64)
    k = 0
    for step in range(steps):
        for column in range(len(by_length)):
            sentence = by_length[column]
            if offsets[sentence + 1] - offsets[sentence] <= step:
                break
            packed[k] = offsets[sentence] + step
            row[packed[k]] = k
            batch_sizes[step] += 1
            k += 1
    return packed, batch_sizes, row
