"""What FAQ and passage ranking share: the random split of queries, and the library of metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora.support.errors import MissingExtraError


def split(count: int, train_fraction: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of training and test queries, each in increasing order; neither is empty (count ≥ 2)."""
    order = np.random.default_rng(seed).permutation(count)
    cut = min(max(1, round(train_fraction * count)), count - 1)
    return np.sort(order[:cut]), np.sort(order[cut:])


def metrics_library() -> Any:
    """The ir-measures library.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import ir_measures
    except ImportError:
        raise MissingExtraError("ir_measures", "retrieval") from None
    return ir_measures
