"""The nodes of parsed sentences: their states, and the words under them.

The nodes of a dependency tree are its words, in order. Those of a constituency tree are its n words, then its
n - 1 internal nodes, the root last.

Legend of dimension suffixes: B sentences, N nodes, T tokens, D embedding size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiview.encoders.registry import Encoder
from multiview.engines.plan import Plan
from parsing.cache.format import CONST_FALLBACK, DEP_FALLBACK, Batch
from parsing.trees.parsers import Int

Tree = Literal["dep", "const", ""]
"""What the nodes of a view are; "" if they are no subtrees."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewNodes:
    """The nodes of one view, all sentences of a batch in order."""

    view: str
    """Name; the second view of a name is ``dep 2``."""
    tree: Tree
    width: int
    """Size of the view's part of a sentence vector, which may join several pools."""
    h_ND: Tensor
    """[N, D] states."""
    height_N: Tensor
    """int32 [N], 0 for a leaf."""
    sentence_N: Tensor
    """int64 [N], the node's sentence in the batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeBatch:
    """Sentences with the nodes of every view."""

    places: NDArray[np.int64]
    """int64 [B], place of each sentence in the input."""
    batch: Batch
    """Words and trees."""
    views: list[ViewNodes]


def node_batch(
    places: NDArray[np.int64], batch: Batch, states: Iterable[tuple[Encoder, Plan, Tensor, Tensor]]
) -> NodeBatch:
    """The nodes of a batch.

    Args:
        places: int64 [B], place of each sentence in the input.
        batch: words and trees.
        states: per view the encoder, its plan, states [N, D] and heights [N] in sentence order.
    """
    seen: Counter[str] = Counter()
    views = []
    for encoder, plan, h_ND, height_N in states:
        seen[encoder.name] += 1
        count_B = torch.from_numpy(np.diff(plan.node_offsets))
        views.append(
            ViewNodes(
                view=encoder.name if seen[encoder.name] == 1 else f"{encoder.name} {seen[encoder.name]}",
                tree=_tree_of(encoder.requires, batch, len(h_ND)),
                width=encoder.width,
                h_ND=h_ND,
                height_N=height_N,
                sentence_N=torch.repeat_interleave(count_B.to(h_ND.device)),
            )
        )
    return NodeBatch(places=places, batch=batch, views=views)


def _tree_of(requires: Collection[str], batch: Batch, nodes: int) -> Tree:
    """Which tree's subtrees a view's nodes are, by the annotations it reads and how many nodes it has."""
    tokens = int(batch.sentence_offsets[-1])
    if "const" in requires and nodes == 2 * tokens - len(batch):
        return "const"
    return "dep" if "dep" in requires and nodes == tokens else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subtrees:
    """The words under each node of a view, in the order of its states."""

    first_N: Int
    """int32 [N], position of the first word in its sentence."""
    last_N: Int
    """int32 [N], position of the last one."""
    size_N: Int
    """int32 [N], number of words; fewer than ``last - first + 1`` where the subtree leaves some out."""
    named_N: NDArray[np.bool_]
    """bool [N]: false for the nodes that only binarisation made."""
    parsed_N: NDArray[np.bool_]
    """bool [N]: false in sentences that no parser could take, whose tree is a stand-in."""
    offset_B: Int
    """int64 [B + 1], where each sentence's nodes start."""
    root_B: Int
    """int64 [B], the node above the whole sentence."""


def subtrees_of(batch: Batch, tree: Tree, dummy_label: int) -> Subtrees:
    """The words under the nodes of a tree.

    Args:
        batch: with the fields of the tree, ``label`` included.
        tree: ``dep`` or ``const``.
        dummy_label: label of the nodes that binarisation adds (:class:`parsing.cache.format.Inventories`).
    """
    from parsing.trees.arrays import constituency_spans, dependency_spans

    offsets = np.ascontiguousarray(batch.sentence_offsets, dtype=np.int64)
    lengths = np.diff(offsets)
    if tree == "const":
        first_N, last_N = constituency_spans(batch.left, batch.right, offsets)
        size_N = last_N - first_N + np.int32(1)
        node_offsets = 2 * offsets - np.arange(len(offsets))
        internal = np.arange(len(first_N)) - np.repeat(node_offsets[:-1], 2 * lengths - 1)
        named_N = internal < np.repeat(lengths, 2 * lengths - 1)
        named_N[~named_N] = batch.label != dummy_label
        root_B, counts, flag = node_offsets[1:] - 1, 2 * lengths - 1, CONST_FALLBACK
    else:
        first_N, last_N, size_N = dependency_spans(batch.head, offsets)
        node_offsets, counts, flag = offsets, lengths, DEP_FALLBACK
        named_N = np.ones(len(first_N), dtype=bool)
        root_B = np.flatnonzero(batch.head == 0)
    return Subtrees(
        first_N=first_N,
        last_N=last_N,
        size_N=size_N,
        named_N=named_N,
        parsed_N=np.repeat((batch.flags & flag) == 0, counts),
        offset_B=node_offsets,
        root_B=root_B,
    )


def positions_of(subtrees: Subtrees, node: int, head: Sequence[int]) -> tuple[int, ...]:
    """Positions of the words under a node, in order.

    Args:
        subtrees: of the batch.
        node: in the batch.
        head: 1-based heads of the node's sentence; needed where a subtree leaves words out.
    """
    first, last = int(subtrees.first_N[node]), int(subtrees.last_N[node])
    inside = range(first, last + 1)
    if len(inside) == subtrees.size_N[node]:
        return tuple(inside)
    sentence = int(np.searchsorted(subtrees.offset_B, node, "right")) - 1
    top = node - int(subtrees.offset_B[sentence])

    def under(word: int) -> bool:
        while word >= 0 and word != top:
            word = head[word] - 1
        return word == top

    return tuple(word for word in inside if under(word))


def words_of(words: Sequence[str], positions: Sequence[int]) -> str:
    """Words at ascending positions as one text, with … where some are left out."""
    parts = []
    for before, position in zip((positions[0] - 1, *positions), positions, strict=False):
        parts += [words[position]] if position == before + 1 else ["…", words[position]]
    return " ".join(parts)
