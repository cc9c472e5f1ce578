"""The parts of a training step's time, and sentences per second.

    python -m benchmarks.train_step --trees runs/trees/pydocs --dim 1200

Encoders and loss are the matrix products that a step has to do. Everything else (waiting for reading and
plans, word vectors and their gradient, clipping and optimiser) should stay under 15 % of a step at hidden
sizes of 1200 and more on CPU. Ends with one line of JSON: medians over the steps.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from statistics import median

import torch

from benchmarks import spread
from corpora.support.cli import Command, configuration
from multiview.config import preset
from multiview.training.data import Step, open_trees, prefetch
from multiview.training.trainer import Trainer
from parsing.networks.device import torch_threads


@configuration
class StepBenchmark:
    """Options of the benchmark."""

    trees: Path | None = None
    """Tree cache; None is the only one under runs/trees."""
    views: str = "dep,const"
    """Views of the model."""
    dim: int = 1200
    """Hidden size D."""
    steps: int = 6
    """Timed steps of 400 sentences, after one that is not timed."""
    threads: int = 0
    """CPU threads; 0 chooses as training does."""
    device: str = "cpu"
    """Device to train on."""


def main(config: StepBenchmark) -> int:
    """Time every part of a few real steps."""
    defaults = preset("paper")
    with tempfile.TemporaryDirectory() as folder:
        training = dataclasses.replace(
            defaults,
            views=config.views,
            device=config.device,
            output=Path(folder),
            encoder=dataclasses.replace(defaults.encoder, dim=config.dim),
            loop=dataclasses.replace(defaults.loop, batch=400, epochs=20),
        )
        trainer = Trainer(training, open_trees(config.trees))
        trainer.threads = config.threads or trainer.threads
        with torch_threads(trainer.threads):
            rows = measure(trainer, config.steps + 1)[1:]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    step = median(columns["step"])
    for name, values in columns.items():
        print(f"{name:<24} {spread(values, 4)}  {median(values) / step:6.1%}")
    result = {
        "benchmark": "train_step",
        "views": config.views,
        "dim": config.dim,
        "threads": trainer.threads,
        "sentences_per_s": round(400 / step, 2),
        "outside_fraction": round(median(1 - row["encoders and loss"] / row["step"] for row in rows), 4),
        "parts_s": {name: round(median(values), 5) for name, values in columns.items()},
    }
    print(json.dumps(result))
    return 0


def measure(trainer: Trainer, steps: int) -> list[dict[str, float]]:
    """Seconds per part, for each of ``steps`` steps."""

    def now() -> float:
        if trainer.device.type == "cuda":  # its queue must be empty
            torch.cuda.synchronize(trainer.device)
        return time.perf_counter()

    rows: list[dict[str, float]] = []
    prepared = prefetch(islice(trainer.jobs(), steps), trainer.prepare)
    for _ in range(steps):
        began = now()
        step = next(prepared)
        ready = now()
        result = trainer.gradient(step)
        done = now()
        _words(trainer, step)
        words = now() - done
        updating = now()
        trainer.update(result)
        trainer.read()
        row = {
            "reading and plans": ready - began,
            "encoders and loss": done - ready - words,
            "word vectors": words,
            "clip and optimiser": now() - updating,
        }
        rows.append({**row, "step": sum(row.values())})
        trainer.position.step += 1
    return rows


def _words(trainer: Trainer, step: Step) -> None:
    """Gather word vectors and scatter their gradient to the table, as inside the step."""
    for rows in step.leaves(trainer.network.words):
        for segment in step.segments:
            for micro_batch in segment.micro_batches:
                x_NE = torch.nn.functional.embedding(micro_batch.tokens[0], rows)
                x_NE.backward(torch.ones_like(x_NE))


if __name__ == "__main__":
    sys.exit(Command(StepBenchmark, main, "benchmarks.train_step", "Breakdown of a training step.")())
