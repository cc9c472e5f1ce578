"""A few steps of training views, for ``tests/test_goldens.py``: each pair of views under its own options."""

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from multiview.config import NewViewsConfig
from multiview.train import main, open_trainer
from runtime.training_loop import read_log
from tests.fixtures.trees import TINY, changed
from tests.oracles.training import ViewTraining, largest_relative_distance

PAIRS = [",".join(pair) for pair in itertools.combinations_with_replacement(("seq", "dep", "const"), 2)]
STEPS = 12
FALLING = {"schedule": "cosine", "learning_rate": 1e-3}
"""Clips as well: cosines over their temperature have gradients far longer than the limit."""
OPTIONS: dict[str, dict[str, Any]] = {
    "seq,dep": {
        "objective": {"score": "dot", "denominator": "quickthought"},
        "table": {"update": "rows", "rate": 5.0},
    },
    "seq,const": {"objective": {"score": "cosine", "same": 1.0, "direction": "both"}, "loop": FALLING},
    "dep,dep": {"objective": {"score": "cosine", "denominator": "all"}, "loop": FALLING},
    "dep,const": {"loop": {"segments": 2, "micro_batch": 4, "batch": 5}},
    "const,const": {
        "objective": {"score": "cosine", "denominator": "all", "direction": "both"},
        "table": {"update": "rows", "rate": 5.0},
        "loop": FALLING,
    },
}
"""What differs from the paper's objective."""


def configuration(trees: Path, views: str, output: Path, steps: int, **encoder: str) -> NewViewsConfig:
    """A short run of a pair of views."""
    options = dict(OPTIONS.get(views, {}))
    loop = {"max_steps": steps, "epochs": 100, "batch": 6, **options.pop("loop", {})}
    return changed(TINY, trees=trees, views=views, output=output, loop=loop, encoder=encoder, **options)


@cache
def equations(trees: Path, views: str, steps: int) -> tuple[ViewTraining, dict[str, torch.Tensor]]:
    """Return a run in float64, and the gradient of its first step."""
    config = configuration(trees, views, Path(), steps)
    trainer = open_trainer(config)
    run = ViewTraining(trainer.network, trainer.program.text.source, config, steps)
    segments_of_steps = [job.args[1] for job in itertools.islice(trainer.jobs(), steps)]
    first = run.gradients(segments_of_steps[0])[1]
    for segments in segments_of_steps:
        run.step(segments)
    return run, first


def follow(trees: Path, views: str, engine: str, folder: Path) -> dict[str, float]:
    """How far the trained views are from their equations, relative to each figure.

    By DGL, whose values and gradients are held against those of the equations elsewhere, three steps.
    """
    steps = STEPS if engine == "native" else 3
    run, first = equations(trees, views, steps)
    config = configuration(trees, views, folder, steps, engine=engine)
    trainer = open_trainer(config)
    step = next(trainer.jobs())()
    row_gradients = iter(trainer.gradient(step).row_gradients)
    gradients = {name: one.grad for name, one in trainer.network.named_parameters() if one.grad is not None}
    gradients |= {
        name: torch.zeros_like(first[name]).index_copy(0, step.table_rows, next(row_gradients).double())
        for name in run.tables
    }
    assert main(config) == 0
    rows = [row for row in read_log(config.folder / "log.jsonl") if row["kind"] == "train"]
    weights = load_file(config.folder / "checkpoints" / f"step-{steps:08d}" / "weights.safetensors")
    zero = {name: torch.zeros_like(one) for name, one in first.items()}
    return {
        "gradients": largest_relative_distance(gradients, first, zero),
        "losses": max(abs(row["loss"] / loss - 1) for row, loss in zip(rows, run.losses, strict=True)),
        "norms": max(abs(row["gradient_norm"] / one - 1) for row, one in zip(rows, run.norms, strict=True)),
        "weights": largest_relative_distance(
            weights, run.weights, run.start, run.adam.resolvable_in_float32()
        ),
    }
