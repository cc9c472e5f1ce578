"""The three ways SentEval chooses a regulariser and scores a classifier.

``inner_kfold`` (MR CR SUBJ MPQA): nested cross-validation; ``kfold`` (TREC MRPC): cross-validation on train,
then test; ``split`` (SICK-E, SST, SNLI, probing): a given development set. Accuracies are percentages
rounded where the original rounds them: the rounded means decide which regulariser wins (ties to the first).

Everywhere ``x`` is a design matrix [n, d + 1] and ``y`` are class ids [n]; ``train``, ``dev`` and ``test``
are indices of rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from senteval_runner.protocol.batched import Fit, make_head, predict, split_fit, train_fits
from senteval_runner.protocol.config import (
    BINARY_FOLD_SEED,
    SKLEARN_INVERSES,
    SKLEARN_INVERSES_KFOLD,
    TORCH_REGULARISERS,
    Protocol,
)
from senteval_runner.protocol.features import Float, Int, as_tensor

Scheme = Literal["inner_kfold", "kfold", "split"]
NOMINAL_L2, NOMINAL_INVERSE = 1e-9, 1e9


@dataclass(frozen=True, kw_only=True)
class Classification:
    """Scores in percent, and what led to them."""

    devacc: float
    """Development accuracy of the chosen regulariser (mean over outer folds for ``inner_kfold``)."""
    acc: float
    """Test accuracy (mean over outer folds for ``inner_kfold``)."""
    regularisers: list[float]
    """The candidates: L2 weights (torch) or C (scikit-learn)."""
    chosen: list[float]
    """The chosen one; one per outer fold for ``inner_kfold``."""
    dev_scores: list[list[float]]
    """Mean development accuracy per candidate; one row per outer fold for ``inner_kfold``."""
    predictions: Int
    """Class id per test row (per row of the task for ``inner_kfold``)."""


class _Torch:
    """Batched early-stopped classifiers."""

    def __init__(self, protocol: Protocol, classes: int, seed: int, *, nominal: bool = False) -> None:
        self.protocol, self.classes, self.seed = protocol, classes, seed
        self.candidates: tuple[float, ...] = (NOMINAL_L2,) if nominal else TORCH_REGULARISERS

    def search(self, x: Float, y: Int, folds: Sequence[tuple[Int, Int]]) -> NDArray[np.float64]:
        """Development accuracy in [0, 1]: [folds, candidates]."""
        fits = [Fit(train=train, dev=dev, l2=self.candidates) for train, dev in folds]
        fitted = train_fits(as_tensor(x), y, fits, self.classes, self.protocol, self.seed)
        return np.array([one.accuracy for one in fitted])

    def refit(self, x: Float, y: Int, jobs: Sequence[tuple[Int, Int, int]]) -> list[Int]:
        """Predictions for ``test`` after training on ``train`` less 5 %, per (train, test, candidate)."""
        fits = [split_fit(train, self.candidates[chosen], self.seed) for train, _, chosen in jobs]
        return self._train_and_predict(x, y, fits, [(test, 0) for _, test, _ in jobs])[0]

    def split(
        self, x: Float, y: Int, train: Int, dev: Int, test: Int
    ) -> tuple[NDArray[np.float64], list[Int]]:
        """Search on a given development set. A final fit would repeat the search, so its weights are used."""
        fits = [Fit(train=train, dev=dev, l2=self.candidates)]
        wanted = [(test, r) for r in range(len(self.candidates))]
        predictions, accuracy = self._train_and_predict(x, y, fits, wanted)
        return accuracy, predictions

    def _train_and_predict(
        self, x: Float, y: Int, fits: Sequence[Fit], wanted: Sequence[tuple[Int, int]]
    ) -> tuple[list[Int], NDArray[np.float64]]:
        """``wanted``: (rows, model) to predict; one per fit, or several if there is a single fit."""
        tensor = as_tensor(x)
        fitted = train_fits(tensor, y, fits, self.classes, self.protocol, self.seed, keep_weights=True)
        head = make_head(x.shape[1] - 1, self.classes, self.protocol)
        owners = fitted if len(fitted) > 1 else fitted * len(wanted)
        predictions = []
        for one, (rows, model) in zip(owners, wanted, strict=True):
            assert one.weights is not None
            predictions.append(predict(tensor, rows, one.weights[model], head))
        return predictions, np.array([one.accuracy for one in fitted])


class _Sklearn:
    """scikit-learn's logistic regression, called as the original calls it: it stops before convergence."""

    def __init__(self, seed: int, scheme: Scheme, *, nominal: bool = False) -> None:
        self.seed = seed
        self.candidates: tuple[float, ...] = SKLEARN_INVERSES_KFOLD if scheme == "kfold" else SKLEARN_INVERSES
        if nominal:
            self.candidates = (NOMINAL_INVERSE,)

    def _fit(self, x: Float, y: Int, rows: Int, candidate: float) -> LogisticRegression:
        # One BLAS thread: on these small products more only spin, and the last digits depend on them.
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return LogisticRegression(C=candidate, random_state=self.seed).fit(x[rows, :-1], y[rows])

    def search(self, x: Float, y: Int, folds: Sequence[tuple[Int, Int]]) -> NDArray[np.float64]:
        """Development accuracy in [0, 1]: [folds, candidates]."""
        return np.array(
            [
                [self._fit(x, y, train, c).score(x[dev, :-1], y[dev]) for c in self.candidates]
                for train, dev in folds
            ]
        )

    def refit(self, x: Float, y: Int, jobs: Sequence[tuple[Int, Int, int]]) -> list[Int]:
        """Predictions for ``test`` after training on all of ``train``, per (train, test, candidate)."""
        return [
            self._fit(x, y, train, self.candidates[chosen]).predict(x[test, :-1])
            for train, test, chosen in jobs
        ]

    def split(
        self, x: Float, y: Int, train: Int, dev: Int, test: Int
    ) -> tuple[NDArray[np.float64], list[Int]]:
        """Search on a given development set."""
        models = [self._fit(x, y, train, c) for c in self.candidates]
        accuracy = np.array([[model.score(x[dev, :-1], y[dev]) for model in models]])
        return accuracy, [model.predict(x[test, :-1]) for model in models]


