"""The batched trainer against one model at a time."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold

from senteval_runner.protocol import batched, classify, heads
from senteval_runner.protocol.config import TORCH_REGULARISERS, get_protocol
from senteval_runner.protocol.features import as_tensor, design
from senteval_runner.protocol.heads import Head
from tests.oracles import senteval as oracle


def problem(n: int, d: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(seed)
    y = rng.randint(0, classes, n)
    return (0.5 * rng.randn(n, d) + 0.4 * rng.randn(classes, d)[y]).astype(np.float32), y


def settings_of(protocol) -> oracle.Settings:
    names = [f.name for f in dataclasses.fields(oracle.Settings)]
    return oracle.Settings(**{name: getattr(protocol, name) for name in names})


VARIANTS = {
    "adam": {"kfold": 3, "epoch_size": 2, "tenacity": 2},
    "rmsprop": {"kfold": 3, "optim": "rmsprop", "batch_size": 32, "epoch_size": 2, "tenacity": 1},
    "hidden": {"kfold": 3, "nhid": 7, "epoch_size": 2, "tenacity": 1},
    "dropout": {"kfold": 3, "nhid": 9, "dropout": 0.3, "epoch_size": 2, "tenacity": 1},
    "one epoch": {"kfold": 3, "max_epoch": 15, "epoch_size": 1},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_search_equals_one_model_at_a_time(variant: str) -> None:
    protocol = dataclasses.replace(get_protocol("default"), **VARIANTS[variant])
    x, y = problem(135, 12, 3)
    folds = list(StratifiedKFold(protocol.kfold, shuffle=True, random_state=1).split(x, y))
    ours = classify._Torch(design([x]), y, 3, protocol, 7).search(folds)
    theirs = oracle.search(x, y, folds, 3, 7, settings_of(protocol))
    np.testing.assert_array_equal(ours, theirs)


def test_best_weights_equal_the_module_s() -> None:
    protocol = get_protocol("default")
    x, y = problem(150, 6, 2)
    fit = batched.split_fit(np.arange(150), 1e-3, 5)
    fitted = batched.train_fits(as_tensor(design([x])), y, [fit], 2, protocol, 5, keep_weights=True)[0]
    plain = oracle.Classifier(6, 2, 1e-3, 5, oracle.Settings())
    plain.fit(x, y, split=0.05)
    assert fitted.weights is not None
    weight = fitted.weights[0][0]
    torch.testing.assert_close(weight[:, :-1], plain.model[0].weight.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(weight[:, -1], plain.model[0].bias.detach(), rtol=1e-4, atol=1e-5)
    assert fitted.rounds == [plain.rounds]


def test_schemes_equal_the_oracle() -> None:
    protocol = dataclasses.replace(get_protocol("fast"), kfold=3)
    s = settings_of(protocol)
    x, y = problem(170, 8, 2)
    inner = classify.inner_kfold(design([x]), y, 2, protocol, 3)
    assert (inner.devacc, inner.acc) == oracle.inner_kfold(x, y, 2, 3, s)
    train, dev, test = np.arange(100), np.arange(100, 130), np.arange(130, 170)
    k = classify.kfold(design([x]), y, train, test, 2, protocol, 3)
    dev_score, score, predictions = oracle.kfold(x[train], y[train], x[test], y[test], 2, 3, s)
    assert (k.devacc, k.acc) == (dev_score, score)
    np.testing.assert_array_equal(k.predictions, predictions)
    one = classify.split(design([x]), y, train, dev, test, 2, protocol, 3)
    dev_score, score, predictions = oracle.split(
        (x[train], y[train]), (x[dev], y[dev]), (x[test], y[test]), 2, 3, s
    )
    assert (one.devacc, one.acc) == (dev_score, score)
    np.testing.assert_array_equal(one.predictions, predictions)


def test_grouping_and_compaction_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = dataclasses.replace(get_protocol("default"), kfold=4, tenacity=1)
    x, y = problem(90, 5, 2)
    folds = list(StratifiedKFold(4, shuffle=True, random_state=1).split(x, y))
    fits = [batched.Fit(train=a, dev=b, l2=TORCH_REGULARISERS) for a, b in folds]
    together = batched.train_fits(as_tensor(design([x])), y, fits, 2, protocol, 1, keep_weights=True)
    monkeypatch.setattr(batched, "GROUP_BYTES", 1)
    apart = batched.train_fits(as_tensor(design([x])), y, fits, 2, protocol, 1, keep_weights=True)
    for a, b in zip(together, apart, strict=True):
        assert (a.accuracy, a.rounds) == (b.accuracy, b.rounds)
        assert a.weights is not None and b.weights is not None
        torch.testing.assert_close(a.weights, b.weights, rtol=1e-4, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(
    F=st.integers(1, 3),
    R=st.integers(1, 3),
    B=st.integers(1, 5),
    C=st.integers(2, 4),
    hidden=st.integers(0, 3),
)
def test_gradients_equal_autograd(F: int, R: int, B: int, C: int, hidden: int) -> None:
    torch.manual_seed(F + 10 * R + 100 * B)
    D = 4
    head = Head(D - 1, C, hidden)
    params = [torch.randn(F, R, *p.shape, dtype=torch.float64) for p in head.initial()]
    x = torch.randn(F, B, D, dtype=torch.float64)
    y = torch.randint(0, C, (F, B))
    onehot = torch.nn.functional.one_hot(y, C).double().transpose(1, 2)
    gradients = head.gradients(x, onehot, params, torch.Generator())
    leaves = [p.requires_grad_() for p in params]
    logits = head.logits(x, leaves)
    loss = sum(torch.nn.functional.cross_entropy(logits[f, r].T, y[f]) for f in range(F) for r in range(R))
    for ours, theirs in zip(gradients, torch.autograd.grad(loss, leaves), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_same_seed_same_bits_and_global_generators_untouched() -> None:
    x, y = problem(80, 5, 2)
    fits = [batched.split_fit(np.arange(80), 1e-3, 2)]
    np.random.seed(3)
    torch.manual_seed(3)
    before = np.random.get_state()[1].copy(), torch.get_rng_state()
    runs = [
        batched.train_fits(as_tensor(design([x])), y, fits, 2, get_protocol("fast"), 2, keep_weights=True)
        for _ in range(2)
    ]
    assert torch.equal(runs[0][0].weights[0][0], runs[1][0].weights[0][0])
    np.testing.assert_array_equal(before[0], np.random.get_state()[1])
    assert torch.equal(before[1], torch.get_rng_state())


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_groups_side_by_side_change_nothing(monkeypatch: pytest.MonkeyPatch, two_threads: None) -> None:
    protocol = dataclasses.replace(get_protocol("default"), kfold=4, tenacity=1, nhid=3, dropout=0.2)
    x, y = problem(90, 5, 2)
    folds = list(StratifiedKFold(4, shuffle=True, random_state=1).split(x, y))
    fits = [batched.Fit(train=a, dev=b, l2=TORCH_REGULARISERS) for a, b in folds]
    monkeypatch.setattr(batched, "GROUP_BYTES", 1)
    runs = []
    for threads in (2, 1):
        torch.set_num_threads(threads)
        runs.append(batched.train_fits(as_tensor(design([x])), y, fits, 2, protocol, 1, keep_weights=True))
        assert torch.get_num_threads() == threads
    for a, b in zip(*runs, strict=True):
        assert (a.accuracy, a.rounds) == (b.accuracy, b.rounds)
        torch.testing.assert_close(a.weights, b.weights, rtol=0, atol=0)


def test_a_failing_group_ends_the_others(two_threads: None) -> None:
    calls: list[int] = []

    def train(group: list[int], stopped) -> list[batched.Fitted]:
        calls.append(group[0])
        if group[0] == 0:
            raise RuntimeError("broken")
        assert stopped.wait(60)  # a group under way is told to stop
        return []

    with pytest.raises(RuntimeError, match="broken"):
        batched._side_by_side(train, [[0], [1], [2], [3]])
    assert set(calls) <= {0, 1, 2} and torch.get_num_threads() == 2


@pytest.mark.parametrize("folds", [1, 3])
def test_wide_products_equal_plain_ones(folds: int) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(folds, 8, 4097), torch.randn(folds, 4097, 64)
    torch.testing.assert_close(heads.fold_products(a, b, 8 * 4097), torch.bmm(a, b), rtol=1e-4, atol=1e-3)
    transposed = torch.randn(folds, 64, 4097).transpose(1, 2)
    torch.testing.assert_close(
        heads.fold_products(a, transposed, 8 * 4097), torch.bmm(a, transposed), rtol=1e-4, atol=1e-3
    )
