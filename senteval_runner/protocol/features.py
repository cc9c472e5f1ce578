"""Turn sentence vectors into the design matrix of a classifier.

A design matrix is float32 [n, d + 1]; its last column is ones, and the weight of that column is the bias. The
batched classifiers are trained on all columns, scikit-learn's on all but the last.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from runtime.errors import UserError

Float = NDArray[np.float32]
Int = NDArray[np.integer]


def design(blocks: Sequence[Float]) -> Float:
    """Return the design matrix of blocks [n, d_i], which are concatenated with the ones: [n, Σ d_i + 1].

    Raises UserError if a number is not finite.
    """
    ones = np.ones((len(blocks[0]), 1))
    matrix: Float = np.concatenate([*blocks, ones], axis=1, dtype=np.float32, casting="unsafe")
    if not np.isfinite(matrix).all():
        raise UserError("the vectors' numbers are too large to be multiplied in float32; scale the vectors")
    return matrix


def pair_blocks(u: Float, v: Float) -> tuple[Float, Float]:
    """Return |u - v| and u ∗ v of u, v [n, d], the features of MRPC, SICK and STS-B."""
    with np.errstate(over="ignore"):  # design() refuses infinity
        return np.abs(u - v), u * v
