"""MRR, MAP, precision, recall and success at 1, 5 and 10 of ranked candidates, by ir-measures.

Ties count against a scorer: a relevant candidate ranks behind irrelevant ones with its score, so a scorer
that gives every candidate one score ranks the relevant ones last. (The library needs distinct scores, because
it orders equal ones by name.) Precision divides by k even with fewer than k candidates; recall and average
precision divide by all relevant passages, missed ones included; success is 1 if any of them is among the
first k. Questions without a relevant passage score 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.questions import Question, metrics_library

METRICS = ("mrr", "map", "p@1", "p@5", "p@10", "r@1", "r@5", "r@10", "s@1", "s@5", "s@10")
DEEPEST = 10
TIE = 1e-6
"""Scores that differ by at most this count as tied."""
Scores = Sequence[NDArray[np.floating]]
"""One array per question, one score per candidate; higher is better."""


def _measures(library: Any) -> Mapping[str, Any]:
    at = {"p": library.P, "r": library.R, "s": library.Success}
    cut = {name: at[name[0]] @ int(name[2:]) for name in METRICS if "@" in name}
    return {"mrr": library.RR, "map": library.AP, **cut}


def ranked(scores_K: NDArray[np.floating], relevant_K: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Candidates best first, [K]; among equal scores irrelevant ones first, then in the file's order."""
    order: NDArray[np.int64] = np.lexsort((np.arange(len(scores_K)), relevant_K, -scores_K))
    return order


def measure(questions: Sequence[Question], scores: Scores) -> dict[str, NDArray[np.float64]]:
    """Every metric of :data:`METRICS` per question, [Q], as fractions."""
    library = metrics_library()
    qrels: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for number, (question, scores_K) in enumerate(zip(questions, scores, strict=True)):
        assert len(scores_K) == len(question.candidates)
        order = ranked(np.asarray(scores_K), question.relevant)
        right = np.flatnonzero(question.relevant[order])
        # Candidates after the last relevant one change nothing, and whole collections are long.
        order = order[: max(right[-1] + 1 if len(right) else 0, DEEPEST)]
        run[str(number)] = {str(place): float(-rank) for rank, place in enumerate(order)}
        judged = {str(place): 1 for place in np.flatnonzero(question.relevant)}
        judged |= {f"missed {i}": 1 for i in range(question.missed)}
        qrels[str(number)] = judged or {"none": 0}
    measures = _measures(library)
    names = {measure: name for name, measure in measures.items()}
    values = {name: np.zeros(len(questions)) for name in METRICS}
    for found in library.iter_calc(list(measures.values()), qrels, run):
        values[names[found.measure]][int(found.query_id)] = found.value
    return values


def mean(values: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    """Means over questions."""
    return {name: float(per_question.mean()) for name, per_question in values.items()}
