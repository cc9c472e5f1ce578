"""Choose a regulariser and score a classifier, in SentEval's three ways.

``inner_kfold`` (MR CR SUBJ MPQA): nested cross-validation; ``kfold`` (TREC MRPC): cross-validation on train,
then test; ``split`` (SICK-E, SST, SNLI, probing): a given development set. Accuracies are percentages
rounded where the original rounds them: the rounded means decide which regulariser wins (ties to the first).

Everywhere ``x`` is a design matrix [n, d + 1] and ``y`` are class ids [n]; ``train``, ``dev`` and ``test``
are indices of rows.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from senteval_runner.protocol.batched import Fit, Fitted, gradients, logits, split_fit, train_fits
from senteval_runner.protocol.config import Protocol
from senteval_runner.protocol.features import Float, Int

TORCH_REGULARISERS = (1e-5, 1e-4, 1e-3, 1e-2)
SKLEARN_INVERSES = tuple(2.0**t for t in range(-2, 4))
SKLEARN_INVERSES_KFOLD = tuple(2.0**t for t in range(-1, 6))
BINARY_FOLD_SEED = 1111
"""InnerKFold draws its folds with this seed whatever the run's seed is."""
NOMINAL_L2, NOMINAL_INVERSE = 1e-9, 1e9
"""What SNLI is trained with: a single, tiny regulariser."""
Accuracies = NDArray[np.float64]
"""Development accuracy in [0, 1]: [folds, candidates]."""


@dataclass(frozen=True, kw_only=True)
class Classification:
    """Scores in percent, and what led to them, as in :class:`senteval_runner.protocol.config.TaskResult`."""

    devacc: float
    """Development accuracy of the chosen regulariser (mean over outer folds for ``inner_kfold``)."""
    acc: float
    """Test accuracy (mean over outer folds for ``inner_kfold``)."""
    regularisers: list[float]
    chosen: list[float]
    dev_scores: list[list[float]]
    predictions: Int
    """Class id per test row (per row of the task for ``inner_kfold``)."""


@dataclass(frozen=True)
class Torch:
    """Trains early-stopped classifiers of one task, many in one batch."""

    x: Float
    y: Int
    classes: int
    protocol: Protocol
    seed: int
    candidates: Sequence[float]

    def train(self, fits: Sequence[Fit], *, keep: bool) -> list[Fitted]:
        """Train every fit, with the accuracy on its development rows as score; ``keep`` its best weights."""
        x_ND, y_N = torch.from_numpy(self.x), torch.as_tensor(np.asarray(self.y))

        def accuracy(rows: torch.Tensor, params: Sequence[torch.Tensor]) -> Accuracies:
            chosen_RB = logits(x_ND.index_select(0, rows)[None], params)[0].argmax(1)
            correct: Accuracies = (chosen_RB == y_N[rows]).sum(1).numpy() / len(rows)
            return correct

        onehot = torch.nn.functional.one_hot(y_N, self.classes).float()
        return train_fits(
            x_ND, onehot, fits, gradients, accuracy, self.protocol, self.seed, keep_weights=keep
        )

    def _predict(self, rows: Int, weights: list[torch.Tensor]) -> Int:
        scores = logits(torch.from_numpy(self.x[rows])[None], [w[None, None] for w in weights])
        predicted: Int = scores[0, 0].argmax(0).numpy()
        return predicted

    def search(self, folds: Sequence[tuple[Int, Int]]) -> Accuracies:
        """Train on the first rows of each fold, measure on the second."""
        fits = [Fit(train=train, dev=dev, l2=tuple(self.candidates)) for train, dev in folds]
        return np.array([fitted.score for fitted in self.train(fits, keep=False)])

    def refit(self, jobs: Sequence[tuple[Int, Int, int]]) -> list[Int]:
        """Predict ``test`` after training on ``train`` less 5 %, per (train, test, candidate)."""
        fits = [split_fit(train, self.candidates[chosen], self.seed) for train, _, chosen in jobs]
        pairs = zip(jobs, self.train(fits, keep=True), strict=True)
        return [self._predict(test, fitted.weights[0]) for (_, test, _), fitted in pairs]

    def split(self, train: Int, dev: Int, test: Int) -> tuple[Accuracies, list[Int]]:
        """Search on a given development set. A final fit would repeat the search, so its weights are used."""
        [fitted] = self.train([Fit(train=train, dev=dev, l2=tuple(self.candidates))], keep=True)
        return np.array([fitted.score]), [self._predict(test, weights) for weights in fitted.weights]


