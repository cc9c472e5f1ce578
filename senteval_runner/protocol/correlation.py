"""Accuracy, correlations and cosines, as fractions; and the regression that SICK-R and STS-B are scored by.

It predicts a distribution over the scores 1..5 and takes its mean: a softmax layer on [|u - v|, u ∗ v],
trained with the mean squared error against the target distribution (Tai et al. 2015 as SentEval runs it),
early-stopped on development Pearson.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from senteval_runner.protocol.batched import flat, fold_products, initial_head, update
from senteval_runner.protocol.features import Float

CLASSES = 5
BATCH = 64
EPOCHS_PER_ROUND = 50
MAX_EPOCH = 1000
FORGIVEN_ROUNDS = 3
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
    """Give targets [n, 5] of scores y [n]: with i = floor(y), y - i on class i + 1 and i + 1 - y on class i.

    Scores below 1 (STS-B has them) lose the weight of class 0, as in the original.
    """
    targets = np.zeros((len(scores), CLASSES), dtype=np.float32)
    floor = np.floor(scores).astype(int)
    for row, (i, y) in enumerate(zip(floor, scores, strict=True)):
        if 1 <= i <= CLASSES:
            targets[row, i - 1] = i + 1 - y
        if i + 1 <= CLASSES:
            targets[row, i] = y - i
    return targets


def _gradient(x_BD: Tensor, target_KB: Tensor, w_KD: Tensor) -> Tensor:
    """L = mean((p - t)²); dL/dz = p ∘ (g - Σ g p) with g = 2 (p - t) / (5 B); dL/dW = dL/dz x."""
    size = w_KD.numel()
    p_KB = torch.softmax(fold_products(w_KD[None], x_BD.t()[None], size)[0], dim=0)
    g_KB = (p_KB - target_KB).mul_(2.0 / target_KB.numel())
    g_KB = p_KB * (g_KB - (g_KB * p_KB).sum(dim=0))
    return fold_products(g_KB[None], x_BD[None], size)[0]


def _expected_score(x_ND: Tensor, w_KD: Tensor) -> Scores:
    """Compute ŷ = p · [1..5]."""
    p_NK = torch.softmax(x_ND @ w_KD.t(), dim=1).numpy()
    scores: Scores = np.dot(p_NK, np.arange(1, CLASSES + 1))
    return scores


def relatedness(
    train: tuple[Float, Scores], dev: tuple[Float, Scores], test: tuple[Float, Scores], seed: int
) -> tuple[dict[str, float], Scores]:
    """Train on (design matrix [n, d + 1], scores [n]), stop on dev Pearson, score the test rows.

    Returns:
        Correlations in [-1, 1] and the mean squared error on the 1..5 scale; a predicted score per test row.
    """
    x_ND, x_dev, x_test = (torch.from_numpy(part[0]) for part in (train, dev, test))
    targets_NK = torch.from_numpy(target_distribution(train[1]))
    stream = np.random.RandomState(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        w = initial_head(x_ND.shape[1] - 1, CLASSES)[0][None, None].contiguous()
    no_l2 = np.zeros(1, dtype=np.float32)
    flat_w = flat(w)
    state = [np.zeros_like(flat_w), np.zeros_like(flat_w)]
    best, best_w, misses, step = -1.0, w, 0, 0
    for _ in range(0, MAX_EPOCH + 1, EPOCHS_PER_ROUND):
        for _ in range(EPOCHS_PER_ROUND):
            order = torch.from_numpy(stream.permutation(len(x_ND)))
            for rows in order.split(BATCH):
                step += 1
                gradient = _gradient(
                    x_ND.index_select(0, rows), targets_NK.index_select(0, rows).t(), w[0, 0]
                )
                update("adam", flat_w, flat(gradient[None, None]), state, no_l2, step)
        score = pearson(_expected_score(x_dev, w[0, 0]), dev[1])
        if score > best:
            best, best_w = score, w.clone()
        elif misses >= FORGIVEN_ROUNDS:
            break
        else:
            misses += 1
    predictions = _expected_score(x_test, best_w[0, 0])
    metrics = {
        "devpearson": best,
        "pearson": pearson(predictions, test[1]),
        "spearman": spearman(predictions, test[1]),
        "mse": float(np.mean((predictions - test[1]) ** 2)),
    }
    return metrics, predictions
