"""Accuracy, Pearson and Spearman correlation, cosine: fractions, not percentages."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]


def accuracy(predicted: NDArray[np.number], target: NDArray[np.number]) -> float:
    """Fraction of equal entries, [0, 1]."""
    return float(np.mean(np.asarray(predicted) == np.asarray(target)))


def pearson(x: NDArray[np.floating], y: NDArray[np.floating]) -> float:
    """Pearson correlation; 0 when either side is constant (as SentEval treats NaN)."""
    return _correlation(x, y, ranked=False)


def spearman(x: NDArray[np.floating], y: NDArray[np.floating]) -> float:
    """Spearman rank correlation; 0 when either side is constant."""
    return _correlation(x, y, ranked=True)


def _correlation(x: NDArray[np.floating], y: NDArray[np.floating], *, ranked: bool) -> float:
    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        value = (stats.spearmanr if ranked else stats.pearsonr)(x, y).statistic
    return 0.0 if np.isnan(value) else float(value)


def row_pearsons(predicted_RN: Scores, gold_RN: Scores) -> Scores:
    """Pearson row by row, of [R, N] resamples: [R]; 0 where a side is constant."""
    p = predicted_RN - predicted_RN.mean(1, keepdims=True)
    g = gold_RN - gold_RN.mean(1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        r: Scores = (p * g).sum(1) / np.sqrt((p**2).sum(1) * (g**2).sum(1))
    return np.nan_to_num(r)


def cosines(a_ND: NDArray[np.floating], b_ND: NDArray[np.floating]) -> Scores:
    """Cosine row by row, [N]; 0 where a vector is zero, NaN components count as 0 (as SentEval has it)."""
    a_ND, b_ND = np.nan_to_num(a_ND), np.nan_to_num(b_ND)
    with np.errstate(divide="ignore", invalid="ignore"):
        norms = np.linalg.norm(a_ND, axis=1) * np.linalg.norm(b_ND, axis=1)
        value = np.einsum("nd,nd->n", a_ND, b_ND) / norms
    result: Scores = np.nan_to_num(value).astype(np.float64)
    return result
