"""The Triton kernels under Triton's interpreter equal the portable ones, values and gradients."""

from __future__ import annotations

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported
pytest.importorskip("triton")

from multiview.encoders import const, dep
from multiview.engines import kernels_triton
from tests.multiview.engines.test_equal import SHAPES, TREE_VIEWS, assert_close, build, run, words

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# The last rows are wider than a block.
CASES = [(shape, torch.float64, 6, 1e-9) for shape in ("single word", "chain", "star", "mixed", "random")]


@pytest.mark.parametrize(
    ("shape", "dtype", "hidden", "tolerance"), [*CASES, ("mixed", torch.float32, 300, 1e-3)]
)
@pytest.mark.parametrize("view", TREE_VIEWS)
def test_triton_equals_torch(
    view: str, shape: str, dtype: torch.dtype, hidden: int, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, batch = build(view, "torch", dtype, hidden).to(DEVICE), SHAPES[shape]
    x = words(batch, dtype).to(DEVICE)
    wanted = run(encoder, x, batch)
    module = {"const": const, "dep": dep}[view]
    monkeypatch.setattr(module, "kernels_for", lambda x, engine: kernels_triton)
    assert_close(run(encoder, x, batch), wanted, tolerance)
