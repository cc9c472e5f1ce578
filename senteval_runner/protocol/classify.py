"""Choose the regulariser of a classifier and score the classifier, in SentEval's three ways.

``inner_kfold`` (MR, CR, SUBJ, MPQA) is nested cross-validation. ``kfold`` (TREC, MRPC) chooses by
cross-validation on the train rows and scores the test rows. ``fixed_split`` (SICK-E, SST, SNLI, probing)
chooses on a given development set. Accuracies are percentages. They are rounded where the original toolkit
rounds them, because the regulariser with the highest rounded mean is chosen, the first one if several are
equal.

In all functions ``x`` is a design matrix [n, d + 1] and ``y`` are class ids [n]; ``train``, ``dev`` and
``test`` are indices of rows.
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
"""Seed of the folds of ``inner_kfold``; the original toolkit uses it for every seed of a run."""
NOMINAL_L2, NOMINAL_INVERSE = 1e-9, 1e9
"""The only regulariser of SNLI, so weak that it has no effect, as L2 weight and as scikit-learn's C."""
Accuracies = NDArray[np.float64]
"""Development accuracies in [0, 1]: [folds, candidates]."""
Fold = tuple[Int, Int]
"""Rows to train on, and rows to test."""


@dataclass(frozen=True, kw_only=True)
class Classification:
    """The scores of one task in percent, and the choice of its regulariser.

    The fields have the meaning of those of :class:`senteval_runner.protocol.config.TaskResult`.
    """

    acc: float
    """Test accuracy (for ``inner_kfold`` its mean over outer folds)."""
    regularisers: Sequence[float]
    dev_scores: list[list[float]]
    """Development accuracy by regulariser (for ``inner_kfold`` one row per outer fold)."""
    predictions: Int
    """Predicted class id of each test row (for ``inner_kfold`` of each row of the task)."""

    @property
    def devacc(self) -> float:
        """Development accuracy of the chosen regulariser (for ``inner_kfold`` its mean over outer folds)."""
        return float(round(np.mean([max(scores) for scores in self.dev_scores]), 2))

    @property
    def chosen(self) -> list[float]:
        """The regulariser that was chosen for each row of ``dev_scores``."""
        return [self.regularisers[int(np.argmax(scores))] for scores in self.dev_scores]


@dataclass(frozen=True)
class TorchBackend:
    """Trains the classifiers of one task in torch with early stopping, many at once."""

    x: Float
    y: Int
    classes: int
    protocol: Protocol
    seed: int
    candidates: Sequence[float]
    """The L2 weights to choose from."""

    def train(self, fits: Sequence[Fit], *, keep: bool) -> list[FitResult]:
        """Train every fit, scored by its accuracy on development rows; ``keep`` keeps the best weights."""
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
        """Return the classes of rows by one classifier with the weights [k, in] of each layer."""
        one_fold = torch.from_numpy(self.x[rows])[None]
        scores = logits(one_fold, [weight[None, None] for weight in weights])
        predictions: Int = scores[0, 0].argmax(0).numpy()
        return predictions

    def search(self, folds: Sequence[Fold]) -> Accuracies:
        """Return the accuracy of each candidate on the test rows of each fold, [folds, candidates].

        As in the original toolkit the same test rows decide when training stops.
        """
        fits = [Fit(train=train, dev=test, l2=tuple(self.candidates)) for train, test in folds]
        return np.array([result.score for result in self.train(fits, keep=False)])

    def refit(self, folds: Sequence[Fold], candidates: Sequence[int]) -> list[Int]:
        """Train the chosen candidate of each fold, and return its predictions of the fold's test rows.

        ``candidates`` has an index per fold. 95 % of the train rows are trained on; 5 % decide when to stop.
        """
        fits = [
            split_fit(train, self.candidates[candidate], self.seed)
            for (train, _), candidate in zip(folds, candidates, strict=True)
        ]
        results = self.train(fits, keep=True)
        return [
            self._predict(test, result.weights[0]) for (_, test), result in zip(folds, results, strict=True)
        ]

    def search_and_predict(self, train: Int, dev: Int, test: Int) -> tuple[Accuracies, list[Int]]:
        """Return the accuracy of each candidate on the dev rows, [1, candidates], and its test predictions.

        The search keeps its weights, because training the chosen candidate again would give the same ones.
        """
        [result] = self.train([Fit(train=train, dev=dev, l2=tuple(self.candidates))], keep=True)
        return np.array([result.score]), [self._predict(test, weights) for weights in result.weights]


