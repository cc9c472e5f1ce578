"""Turn sentence vectors into the rows that a classifier reads.

A design matrix is float32 [n, d + 1] with a last column of ones, whose weight is the bias. The batched
classifiers train on it as it is, scikit-learn's without that column.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float32]
Int = NDArray[np.integer]


def design(blocks: Sequence[Float]) -> Float:
    """Return blocks [n, d_i] side by side, with the column of ones: [n, Σ d_i + 1]."""
    ones = np.ones((len(blocks[0]), 1))
    return np.concatenate([*blocks, ones], axis=1, dtype=np.float32, casting="unsafe")


def pair_blocks(u: Float, v: Float) -> tuple[Float, Float]:
    """Return |u - v| and u ∗ v of u, v [n, d], the features of MRPC, SICK and STS-B."""
    return np.abs(u - v), u * v
