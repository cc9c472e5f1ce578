"""Batched classifiers against one model at a time: CPU time, memory, and how many scores differ.

    MULTIVIEW_DATA=... python -m benchmarks.senteval

Both sides search 4 regularisers over the folds of the same rows (a random 1,000 of MR and TREC, mean of
random word vectors), on one thread, in turn. The peer is the plain PyTorch loop of the tests. Ends with one
line of JSON: CPU-time ratios (median, least, most of 5 alternations), development scores that differ,
peak memory of MR at 4,800 dimensions.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold

from corpora.senteval_files import read_task
from senteval_runner import batched, classify
from senteval_runner.features import design
from senteval_runner.protocol import TORCH_REGULARISERS, get_protocol
from tests.senteval_runner import oracle
from tests.senteval_runner.encoders import RandomBag

ALTERNATIONS = 5
# task, split, dimensions, rows, folds that are searched (of 10)
CASES = (("MR", "all", 300, 1000, 10), ("TREC", "train", 400, 1000, 10), ("MR", "all", 4800, 1000, 3))
SEED = 1111


def rows_of(task: str, split: str, dim: int, rows: int) -> tuple[np.ndarray, np.ndarray, int]:
    data = read_task(task, Path(os.environ["MULTIVIEW_DATA"]) / "senteval")
    part = data.splits[split]
    chosen = np.random.RandomState(0).permutation(len(part))[:rows]
    vectors = RandomBag(dim).encode([part.a[i] or ["."] for i in chosen])
    return vectors, np.array([part.y[i] for i in chosen]), len(data.classes)


def compare(task: str, split: str, dim: int, rows: int, folds: int) -> dict[str, float]:
    x, y, classes = rows_of(task, split, dim, rows)
    cut = list(StratifiedKFold(10, shuffle=True, random_state=SEED).split(x, y))[:folds]
    protocol = get_protocol("default")
    matrix, fits = design([x]), [batched.Fit(train=a, dev=b, l2=TORCH_REGULARISERS) for a, b in cut]
    tensor = torch.from_numpy(matrix)
    ratios, ours_s, theirs_s = [], [], []
    for _ in range(ALTERNATIONS):
        started = time.process_time()
        ours = batched.train_fits(tensor, y, fits, classes, protocol, SEED)
        middle = time.process_time()
        theirs = oracle.search(x, y, cut, classes, SEED, oracle.Settings())
        ours_s.append(middle - started)
        theirs_s.append(time.process_time() - middle)
        ratios.append(theirs_s[-1] / ours_s[-1])
    differing = int((np.array([f.accuracy for f in ours]) != theirs).sum())
    print(
        f"{task} dim {dim}, {rows} rows, {folds} folds x 4: batched {statistics.median(ours_s):.2f} s, "
        f"one at a time {statistics.median(theirs_s):.2f} s CPU, ratio {statistics.median(ratios):.1f} "
        f"({min(ratios):.1f}-{max(ratios):.1f}), {differing} of {theirs.size} dev scores differ",
        flush=True,
    )
    return {
        "ratio": round(statistics.median(ratios), 2),
        "least": round(min(ratios), 2),
        "most": round(max(ratios), 2),
        "scores": theirs.size,
        "differing": differing,
    }


def peak_memory_gb() -> float:
    """Peak memory of this process after MR at 4,800 dimensions, all 410 fits of one epoch each."""
    x, y, classes = rows_of("MR", "all", 4800, 20_000)
    quick = dataclasses.replace(get_protocol("default"), max_epoch=0, epoch_size=1)
    matrix = design([x])
    del x
    classify.inner_kfold(matrix, y, classes, quick, SEED)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main() -> int:
    if "MULTIVIEW_DATA" not in os.environ:
        print("benchmarks.senteval: MULTIVIEW_DATA must name the folder of real data", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    warm = np.arange(40)
    batched.train_fits(
        torch.randn(40, 4),
        warm % 2,
        [batched.Fit(train=warm, dev=warm, l2=(1e-3,))],
        2,
        get_protocol("fast"),
        SEED,
    )
    figures = {f"{task} dim {dim}": compare(task, split, dim, n, k) for task, split, dim, n, k in CASES}
    print(json.dumps({"cpu_ratio": figures, "mr_4800_peak_gb": round(peak_memory_gb(), 2)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
