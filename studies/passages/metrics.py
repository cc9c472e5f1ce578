"""MRR, MAP, precision, recall and success at 1, 5 and 10 of ranked candidates.

Ties count against a scorer: a relevant candidate ranks behind irrelevant ones with its score, so a scorer
that gives every candidate one score ranks the relevant ones last. Precision divides by k even with fewer than
k candidates; recall and average precision divide by all relevant passages, missed ones included; success is 1
if any of them is among the first k. Questions without a relevant passage score 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.sets import Question

DEPTHS = (1, 5, 10)
METRICS = ("mrr", "map", *(f"{name}@{k}" for name in "prs" for k in DEPTHS))
Scores = Sequence[NDArray[np.floating]]
"""One array per question, one score per candidate; higher is better."""


def ranked(scores_K: NDArray[np.floating], relevant_K: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Candidates best first, [K]; among equal scores irrelevant ones first, then in the file's order."""
    order: NDArray[np.int64] = np.lexsort((np.arange(len(scores_K)), relevant_K, -scores_K))
    return order


def measure(questions: Sequence[Question], scores: Scores) -> dict[str, NDArray[np.float64]]:
    """Every metric of :data:`METRICS` per question, [Q], as fractions."""
    rows = []
    for question, scores_K in zip(questions, scores, strict=True):
        assert len(scores_K) == len(question.candidates)
        right_K = question.relevant[ranked(np.asarray(scores_K), question.relevant)]
        places = np.flatnonzero(right_K) + 1
        total = max(1, len(places) + question.missed)
        found = [int(right_K[:k].sum()) for k in DEPTHS]
        rows.append(
            [
                1 / places[0] if len(places) else 0.0,
                float((np.arange(1, len(places) + 1) / places).sum()) / total,
                *(n / k for n, k in zip(found, DEPTHS, strict=True)),
                *(n / total for n in found),
                *(float(n > 0) for n in found),
            ]
        )
    return dict(zip(METRICS, np.array(rows, dtype=np.float64).T, strict=True))


def mean(values: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    """Means over questions."""
    return {name: float(per_question.mean()) for name, per_question in values.items()}
