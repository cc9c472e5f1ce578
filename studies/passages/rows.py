"""Summarise the cells of one set and method as a row of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from corpora.ranking.questions import PassageSet
from senteval_runner.report.significance import bootstrap
from senteval_runner.report.table import mean_and_deviation
from studies.passages.methods import Method, Outcome
from studies.passages.metrics import METRICS

Row = dict[str, Any]


def summarise(data: PassageSet, method: Method, outcomes: Sequence[Outcome]) -> Row:
    """Means and deviations over seeds, 95 % intervals over questions (of each question's mean over seeds).

    Args:
        data: the set.
        method: the method.
        outcomes: one per seed.
    """
    metrics = {}
    for name in METRICS:
        values_SQ = np.array([found["test"][name] for found in outcomes])
        mean, deviation = mean_and_deviation(values_SQ.mean(axis=1).tolist())
        interval = asdict(bootstrap(values_SQ.mean(axis=0), np.arange(values_SQ.shape[1])))
        metrics[name] = {**interval, "mean": mean, "sd": deviation}
    return {
        "set": data.name,
        "model": method.model,
        "feature": method.feature,
        "scorer": method.scorer,
        "seeds": len(outcomes),
        "metrics": metrics,
        "dev": [found["dev"] for found in outcomes],
        "tied": float(np.mean([found["tied"] for found in outcomes])),
        "seconds": float(np.mean([found["seconds"] for found in outcomes])),
        "info": [found["info"] for found in outcomes],
    }
