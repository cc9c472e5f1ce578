"""STS12-16: cosine similarity of the two vectors against human scores; nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from senteval_runner.protocol.correlation import pearson, spearman
from senteval_runner.protocol.features import Float

Scores = NDArray[np.float64]


def cosine(u: Float, v: Float) -> Scores:
    """u·v / (‖u‖ ‖v‖) row by row; 0 where a vector is zero, NaN components count as 0: [n]."""
    u, v = np.nan_to_num(u), np.nan_to_num(v)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.einsum("nd,nd->n", u, v) / (np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1))
    result: Scores = np.nan_to_num(value).astype(np.float64)
    return result


def summarise(predicted: Mapping[str, Scores], gold: Mapping[str, Scores]) -> dict[str, float]:
    """Pearson and Spearman per subset, and over subsets.

    ``all.*.mean`` and ``all.*.wmean`` are the original's mean and size-weighted mean over subsets;
    ``concatenated.*`` is one coefficient over all pairs together, as other papers report. The two are not
    comparable.
    """
    metrics: dict[str, float] = {}
    sizes = [len(gold[name]) for name in gold]
    for kind, correlation in (("pearson", pearson), ("spearman", spearman)):
        values = [correlation(predicted[name], gold[name]) for name in gold]
        metrics |= {f"{name}.{kind}": value for name, value in zip(gold, values, strict=True)}
        metrics[f"all.{kind}.mean"] = float(np.mean(values))
        metrics[f"all.{kind}.wmean"] = float(np.average(values, weights=sizes))
        metrics[f"concatenated.{kind}"] = correlation(
            np.concatenate([predicted[n] for n in gold]), np.concatenate([gold[n] for n in gold])
        )
    return metrics
