"""tanh and σ of compiled loops, compiled here and now: numba's cache does not see when their file changes."""

import math

import numpy as np
import pytest
from numba import njit
from parsing.networks.activations import sigmoid, tanh

POINTS = np.concatenate([np.linspace(-12, 12, 4001), [0, -0.0, 1e-30, -1e-30, 80, -80, 3e38, -3e38]])


@njit
def _of_each(points, found):
    for i in range(len(points)):
        found[i, 0], found[i, 1] = tanh(points[i]), sigmoid(points[i])


@pytest.mark.parametrize(("dtype", "within"), [(np.float32, 4e-7), (np.float64, 1e-15)])
def test_they_are_those_of_libm(dtype: type, within: float) -> None:
    points = POINTS.astype(dtype)
    exact = [[math.tanh(x), 0.5 * math.tanh(0.5 * x) + 0.5] for x in points.astype(float)]
    found = np.empty((len(points), 2), dtype)
    _of_each(points, found)
    np.testing.assert_allclose(found, exact, rtol=0, atol=within)
    assert [tanh(0.25), sigmoid(0.25)] == [math.tanh(0.25), 0.5 + 0.5 * math.tanh(0.125)]
