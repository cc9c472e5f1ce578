"""The nodes of parsed sentences and their states.

The nodes of a dependency tree are its words, in order. Those of a constituency tree are its n words, then its
n - 1 internal nodes, the root last.

Legend of dimension suffixes: B sentences, N nodes, D embedding size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiview.encoders.registry import Encoder
from parsing.trees.batch import Batch

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
    places: NDArray[np.int64], batch: Batch, views: Iterable[tuple[Encoder, Tensor, Tensor]]
) -> NodeBatch:
    """The nodes of a batch.

    Args:
        places: int64 [B], place of each sentence in the input.
        batch: words and trees.
        views: the encoder of each view, vectors of distinct words [U, E], and each token's word, int64 [T].
    """
    seen: Counter[str] = Counter()
    tokens = int(batch.sentence_offsets[-1])
    found = []
    for encoder, x_UE, token_N in views:
        plan = encoder.plan(batch)
        h_ND, height_N = encoder.forward_nodes(x_UE, plan, token_N)
        seen[encoder.name] += 1
        tree: Tree = ""
        if "const" in encoder.requires and len(h_ND) == 2 * tokens - len(batch):
            tree = "const"
        elif "dep" in encoder.requires and len(h_ND) == tokens:
            tree = "dep"
        count_B = torch.from_numpy(np.diff(plan.node_offsets)).to(h_ND.device)
        found.append(
            ViewNodes(
                view=encoder.name if seen[encoder.name] == 1 else f"{encoder.name} {seen[encoder.name]}",
                tree=tree,
                width=encoder.width,
                h_ND=h_ND,
                height_N=height_N,
                sentence_N=torch.repeat_interleave(count_B),
            )
        )
    return NodeBatch(places=places, batch=batch, views=found)
