"""Is model A better than B? Paired bootstrap over a task's items (Koehn 2004)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corpora.senteval.tasks import STS_SUBSETS
from senteval_runner.protocol.results import TaskResult

Items = NDArray[np.float64]
RESAMPLES = 1000


def _items(values: dict[str, list[float]], split: str) -> Items:
    """One split's or subset's values."""
    return np.asarray(values[split], dtype=np.float64)


def _pearson(predicted: Items, gold: Items) -> Items:
    """Pearson per resample of [resamples, n] arrays; 0 where a side is constant."""
    p = predicted - predicted.mean(1, keepdims=True)
    g = gold - gold.mean(1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        r: Items = (p * g).sum(1) / np.sqrt((p**2).sum(1) * (g**2).sum(1))
    return np.nan_to_num(r)


def paired_bootstrap(a: TaskResult, b: TaskResult, *, seed: int = 0) -> float:
    """Two-sided p of "A and B score the same" on one task: accuracy, or Pearson (mean over STS subsets).

    Items are drawn with replacement, the same for both; p is twice the share of resamples in which the
    difference does not have the sign it has on all items.
    """
    assert a.task == b.task
    stream = np.random.RandomState(seed)
    is_score = a.task in STS_SUBSETS or a.task in ("SICKRelatedness", "STSBenchmark")
    differences = np.zeros(RESAMPLES)
    whole = 0.0
    for split in sorted(a.gold):  # by name: a result that was stored has its subsets in another order
        gold, pa, pb = _items(a.gold, split), _items(a.predictions, split), _items(b.predictions, split)
        n = len(gold)
        if not is_score:
            gain = (pa == gold).astype(np.float64) - (pb == gold)
            whole += float(gain.mean())
            # How often each of the three outcomes is drawn decides the mean: no need to draw the items.
            shares = np.array([(gain == value).mean() for value in (-1.0, 0.0, 1.0)])
            counts = stream.multinomial(n, shares / shares.sum(), size=RESAMPLES)
            differences += (counts[:, 2] - counts[:, 0]) / n
            continue
        whole += float((_pearson(pa[None], gold[None]) - _pearson(pb[None], gold[None]))[0])
        for start in range(0, RESAMPLES, 100):
            rows = stream.randint(0, n, (100, n))
            differences[start : start + 100] += _pearson(pa[rows], gold[rows]) - _pearson(
                pb[rows], gold[rows]
            )
    if whole == 0:
        return 1.0
    against = float((differences * np.sign(whole) <= 0).mean())
    return min(1.0, max(2 * against, 2 / RESAMPLES))
