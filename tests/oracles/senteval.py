"""The protocol one model at a time, in plain PyTorch modules: the slow, obvious oracle.

Follows SentEval (Conneau & Kiela 2018) as it runs on today's libraries; the batched trainer must give
the same dev and test scores.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from torch import nn

REGULARISERS = (1e-5, 1e-4, 1e-3, 1e-2)


@dataclass(frozen=True)
class Settings:
    nhid: int = 0
    optim: str = "adam"
    batch_size: int = 64
    tenacity: int = 5
    epoch_size: int = 4
    max_epoch: int = 200
    kfold: int = 10


class Classifier:
    """One classifier: seeds, one module, one optimiser, early stopping on dev accuracy."""

    def __init__(self, dim: int, classes: int, reg: float, seed: int, s: Settings) -> None:
        np.random.seed(seed)
        torch.manual_seed(seed)
        self.s = s
        if s.nhid == 0:
            self.model = nn.Sequential(nn.Linear(dim, classes))
        else:
            self.model = nn.Sequential(nn.Linear(dim, s.nhid), nn.Sigmoid(), nn.Linear(s.nhid, classes))
        optimiser = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}[s.optim]
        self.optimiser = optimiser(self.model.parameters(), weight_decay=reg)
        self.rounds = 0

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
            self.rounds += 1
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
        for start in range(0, len(x), self.s.batch_size):
            rows = torch.from_numpy(permutation[start : start + self.s.batch_size])
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


def classifier(x, y, classes, reg, seed, s):
    return Classifier(x.shape[1], classes, reg, seed, s)


def search(x, y, folds, classes, seed, s):
    """Dev accuracy [folds, regularisers]."""
    return np.array(
        [
            [
                classifier(x, y, classes, reg, seed, s).fit(x[train], y[train], dev=(x[dev], y[dev]))
                for reg in REGULARISERS
            ]
            for train, dev in folds
        ]
    )


def inner_kfold(x, y, classes, seed, s):
    outer = StratifiedKFold(n_splits=s.kfold, shuffle=True, random_state=1111)
    dev_scores, test_scores = [], []
    for train, test in outer.split(x, y):
        inner = list(outer.split(x[train], y[train]))
        scores = search(x[train], y[train], inner, classes, seed, s)
        means = [round(100 * np.mean(column), 2) for column in scores.T]
        dev_scores.append(np.max(means))
        model = classifier(x, y, classes, REGULARISERS[int(np.argmax(means))], seed, s)
        model.fit(x[train], y[train], split=0.05)
        test_scores.append(round(100 * model.score(x[test], y[test]), 2))
    return round(np.mean(dev_scores), 2), round(np.mean(test_scores), 2)


def kfold(x, y, x_test, y_test, classes, seed, s):
    folds = StratifiedKFold(n_splits=s.kfold, shuffle=True, random_state=seed).split(x, y)
    means = [round(100 * np.mean(column), 2) for column in search(x, y, folds, classes, seed, s).T]
    model = classifier(x, y, classes, REGULARISERS[int(np.argmax(means))], seed, s)
    model.fit(x, y, split=0.05)
    return np.max(means), round(100 * model.score(x_test, y_test), 2), model.predict(x_test)


def split(train, dev, test, classes, seed, s):
    scores = [
        round(100 * classifier(*train, classes, reg, seed, s).fit(*train, dev=dev), 2) for reg in REGULARISERS
    ]
    model = classifier(*train, classes, REGULARISERS[int(np.argmax(scores))], seed, s)
    model.fit(*train, dev=dev)
    return np.max(scores), round(100 * model.score(*test), 2), model.predict(test[0])
