"""What the kernels take: the buffers of a whole batch in groups, so that no call has seventeen arguments.

Gate columns are in the order i, o, u, then the forget gates.

Shapes: N nodes and as many slots, I internal nodes, E edges, D hidden; G rows and columns of gates as the
sweep has them.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Cells(NamedTuple):
    """Gates and states of nodes."""

    gates: Tensor
    """[G, 3D] or, of binary nodes, [I, 5D]: pre-activations without bias, then in place the activations."""
    slot: Tensor
    """int64 [N]: where the state of each rank is kept."""
    h: Tensor
    """[N, D] by slot."""
    c: Tensor
    """[N, D] by slot."""


class CellGradients(NamedTuple):
    """Gradients of the cells."""

    gates: Tensor
    """Of the pre-activations, rows as in :class:`Cells`."""
    bias: Tensor
    """[4D] or [6D], added to."""
    h: Tensor
    """[N, D] by slot."""
    c: Tensor
    """[N, D] by slot."""


class Attention(NamedTuple):
    """What the words with dependents compute from them; the children of a node are a range of slots."""

    offsets: Tensor
    """int64 [I + 1]: slots of each node's children."""
    edge_parent: Tensor
    """int64 [E]: node of each child."""
    parents: Tensor
    """[I, 2D]: W_q x, in place q; W_f x."""
    children: Tensor
    """[E, 2D]: W_p h_k, in place p_k; U_f h_k, in place f_k."""
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
