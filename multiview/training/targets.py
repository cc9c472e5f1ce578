"""The targets of a loss: which sentences of a batch are neighbours, belong together, or are graded as alike.

Legend of dimension suffixes: B sentences of a batch, A anchors, P pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiview.model_config import Boundary
from parsing.trees.batch import CONST_FALLBACK, DEP_FALLBACK, EMPTY, TOO_LONG

# A sentence in which only bytes were replaced still has real trees, so it stays usable.
UNUSABLE_FLAGS = DEP_FALLBACK | CONST_FALLBACK | TOO_LONG | EMPTY


@dataclass(frozen=True)
class Positions:
    """Where the sentences of a batch stand in the corpus; all arrays are [B]."""

    sentence: NDArray[np.int64]
    """The number of the sentence in the corpus; the numbers of neighbours differ by one."""
    document: NDArray[np.int64]
    """The number of its document in the corpus."""
    usable: NDArray[np.bool_]
    """False for a sentence that is empty, too long or without real trees: neither anchor nor candidate."""
    content: NDArray[np.int64] | None = None
    """A number that is the same for sentences of the same words; None if copies count as different ones."""


@dataclass(frozen=True)
class Targets:
    """Tells which sentences of a batch are positives and negatives of each anchor, which has a positive."""

    anchor: Tensor
    """int64 [A], each anchor's row in the batch."""
    itself: Tensor
    """bool [A, B]: the candidate is the anchor's own sentence, or a copy of it if contents are known."""
    positive: Tensor
    """bool [A, B]: the candidate is a usable neighbour of the anchor, or its partner in a pair."""
    negative: Tensor
    """bool [A, B]: the candidate is usable and outside the anchor's context.

    The context is the anchor, its neighbours and, if contents are known, the copies of these."""


@dataclass(frozen=True)
class Grades:
    """Pairs of sentences of a batch with grades of how alike they are; all arrays are [P]."""

    first: Tensor
    """int64, the number in the batch of the pair's first sentence."""
    second: Tensor
    """int64, that of its second sentence."""
    grade: Tensor
    """The grade, scaled so that the lowest one of the training pairs is 0 and the highest one 1."""

    @property
    def anchor(self) -> Tensor:
        """The anchors, over which metrics are means: the first sentence of each pair."""
        return self.first

    def cosines(self, meaning_BK: Tensor) -> Tensor:
        """Return the cosine of each pair, [P], from the meanings of the batch, at length 1."""
        return (meaning_BK[self.first] * meaning_BK[self.second]).sum(dim=1)


def neighbour_targets(positions: Positions, boundary: Boundary) -> Targets:
    """Return the targets of a batch, in which every usable sentence that has a usable neighbour is an anchor.

    With the boundary ``document`` neighbours must share a document; with ``none`` they need not.
    """
    distance = positions.sentence[None, :] - positions.sentence[:, None]
    is_neighbour = np.abs(distance) == 1
    if boundary == "document":
        is_neighbour &= positions.document[:, None] == positions.document[None, :]
    is_usable = positions.usable[:, None] & positions.usable[None, :]
    anchor = np.flatnonzero((is_neighbour & is_usable).any(axis=1))
    is_neighbour, is_usable, itself = is_neighbour[anchor], is_usable[anchor], distance[anchor] == 0
    in_context = is_neighbour | itself
    if positions.content is not None:
        has_same_words = positions.content[:, None] == positions.content[None, :]
        itself = has_same_words[anchor]
        # A product of floats is a hundred times faster than one of booleans.
        in_context = in_context.astype(np.float32) @ has_same_words.astype(np.float32) > 0
    positive = is_neighbour & is_usable
    return Targets(
        anchor=torch.from_numpy(anchor),
        itself=torch.from_numpy(itself & is_usable & ~positive),
        positive=torch.from_numpy(positive),
        negative=torch.from_numpy(is_usable & ~in_context),
    )


def pair_targets(rows: Sequence[Sequence[int]], group_B: NDArray[np.integer]) -> Targets:
    """Return the targets of paired sentences; each sentence of a pair is an anchor, the other its positive.

    ``rows`` are lines of the file: the numbers in the batch of an anchor, its positive and its negatives.
    Pairs connect the sentences of a group, directly or through further sentences; they are no negatives of
    each other unless a line gives them as such.
    """
    size = len(group_B)
    positive, negative = np.zeros((size, size), bool), group_B[:, None] != group_B[None, :]
    for first, second, *others in rows:
        positive[first, second] = positive[second, first] = first != second
        negative[first, others] = True
    anchor = np.flatnonzero(positive.any(axis=1))
    itself = np.eye(size, dtype=bool)
    return Targets(
        anchor=torch.from_numpy(anchor),
        itself=torch.from_numpy(itself[anchor]),
        positive=torch.from_numpy(positive[anchor]),
        negative=torch.from_numpy((negative & ~positive & ~itself)[anchor]),
    )
