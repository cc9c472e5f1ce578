"""Compute accuracy, correlations and cosines, and fit the regression that scores SICK-R and STS-B.

The regression predicts a distribution over the scores 1..5 and takes its mean. It is a softmax layer on
[|u - v|, u ∗ v], trained with the mean squared error against the target distribution (Tai et al. 2015 as
SentEval runs it) and stopped early by Pearson's correlation on the development rows.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from senteval_runner.protocol.batched import Fit, fold_products, train_fits
from senteval_runner.protocol.config import Protocol
from senteval_runner.protocol.features import Float

CLASSES = 5
PROTOCOL = Protocol(name="relatedness", tenacity=3, epoch_size=50, max_epoch=1000)
Scores = NDArray[np.float64]


def accuracy(predictions: NDArray[np.number], targets: NDArray[np.number]) -> float:
    """Return the fraction of equal entries, in [0, 1]."""
    return float(np.mean(np.asarray(predictions) == np.asarray(targets)))


def pearson(x: NDArray[np.floating], y: NDArray[np.floating]) -> float:
    """Return Pearson's correlation, or 0 if either side is constant (as SentEval treats NaN)."""
    return _correlation(stats.pearsonr, x, y)


def spearman(x: NDArray[np.floating], y: NDArray[np.floating]) -> float:
    """Return Spearman's rank correlation, or 0 if either side is constant."""
    return _correlation(stats.spearmanr, x, y)


def _correlation(test: Callable[..., Any], x: NDArray[np.floating], y: NDArray[np.floating]) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        value = test(x, y).statistic
    return 0.0 if np.isnan(value) else float(value)


def average_precision(gold: NDArray[np.number], scores: Scores) -> float:
    """Return the area under precision by recall, in steps, [0, 1]; ``gold`` [n] is 1 or 0.

    Equal scores are one threshold; without a 1 in gold it is 0.
    """
    order = np.argsort(-scores, kind="stable")
    hits, is_last = np.cumsum(np.asarray(gold)[order]), np.append(np.diff(scores[order]) != 0, True)
    precision = (hits / np.arange(1, len(order) + 1))[is_last]
    return float(np.diff(hits[is_last], prepend=0) @ precision / max(hits[-1], 1))


def cosines(a_ND: NDArray[np.floating], b_ND: NDArray[np.floating]) -> Scores:
    """Return the cosines of rows, [N]; 0 where a vector is zero; NaN counts as 0 (as in SentEval)."""
    a_ND, b_ND = np.nan_to_num(a_ND), np.nan_to_num(b_ND)
    with np.errstate(divide="ignore", invalid="ignore"):
        norms = np.linalg.norm(a_ND, axis=1) * np.linalg.norm(b_ND, axis=1)
        value = np.einsum("nd,nd->n", a_ND, b_ND) / norms
    result: Scores = np.nan_to_num(value).astype(np.float64)
    return result


def target_distribution(scores: Scores) -> Float:
    """Return targets [n, 5] for scores y [n]: 1 − |y − class| for the two classes next to y, else 0.

    Scores below 1 (STS-B has them) lose the weight of class 0, as in the original.
    """
    distance_NK = np.abs(scores[:, None] - np.arange(1, CLASSES + 1))
    targets_NK: Float = np.maximum(0, 1 - distance_NK).astype(np.float32)
    return targets_NK


def _gradients(x_FBD: Tensor, target_FKB: Tensor, params: Sequence[Tensor]) -> list[Tensor]:
    """Differentiate L = mean((p-t)²): dL/dz = p ∘ (g - Σ g p) with g = 2 (p - t) / (5 B); dL/dW = dL/dz x."""
    w_FKD = params[0][:, 0]
    p_FKB = torch.softmax(fold_products(w_FKD, x_FBD.transpose(1, 2), w_FKD[0].numel()), dim=1)
    g_FKB = (p_FKB - target_FKB).mul_(2.0 / target_FKB[0].numel())
    g_FKB = p_FKB * (g_FKB - (g_FKB * p_FKB).sum(dim=1, keepdim=True))
    return [fold_products(g_FKB, x_FBD, w_FKD[0].numel())[:, None]]


def _expected_score(x_ND: Tensor, w_KD: Tensor) -> Scores:
    """Return ŷ = p · [1..5], [N]."""
    p_NK = torch.softmax(x_ND @ w_KD.t(), dim=1).numpy()
    scores: Scores = np.dot(p_NK, np.arange(1, CLASSES + 1))
    return scores


def relatedness(
    train: tuple[Float, Scores], dev: tuple[Float, Scores], test: tuple[Float, Scores], seed: int
) -> tuple[dict[str, float], Scores]:
    """Train the regression, stop it by the dev rows, score the test rows.

    Each part is a design matrix [n, d + 1] and scores [n]. Returns metrics (correlations in [-1, 1], the mean
    squared error on the scale 1..5), and a predicted score per test row.
    """
    x_train, y_train = torch.from_numpy(train[0]), train[1]
    x_dev, y_dev = torch.from_numpy(dev[0]), dev[1]
    x_test, y_test = torch.from_numpy(test[0]), test[1]

    def score(rows: Tensor, params: Sequence[Tensor]) -> Scores:
        return np.array([pearson(_expected_score(x_dev, params[0][0, 0]), y_dev)])

    fit = Fit(train=np.arange(len(x_train)), dev=np.arange(0), l2=(0.0,))
    targets = torch.from_numpy(target_distribution(y_train))
    [result] = train_fits(x_train, targets, [fit], _gradients, score, PROTOCOL, seed, keep_weights=True)
    predictions = _expected_score(x_test, result.weights[0][0])
    metrics = {
        "devpearson": result.score[0],
        "pearson": pearson(predictions, y_test),
        "spearman": spearman(predictions, y_test),
        "mse": float(np.mean((predictions - y_test) ** 2)),
    }
    return metrics, predictions
