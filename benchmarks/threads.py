"""Is the number of threads that a run chooses ever worse than one?

    python -m benchmarks.threads [--seconds 8]

Alternates one thread with the chosen number (:mod:`parsing.networks.threads`), first on the machine as it is,
then beside processes of its own that keep every core busy. The ratio is the time with one thread over that
with the chosen number: about 1 where one is chosen, above 1 where several pay. Small work is the laptop
preset's; large work has the paper's 1,200 hidden units, where several threads are taken if cores are idle.
Takes about two minutes on an idle machine; ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os

# As in every command, and before torch is imported: threads sleep while they wait.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from benchmarks.timing import seconds, spread
from multiview.config import preset
from multiview.model import MultiViewEncoder
from multiview.training.data import open_trees
from multiview.training.trainer import Trainer
from parsing.networks.threads import idle_cores, torch_threads
from tests.fixtures.trees import changed
from tests.parsing.cache.test_reader import write_cache

CORES = torch.get_num_threads()
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
"""Keeps a core busy until the benchmark ends, however it does."""
Work = tuple[Callable[[], object], int]
"""One call of the work, and the threads to call it with; ``encode`` lowers the number by itself."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="time for each comparison, at least")
    budget_s = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        texts = sentences(1200)
        write_cache(Path(folder, "trees"), texts, documents=range(0, len(texts), 40), shard=len(texts))
        works = {
            "encode 1 sentence, D=128": lambda: encode(texts[:1], 128),
            "encode 200 sentences, D=1200": lambda: encode(texts[:200], 1200),
            "training step, D=128": lambda: training(Path(folder), 128, 200),
            "training step, D=1200": lambda: training(Path(folder), 1200, 16),
        }
        report = {}
        for load, others in (("as it is", 0), ("busy", CORES)):
            with competing(others):
                print(f"{load}: {idle_cores()} of {CORES} cores idle", flush=True)
                report[load] = {name: compare(name, make(), budget_s) for name, make in works.items()}
    print(json.dumps({"benchmark": "threads", "cores": CORES, "ratio": report}))
    return 0


def compare(name: str, work: Work, budget_s: float) -> float:
    """Time with one thread over time with the chosen number: the median over alternations."""
    call, threads = work
    with torch_threads(1):
        call()  # compiles and loads
    taken: dict[str, list[float]] = {"one": [], "chosen": []}
    order = [("one", 1), ("chosen", threads)]
    began = time.perf_counter()
    while time.perf_counter() - began < budget_s or len(taken["one"]) < 4:
        for column, count in order:
            with torch_threads(count):
                taken[column].append(seconds(call))
        order.reverse()  # the load of the machine may drift
    ratios = [one / chosen for one, chosen in zip(*taken.values(), strict=True)]
    one_ms = 1000 * statistics.median(taken["one"])
    print(f"  {name:<30} one thread {one_ms:8.1f} ms  ratio {spread(ratios)}", flush=True)
    return round(statistics.median(ratios), 3)


def sentences(count: int) -> list[tuple[str, ...]]:
    """Sentences of 5 to 35 words, drawn from 3,000 by Zipf's law."""
    random = np.random.default_rng(0)
    weights = 1 / np.arange(1, 3001)
    words = np.array([f"w{rank}" for rank in range(3000)])
    return [
        tuple(random.choice(words, random.integers(5, 36), p=weights / weights.sum()).tolist())
        for _ in range(count)
    ]


def encode(texts: list[tuple[str, ...]], dim: int) -> Work:
    """Parse and encode sentences."""
    encoder = MultiViewEncoder.untrained("dep,const", dim=dim)
    return lambda: encoder.encode(texts, show_progress_bar=False), CORES


def training(folder: Path, dim: int, batch: int) -> Work:
    """A step of the laptop preset with other sizes."""
    config = changed(
        preset("laptop", trees=folder / "trees", output=folder, device="cpu"),
        encoder={"dim": dim},
        loop={"batch": batch, "epochs": 20},
        validation={"sentences": 0},
    )
    trainer = Trainer(config, open_trees(config.trees))
    steps = itertools.cycle([trainer.prepare(job) for job in itertools.islice(trainer.jobs(), 4)])
    return lambda: trainer.update(trainer.gradient(next(steps))), trainer.position.threads


@contextmanager
def competing(count: int) -> Iterator[None]:
    """Processes that each keep a core busy."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        time.sleep(1 if count else 0)
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


if __name__ == "__main__":
    sys.exit(main())
