"""Compute correlations and cosines, and fit the regression that scores SICK-R and STS-B.

The regression is a softmax layer on [|u - v|, u ∗ v] that predicts a distribution over the scores 1 to 5; the
predicted score is the mean of the distribution (Tai et al. 2015, section 4.2). As in SentEval it is trained
with the mean squared error against a target distribution, and stopped early by Pearson's correlation on the
development rows.

Legend of dimension suffixes: N pairs, K classes (the scores 1 to 5), F folds (one), B pairs of a batch, D
columns of the design matrix.
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
    """Return the average precision in [0, 1] of ranking items by ``scores`` [n]; ``gold`` [n] is 1 or 0.

    It is the mean over the relevant items (gold 1) of the precision at the item's score, and 0 if there is no
    relevant item. Items with equal scores are ranked as one.
    """
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(np.asarray(gold)[order])
    precision = hits / np.arange(1, len(order) + 1)
    is_last_of_score = np.append(np.diff(scores[order]) != 0, True)
    new_hits = np.diff(hits[is_last_of_score], prepend=0)
    return float(new_hits @ precision[is_last_of_score] / max(hits[-1], 1))


def cosines(a_ND: NDArray[np.floating], b_ND: NDArray[np.floating]) -> Scores:
    """Return the cosine of each row of ``a_ND`` with the same row of ``b_ND``, [N]; 0 where a row is zero.

    A NaN in a row counts as 0, as in SentEval.
    """
    a_ND, b_ND = _in_range(np.nan_to_num(a_ND)), _in_range(np.nan_to_num(b_ND))
    with np.errstate(divide="ignore", invalid="ignore"):
        norms = np.linalg.norm(a_ND, axis=1) * np.linalg.norm(b_ND, axis=1)
        value = np.einsum("nd,nd->n", a_ND, b_ND) / norms
    result: Scores = np.nan_to_num(value).astype(np.float64)
    return result


def _in_range(rows_ND: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the rows divided by powers of two, so that no square is too large; cosines keep their bits."""
    _, exponent_N1 = np.frexp(np.abs(rows_ND).max(axis=1, keepdims=True, initial=0))
    rows: NDArray[np.floating] = np.ldexp(rows_ND, -exponent_N1)
    return rows


def target_distribution(scores: Scores) -> Float:
    """Return the target distribution [N, 5] of each score y: max(0, 1 − |y − class|) for the classes 1 to 5.

    The distribution of a score below 1 (STS-B has them) does not add up to 1, as in the original toolkit.
    """
    distance_NK = np.abs(scores[:, None] - np.arange(1, CLASSES + 1))
    targets_NK: Float = np.maximum(0, 1 - distance_NK).astype(np.float32)
    return targets_NK


def _gradients(x_FBD: Tensor, target_FKB: Tensor, params: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradient of L = mean((p - t)²) with respect to the weights W, where p = softmax(W x).

    With g = 2 (p - t) / (5 B): dL/dz = p ∘ (g - Σ g p); dL/dW = dL/dz x.
    """
    w_FKD = params[0][:, 0]
    p_FKB = torch.softmax(fold_products(w_FKD, x_FBD.transpose(1, 2), w_FKD[0].numel()), dim=1)
    g_FKB = (p_FKB - target_FKB).mul_(2.0 / target_FKB[0].numel())
    g_FKB = p_FKB * (g_FKB - (g_FKB * p_FKB).sum(dim=1, keepdim=True))
    return [fold_products(g_FKB, x_FBD, w_FKD[0].numel())[:, None]]


def _expected_score(x_ND: Tensor, w_KD: Tensor) -> Scores:
    """Return the predicted scores ŷ = p · [1, 2, 3, 4, 5], [N], where p = softmax(W x)."""
    p_NK = torch.softmax(x_ND @ w_KD.t(), dim=1).numpy()
    scores: Scores = np.dot(p_NK, np.arange(1, CLASSES + 1))
    return scores


def relatedness(
    train: tuple[Float, Scores], dev: tuple[Float, Scores], test: tuple[Float, Scores], seed: int
) -> tuple[dict[str, float], Scores]:
    """Train the regression, stop it by the dev rows, and return its metrics and predictions of the test rows.

    Each of ``train``, ``dev`` and ``test`` is a design matrix [n, d + 1] and scores [n]. Among the metrics
    correlations are in [-1, 1], and the mean squared error is on the scale 1 to 5.
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
