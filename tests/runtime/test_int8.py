"""Products of integers against int64, whatever is beside a row, and the rounding of rows and weights."""

import gc

import numpy as np
import pytest
import torch

from runtime import int8
from runtime.int8 import EXACT_TERMS, INPUT_STEPS, WEIGHT_STEPS, Int8Matrix, int8_matrix, quantised

SHAPES = [
    (1, 1, 1),
    (3, 5, 7),
    (100, 32, 128),
    (33, 51, 200),
    (64, 200, 800),
    (17, EXACT_TERMS, 24),
    (5, 3000, 40),
]


@pytest.fixture(params=["fbgemm", "float32"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the fast operator, where it is, and as on a processor without it."""
    if request.param == "float32":
        monkeypatch.setattr(int8, "_has_fbgemm", lambda: False)
    return str(request.param)


def of_integers(weight: torch.Tensor) -> Int8Matrix:
    """A matrix whose integers are these, as its scale is 1."""
    weight = weight.float()
    weight[:, 0] = WEIGHT_STEPS
    return Int8Matrix(weight)


@pytest.mark.parametrize(("n", "k", "m"), SHAPES)
@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), None])
def test_sums_are_exact_and_none_saturates(n, k, m, signs, library) -> None:
    """The largest integers of all signs; pairs of them are added in 16 bits on processors without VNNI."""
    draw = torch.Generator().manual_seed(k)
    inputs = torch.randint(-INPUT_STEPS, INPUT_STEPS + 1, (n, k), generator=draw).float()
    weight = torch.randint(-WEIGHT_STEPS, WEIGHT_STEPS + 1, (m, k), generator=draw).float()
    if signs:
        inputs[:], weight[:] = signs[0] * INPUT_STEPS, signs[1] * WEIGHT_STEPS
    weight[:, 0] = WEIGHT_STEPS
    expected = (inputs.long() @ weight.long().t()).float()
    assert torch.equal(of_integers(weight).sums(inputs), expected)


def test_a_row_has_the_same_product_beside_any_others(library) -> None:
    x, weight = torch.randn(200, 300), torch.randn(150, 300)
    matrix = Int8Matrix(weight)
    together = matrix.product(x, torch.empty(200, 150))
    x_with_others = torch.cat([x[7:9], 1000 * torch.randn(3, 300)])
    others = matrix.product(x_with_others, torch.empty(5, 150))
    assert torch.equal(others[:2], together[7:9])
    added = matrix.product(x, torch.ones(200, 150), add=True)
    assert torch.equal(added, 1 + together)


def test_rows_are_rounded_to_steps_of_their_largest_number() -> None:
    x = torch.randn(50, 77) * torch.logspace(-20, 20, 50)[:, None]
    x[3] = 0
    steps, scale = quantised(x[:, ::7])  # not contiguous
    assert (steps == steps.round()).all() and steps.abs().amax(1).tolist() == [63] * 3 + [0] + [63] * 46
    error = (steps * torch.from_numpy(scale)[:, None] - x[:, ::7]).abs().amax(1)
    assert (error <= 0.501 * torch.from_numpy(scale)).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_so(value: float) -> None:
    x = torch.ones(2, 64)
    x[0, 5] = value
    product = Int8Matrix(torch.ones(3, 64)).product(x, torch.empty(2, 3))
    assert not product[0].isfinite().any() and torch.equal(product[1], torch.full((3,), 64.0))


def test_a_weight_is_rounded_once_and_again_when_it_has_changed() -> None:
    weight = torch.nn.Parameter(torch.randn(9, 70))
    matrix = int8_matrix(weight)
    assert int8_matrix(weight) is matrix
    with torch.no_grad():
        weight *= 2
    matrix_of_doubled = int8_matrix(weight)
    assert np.allclose(matrix_of_doubled.column_scale, 2 * matrix.column_scale)
    weight.grad, count = torch.ones_like(weight), weight._version
    torch.optim.Adam([weight], fused=True).step()
    assert weight._version == count  # so torch does not tell
    assert int8_matrix(weight) is not matrix_of_doubled
    count = len(int8._matrices)
    del weight
    gc.collect()
    assert len(int8._matrices) == count - 1


def test_the_pinned_torch_has_the_fast_operator() -> None:
    """When torch drops it, sums stay the same and slow; docs/log.md names what replaces it."""
    if torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512"):
        assert Int8Matrix(torch.randn(8, 64)).is_packed
