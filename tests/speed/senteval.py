"""Batched classifiers against one model at a time: CPU time, and how many scores differ.

    MULTIVIEW_DATA=... python -m tests.speed.senteval

Both sides search 4 regularisers over the folds of the same rows (a random 1,000 of MR and TREC, mean of
random word vectors), on one thread, in turn. The peer is the plain PyTorch loop of the tests. The last case
trains one fold on all of MR for three rounds: unlike 1,000 rows its design matrix (205 MB) does not stay in
the cache. Ends with one line of JSON: CPU-time ratios (median, least, most of 5 alternations), development
scores that differ.
"""

import dataclasses
import json
import time
from statistics import median

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold

from benchmarks import ratios, spread, time_in_turns
from corpora.senteval.files import read_task
from senteval_runner.protocol import classify
from senteval_runner.protocol.config import get_protocol
from senteval_runner.protocol.features import design
from tests.oracles import senteval as oracle
from tests.senteval_runner.encoders import RandomBag
from tools import data_folder

ALTERNATIONS = 5
# task, split, dimensions, rows, searched folds (of 10), max_epoch of the protocol
CASES = (
    ("MR", "all", 300, 1000, 10, 200),
    ("TREC", "train", 400, 1000, 10, 200),
    ("MR", "all", 4800, 1000, 3, 200),
    ("MR", "all", 4800, 20_000, 1, 11),
)
SEED = 1111


def rows_of(task: str, split: str, dim: int, rows: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Vectors [rows, dim], labels [rows], and the number of classes."""
    data = read_task(task, data_folder() / "senteval")
    part = data.splits[split]
    chosen = np.random.RandomState(0).permutation(len(part))[:rows]
    vectors = RandomBag(dim).encode([part.a[i] or ["."] for i in chosen])
    return vectors, np.array([part.y[i] for i in chosen]), len(data.classes)


def compare(task: str, split: str, dim: int, rows: int, folds: int, max_epoch: int) -> dict[str, float]:
    """One case: their CPU time over ours, and the scores that differ."""
    x, y, classes = rows_of(task, split, dim, rows)
    cut = list(StratifiedKFold(10, shuffle=True, random_state=SEED).split(x, y))[:folds]
    protocol = dataclasses.replace(get_protocol("default"), max_epoch=max_epoch)
    batched = classify._backend(design([x]), y, classes, protocol, SEED)
    scores: dict[str, np.ndarray] = {}

    def ours() -> None:
        scores["ours"] = batched.search(cut)

    def peer() -> None:
        scores["peer"] = np.asarray(oracle.search(x, y, cut, classes, SEED, protocol))

    taken = time_in_turns({"ours": ours, "peer": peer}, ALTERNATIONS, time.process_time)
    faster, differing = ratios(taken, "ours", "peer"), int((scores["ours"] != scores["peer"]).sum())
    print(
        f"{task} dim {dim}, {len(x)} rows, {folds} folds x 4: batched {median(taken['ours']):.2f} s, one at "
        f"a time {median(taken['peer']):.2f} s CPU, ratio {spread(faster)}, {differing} scores differ",
        flush=True,
    )
    low, high = round(min(faster), 2), round(max(faster), 2)
    return {"ratio": round(median(faster), 2), "least": low, "most": high, "differing": differing}


def main() -> None:
    """Run and print."""
    torch.set_num_threads(1)
    found = {f"{case[0]} dim {case[2]} rows {case[3]}": compare(*case) for case in CASES}
    print(json.dumps({"cpu_ratio": found}))


if __name__ == "__main__":
    main()
