"""Scales vectors to length 1, for packages that compare them by cosine."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.floating[Any])


def divide_by_norms(vectors: NDArray[Number]) -> NDArray[Number]:
    """Return the rows [n, d] divided by their Euclidean norms; zero rows stay zero.

    The squares of the numbers must fit into the dtype, and a row shorter than 1e-12 is divided by 1e-12. The
    results of ``multiview.libraries.arrays.unit_rows``, for numbers of any size, differ in the last digits.
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit_vectors: NDArray[Number] = vectors / np.maximum(norms, 1e-12)
    return unit_vectors
