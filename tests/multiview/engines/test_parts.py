"""Plans, memory and products of the tree engine."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.support.errors import MissingExtraError
from multiview.encoders.registry import build_view
from multiview.engines.memory import release, workspace
from multiview.engines.plan import Plan, plan_const, plan_dep, plan_sequence
from parsing.networks.products import Products
from tests.multiview.engines.trees import batch_of, random_batch

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=6)
SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=50, deadline=None)
@given(lengths=LENGTHS, seed=SEEDS)
def test_constituency_layout(lengths: list[int], seed: int) -> None:
    batch = random_batch(lengths, seed)
    plan = plan_const(batch)
    nodes = plan.tokens + plan.internal
    assert sorted(plan.slot) == sorted(plan.node_slot) == list(range(nodes))
    rank_of_slot = np.argsort(plan.slot)
    for low, high in plan.levels():
        # Children are slots 2k, 2k + 1 and have been computed before their level starts.
        assert (rank_of_slot[2 * low : 2 * high] < plan.tokens + low).all()
    first = 0
    for i, n in enumerate(lengths):
        slots = plan.node_slot[first : first + 2 * n - 1]
        assert slots[-1] == 2 * plan.internal + i
        base = int(batch.sentence_offsets[i]) - i
        for j in range(n - 1):
            left, right = batch.left[base + j], batch.right[base + j]
            parent = int(rank_of_slot[slots[n + j]]) - plan.tokens
            assert (slots[left], slots[right]) == (2 * parent, 2 * parent + 1)
        first += 2 * n - 1


@settings(max_examples=50, deadline=None)
@given(lengths=LENGTHS, seed=SEEDS)
def test_dependency_layout(lengths: list[int], seed: int) -> None:
    batch = random_batch(lengths, seed)
    plan = plan_dep(batch)
    assert sorted(plan.slot) == sorted(plan.order) == list(range(sum(lengths)))
    assert (plan.node_slot[plan.order] == plan.slot).all()
    assert (np.diff(batch.dep_height[plan.order]) >= 0).all()
    for i, (start, stop) in enumerate(
        zip(batch.sentence_offsets[:-1], batch.sentence_offsets[1:], strict=True)
    ):
        for j in range(start, stop):
            if batch.head[j] == 0:
                assert plan.node_slot[j] == len(plan.edge_parent) + i
                continue
            above = plan.edge_parent[plan.node_slot[j]]
            assert plan.order[plan.leaves + above] == start + batch.head[j] - 1
            assert plan.child_offsets[above] <= plan.node_slot[j] < plan.child_offsets[above + 1]
        siblings = [plan.node_slot[j] for j in range(start, stop) if batch.head[j] == batch.head[start]]
        assert siblings == sorted(siblings)


@settings(max_examples=30, deadline=None)
@given(lengths=LENGTHS)
def test_packed_order_is_that_of_torch(lengths: list[int]) -> None:
    plan = plan_sequence(batch_of([[0] * n for n in lengths], [[]] * len(lengths)))
    tokens = torch.arange(sum(lengths)).split(lengths)
    expected = torch.nn.utils.rnn.pack_sequence(list(tokens), enforce_sorted=False)
    assert plan.packed.tolist() == expected.data.tolist()
    assert plan.batch_sizes.tolist() == expected.batch_sizes.tolist()
    assert [lengths[i] for i in plan.sorted_sentences] == sorted(lengths, reverse=True)
    assert plan.sorted_sentences[plan.unsorted_sentences].tolist() == list(range(len(lengths)))
    assert plan.node_slot[plan.packed].tolist() == list(range(sum(lengths)))


def test_plans_travel_between_spawned_processes() -> None:
    batch = random_batch([5, 1, 9], seed=0)
    x = torch.randn(15, 3)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        for view in ("seq", "dep", "const"):
            encoder = build_view(view, 3, 4)
            plan = pool.submit(type(encoder).plan, encoder, batch).result()
            assert isinstance(plan, Plan)
            assert torch.equal(encoder(x, plan), encoder(x, encoder.plan(batch).to("cpu")))


@pytest.mark.parametrize(
    ("field", "index", "value"),
    [("left", 1, 0), ("const_height", 2, 1), ("right", 0, 9), ("const_height", 0, 0)],
)
def test_broken_constituents_are_refused(field: str, index: int, value: int) -> None:
    batch = batch_of([[0, 1], [0, 1, 2, 3]], [[(0, 1)], [(0, 1), (4, 2), (5, 3)]])
    getattr(batch, field)[1 + index] = value
    with pytest.raises(ValueError, match=r"sentence 1 .* no binary tree"):
        plan_const(batch)


@pytest.mark.parametrize(
    ("field", "index", "value"), [("head", 2, 0), ("head", 0, 2), ("head", 1, 9), ("dep_height", 0, 1)]
)
def test_broken_heads_are_refused(field: str, index: int, value: int) -> None:
    batch = batch_of([[0], [0, 1, 2, 3]], [[], [(0, 1), (4, 2), (5, 3)]])
    getattr(batch, field)[1 + index] = value
    with pytest.raises(ValueError, match=r"sentence 1 .* no tree with one root"):
        plan_dep(batch)


def test_memory_is_reused_once_no_tensor_needs_it() -> None:
    release()
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


def test_states_outlive_the_step_that_made_them() -> None:
    batch = random_batch([9] * 20, seed=1)
    encoder = build_view("const", 8, 16)
    plan = encoder.plan(batch)
    x = torch.randn(180, 8)
    states = encoder.states(x, torch.arange(len(x)), plan)[1]
    before = states.clone()
    for _ in range(3):
        encoder(torch.randn_like(x), plan).sum().backward()
    assert torch.equal(states, before)


def test_threads_share_the_memory_pool_safely() -> None:
    batch = random_batch([12] * 30, seed=2)
    encoder = build_view("dep", 8, 16)
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
    encoder = build_view(view, 8, 16)
    x = torch.randn(12, 8, requires_grad=True)
    encoder(x, encoder.plan(random_batch([1] * 12, seed=0))).sum().backward()
    assert x.grad is not None and x.grad.any(dim=1).all()


@pytest.mark.parametrize("view", ["dep", "const"])
def test_bf16_autocast_keeps_float32_states_and_gradients(view: str) -> None:
    batch = random_batch([7, 1, 12], seed=3)
    torch.manual_seed(0)
    encoder = build_view(view, 8, 16)
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
