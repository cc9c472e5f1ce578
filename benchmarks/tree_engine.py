"""Time the native tree engine in comparison with DGL and with its own matrix products, in turns.

    python -m benchmarks.tree_engine [--rounds 7] [--threads 2] [--clock cpu]

A step is a forward and a backward pass over a batch of 400 sentences of books (fewer from D = 1200), which
are parsed first. ``products_fraction`` is the time of the step's matrix products divided by that of the whole
step. ``ratio_dgl`` is the time of DGL divided by that of the native engine. Plans are made before the step;
DGL makes its graph in the step, which takes a thousandth of it. The output is a table and one line of JSON.
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
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks import ratios, time_in_turns
from multiview.encoders.registry import ViewEncoder, view_class
from multiview.engines.plan import Plan
from parsing.run import cli as parse
from parsing.trees.batch import Batch
from parsing.trees.cache import TreeCache
from runtime.cli import Command, Count, configuration

WORD_DIM = 300
SENTENCES = 400
RATIO_NAMES = {"products": "products_fraction", "dgl": "ratio_dgl"}
"""The name in the output of the ratio of each engine's time to that of the native engine."""
Step = Callable[[], object]


@configuration
class TreeEngineConfig:
    """Options of ``benchmarks.tree_engine``."""

    rounds: Count = 7
    """Measured rounds, in which all take turns."""
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
        for view, dim in itertools.product(("const", "dep"), (100, 300, 1200, 2400)):
            # At D = 2400 DGL takes minutes for a step of 400 sentences on two cores.
            sentences = SENTENCES if dim <= 300 else SENTENCES * 240 // dim
            seconds = time_in_turns(engine_steps(view, dim, cache.read(0, sentences)), config.rounds, clock)
            row = {"sentences": sentences, "native_s": statistics.median(seconds["native"])}
            for name, key in RATIO_NAMES.items():
                if name in seconds:
                    values = ratios(seconds, "native", name)
                    row[key] = statistics.median(values)
                    row |= {f"{key}_low": min(values), f"{key}_high": max(values)}
            report.setdefault(view, {})[str(dim)] = row
            print(view, dim, " ".join(f"{key}={value:.4g}" for key, value in row.items()), flush=True)
    print(json.dumps(report), flush=True)


def engine_steps(view: str, dim: int, batch: Batch) -> dict[str, Step]:
    """Return a step of each engine, with the same parameters and word vectors, by name.

    The step ``products`` computes the matrix products of the native engine alone.
    """
    torch.manual_seed(0)
    native = view_class(view)(WORD_DIM, dim)
    x = torch.randn(int(batch.sentence_offsets[-1]), WORD_DIM)
    plan = native.plan(batch)
    steps = {"native": training_step(native, x, plan.to("cpu"))}
    with RecordedProducts() as products:
        steps["native"]()
    steps["products"] = products.repeat
    if find_spec("dgl"):
        peer = view_class(view)(WORD_DIM, dim, "dgl")
        peer.load_state_dict(native.state_dict())
        steps["dgl"] = training_step(peer, x, peer.plan(batch).to("cpu"))
    return steps


def training_step(encoder: ViewEncoder, x: Tensor, plan: Plan) -> Step:
    """Return a step: forward, backward from the sum of squares, and gradients set to None."""
    x = x.clone().requires_grad_()
    token = torch.arange(len(x))

    def step() -> None:
        encoder(x, plan, token).square().sum().backward()
        encoder.zero_grad(set_to_none=True)
        x.grad = None

    return step


class RecordedProducts(TorchDispatchMode):
    """Records the matrix products that torch and oneDNN compute in the ``with`` block."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[Step] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = partial(func, *args, **(kwargs or {}))
        if func._schema.name in ("aten::mm", "aten::addmm", "mkldnn::_linear_pointwise"):
            self.products.append(call)
        return call()

    @torch.no_grad()
    def repeat(self) -> None:
        """Compute the recorded products again."""
        for product in self.products:
            product()


cli = Command(
    TreeEngineConfig, main, "benchmarks.tree_engine", "The tree engine beside DGL and its own products."
)


if __name__ == "__main__":
    sys.exit(cli())
