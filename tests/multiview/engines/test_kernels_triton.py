"""The Triton kernels under Triton's interpreter equal the equations, values and gradients."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported
pytest.importorskip("triton")

from multiview.engines import kernels_triton, sweeps
from tests.multiview.engines.equations import SHAPES, TREE_VIEWS, assert_close, build, expected, run, words

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# The last rows are wider than a block.
CASES = [(shape, torch.float64, 6, 1e-9) for shape in ("single word", "chain", "star", "mixed", "random")]


@pytest.mark.parametrize(
    ("shape", "dtype", "hidden", "tolerance"), [*CASES, ("mixed", torch.float32, 300, 1e-3)]
)
@pytest.mark.parametrize("view", TREE_VIEWS)
def test_triton_equals_the_equations(view, shape, dtype, hidden: int, tolerance: float, monkeypatch) -> None:
    encoder, batch = build(view, "native", dtype, hidden), SHAPES[shape]
    x = words(batch, dtype)
    expected_results = expected(encoder, x, batch)
    monkeypatch.setattr(sweeps, "kernels_for", lambda x: kernels_triton)
    results = run(encoder.to(DEVICE), x.to(DEVICE), batch)
    assert_close([value.cpu() for value in results], expected_results, tolerance)
