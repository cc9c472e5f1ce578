"""STS12-16: cosine similarity of the two vectors against human scores; nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from senteval_runner.protocol.correlation import Scores, pearson, spearman


def summarise(predicted: Mapping[str, Scores], gold: Mapping[str, Scores]) -> dict[str, float]:
    """Pearson and Spearman per subset, and over subsets, of cosines [n] and human scores [n] by subset.

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
