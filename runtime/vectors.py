"""Functions of vectors that packages of several layers use."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.floating[Any])


def unit_rows(vectors: NDArray[Number]) -> NDArray[Number]:
    """Return the rows [n, d] scaled to length 1; zero rows stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit_vectors: NDArray[Number] = vectors / np.maximum(lengths, 1e-12)
    return unit_vectors
