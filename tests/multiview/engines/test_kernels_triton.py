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


@pytest.mark.parametrize("shape", ["single word", "chain", "star", "mixed", "random"])
@pytest.mark.parametrize("view", TREE_VIEWS)
def test_triton_equals_torch(view: str, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, batch = build(view, "torch").to(DEVICE), SHAPES[shape]
    x = words(batch).to(DEVICE)
    wanted = run(encoder, x, batch)
    for module in (const, dep):
        monkeypatch.setattr(module, "kernels_for", lambda x, engine: kernels_triton)
    assert_close(run(encoder, x, batch), wanted, 1e-9)


def test_rows_wider_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    for view in TREE_VIEWS:
        encoder, batch = build(view, "torch", torch.float32, hidden=300).to(DEVICE), SHAPES["mixed"]
        x = words(batch, torch.float32).to(DEVICE)
        wanted = run(encoder, x, batch)
        with monkeypatch.context() as patch:
            for module in (const, dep):
                patch.setattr(module, "kernels_for", lambda x, engine: kernels_triton)
            assert_close(run(encoder, x, batch), wanted, 1e-3)
