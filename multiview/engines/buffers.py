"""The buffers of a whole batch, in groups, so that kernels need few arguments.

Gate columns are in the order i, o, u, then the forget gates.

Shapes: N nodes and as many slots, I internal nodes, E edges, D hidden, G nodes that the gates are of.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Cells(NamedTuple):
    """Gates and states of nodes."""

    gates: Tensor
    """[G, 3D], or [I, 5D] for binary nodes: pre-activations without bias, then the activations, in place."""
    slot: Tensor
    """int64 [N]: slot of each rank."""
    h: Tensor
    """[N, D] by slot."""
    c: Tensor
    """[N, D] by slot."""


class CellGradients(NamedTuple):
    """Gradients of the cells."""

    gates: Tensor
    """[G, 3D] or [I, 5D], of the pre-activations; rows as in :class:`Cells`."""
    bias: Tensor
    """[4D] or [6D]; the kernels add to it."""
    h: Tensor
    """[N, D] by slot."""
    c: Tensor
    """[N, D] by slot."""


class Attention(NamedTuple):
    """Attention of the words with dependents over these; a node's children are a range of slots."""

    offsets: Tensor
    """int64 [I + 1]: slots of each node's children."""
    edge_parent: Tensor
    """int64 [E]: node of each child."""
    parents: Tensor
    """[I, 2D]: W_q x, then q in its place; W_f x."""
    children: Tensor
    """[E, 2D]: W_p h_k, then p_k in its place; U_f h_k, then f_k in its place."""
    alpha: Tensor
    """[E]: attention weights."""
    cosine: Tensor
    """[E]: cosines of q and p_k."""
    mixed: Tensor
    """[I, D]: h̃."""


class AttentionGradients(NamedTuple):
    """Gradients of the attention, rows as in :class:`Attention`."""

    parents: Tensor
    """[I, 2D]."""
    children: Tensor
    """[E, 2D]."""
    mixed: Tensor
    """[I, D]."""


class Level(NamedTuple):
    """Internal nodes of one height and the slots of their children."""

    low: int
    """First node."""
    high: int
    """One past the last."""
    edge_low: int
    """First slot of the children."""
    edge_high: int
    """One past the last."""
