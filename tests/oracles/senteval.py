"""The protocol one model at a time, in plain PyTorch modules: the slow, obvious oracle.

Follows SentEval (Conneau & Kiela 2018) as it runs on today's libraries; the batched trainer must give
the same dev and test scores.
"""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from torch import nn

from senteval_runner import evaluation
from senteval_runner.protocol.config import Protocol

REGULARISERS = (1e-5, 1e-4, 1e-3, 1e-2)


class Classifier:
    """One classifier: seeds, one module, one optimiser, early stopping on dev accuracy."""

    def __init__(self, dim: int, classes: int, reg: float, seed: int, s: Protocol) -> None:
        np.random.seed(seed)
        torch.manual_seed(seed)
        self.s = s
        if s.nhid == 0:
            self.model = nn.Sequential(nn.Linear(dim, classes))
        else:
            self.model = nn.Sequential(nn.Linear(dim, s.nhid), nn.Sigmoid(), nn.Linear(s.nhid, classes))
        optimiser = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}[s.optim]
        self.optimiser = optimiser(self.model.parameters(), weight_decay=reg)

    def fit(self, x, y, *, dev=None, split=None):
        if dev is None:
            permutation = np.random.permutation(len(x))
            cut = int(split * len(x))
            dev = x[permutation[:cut]], y[permutation[:cut]]
            x, y = x[permutation[cut:]], y[permutation[cut:]]
        x, y = torch.from_numpy(x), torch.from_numpy(y)
        best, counter, epoch = -1.0, 0, 0
        while epoch <= self.s.max_epoch:
            for _ in range(self.s.epoch_size):
                self.one_epoch(x, y)
            epoch += self.s.epoch_size
            accuracy = self.score(*dev)
            if accuracy > best:
                best, best_model = accuracy, copy.deepcopy(self.model)
            else:
                if counter >= self.s.tenacity:
                    break
                counter += 1
        self.model = best_model
        return best

    def one_epoch(self, x, y):
        self.model.train()
        permutation = np.random.permutation(len(x))
        for first in range(0, len(x), self.s.batch_size):
            rows = torch.from_numpy(permutation[first : first + self.s.batch_size])
            loss = nn.functional.cross_entropy(self.model(x[rows]), y[rows])
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()

    def predict(self, x):
        self.model.eval()
        with torch.no_grad():
            return self.model(torch.from_numpy(x)).argmax(1).numpy()

    def score(self, x, y):
        return float((self.predict(x) == y).mean())


