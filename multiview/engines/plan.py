"""In which order the tree nodes of a batch are computed, and where each state is kept.

A plan only holds integers. The loader thread computes it with numba, so the training loop spends no time on
it; numba is imported with the first plan (:mod:`multiview.engines.layouts`). Each node has a *rank*, its
place in a stable counting sort by height, so a level is a range of ranks. Its state is kept in a *slot*.
Slots are ordered by (rank of the parent, side), with the roots last, in sentence order. Every node but a root
has one parent, so this is a permutation, and the children of a level are one contiguous slice of states. The
recursive product therefore needs no gather and no concatenation, and the gradient of every slot is written
once.

Shapes: B sentences, T tokens, N nodes (T for dependency trees, 2T - B for constituency trees), I internal
nodes, E edges (N - B), L levels of internal nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiview.engines.memory import to_device

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
    node_offsets: IntArray
    """int64 [B + 1] into the nodes in sentence order."""
    node_slot: IntArray
    """int64 [N]: slot of each node in sentence order; a constituency tree has its words first."""
    node_height: IntArray
    """int32 [N]: height of each node in sentence order."""
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

    @property
    def internal(self) -> int:
        """I, the number of words with dependents."""
        return len(self.order) - self.leaves

    def levels(self) -> list[tuple[int, int, int, int]]:
        """Internal nodes of each level and their children's slots: ``(low, high, edge_low, edge_high)``."""
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


def plan_words(batch: TreeBatch) -> Plan:
    """The words of each sentence in order, for views without a recursion."""
    offsets = np.array(batch.sentence_offsets, dtype=np.int64)
    tokens = int(offsets[-1])
    return Plan(
        sentences=len(offsets) - 1,
        node_offsets=offsets,
        node_slot=np.arange(tokens),
        node_height=np.zeros(tokens, dtype=np.int32),
    )


def plan_const(batch: TreeBatch) -> ConstPlan:
    """Schedule of the batch's constituency trees.

    Raises:
        ValueError: a height is not above its children's, or an internal node is used twice.
    """
    from multiview.engines.layouts import const_layout

    offsets = np.ascontiguousarray(batch.sentence_offsets, dtype=np.int64)
    levels, slot, node_slot, height, bad = const_layout(
        offsets, _int32(batch.left), _int32(batch.right), _int32(batch.const_height)
    )
    if bad >= 0:
        raise ValueError(f"sentence {bad} of the batch: left, right and const_height are no binary tree")
    return ConstPlan(
        sentences=len(offsets) - 1,
        node_offsets=2 * offsets - np.arange(len(offsets)),
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
    from multiview.engines.layouts import dep_layout

    offsets = np.ascontiguousarray(batch.sentence_offsets, dtype=np.int64)
    height = _int32(batch.dep_height)
    leaves, levels, child_offsets, edge_parent, order, slot, node_slot, bad = dep_layout(
        offsets, _int32(batch.head), height
    )
    if bad >= 0:
        raise ValueError(f"sentence {bad} of the batch: head and dep_height are no tree with one root")
    return DepPlan(
        sentences=len(offsets) - 1,
        node_offsets=offsets.copy(),  # the cache's arrays are read-only, and torch needs writable ones
        leaves=leaves,
        level_offsets=levels,
        child_offsets=child_offsets,
        edge_parent=edge_parent,
        order=order,
        slot=slot,
        node_slot=node_slot,
        node_height=height.copy(),
    )


def plan_sequence(batch: TreeBatch) -> SequencePlan:
    """The batch as a packed sequence, as ``pack_padded_sequence`` would order it, but without padding."""
    from multiview.engines.layouts import packed_layout

    offsets = np.ascontiguousarray(batch.sentence_offsets, dtype=np.int64)
    lengths = np.diff(offsets)
    by_length = np.argsort(-lengths, kind="stable")
    inverse = np.empty_like(by_length)
    inverse[by_length] = np.arange(len(by_length))
    packed, batch_sizes, row = packed_layout(offsets, by_length)
    return SequencePlan(
        sentences=len(lengths),
        node_offsets=offsets.copy(),
        packed=packed,
        batch_sizes=batch_sizes,
        sorted_sentences=by_length,
        unsorted_sentences=inverse,
        node_slot=row,
        node_height=np.zeros(len(packed), dtype=np.int32),
    )


def _int32(array: IntArray) -> IntArray:
    return np.ascontiguousarray(array, dtype=np.int32)
