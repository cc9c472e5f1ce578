"""Scores by task group: EMP's Table 1 (poolings) and Table 2 (layers), raw and normalised by the best."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from corpora.senteval.tasks import STS_SUBSETS
from senteval_runner.towers.units import OWN, Unit

TASK_GROUPS: Mapping[str, tuple[str, ...]] = {
    "similarity": (*STS_SUBSETS, "STSBenchmark", "SICKRelatedness"),
    "classification": ("MR", "CR", "SUBJ", "MPQA", "TREC", "SST2", "SST5"),
    "entailment": ("SICKEntailment", "SNLI", "MRPC"),
    "surface": ("Length", "WordContent"),
    "syntactic": ("Depth", "TopConstituents", "BigramShift"),
    "semantic": ("Tense", "SubjNumber", "ObjNumber", "OddManOut", "CoordinationInversion"),
}
"""The probing groups are those of Conneau et al. (2018). Which group holds MRPC is in EMP's appendix alone.

It cannot be similarity: the majority class has 66 % of MRPC, some 86 % of the best score, and EMP's [SEP] has
13.0 over the whole group. MRPC stands with the other classifications of sentence pairs.
"""
AVERAGE = "average"
"""EMP's Average Score: the mean of the six groups."""
NO_HIDDEN_LAYER = (*STS_SUBSETS, "STSBenchmark", "SICKRelatedness", "WordContent")
"""Tasks that no hidden layer changes: cosines, regressions, and WordContent's logistic regression."""

Scores = Mapping[str, float]
"""Main metric (percent) by task."""
Row = tuple[list[str], dict[str, float]]
"""Labels, and means by task group."""


@dataclass(frozen=True, kw_only=True)
class Studied:
    """One backbone with its scores."""

    name: str
    layers: tuple[str, ...]
    """Evaluated single layers, from the bottom up."""
    compared: tuple[str, ...]
    """Layers that the comparison of poolings averages over; none of an encoder taken whole."""
    poolings: tuple[str, ...]
    units: tuple[Unit, ...]
    scores: dict[Unit, dict[str, float]] = field(default_factory=dict)
    """Main metric (percent) per unit and task, by logistic regression where the task has a classifier."""
    mlp: dict[Unit, dict[str, float]] = field(default_factory=dict)
    """The same with a hidden layer, of the tasks it changes."""

    def rows(self) -> list[str]:
        """Layers and pairs of layers, in the order of the tables."""
        return list(dict.fromkeys(unit.row for unit in self.units))


def tasks_of(studied: Sequence[Studied]) -> list[str]:
    """Tasks with a score, in the order of the groups."""
    scored = {task for one in studied for by_task in one.scores.values() for task in by_task}
    return [task for tasks in TASK_GROUPS.values() for task in tasks if task in scored]


def best_of(studied: Sequence[Studied]) -> dict[str, float]:
    """The best score of each task over all backbones and units."""
    values: dict[str, list[float]] = {}
    for one in studied:
        for by_task in one.scores.values():
            for task, value in by_task.items():
                values.setdefault(task, []).append(value)
    return {task: max(found) for task, found in values.items()}


def normalised(scores: Scores, best: Scores) -> dict[str, float]:
    """Scores as percentages of each task's best; tasks whose best is not positive are dropped."""
    return {task: 100 * value / best[task] for task, value in scores.items() if best[task] > 0}


def group_means(scores: Scores, tasks: Sequence[str]) -> dict[str, float]:
    """Mean score of each group; a group has none if one of its evaluated tasks is missing here."""
    means = {}
    for group, members in TASK_GROUPS.items():
        here = [task for task in members if task in tasks]
        if here and all(task in scores for task in here):
            means[group] = statistics.fmean(scores[task] for task in here)
    return means


def average_score(means: Mapping[str, float]) -> float | None:
    """EMP's Average Score, the mean of the groups; None when one of the six is missing."""
    return statistics.fmean(means[group] for group in TASK_GROUPS) if set(TASK_GROUPS) <= set(means) else None


def pooling_table(studied: Sequence[Studied], tasks: Sequence[str], best: Scores | None) -> list[Row]:
    """EMP's Table 1: per backbone and pooling, group means averaged over layers; ``best`` normalises."""
    table = []
    for one in studied:
        for pooling in one.poolings if one.compared else ():
            units = [Unit((layer,), pooling) for layer in one.compared if layer in one.layers]
            means = [_means(one.scores[unit], tasks, best) for unit in units if unit in one.scores]
            groups = {
                group: statistics.fmean(mean[group] for mean in means)
                for group in TASK_GROUPS
                if means and all(group in mean for mean in means)
            }
            table.append(([one.name, pooling], groups))
    return table


def layer_table(
    studied: Sequence[Studied], tasks: Sequence[str], pooling: str, best: Scores | None
) -> list[Row]:
    """EMP's Table 2: per backbone and layers under one pooling, group means; whole encoders have a row."""
    return [
        ([one.name, unit.row], _means(one.scores.get(unit, {}), tasks, best))
        for one in studied
        for unit in one.units
        if unit.pooling in (pooling, OWN)
    ]


def difference_table(first: Studied, other: Studied, tasks: Sequence[str], pooling: str) -> list[Row]:
    """``other`` minus ``first`` in points, for units that both have."""
    table = []
    for unit in other.units:
        if unit.pooling in (pooling, OWN) and unit in first.scores and unit in other.scores:
            before, after = (group_means(one.scores[unit], tasks) for one in (first, other))
            groups = {group: after[group] - before[group] for group in after if group in before}
            table.append(([f"{other.name} − {first.name}", unit.row], groups))
    return table


def readout_table(studied: Sequence[Studied], pooling: str) -> list[Row]:
    """The classifier with a hidden layer minus logistic regression in points, over the tasks both have."""
    table = []
    for one in studied:
        for unit in one.units:
            if unit.pooling in (pooling, OWN) and one.mlp.get(unit):
                gains = {task: score - one.scores[unit][task] for task, score in one.mlp[unit].items()}
                table.append(([one.name, unit.row], group_means(gains, list(gains))))
    return table


def likeness_table(studied: Sequence[Studied], best: Scores, pooling: str) -> tuple[list[str], list[Row]]:
    """How alike the profiles over tasks of a layer and of a whole encoder are.

    Returns:
        Names of the whole encoders; per backbone and layer Pearson's r over the tasks that both have, of
        scores as percentages of each task's best.
    """
    whole = {
        one.name: normalised(scores, best)
        for one in studied
        for unit, scores in one.scores.items()
        if unit.pooling == OWN
    }
    rows: list[Row] = []
    for one in studied:
        for unit in one.units if whole else ():
            if unit.pooling == pooling and unit in one.scores:
                scores = normalised(one.scores[unit], best)
                found = {name: _correlation(scores, other) for name, other in whole.items()}
                rows.append(([one.name, unit.row], {n: r for n, r in found.items() if r is not None}))
    return list(whole), rows


def _correlation(one: Scores, other: Scores) -> float | None:
    """Pearson's r over common tasks; None for fewer than three of them or without variance."""
    common = [task for task in one if task in other]
    x, y = ([scores[task] for task in common] for scores in (one, other))
    if len(common) < 3 or min(x) == max(x) or min(y) == max(y):
        return None
    return statistics.correlation(x, y)


def _means(scores: Scores, tasks: Sequence[str], best: Scores | None) -> dict[str, float]:
    if best is None:
        return group_means(scores, tasks)
    return group_means(normalised(scores, best), [task for task in tasks if best[task] > 0])