def _backend(
    protocol: Protocol, classes: int, seed: int, scheme: Scheme, *, nominal: bool = False
) -> _Torch | _Sklearn:
    if protocol.backend == "sklearn":
        return _Sklearn(seed, scheme, nominal=nominal)
    return _Torch(protocol, classes, seed, nominal=nominal)


def _percent(correct: NDArray[np.bool_]) -> float:
    return round(100 * (int(correct.sum()) / len(correct)), 2)


def _means(accuracy: NDArray[np.float64]) -> list[float]:
    """Mean over folds of [folds, candidates], in percent and rounded: the candidate is chosen by it."""
    return [float(round(100 * np.mean(column), 2)) for column in accuracy.T]


def inner_kfold(x: Float, y: Int, classes: int, protocol: Protocol, seed: int) -> Classification:
    """Nested cross-validation: per outer fold choose on inner folds, refit, score its test rows."""
    folds = StratifiedKFold(n_splits=protocol.kfold, shuffle=True, random_state=BINARY_FOLD_SEED)
    outer = list(folds.split(x, y))
    inner = [(train[a], train[b]) for train, _ in outer for a, b in folds.split(train, y[train])]
    backend = _backend(protocol, classes, seed, "inner_kfold")
    accuracy = backend.search(x, y, inner).reshape(protocol.kfold, protocol.kfold, -1)
    dev_scores = [_means(one) for one in accuracy]
    chosen = [int(np.argmax(scores)) for scores in dev_scores]
    jobs = [(train, test, best) for (train, test), best in zip(outer, chosen, strict=True)]
    predictions = np.empty(len(y), dtype=np.int64)
    per_fold = []
    for (_, test), predicted in zip(outer, backend.refit(x, y, jobs), strict=True):
        predictions[test] = predicted
        per_fold.append(_percent(predicted == y[test]))
    return Classification(
        devacc=float(round(np.mean([max(scores) for scores in dev_scores]), 2)),
        acc=float(round(np.mean(per_fold), 2)),
        regularisers=list(backend.candidates),
        chosen=[backend.candidates[best] for best in chosen],
        dev_scores=dev_scores,
        predictions=predictions,
    )


def kfold(
    x: Float, y: Int, train: Int, test: Int, classes: int, protocol: Protocol, seed: int
) -> Classification:
    """Choose by cross-validation on the train rows, refit on all of them, score the test rows."""
    folds = StratifiedKFold(n_splits=protocol.kfold, shuffle=True, random_state=seed)
    backend = _backend(protocol, classes, seed, "kfold")
    cut = [(train[a], train[b]) for a, b in folds.split(train, y[train])]
    dev_scores = _means(backend.search(x, y, cut))
    best = int(np.argmax(dev_scores))
    predictions = backend.refit(x, y, [(train, test, best)])[0]
    return _single(backend, dev_scores, best, predictions, y[test])


def split(
    x: Float,
    y: Int,
    train: Int,
    dev: Int,
    test: Int,
    classes: int,
    protocol: Protocol,
    seed: int,
    *,
    nominal: bool = False,
) -> Classification:
    """Choose and stop on the development rows; ``nominal`` (SNLI) tries a single, tiny regulariser."""
    backend = _backend(protocol, classes, seed, "split", nominal=nominal)
    accuracy, predictions = backend.split(x, y, train, dev, test)
    dev_scores = [round(100 * float(a), 2) for a in accuracy[0]]
    best = int(np.argmax(dev_scores))
    return _single(backend, dev_scores, best, predictions[best], y[test])


def _single(
    backend: _Torch | _Sklearn, dev_scores: list[float], best: int, predictions: Int, gold: Int
) -> Classification:
    return Classification(
        devacc=dev_scores[best],
        acc=_percent(predictions == gold),
        regularisers=list(backend.candidates),
        chosen=[backend.candidates[best]],
        dev_scores=[dev_scores],
        predictions=predictions,
    )
