"""Draw fewer rows of a task, for studies on a CPU.

The draw depends on the seed and is the same for every layer and backbone; rows keep the files' order. Classes
keep their fractions, but at least the twelve rows that the folds need, if they have them. If twenty rows of
each class exceed the limit (WordContent has a thousand classes), only some classes are drawn.
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
    """A task with about ``limit`` rows per split at most, and one line about what it lost ("" if nothing)."""
    classes = np.arange(len(task.classes))
    wanted = max(2, limit // ROWS_PER_CLASS)
    longest = max(len(split) for split in task.splits.values())
    if len(classes) > wanted and len(task.splits) > 1 and longest > limit:
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


def _limit_split(split: Split, classes: NDArray[np.int64], limit: int, seed: int) -> Split:
    rng = np.random.RandomState(seed)
    if not len(classes):  # scores
        rows = np.sort(rng.permutation(len(split))[:limit])
        return _take(split, rows.tolist(), [split.y[i] for i in rows])
    y = np.asarray(split.y)
    groups = [np.flatnonzero(y == one) for one in classes]
    fraction = min(1.0, limit / max(sum(map(len, groups)), 1))
    kept = []
    for group in groups:
        quota = len(group) if fraction == 1.0 else max(round(fraction * len(group)), LEAST_PER_CLASS)
        kept.append(rng.permutation(group)[:quota])
    rows = np.sort(np.concatenate(kept))
    return _take(split, rows.tolist(), np.searchsorted(classes, y[rows]).tolist())


def _take(split: Split, rows: Sequence[int], y: list[int] | list[float]) -> Split:
    b = None if split.b is None else [split.b[i] for i in rows]
    return Split(a=[split.a[i] for i in rows], b=b, y=y)