class Logistic(Classifier):
    """scikit-learn's, which knows no early stopping; ``reg`` is its C."""

    def __init__(self, reg: float, seed: int) -> None:
        self.model = LogisticRegression(C=reg, random_state=seed)

    def fit(self, x, y, *, dev=None, split=None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model.fit(x, y)
        return self.model.score(*dev) if dev else None

    def predict(self, x):
        return self.model.predict(x)


def classifier(x, y, classes, reg, seed, s):
    return Logistic(reg, seed) if s.backend == "sklearn" else Classifier(x.shape[1], classes, reg, seed, s)


def candidates(s, inverses):
    return tuple(2.0**t for t in inverses) if s.backend == "sklearn" else REGULARISERS


def search(x, y, folds, classes, seed, s, regs=REGULARISERS):
    """Return the dev accuracies [folds, regularisers]."""
    return np.array(
        [
            [
                classifier(x, y, classes, reg, seed, s).fit(x[train], y[train], dev=(x[dev], y[dev]))
                for reg in regs
            ]
            for train, dev in folds
        ]
    )


def inner_kfold(x, y, classes, seed, s):
    outer = StratifiedKFold(n_splits=s.kfold, shuffle=True, random_state=1111)
    regs = candidates(s, range(-2, 4))
    dev_scores, test_scores = [], []
    for train, test in outer.split(x, y):
        inner = list(outer.split(x[train], y[train]))
        scores = search(x[train], y[train], inner, classes, seed, s, regs)
        means = [round(100 * np.mean(column), 2) for column in scores.T]
        dev_scores.append(np.max(means))
        model = classifier(x, y, classes, regs[int(np.argmax(means))], seed, s)
        model.fit(x[train], y[train], split=0.05)
        test_scores.append(round(100 * model.score(x[test], y[test]), 2))
    return round(np.mean(dev_scores), 2), round(np.mean(test_scores), 2)


def kfold(x, y, x_test, y_test, classes, seed, s):
    folds, regs = (
        StratifiedKFold(s.kfold, shuffle=True, random_state=seed).split(x, y),
        candidates(s, range(-1, 6)),
    )
    means = [round(100 * np.mean(column), 2) for column in search(x, y, folds, classes, seed, s, regs).T]
    model = classifier(x, y, classes, regs[int(np.argmax(means))], seed, s)
    model.fit(x, y, split=0.05)
    return np.max(means), round(100 * model.score(x_test, y_test), 2), model.predict(x_test)


def split(train, dev, test, classes, seed, s):
    scores = [
        round(100 * classifier(*train, classes, reg, seed, s).fit(*train, dev=dev), 2) for reg in REGULARISERS
    ]
    model = classifier(*train, classes, REGULARISERS[int(np.argmax(scores))], seed, s)
    model.fit(*train, dev=dev)
    return np.max(scores), round(100 * model.score(*test), 2), model.predict(test[0])


def relatedness(train, dev, test, seed):
    """A softmax over 1..5 whose mean is the score, trained on the squared error of the distribution.

    Tai et al. 2015, section 4.2, as SentEval runs it. Returns predictions of the test rows.
    """
    (x, y), (x_dev, y_dev) = train, dev
    targets = np.zeros((len(y), 5))
    for row, score in zip(targets, y, strict=True):
        low = int(np.floor(score))
        row[low - 1] = low + 1 - score
        if low < 5:
            row[low] = score - low
    x, x_dev, targets = (torch.from_numpy(values) for values in (x, x_dev, targets))
    torch.manual_seed(seed)
    model, stream = nn.Sequential(nn.Linear(x.shape[1], 5), nn.Softmax(dim=1)), np.random.RandomState(seed)
    optimiser, best, misses = torch.optim.Adam(model.parameters()), -1.0, 0
    for _ in range(21):
        for _ in range(50):
            for rows in torch.from_numpy(stream.permutation(len(x))).split(64):
                optimiser.zero_grad()
                nn.functional.mse_loss(model(x[rows]), targets[rows]).backward()
                optimiser.step()
        correlation = stats.pearsonr(expected(model, x_dev), y_dev).statistic
        if correlation > best:
            best, best_model = correlation, copy.deepcopy(model)
        elif misses >= 3:
            break
        else:
            misses += 1
    return expected(best_model, torch.from_numpy(test[0]))


def expected(model, x):
    with torch.no_grad():
        return (model(x) @ torch.arange(1.0, 6.0)).numpy()


@contextmanager
def compared_with_oracle() -> Iterator[None]:
    """Within it, tasks are scored in float64, and every classifier and regression is held against this."""
    ours = {name: getattr(evaluation, name) for name in ("inner_kfold", "kfold", "relatedness")}

    def nested(x: Any, y: Any, classes: int, protocol: Protocol, seed: int) -> Any:
        score = ours["inner_kfold"](x, y, classes, protocol, seed)
        assert (score.devacc, score.acc) == inner_kfold(x[:, :-1], y, classes, seed, protocol)
        return score

    def folds(x: Any, y: Any, train: Any, test: Any, classes: int, protocol: Protocol, seed: int) -> Any:
        score, parts = ours["kfold"](x, y, train, test, classes, protocol, seed), (x[train, :-1], y[train])
        theirs = kfold(*parts, x[test, :-1], y[test], classes, seed, protocol)
        assert (score.devacc, score.acc) == theirs[:2] and score.predictions.tolist() == theirs[2].tolist()
        return score

    def regression(*parts: Any) -> Any:
        predictions = ours["relatedness"](*parts)
        plain = [(x[:, :-1], y) for x, y in parts[:3]]
        np.testing.assert_allclose(predictions[1], relatedness(*plain, parts[3]), rtol=1e-4)
        return predictions

    torch.set_default_dtype(torch.float64)
    design = lambda blocks: np.column_stack([*blocks, np.ones(len(blocks[0]))])  # noqa: E731
    try:
        with patch.multiple(
            evaluation, inner_kfold=nested, kfold=folds, relatedness=regression, design=design
        ):
            yield
    finally:
        torch.set_default_dtype(torch.float32)
