"""Choose a regulariser and score a classifier, in SentEval's three ways.

``inner_kfold`` (MR, CR, SUBJ, MPQA) is nested cross-validation; ``kfold`` (TREC, MRPC) is cross-validation on
the train rows, then a test; ``split`` (SICK-E, SST, SNLI, probing) has a given development set. Accuracies
are percentages, rounded where the original rounds them, because the rounded means decide which regulariser
wins (the first of equals).

Everywhere ``x`` is a design matrix [n, d + 1] and ``y`` are class ids [n]; ``train``, ``dev`` and ``test``
are indices of rows.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from senteval_runner.protocol.batched import Fit, FitResult, gradients, logits, split_fit, train_fits
from senteval_runner.protocol.config import Protocol
from senteval_runner.protocol.features import Float, Int

TORCH_REGULARISERS = (1e-5, 1e-4, 1e-3, 1e-2)
SKLEARN_INVERSES = tuple(2.0**t for t in range(-2, 4))
SKLEARN_INVERSES_KFOLD = tuple(2.0**t for t in range(-1, 6))
BINARY_FOLD_SEED = 1111
"""Seed of the folds of ``inner_kfold``, whatever the run's seed is."""
NOMINAL_L2, NOMINAL_INVERSE = 1e-9, 1e9
"""The single, tiny regulariser of SNLI."""
Accuracies = NDArray[np.float64]
"""Development accuracies in [0, 1]: [folds, candidates]."""
Fold = tuple[Int, Int]
"""Rows to train on, and rows to test."""


@dataclass(frozen=True, kw_only=True)
class Classification:
    """Scores in percent, and what led to them, as in :class:`senteval_runner.protocol.config.TaskResult`."""

    acc: float
    """Test accuracy (mean over outer folds for ``inner_kfold``)."""
    regularisers: Sequence[float]
    dev_scores: list[list[float]]
    """Development accuracy per regulariser; one row per outer fold for ``inner_kfold``."""
    predictions: Int
    """Class id per test row (per row of the task for ``inner_kfold``)."""

    @property
    def devacc(self) -> float:
        """Development accuracy of the chosen regulariser (mean over outer folds for ``inner_kfold``)."""
        return float(round(np.mean([max(scores) for scores in self.dev_scores]), 2))

    @property
    def chosen(self) -> list[float]:
        """The regulariser that was chosen for each row of ``dev_scores``."""
        return [self.regularisers[int(np.argmax(scores))] for scores in self.dev_scores]


@dataclass(frozen=True)
class TorchBackend:
    """Trains early-stopped classifiers of one task, many in one batch."""

    x: Float
    y: Int
    classes: int
    protocol: Protocol
    seed: int
    candidates: Sequence[float]

    def train(self, fits: Sequence[Fit], *, keep: bool) -> list[FitResult]:
        """Train every fit, scored by accuracy on its development rows; ``keep`` keeps the best weights."""
        x_ND = torch.from_numpy(self.x)
        y_N = torch.as_tensor(np.asarray(self.y))

        def accuracy(rows: torch.Tensor, params: Sequence[torch.Tensor]) -> Accuracies:
            predictions_RB = logits(x_ND.index_select(0, rows)[None], params)[0].argmax(1)
            accuracies: Accuracies = (predictions_RB == y_N[rows]).sum(1).numpy() / len(rows)
            return accuracies

        onehot = torch.nn.functional.one_hot(y_N, self.classes).float()
        return train_fits(
            x_ND, onehot, fits, gradients, accuracy, self.protocol, self.seed, keep_weights=keep
        )

    def _predict(self, rows: Int, weights: list[torch.Tensor]) -> Int:
        scores = logits(torch.from_numpy(self.x[rows])[None], [w[None, None] for w in weights])
        predictions: Int = scores[0, 0].argmax(0).numpy()
        return predictions

    def search(self, folds: Sequence[Fold]) -> Accuracies:
        """Return the accuracy of each candidate on the test rows of each fold, which also stop it."""
        fits = [Fit(train=train, dev=test, l2=tuple(self.candidates)) for train, test in folds]
        return np.array([result.score for result in self.train(fits, keep=False)])

    def refit(self, folds: Sequence[Fold], candidates: Sequence[int]) -> list[Int]:
        """Return predictions of each fold's test rows by one candidate, trained on 95 % of the train rows."""
        fits = [
            split_fit(train, self.candidates[candidate], self.seed)
            for (train, _), candidate in zip(folds, candidates, strict=True)
        ]
        results = self.train(fits, keep=True)
        return [self._predict(test, r.weights[0]) for (_, test), r in zip(folds, results, strict=True)]

    def split(self, train: Int, dev: Int, test: Int) -> tuple[Accuracies, list[Int]]:
        """Return each candidate's accuracies on the dev rows and predictions of the test rows.

        The weights are those of the search, which a final fit would repeat.
        """
        [result] = self.train([Fit(train=train, dev=dev, l2=tuple(self.candidates))], keep=True)
        return np.array([result.score]), [self._predict(test, weights) for weights in result.weights]


