"""Broken trees, memory and products of the tree engine."""

from __future__ import annotations

import threading

import pytest
import torch

from corpora.support.errors import MissingExtraError
from multiview.encoders.registry import view_class
from multiview.engines.native import _free, workspace
from multiview.engines.plan import plan_const, plan_dep
from parsing.networks.device import Products
from tests.multiview.engines.trees import batch_of, random_batch


@pytest.mark.parametrize(
    ("field", "index", "value"),
    [
        *(("left", 1, 0), ("const_height", 2, 1), ("right", 0, 9), ("const_height", 0, 0)),
        *(("head", 3, 0), ("head", 1, 2), ("head", 2, 9), ("head", 2, -1), ("dep_height", 1, 1)),
    ],
)
def test_what_is_no_tree_is_refused(field: str, index: int, value: int) -> None:
    batch = batch_of([[0], [0, 1, 2, 3]], [[], [(0, 1), (4, 2), (5, 3)]])
    getattr(batch, field)[index] = value
    with pytest.raises(ValueError, match=r"sentence 1 of the batch: .* are no (binary )?tree"):
        plan_const(batch)
        plan_dep(batch)


def test_memory_is_reused_once_no_tensor_needs_it() -> None:
    _free.clear()
    like = torch.zeros(1)
    first = workspace(like, (100, 100), (3,))
    assert all(buffer.data_ptr() % 64 == 0 for buffer in first)
    kept, address = first[0][5:].t(), first[0].data_ptr()
    first[0].fill_(7)
    del first
    second = workspace(like, (100, 100), (3,))
    assert second[0].data_ptr() != address
    second[0].fill_(1)
    assert (kept == 7).all()
    del kept
    third = workspace(like.double(), (10, 10))
    assert third[0].data_ptr() == address and third[0].dtype == torch.float64


def test_threads_share_the_memory_pool_safely() -> None:
    batch = random_batch([12] * 30, seed=2)
    encoder = view_class("dep")(8, 16)
    plan = encoder.plan(batch).to("cpu")
    x = torch.randn(360, 8)
    wanted = encoder(x, plan).detach()
    wrong: list[int] = []

    def work() -> None:
        for _ in range(20):
            if not torch.equal(encoder(x, plan).detach(), wanted):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 300, 3000])
def test_products_equal_plain_ones(rows: int) -> None:
    torch.manual_seed(0)
    a, w, b = torch.randn(rows, 30), torch.randn(20, 30), torch.randn(rows, 20)
    for products in (Products(None, onednn=False), Products.of(a)):
        tolerance = {"rtol": 1e-4, "atol": 1e-4 * rows**0.5}
        torch.testing.assert_close(products.mm(a, w.t(), torch.empty(rows, 20)), a @ w.t(), **tolerance)
        torch.testing.assert_close(products.addmm(b, w, a.clone()), a + b @ w, **tolerance)
        torch.testing.assert_close(products.new_mm(b, w), b @ w, **tolerance)
        torch.testing.assert_close(products.gradient(b, a), b.t() @ a, **tolerance)


@pytest.mark.parametrize("view", ["dep", "const"])
def test_a_batch_of_single_words_trains_in_float32(view: str) -> None:
    encoder = view_class(view)(8, 16)
    x = torch.randn(12, 8, requires_grad=True)
    encoder(x, encoder.plan(random_batch([1] * 12, seed=0))).sum().backward()
    assert x.grad is not None and x.grad.any(dim=1).all()


@pytest.mark.parametrize("view", ["dep", "const"])
def test_bf16_autocast_keeps_float32_states_and_gradients(view: str) -> None:
    batch = random_batch([7, 1, 12], seed=3)
    torch.manual_seed(0)
    encoder = view_class(view)(8, 16)
    plan = encoder.plan(batch)
    x = torch.randn(20, 8, requires_grad=True)
    exact = encoder(x, plan)
    (exact_gradient,) = torch.autograd.grad(exact.square().sum(), x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = encoder(x, plan)
        loss = rough.square().sum()
    (rough_gradient,) = torch.autograd.grad(loss, x)
    assert rough.dtype == rough_gradient.dtype == torch.float32
    assert 0 < (rough - exact).abs().max() < 0.02
    torch.testing.assert_close(rough_gradient, exact_gradient, rtol=0.1, atol=0.02)


def test_missing_dgl_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from multiview.engines.dgl_engine import load_dgl

    monkeypatch.setitem(sys.modules, "dgl", None)
    with pytest.raises(MissingExtraError, match=r"embeddings\[dgl\]"):
        load_dgl()
