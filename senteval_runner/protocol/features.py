"""Turn sentence vectors into the rows that a classifier sees.

A design matrix is float32 [n, d + 1] with a last column of ones, whose weight is the bias: the batched
classifiers train on it as it is, scikit-learn's on all but that column.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float32]
Int = NDArray[np.integer]
Number = TypeVar("Number", bound=np.floating[Any])


def design(blocks: Sequence[Float]) -> Float:
    """Put blocks [n, d_i] side by side and append the column of ones: [n, Σ d_i + 1]."""
    ones = np.ones((len(blocks[0]), 1))
    return np.concatenate([*blocks, ones], axis=1, dtype=np.float32, casting="unsafe")


def pair_blocks(u: Float, v: Float) -> tuple[Float, Float]:
    """Give [|u - v|, u ∗ v] of u, v [n, d]: the features of MRPC, SICK and STS-B."""
    return np.abs(u - v), u * v


def unit(vectors: NDArray[Number]) -> NDArray[Number]:
    """Return the rows [n, d] scaled to length 1; zero rows stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: NDArray[Number] = vectors / np.maximum(lengths, 1e-12)
    return scaled
