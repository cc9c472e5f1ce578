"""Rows of length 1, whatever the size of their numbers."""

import numpy as np
import pytest

from multiview.libraries.arrays import unit_rows


@pytest.mark.parametrize("size", [1e-30, 1e-14, 1.0, 1e30])
def test_rows_of_any_size_have_length_one_and_zero_stays_zero(size: float) -> None:
    rows = np.array([[3.0, -4.0], [0.0, 0.0], [-2.0, 0.0]], np.float32) * np.float32(size)
    unit = unit_rows(rows)
    assert unit.dtype == np.float32
    np.testing.assert_allclose(unit, [[0.6, -0.8], [0, 0], [-1, 0]], rtol=1e-6)
