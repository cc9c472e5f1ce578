"""Scores of predictions, in fractions: accuracy, Pearson and Spearman correlation."""

from __future__ import annotations

import warnings

import numpy as np


def accuracy(predicted: np.ndarray, target: np.ndarray) -> float:
    """Share of equal entries, [0, 1]."""
    return float(np.mean(np.asarray(predicted) == np.asarray(target)))


def pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson correlation; 0 when either side is constant (as SentEval treats NaN)."""
    return _correlation(x, y, ranked=False)


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Spearman rank correlation; 0 when either side is constant."""
    return _correlation(x, y, ranked=True)


def _correlation(x: np.ndarray, y: np.ndarray, *, ranked: bool) -> float:
    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        value = (stats.spearmanr if ranked else stats.pearsonr)(x, y).statistic
    return 0.0 if np.isnan(value) else float(value)


def cosines(a_ND: np.ndarray, b_ND: np.ndarray) -> np.ndarray:
    """Row-wise cosine [N]; 0 where a vector is zero."""
    norms = np.linalg.norm(a_ND, axis=1) * np.linalg.norm(b_ND, axis=1)
    dots = np.einsum("nd,nd->n", a_ND, b_ND)
    result: np.ndarray = np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0)
    return result
