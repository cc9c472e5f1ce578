"""Rows of length 1, against division by hand."""

import numpy as np

from runtime.vectors import divide_by_norms


def test_rows_have_length_one_and_zero_stays_zero() -> None:
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [-2.0, 0.0]], np.float32)
    unit = divide_by_norms(rows)
    assert unit.dtype == np.float32
    np.testing.assert_allclose(unit, [[0.6, 0.8], [0, 0], [-1, 0]], rtol=1e-6)
