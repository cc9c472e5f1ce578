"""Batched classifiers against one model at a time: CPU time, memory, and how many scores differ.

    MULTIVIEW_DATA=... python -m benchmarks.senteval
    MULTIVIEW_DATA=... python -m benchmarks.senteval --table 4800

Both sides search 4 regularisers over the folds of the same rows (a random 1,000 of MR and TREC, mean of
random word vectors), on one thread, in turn. The peer is the plain PyTorch loop of the tests. Ends with one
line of JSON: CPU-time ratios (median, least, most of 5 alternations), development scores that differ,
peak memory of MR at 4,800 dimensions. The last case trains one fold on all of MR for three rounds:
unlike 1,000 rows its design matrix (205 MB) does not stay in the cache.

``--table DIM`` instead runs every task of the multi-view paper's table that is in the data folder, with all
rows, on means of random word vectors of DIM dimensions with two threads. It prints wall and CPU seconds after
encoding, per task and in total.
"""

from __future__ import annotations

import argparse
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

from corpora.senteval.files import read_task
from corpora.support.errors import UserError
from senteval_runner.evaluation import evaluate_task
from senteval_runner.protocol import batched, classify
from senteval_runner.protocol.config import TORCH_REGULARISERS, get_protocol
from senteval_runner.protocol.features import design
from senteval_runner.report.tables import PAPER_COLUMNS
from tests.oracles import senteval as oracle
from tests.senteval_runner.encoders import RandomBag

ALTERNATIONS = 5
# task, split, dimensions, rows, searched folds (of 10), max_epoch of the protocol
CASES = (
    ("MR", "all", 300, 1000, 10, 200),
    ("TREC", "train", 400, 1000, 10, 200),
    ("MR", "all", 4800, 1000, 3, 200),
    ("MR", "all", 4800, 20_000, 1, 11),
)
SEED = 1111
TABLE_THREADS = 2


def rows_of(task: str, split: str, dim: int, rows: int) -> tuple[np.ndarray, np.ndarray, int]:
    data = read_task(task, Path(os.environ["MULTIVIEW_DATA"]) / "senteval")
    part = data.splits[split]
    chosen = np.random.RandomState(0).permutation(len(part))[:rows]
    vectors = RandomBag(dim).encode([part.a[i] or ["."] for i in chosen])
    return vectors, np.array([part.y[i] for i in chosen]), len(data.classes)


def compare(task: str, split: str, dim: int, rows: int, folds: int, max_epoch: int) -> dict[str, float]:
    x, y, classes = rows_of(task, split, dim, rows)
    cut = list(StratifiedKFold(10, shuffle=True, random_state=SEED).split(x, y))[:folds]
    protocol = dataclasses.replace(get_protocol("default"), max_epoch=max_epoch)
    plain = dataclasses.replace(oracle.Settings(), max_epoch=max_epoch)
    matrix, fits = design([x]), [batched.Fit(train=a, dev=b, l2=TORCH_REGULARISERS) for a, b in cut]
    tensor = torch.from_numpy(matrix)
    ratios, ours_s, theirs_s = [], [], []
    for _ in range(ALTERNATIONS):
        started = time.process_time()
        ours = batched.train_fits(tensor, y, fits, classes, protocol, SEED)
        middle = time.process_time()
        theirs = oracle.search(x, y, cut, classes, SEED, plain)
        ours_s.append(middle - started)
        theirs_s.append(time.process_time() - middle)
        ratios.append(theirs_s[-1] / ours_s[-1])
    differing = int((np.array([f.accuracy for f in ours]) != theirs).sum())
    print(
        f"{task} dim {dim}, {len(x)} rows, {folds} folds x 4: batched {statistics.median(ours_s):.2f} s, "
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
    """Peak memory of this process after MR at 4,800 dimensions: all 410 fits, one epoch each."""
    x, y, classes = rows_of("MR", "all", 4800, 20_000)
    quick = dataclasses.replace(get_protocol("default"), max_epoch=0, epoch_size=1)
    matrix = design([x])
    del x
    classify.inner_kfold(matrix, y, classes, quick, SEED)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def table(dim: int) -> dict[str, object]:
    """Seconds after encoding for every task of the paper's table."""
    torch.set_num_threads(TABLE_THREADS)
    folder = Path(os.environ["MULTIVIEW_DATA"]) / "senteval"
    bag = RandomBag(dim)
    spent: dict[str, dict[str, float]] = {}
    missing = []
    for name in dict.fromkeys(task for _, task, _, _ in PAPER_COLUMNS):
        try:
            task = read_task(name, folder)
        except UserError:
            missing.append(name)
            continue
        encoded: dict[tuple[str, ...], np.ndarray] = {}
        for part in task.splits.values():
            for tokens in part.sentences():
                encoded.setdefault(tuple(tokens), bag.encode([tokens or ["."]])[0])
        bag.words.clear()  # 38 kB a word
        wall, cpu = time.perf_counter(), time.process_time()
        result = evaluate_task(
            lambda sentences, known=encoded: np.stack([known[tuple(s)] for s in sentences]),
            task,
            get_protocol("default"),
            SEED,
        )
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        spent[name] = {"wall_s": round(wall, 1), "cpu_s": round(cpu, 1)}
        print(f"{name} dim {dim}: {wall:.1f} s, {cpu:.1f} s CPU; {result.metrics}", flush=True)
    total = {key: round(sum(one[key] for one in spent.values()), 1) for key in ("wall_s", "cpu_s")}
    print(
        f"in all {total['wall_s']} s, {total['cpu_s']} s CPU on {TABLE_THREADS} threads; missing: {missing}"
    )
    return {"dim": dim, "threads": TABLE_THREADS, "tasks": spent, "total": total, "missing": missing}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.senteval", description=__doc__)
    parser.add_argument("--table", type=int, metavar="DIM", help="time the paper's table at DIM dimensions")
    options = parser.parse_args()
    if "MULTIVIEW_DATA" not in os.environ:
        print("benchmarks.senteval: MULTIVIEW_DATA must name the folder of real data", file=sys.stderr)
        return 2
    if options.table:
        print(json.dumps({"table": table(options.table)}))
        return 0
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
    ratios = {f"{case[0]} dim {case[2]} rows {case[3]}": compare(*case) for case in CASES}
    print(json.dumps({"cpu_ratio": ratios, "mr_4800_peak_gb": round(peak_memory_gb(), 2)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
