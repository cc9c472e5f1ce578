"""Scores by task group: EMP's Table 1 (poolings) and Table 2 (layers), raw and normalised by the best."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from corpora.senteval.tasks import STS_SUBSETS
from senteval_runner.towers.units import Unit

TASK_GROUPS: Mapping[str, tuple[str, ...]] = {
    "similarity": (*STS_SUBSETS, "STSBenchmark", "SICKRelatedness", "MRPC"),
    "classification": ("MR", "CR", "SUBJ", "MPQA", "TREC", "SST2", "SST5"),
    "entailment": ("SICKEntailment", "SNLI"),
    "surface": ("Length", "WordContent"),
    "syntactic": ("Depth", "TopConstituents", "BigramShift"),
    "semantic": ("Tense", "SubjNumber", "ObjNumber", "OddManOut", "CoordinationInversion"),
}
"""The probing groups are those of Conneau et al. (2018); MRPC counts as similarity here."""

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
    """Layers that the comparison of poolings averages over."""
    poolings: tuple[str, ...]
    units: tuple[Unit, ...]
    scores: dict[Unit, dict[str, float]] = field(default_factory=dict)
    """Main metric (percent) per unit and task."""

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


def pooling_table(studied: Sequence[Studied], tasks: Sequence[str], best: Scores | None) -> list[Row]:
    """EMP's Table 1: per backbone and pooling, group means averaged over layers; ``best`` normalises."""
    table = []
    for one in studied:
        for pooling in one.poolings:
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
    """EMP's Table 2: per backbone and layer or pair of layers under one pooling, group means."""
    return [
        ([one.name, unit.row], _means(one.scores.get(unit, {}), tasks, best))
        for one in studied
        for unit in one.units
        if unit.pooling == pooling
    ]


def difference_table(first: Studied, other: Studied, tasks: Sequence[str], pooling: str) -> list[Row]:
    """``other`` minus ``first`` in points, for units that both have."""
    table = []
    for unit in other.units:
        if unit.pooling == pooling and unit in first.scores and unit in other.scores:
            before, after = (group_means(one.scores[unit], tasks) for one in (first, other))
            groups = {group: after[group] - before[group] for group in after if group in before}
            table.append(([f"{other.name} − {first.name}", unit.row], groups))
    return table


def _means(scores: Scores, tasks: Sequence[str], best: Scores | None) -> dict[str, float]:
    if best is None:
        return group_means(scores, tasks)
    return group_means(normalised(scores, best), [task for task in tasks if best[task] > 0])
