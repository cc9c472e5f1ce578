"""The batched trainer against one model at a time."""

import dataclasses

import numpy as np
import pytest
import torch
from sklearn.model_selection import StratifiedKFold

from runtime.device import torch_threads
from senteval_runner.protocol import batched, classify
from senteval_runner.protocol.classify import TORCH_REGULARISERS
from senteval_runner.protocol.config import Protocol, get_protocol
from senteval_runner.protocol.features import design
from tests.oracles import senteval as oracle

Problem = tuple[np.ndarray, np.ndarray]
Fits = list[batched.Fit]


def problem(n: int, d: int, classes: int) -> Problem:
    rng = np.random.RandomState(0)
    y = rng.randint(0, classes, n)
    return (0.5 * rng.randn(n, d) + 0.4 * rng.randn(classes, d)[y]).astype(np.float32), y


def train(data: Problem, fits: Fits, protocol: Protocol, seed: int) -> list[batched.FitResult]:
    x, y = data
    backend = classify.TorchBackend(design([x]), y, int(y.max()) + 1, protocol, seed, ())
    return backend.train(fits, keep=True)


VARIANTS = {
    "hidden": {"kfold": 3, "nhid": 7, "epoch_size": 2, "tenacity": 1},
    "one epoch": {"kfold": 3, "max_epoch": 15, "epoch_size": 1},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_search_equals_one_model_at_a_time(variant: str) -> None:
    protocol = dataclasses.replace(get_protocol("default"), **VARIANTS[variant])  # type: ignore[arg-type]
    x, y = problem(135, 12, 3)
    folds = list(StratifiedKFold(protocol.kfold, shuffle=True, random_state=1).split(x, y))
    ours = classify._backend(design([x]), y, 3, protocol, 7).search(folds)
    np.testing.assert_array_equal(ours, oracle.search(x, y, folds, 3, 7, protocol))


def test_best_weights_equal_the_module_s_and_global_generators_stay() -> None:
    x, y = problem(150, 6, 2)
    np.random.seed(3)
    torch.manual_seed(3)
    before = np.random.get_state()[1].copy(), torch.get_rng_state()
    fit = batched.split_fit(np.arange(150), 1e-3, 5)
    [first], [second] = (train((x, y), [fit], get_protocol("default"), 5) for _ in range(2))
    np.testing.assert_array_equal(before[0], np.random.get_state()[1])
    assert torch.equal(before[1], torch.get_rng_state())
    weight = first.weights[0][0]
    assert torch.equal(weight, second.weights[0][0])
    protocol = Protocol(name="SentEval", batch_size=64, tenacity=5, epoch_size=4, max_epoch=200)
    classifier = oracle.Classifier(6, 2, 1e-3, 5, protocol)
    classifier.fit(x, y, split=0.05)
    torch.testing.assert_close(weight[:, :-1], classifier.model[0].weight.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(weight[:, -1], classifier.model[0].bias.detach(), rtol=1e-4, atol=1e-5)


def test_a_given_split_equals_the_oracle() -> None:
    """The goldens compare the schemes of folds."""
    protocol = get_protocol("fast")
    x, y = problem(170, 8, 2)
    rows = np.arange(100), np.arange(100, 130), np.arange(130, 170)
    ours = classify.fixed_split(design([x]), y, *rows, 2, protocol, 3)
    theirs = oracle.split(*((x[one], y[one]) for one in rows), 2, 3, protocol)
    assert (ours.devacc, ours.acc) == theirs[:2]
    np.testing.assert_array_equal(ours.predictions, theirs[2])


def test_groups_compaction_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = dataclasses.replace(get_protocol("default"), kfold=4, tenacity=1, nhid=3)
    data = problem(90, 5, 2)
    folds = StratifiedKFold(4, shuffle=True, random_state=1).split(*data)
    fits = [batched.Fit(train=a, dev=b, l2=TORCH_REGULARISERS) for a, b in folds]
    with torch_threads(2):
        in_one_group = train(data, fits, protocol, 1)
        monkeypatch.setattr(batched, "GROUP_BYTES", 1)
        in_groups = train(data, fits, protocol, 1)
        assert torch.get_num_threads() == 2
    with torch_threads(1):
        on_one_thread = train(data, fits, protocol, 1)
    for a, b, c in zip(in_one_group, in_groups, on_one_thread, strict=True):
        assert a.score == b.score == c.score
        torch.testing.assert_close(a.weights, b.weights, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(b.weights, c.weights, rtol=0, atol=0)


@pytest.mark.parametrize("folds", [1, 3])
def test_wide_products_equal_plain_ones(folds: int) -> None:
    torch.manual_seed(0)
    a = torch.randn(folds, 8, 4097)
    for b in (torch.randn(folds, 4097, 64), torch.randn(folds, 64, 4097).mT):
        products = batched.fold_products(a, b, 8 * 4097)
        torch.testing.assert_close(products, torch.bmm(a, b), rtol=1e-4, atol=1e-3)
