"""Time the native tree engine against DGL and against its own matrix products, alternating in one run.

    python -m benchmarks.tree_engine [--rounds 7] [--threads 2] [--clock cpu]

A step is forward and backward over a batch of 400 sentences of documentation, parsed first (fewer from
D = 1200). ``products_fraction`` is the time of the matrix products of our step alone over that of the step.
``ratio_dgl`` is DGL's time over ours; DGL's graphs and frontiers are made beforehand, like our plans. Prints
a table and one line of JSON.
"""

import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks import alternate, ratios
from multiview.encoders.registry import ViewEncoder, view_class
from multiview.engines.plan import Plan
from parsing.run import cli as parse
from parsing.trees.batch import Batch
from parsing.trees.cache import TreeCache
from runtime.cli import Command, Count, configuration
from runtime.device import Products

WORD_DIM, SENTENCES = 300, 400
FIGURES = {"products": "products_fraction", "dgl": "ratio_dgl"}
"""Names of the ratios of each contestant's time to ours."""
Step = Callable[[], object]


@configuration
class TreeEngineConfig:
    """Options of ``benchmarks.tree_engine``."""

    rounds: Count = 7
    """Alternations."""
    threads: Count = 2
    """Threads of torch."""
    clock: Literal["wall", "cpu"] = "wall"
    """The clock that is read; cpu counts processor time, for a machine in use."""


def main(config: TreeEngineConfig) -> None:
    """Print a row for each view and size, and a line of JSON."""
    torch.set_num_threads(config.threads)
    clock = time.perf_counter if config.clock == "wall" else time.process_time
    report: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        parse(["books", "--limit", str(SENTENCES), "--output", folder, "--workers", "1"])
        cache = TreeCache.open(Path(folder))
        for view, hidden in itertools.product(("const", "dep"), (100, 300, 1200, 2400)):
            # At D = 2400 DGL takes minutes for a step of 400 sentences on two cores.
            sentences = SENTENCES if hidden <= 300 else SENTENCES * 240 // hidden
            taken = alternate(engine_steps(view, hidden, cache.read(0, sentences)), config.rounds, clock)
            row = {"sentences": sentences, "native_s": statistics.median(taken["native"])}
            for name, key in ((name, FIGURES[name]) for name in taken if name != "native"):
                rounds = ratios(taken, "native", name)
                row |= {key: statistics.median(rounds), f"{key}_low": min(rounds), f"{key}_high": max(rounds)}
            report.setdefault(view, {})[str(hidden)] = row
            print(view, hidden, " ".join(f"{key}={value:.4g}" for key, value in row.items()), flush=True)
    print(json.dumps(report), flush=True)


def engine_steps(view: str, hidden: int, batch: Batch) -> dict[str, Step]:
    """Make a step of each contestant on the same parameters and word vectors."""
    torch.manual_seed(0)
    native = view_class(view)(WORD_DIM, hidden)
    x = torch.randn(int(batch.sentence_offsets[-1]), WORD_DIM)
    plan = native.plan(batch)
    steps = {"native": trained(native, x, plan.to("cpu"))}
    steps["products"] = partial(repeat, products_of(steps["native"]), Products.of(x))
    if find_spec("dgl"):
        peer = view_class(view)(WORD_DIM, hidden, "dgl")
        peer.load_state_dict(native.state_dict())
        steps["dgl"] = trained(peer, x, peer.plan(batch).to("cpu"))
    return steps


def trained(encoder: ViewEncoder, x: Tensor, plan: Plan) -> Step:
    """Make a step: forward, backward of the sum of squares, gradients dropped."""
    x = x.clone().requires_grad_()

    def step() -> None:
        encoder(x, plan).square().sum().backward()
        encoder.zero_grad(set_to_none=True)
        x.grad = None

    return step


def products_of(step: Step) -> list[tuple[str, tuple[Tensor, ...]]]:
    """Run a step of the native engine, and note its matrix products: the kind and the operands of each."""
    calls: list[tuple[str, tuple[Tensor, ...]]] = []
    inside = False

    def noting(name: str) -> Callable[..., Tensor]:
        method = getattr(Products, name)

        def noted(products: Products, *operands: Tensor) -> Tensor:
            nonlocal inside
            if inside:  # one product by means of another
                return method(products, *operands)
            calls.append((name.removeprefix("add"), operands))  # what is added to would grow without end
            inside = True
            result = method(products, *operands)
            inside = False
            return result

        return noted

    with patch.multiple(Products, **{name: noting(name) for name in ("mm", "addmm", "new_mm", "gradient")}):
        step()
    return calls


@torch.no_grad()
def repeat(calls: list[tuple[str, tuple[Tensor, ...]]], products: Products) -> None:
    """Make the products again, and nothing else."""
    for name, operands in calls:
        getattr(products, name)(*operands)


cli = Command(
    TreeEngineConfig, main, "benchmarks.tree_engine", "The tree engine beside DGL and its own products."
)


if __name__ == "__main__":
    sys.exit(cli())
