"""Cosine similarity under the names that sentence-transformers uses."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Vectors = NDArray[np.floating] | Tensor


class CosineSimilarity:
    """The methods that compare vectors."""

    similarity_fn_name = "cosine"

    def similarity(self, one: Vectors, other: Vectors) -> Tensor:
        """Cosine of every vector of ``one`` with every vector of ``other``: [n, m].

        Args:
            one: vectors [n, D], or a single one [D].
            other: vectors [m, D], or a single one [D].
        """
        left, right = _unit(one), _unit(other)
        return left @ right.to(left.device).T

    def similarity_pairwise(self, one: Vectors, other: Vectors) -> Tensor:
        """Cosine of the vectors of ``one`` and ``other``, pair by pair: [n].

        Args:
            one: vectors [n, D], or a single one [D].
            other: vectors [n, D], or a single one [D].
        """
        left, right = _unit(one), _unit(other)
        return (left * right.to(left.device)).sum(dim=1)


def _unit(vectors: Vectors) -> Tensor:
    """Rows of length 1, [n, D]; a zero vector stays zero."""
    return torch.nn.functional.normalize(torch.atleast_2d(torch.as_tensor(vectors)).float(), dim=1)
