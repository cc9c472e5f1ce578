"""Compute accuracy, correlations and cosines, and fit the regression that scores SICK-R and STS-B.

It predicts a distribution over the scores 1..5 and takes its mean: a softmax layer on [|u - v|, u ∗ v],
trained with the mean squared error against the target distribution (Tai et al. 2015 as SentEval runs it),
early-stopped on development Pearson.
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


def accuracy(predicted: NDArray[np.number], target: NDArray[np.number]) -> float:
    """Return the fraction of equal entries, [0, 1]."""
    return float(np.mean(np.asarray(predicted) == np.asarray(target)))


def pearson(x: NDArray[np.floating], y: NDArray[np.floating]) -> float:
    """Return the Pearson correlation; 0 when either side is constant (as SentEval treats NaN)."""
    return _correlation(stats.pearsonr, x, y)


def spearman(x: NDArray[np.floating], y: NDArray[np.floating]) -> float:
    """Return the Spearman rank correlation; 0 when either side is constant."""
    return _correlation(stats.spearmanr, x, y)


def _correlation(of: Callable[..., Any], x: NDArray[np.floating], y: NDArray[np.floating]) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        value = of(x, y).statistic
    return 0.0 if np.isnan(value) else float(value)


def cosines(a_ND: NDArray[np.floating], b_ND: NDArray[np.floating]) -> Scores:
    """Compare rows by cosine, [N]; 0 where a vector is zero, NaN counts as 0 (as SentEval has it)."""
    a_ND, b_ND = np.nan_to_num(a_ND), np.nan_to_num(b_ND)
    with np.errstate(divide="ignore", invalid="ignore"):
        norms = np.linalg.norm(a_ND, axis=1) * np.linalg.norm(b_ND, axis=1)
        value = np.einsum("nd,nd->n", a_ND, b_ND) / norms
    result: Scores = np.nan_to_num(value).astype(np.float64)
    return result


def target_distribution(scores: Scores) -> Float:
    """Give targets [n, 5] of scores y [n]: 1 − |y − class| on the two classes next to y, 0 on the others.

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
    """Compute ŷ = p · [1..5]."""
    p_NK = torch.softmax(x_ND @ w_KD.t(), dim=1).numpy()
    scores: Scores = np.dot(p_NK, np.arange(1, CLASSES + 1))
    return scores


def relatedness(
    train: tuple[Float, Scores], dev: tuple[Float, Scores], test: tuple[Float, Scores], seed: int
) -> tuple[dict[str, float], Scores]:
    """Train on (design matrix [n, d + 1], scores [n]), stop on dev Pearson, score the test rows.

    Returns correlations in [-1, 1] and the mean squared error on the 1..5 scale; a predicted score per test
    row.
    """
    x_ND, x_dev, x_test = (torch.from_numpy(part[0]) for part in (train, dev, test))

    def score(rows: Tensor, params: Sequence[Tensor]) -> Scores:
        return np.array([pearson(_expected_score(x_dev, params[0][0, 0]), dev[1])])

    fit = Fit(train=np.arange(len(x_ND)), dev=np.arange(0), l2=(0.0,))
    targets = torch.from_numpy(target_distribution(train[1]))
    [fitted] = train_fits(x_ND, targets, [fit], _gradients, score, PROTOCOL, seed, keep_weights=True)
    predictions = _expected_score(x_test, fitted.weights[0][0])
    metrics = {
        "devpearson": fitted.score[0],
        "pearson": pearson(predictions, test[1]),
        "spearman": spearman(predictions, test[1]),
        "mse": float(np.mean((predictions - test[1]) ** 2)),
    }
    return metrics, predictions