@dataclass(frozen=True)
class SklearnBackend:
    """Trains scikit-learn's logistic regression, which stops at the default limit, before convergence."""

    x: Float
    y: Int
    seed: int
    candidates: Sequence[float]
    """The values of C, the inverse of the L2 weight, to choose from."""

    def _fit(self, rows: Int, candidate: float) -> Any:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        # One BLAS thread: on these small products more threads only wait, and the last digits depend on them.
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=candidate, random_state=self.seed)
            return model.fit(self.x[rows, :-1], self.y[rows])

    def search(self, folds: Sequence[Fold]) -> Accuracies:
        """Return the accuracy of each candidate on the test rows of each fold, [folds, candidates]."""
        return np.concatenate([self.search_and_predict(train, test, test)[0] for train, test in folds])

    def refit(self, folds: Sequence[Fold], candidates: Sequence[int]) -> list[Int]:
        """Train the chosen candidate of each fold, and return its predictions of the fold's test rows.

        ``candidates`` has an index per fold. All train rows of the fold are trained on.
        """
        predictions = []
        for (train, test), candidate in zip(folds, candidates, strict=True):
            model = self._fit(train, self.candidates[candidate])
            predictions.append(model.predict(self.x[test, :-1]))
        return predictions

    def search_and_predict(self, train: Int, dev: Int, test: Int) -> tuple[Accuracies, list[Int]]:
        """Return the accuracy of each candidate on the dev rows, [1, candidates], and test predictions."""
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
    """Return the protocol's backend; its candidates are ``inverses`` for scikit-learn, ``l2`` for torch."""
    if protocol.backend == "sklearn":
        return SklearnBackend(x, y, seed, inverses)
    return TorchBackend(x, y, classes, protocol, seed, l2)


def stratified_folds(rows: Int, y: Int, count: int, seed: int) -> list[Fold]:
    """Divide rows into folds with equal shares of every class: the folds of scikit-learn's StratifiedKFold.

    The rows, sorted by class in the order in which classes first occur, are dealt to the folds in turn; this
    gives the number of rows of each class in each fold. Then it is shuffled which rows of a class go to which
    fold. K are folds, C classes.

    Args:
        rows: the indices of the rows to divide.
        y: the class of every row of the task.
        count: the number of folds.
        seed: the seed of numpy's legacy generator.
    """
    _, first_rows, class_of_row = np.unique(y[rows], return_index=True, return_inverse=True)
    rank_of_class = np.argsort(np.argsort(first_rows))
    ranks = rank_of_class[class_of_row]
    sorted_ranks = np.sort(ranks)
    sizes_KC = [np.bincount(sorted_ranks[fold::count], minlength=len(first_rows)) for fold in range(count)]
    generator = np.random.RandomState(seed)
    fold_of_row = np.empty(len(rows), np.int64)
    for rank, sizes_K in enumerate(np.transpose(sizes_KC)):
        folds = np.repeat(np.arange(count), sizes_K)
        generator.shuffle(folds)
        fold_of_row[ranks == rank] = folds
    return [(rows[fold_of_row != fold], rows[fold_of_row == fold]) for fold in range(count)]


def _percent(is_correct: NDArray[np.bool_]) -> float:
    """Return the percentage of true entries, rounded to two decimals."""
    return round(100 * (int(is_correct.sum()) / len(is_correct)), 2)


def _means(accuracy: Accuracies) -> list[float]:
    """Return the mean accuracy of each candidate over folds, in percent and rounded to two decimals."""
    return [float(round(100 * np.mean(column), 2)) for column in accuracy.T]


def inner_kfold(x: Float, y: Int, classes: int, protocol: Protocol, seed: int) -> Classification:
    """Score by nested cross-validation.

    In each outer fold a regulariser is chosen by cross-validation on the train rows (the inner folds). Then a
    classifier with this regulariser is trained on the train rows, and the test rows are scored.

    Args:
        x: the features of all rows, [n, D].
        y: their classes, [n], from 0.
        classes: the number of classes.
        protocol: how classifiers are trained.
        seed: the seed of the classifiers.
    """
    rows = np.arange(len(y))
    outer_folds = stratified_folds(rows, y, protocol.kfold, BINARY_FOLD_SEED)
    inner_folds: list[Fold] = []
    for train, _ in outer_folds:
        inner_folds += stratified_folds(train, y, protocol.kfold, BINARY_FOLD_SEED)
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
    """Choose a regulariser by cross-validation on the train rows, train with it, and score the test rows.

    The arguments are those of :func:`inner_kfold`, and the indices of the rows of each part.
    """
    backend = _backend(x, y, classes, protocol, seed, SKLEARN_INVERSES_KFOLD)
    dev_scores = _means(backend.search(stratified_folds(train, y, protocol.kfold, seed)))
    [predictions] = backend.refit([(train, test)], [int(np.argmax(dev_scores))])
    acc = _percent(predictions == y[test])
    return Classification(
        acc=acc, regularisers=backend.candidates, dev_scores=[dev_scores], predictions=predictions
    )


def fixed_split(
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
    """Choose a regulariser on the development rows, which also stop the training, and score the test rows.

    The arguments are those of :func:`inner_kfold`, and the indices of the rows of each part. With ``nominal``
    (SNLI) there is one regulariser, which is too weak to have an effect.
    """
    if nominal:
        backend = _backend(x, y, classes, protocol, seed, [NOMINAL_INVERSE], [NOMINAL_L2])
    else:
        backend = _backend(x, y, classes, protocol, seed)
    accuracy, predictions_of_candidates = backend.search_and_predict(train, dev, test)
    dev_scores = [round(100 * float(value), 2) for value in accuracy[0]]
    predictions = predictions_of_candidates[int(np.argmax(dev_scores))]
    acc = _percent(predictions == y[test])
    return Classification(
        acc=acc, regularisers=backend.candidates, dev_scores=[dev_scores], predictions=predictions
    )