@dataclass(frozen=True)
class _Sklearn:
    """scikit-learn's logistic regression, called as the original calls it: it stops before convergence."""

    x: Float
    y: Int
    seed: int
    candidates: Sequence[float]

    def _fit(self, rows: Int, candidate: float) -> LogisticRegression:
        # One BLAS thread: on these small products more only spin, and the last digits depend on them.
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=candidate, random_state=self.seed)
            return model.fit(self.x[rows, :-1], self.y[rows])

    def search(self, folds: Sequence[tuple[Int, Int]]) -> Accuracies:
        """Train on the first rows of each fold, measure on the second."""
        return np.array([self.split(train, dev, dev)[0][0] for train, dev in folds])

    def refit(self, jobs: Sequence[tuple[Int, Int, int]]) -> list[Int]:
        """Predict ``test`` after training on all of ``train``, per (train, test, candidate)."""
        return [self._fit(a, self.candidates[best]).predict(self.x[b, :-1]) for a, b, best in jobs]

    def split(self, train: Int, dev: Int, test: Int) -> tuple[Accuracies, list[Int]]:
        """Search on a given development set, and predict with each candidate."""
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
) -> Torch | _Sklearn:
    if protocol.backend == "sklearn":
        return _Sklearn(x, y, seed, inverses)
    return Torch(x, y, classes, protocol, seed, l2)


def _percent(correct: NDArray[np.bool_]) -> float:
    return round(100 * (int(correct.sum()) / len(correct)), 2)


def _means(accuracy: Accuracies) -> list[float]:
    """Return the mean over folds, in percent and rounded: the candidate is chosen by it."""
    return [float(round(100 * np.mean(column), 2)) for column in accuracy.T]


def inner_kfold(x: Float, y: Int, classes: int, protocol: Protocol, seed: int) -> Classification:
    """Cross-validate, nested: per outer fold choose on inner folds, refit, score its test rows."""
    folds = StratifiedKFold(n_splits=protocol.kfold, shuffle=True, random_state=BINARY_FOLD_SEED)
    outer = list(folds.split(x, y))
    inner = [(train[a], train[b]) for train, _ in outer for a, b in folds.split(train, y[train])]
    backend = _backend(x, y, classes, protocol, seed)
    accuracy = backend.search(inner).reshape(protocol.kfold, protocol.kfold, -1)
    dev_scores = [_means(fold) for fold in accuracy]
    chosen = [int(np.argmax(scores)) for scores in dev_scores]
    jobs = [(train, test, best) for (train, test), best in zip(outer, chosen, strict=True)]
    predictions = np.empty(len(y), dtype=np.int64)
    per_fold = []
    for (_, test), predicted in zip(outer, backend.refit(jobs), strict=True):
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
    backend = _backend(x, y, classes, protocol, seed, SKLEARN_INVERSES_KFOLD)
    cut = [(train[a], train[b]) for a, b in folds.split(train, y[train])]
    dev_scores = _means(backend.search(cut))
    best = int(np.argmax(dev_scores))
    (predictions,) = backend.refit([(train, test, best)])
    return _single(backend.candidates, dev_scores, best, predictions, y[test])


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
    tried: tuple[Sequence[float], ...] = ([NOMINAL_INVERSE], [NOMINAL_L2]) if nominal else ()
    backend = _backend(x, y, classes, protocol, seed, *tried)
    accuracy, predictions = backend.split(train, dev, test)
    dev_scores = [round(100 * float(a), 2) for a in accuracy[0]]
    best = int(np.argmax(dev_scores))
    return _single(backend.candidates, dev_scores, best, predictions[best], y[test])


def _single(
    candidates: Sequence[float], dev_scores: list[float], best: int, predictions: Int, gold: Int
) -> Classification:
    return Classification(
        devacc=dev_scores[best],
        acc=_percent(predictions == gold),
        regularisers=list(candidates),
        chosen=[candidates[best]],
        dev_scores=[dev_scores],
        predictions=predictions,
    )