@dataclass(frozen=True)
class SklearnBackend:
    """Trains scikit-learn's logistic regression as the original does, which stops it before convergence."""

    x: Float
    y: Int
    seed: int
    candidates: Sequence[float]

    def _fit(self, rows: Int, candidate: float) -> Any:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        # One BLAS thread: on these small products more threads only wait, and the last digits depend on them.
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=candidate, random_state=self.seed)
            return model.fit(self.x[rows, :-1], self.y[rows])

    def search(self, folds: Sequence[Fold]) -> Accuracies:
        """Return the accuracy of each candidate on the test rows of each fold."""
        return np.array([self.split(train, test, test)[0][0] for train, test in folds])

    def refit(self, folds: Sequence[Fold], candidates: Sequence[int]) -> list[Int]:
        """Return predictions of each fold's test rows by one candidate, trained on all its train rows."""
        pairs = zip(folds, candidates, strict=True)
        return [self._fit(a, self.candidates[best]).predict(self.x[b, :-1]) for (a, b), best in pairs]

    def split(self, train: Int, dev: Int, test: Int) -> tuple[Accuracies, list[Int]]:
        """Return each candidate's accuracies on the dev rows and predictions of the test rows."""
        models = [self._fit(train, candidate) for candidate in self.candidates]
        accuracy = np.array([[model.score(self.x[dev, :-1], self.y[dev]) for model in models]])
        return accuracy, [model.predict(self.x[test, :-1]) for model in models]


def _backend(
    x: Float,
    y: Int,
    classes: int,
    protocol: Protocol,
    seed: int,
    inverses: Sequence[float] = SKLEARN_INVERSES,
    l2: Sequence[float] = TORCH_REGULARISERS,
) -> TorchBackend | SklearnBackend:
    if protocol.backend == "sklearn":
        return SklearnBackend(x, y, seed, inverses)
    return TorchBackend(x, y, classes, protocol, seed, l2)


def stratified_folds(rows: Int, y: Int, count: int, seed: int) -> list[Fold]:
    """Divide rows into folds in which every class has its share: those of scikit-learn's StratifiedKFold.

    Rows of a class are dealt to folds as if classes lay one after the other, in the order in which they first
    occur, then shuffled; numpy's legacy generator starts from ``seed``.
    """
    _, first_places, sorted_codes = np.unique(y[rows], return_index=True, return_inverse=True)
    codes = np.argsort(np.argsort(first_places))[sorted_codes]
    in_order = np.sort(codes)
    sizes_KC = [np.bincount(in_order[fold::count], minlength=len(first_places)) for fold in range(count)]
    generator = np.random.RandomState(seed)
    fold_of_row = np.empty(len(rows), np.int64)
    for code, sizes_K in enumerate(np.transpose(sizes_KC)):
        folds = np.repeat(np.arange(count), sizes_K)
        generator.shuffle(folds)
        fold_of_row[codes == code] = folds
    return [(rows[fold_of_row != fold], rows[fold_of_row == fold]) for fold in range(count)]


def _percent(is_correct: NDArray[np.bool_]) -> float:
    return round(100 * (int(is_correct.sum()) / len(is_correct)), 2)


def _means(accuracy: Accuracies) -> list[float]:
    """Return each candidate's mean over folds, in percent and rounded, by which one is chosen."""
    return [float(round(100 * np.mean(column), 2)) for column in accuracy.T]


def inner_kfold(x: Float, y: Int, classes: int, protocol: Protocol, seed: int) -> Classification:
    """Cross-validate, nested: in each outer fold choose on inner folds, refit, and score the test rows."""
    rows = np.arange(len(y))
    outer_folds = stratified_folds(rows, y, protocol.kfold, BINARY_FOLD_SEED)
    inner_folds = [
        fold
        for train, _ in outer_folds
        for fold in stratified_folds(train, y, protocol.kfold, BINARY_FOLD_SEED)
    ]
    backend = _backend(x, y, classes, protocol, seed)
    accuracy = backend.search(inner_folds).reshape(protocol.kfold, protocol.kfold, -1)
    dev_scores = [_means(fold) for fold in accuracy]
    best_candidates = [int(np.argmax(scores)) for scores in dev_scores]
    predictions = np.empty(len(y), dtype=np.int64)
    fold_scores = []
    predictions_by_fold = backend.refit(outer_folds, best_candidates)
    for (_, test), test_predictions in zip(outer_folds, predictions_by_fold, strict=True):
        predictions[test] = test_predictions
        fold_scores.append(_percent(test_predictions == y[test]))
    acc = float(round(np.mean(fold_scores), 2))
    return Classification(
        acc=acc, regularisers=backend.candidates, dev_scores=dev_scores, predictions=predictions
    )


def kfold(
    x: Float, y: Int, train: Int, test: Int, classes: int, protocol: Protocol, seed: int
) -> Classification:
    """Choose by cross-validation on the train rows, refit on all of them, score the test rows."""
    backend = _backend(x, y, classes, protocol, seed, SKLEARN_INVERSES_KFOLD)
    dev_scores = _means(backend.search(stratified_folds(train, y, protocol.kfold, seed)))
    (predictions,) = backend.refit([(train, test)], [int(np.argmax(dev_scores))])
    acc = _percent(predictions == y[test])
    return Classification(
        acc=acc, regularisers=backend.candidates, dev_scores=[dev_scores], predictions=predictions
    )


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
    """Choose and stop by the development rows; ``nominal`` (SNLI) allows a single, tiny regulariser."""
    candidates: tuple[Sequence[float], ...] = ([NOMINAL_INVERSE], [NOMINAL_L2]) if nominal else ()
    backend = _backend(x, y, classes, protocol, seed, *candidates)
    accuracy, predictions_of_candidates = backend.split(train, dev, test)
    dev_scores = [round(100 * float(a), 2) for a in accuracy[0]]
    predictions = predictions_of_candidates[int(np.argmax(dev_scores))]
    acc = _percent(predictions == y[test])
    return Classification(
        acc=acc, regularisers=backend.candidates, dev_scores=[dev_scores], predictions=predictions
    )
