"""Fewer rows of a task, for studies that a CPU has to finish.

A draw by seed, the same for every layer and backbone; rows keep the files' order. Classes keep their shares,
none falls under the twelve rows that the folds need, where it has them. A task with so many classes that
twenty rows of each are more than the limit (WordContent has a thousand) keeps a draw of its classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corpora.senteval.files import Split, TaskData

ROWS_PER_CLASS = 20
LEAST_PER_CLASS = 12


def limited(task: TaskData, limit: int, seed: int) -> tuple[TaskData, str]:
    """A task with at most about ``limit`` rows per split, and what it lost in a sentence ("" for nothing)."""
    classes = np.arange(len(task.classes))
    wanted = max(2, limit // ROWS_PER_CLASS)
    if len(classes) > wanted and len(task.splits) > 1 and _longest(task) > limit:
        classes = np.sort(np.random.RandomState(seed).permutation(len(classes))[:wanted])
    splits = {name: _limit_split(split, classes, limit, seed) for name, split in task.splits.items()}
    lost = [
        f"{name} {len(splits[name]):,} of {len(split):,}"
        for name, split in task.splits.items()
        if len(splits[name]) < len(split)
    ]
    if not lost:
        return task, ""
    kept = f", {len(classes):,} of {len(task.classes):,} classes" * (len(classes) < len(task.classes))
    names = tuple(task.classes[i] for i in classes)
    return dataclasses.replace(task, splits=splits, classes=names), f"{task.name}: {', '.join(lost)}{kept}"


def _longest(task: TaskData) -> int:
    return max(len(split) for split in task.splits.values())


def _limit_split(split: Split, classes: NDArray[np.int64], limit: int, seed: int) -> Split:
    rng = np.random.RandomState(seed)
    if not len(classes):  # scores
        rows = np.sort(rng.permutation(len(split))[:limit])
        return _take(split, rows.tolist(), [split.y[i] for i in rows])
    y = np.asarray(split.y)
    groups = [np.flatnonzero(y == one) for one in classes]
    total = sum(map(len, groups))
    share = min(1.0, limit / max(total, 1))
    kept = []
    for group in groups:
        quota = len(group) if share == 1.0 else max(round(share * len(group)), LEAST_PER_CLASS)
        kept.append(rng.permutation(group)[:quota])
    rows = np.sort(np.concatenate(kept))
    return _take(split, rows.tolist(), np.searchsorted(classes, y[rows]).tolist())


def _take(split: Split, rows: Sequence[int], y: list[int] | list[float]) -> Split:
    b = None if split.b is None else [split.b[i] for i in rows]
    return Split(a=[split.a[i] for i in rows], b=b, y=y)
