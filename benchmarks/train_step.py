"""The parts of a training step's time, and sentences per second.

    python -m benchmarks.train_step --trees runs/trees/pydocs --dim 1200

Encoders and loss are the matrix products that a step has to do. Everything else (waiting for reading and
plans, word vectors and their gradient, clipping and optimiser, logging) should stay under 15 % of a step at
hidden sizes of 1200 and more on CPU. ``--clock cpu`` counts the CPU time of one thread and adds that of the
loader thread as if nothing overlapped, an upper bound that holds on a busy machine. Ends with one line of
JSON: medians over the steps.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from statistics import median, quantiles
from typing import Literal

import torch

from corpora.support.cli import Command
from corpora.support.config import configuration
from multiview.config import preset
from multiview.training.data import Step, open_trees, prefetch
from multiview.training.log import TrainingLog
from multiview.training.trainer import Job, Trainer
from parsing.networks.threads import torch_threads


@configuration
class StepBenchmark:
    """Options of the benchmark."""

    trees: Path | None = None
    """Tree cache; None is the only one under runs/trees."""
    views: str = "dep,const"
    """Views of the model."""
    preset: str = "paper"
    """Preset of all other settings."""
    dim: int = 1200
    """Hidden size D."""
    batch: int = 400
    """Sentences of a step."""
    steps: int = 6
    """Timed steps, after one that is not timed."""
    threads: int = 0
    """CPU threads; 0 chooses as training does."""
    device: str = "cpu"
    """Device to train on."""
    clock: Literal["wall", "cpu"] = "wall"
    """Wall-clock seconds, or CPU seconds with one thread."""


def main(config: StepBenchmark) -> int:
    """Time every part of a few real steps."""
    with tempfile.TemporaryDirectory() as folder:
        defaults = preset(config.preset)
        threads = 1 if config.clock == "cpu" else config.threads
        training = dataclasses.replace(
            defaults,
            views=config.views,
            device=config.device,
            output=Path(folder),
            encoder=dataclasses.replace(defaults.encoder, dim=config.dim),
            loop=dataclasses.replace(defaults.loop, batch=config.batch, epochs=20, threads=threads),
        )
        trainer = Trainer(training, open_trees(config.trees))
        with torch_threads(trainer.position.threads):
            rows = measure(trainer, config.steps + 1, config.clock)[1:]
    parts = [name for name in rows[0] if name not in ("sentences", "step")]
    step = median(row["step"] for row in rows)
    for name in parts:
        values = [row[name] for row in rows]
        low, _, high = quantiles(values, n=4)
        print(f"{name:<24} {median(values):8.4f} s  [{low:.4f}, {high:.4f}]  {median(values) / step:6.1%}")
    outside = median(1 - row["encoders and loss"] / row["step"] for row in rows)
    rate = median(row["sentences"] / row["step"] for row in rows)
    print(f"{'step':<24} {step:8.4f} s")
    result = {
        "benchmark": "train_step",
        "views": config.views,
        "dim": config.dim,
        "threads": trainer.position.threads,
        "clock": config.clock,
        "sentences_per_s": round(rate, 2),
        "outside_fraction": round(outside, 4),
        "parts_s": {name: round(median(row[name] for row in rows), 5) for name in parts},
    }
    print(json.dumps(result))
    return 0


def measure(trainer: Trainer, steps: int, kind: str) -> list[dict[str, float]]:
    """Seconds per part, for each of ``steps`` steps."""

    def prepare(job: Job) -> tuple[Step, float]:
        began = time.thread_time()
        return trainer.prepare(job), time.thread_time() - began

    log = TrainingLog(trainer.config.folder, 0)
    rows: list[dict[str, float]] = []
    jobs = list(islice(trainer.jobs(), steps))
    prepared = prefetch(iter(jobs), prepare)
    for number in range(len(jobs)):
        clock = _Clock(trainer.device, kind)
        step, loader = next(prepared)
        waited = clock.lap()
        row = {"reading and plans": loader + waited if kind == "cpu" else waited}
        result = trainer.gradient(step)
        whole = clock.lap()
        words = _word_seconds(trainer, step, kind)
        clock.lap()
        row |= {"encoders and loss": whole - words, "word vectors": words}
        rate = trainer.update(result)
        trainer.position.step += 1
        row["clip and optimiser"] = clock.lap()
        for metrics in trainer.unread.read():
            log.write("train", number + 1, {**metrics, "learning_rate": rate})
        row["logging"] = clock.lap()
        row["step"] = sum(row.values())
        row["sentences"] = float(step.sentences)
        rows.append(row)
    log.close()
    return rows


def _word_seconds(trainer: Trainer, step: Step, kind: str) -> float:
    """Seconds to gather word vectors and to scatter their gradient to the table, measured separately."""
    clock = _Clock(trainer.device, kind)
    for rows in step.rows.leaves(trainer.network.words):
        for segment in step.segments:
            for micro_batch in segment.micro_batches:
                x_NE = torch.nn.functional.embedding(micro_batch.tokens[0], rows)
                x_NE.backward(torch.ones_like(x_NE))
    return clock.lap()


class _Clock:
    """Seconds between laps; waits for the device to finish its queue."""

    def __init__(self, device: torch.device, kind: str) -> None:
        self.device = device
        self.now = time.thread_time if kind == "cpu" else time.perf_counter
        self.last = self.now()

    def lap(self) -> float:
        """Seconds since the last lap."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        now = self.now()
        seconds, self.last = now - self.last, now
        return seconds


if __name__ == "__main__":
    sys.exit(Command(StepBenchmark, main, "benchmarks.train_step", "Breakdown of a training step.")())
