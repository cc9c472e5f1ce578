"""Check and measure everything on a GPU, in some minutes.

Experimental: never run on a GPU; with ``--device cpu --quick`` it runs as a rehearsal.

    python -m benchmarks.gpu
    python -m benchmarks.gpu --device cpu --quick

First the checks: every encoder, engine, loss option and parser against the CPU, and what a run on a
device has to keep. Then the speeds. A part that fails does not stop the others. Prints a line per part and,
as the last line, everything as JSON; exit code 1 if a part failed. It needs no data and no network.
"""

from __future__ import annotations

import itertools
import json
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil
import torch
from safetensors.torch import load_file
from torch import Tensor

from multiview.config import TrainConfig, preset
from multiview.encoders.registry import view_class
from multiview.model import MultiViewEncoder
from multiview.training.gradient import StepResult
from multiview.training.trainer import READ_EVERY, Trainer
from parsing.pipeline.driver import give_memory_back
from parsing.run import cli as parse
from parsing.score import same_trees
from parsing.text_parser import load_parser
from parsing.trees.cache import TreeCache
from runtime.cli import Command, configuration
from runtime.device import pick_device
from tests.fixtures.trees import changed

Result = dict[str, object]
FP32, GRADIENT = 1e-4, 2e-3
"""Largest error of values and gradients in fp32, relative to the largest value of the tensor. Sums of a few
thousand products differ by about 1e-6; a gradient adds up over all words and levels."""
BF16_COSINE = 0.99
"""Smallest cosine of sentence vectors in bf16 with those in fp32."""
SAME_TREES = 98.0
"""Per cent of sentences whose trees must equal the CPU's in fp32."""
WORD_DIM = 300


@dataclass(frozen=True)
class Bench:
    """What the parts share."""

    device: torch.device
    quick: bool
    """Only show that the parts run."""
    folder: Path
    """For files that nobody keeps."""
    trees: TreeCache
    """Documentation, parsed by the builtin parsers on the CPU."""
    sentences: Sequence[list[str]]

    @classmethod
    def make(cls, device: torch.device, folder: Path, *, quick: bool = False, size: int = 2400) -> Bench:
        """Parse so many sentences."""
        trees = folder / "trees"
        parse(["books", "--limit", str(size), "--output", str(trees), "--workers", "1"])
        cache = TreeCache.open(trees)
        return cls(device, quick, folder, cache, [*cache.read(0, len(cache), ("token",)).words()])

    def wait(self) -> None:
        """Until the device has done what was queued."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def rate(self, work: Callable[[], object], units: float) -> float:
        """Units per second of a call that is repeated for some seconds; the first is not timed."""
        work()
        self.wait()
        began, calls = time.perf_counter(), 0
        while calls == 0 or time.perf_counter() - began < (0.1 if self.quick else 5.0):
            work()
            calls += 1
            if calls % 8 == 0:  # the queue must not run seconds ahead of the clock
                self.wait()
        self.wait()
        return round(units * calls / (time.perf_counter() - began), 1)


def training_config(bench: Bench, device: torch.device | str, name: str, **changes: object) -> TrainConfig:
    """A small run on the benchmark's trees; groups of options are given as dictionaries."""
    folders = {"trees": bench.trees.folder, "output": bench.folder / "models"}
    loop = {"batch": 40, "segments": 1, "precision": "float32", "epochs": 50, "validation": 0}
    small = changed(
        preset("gpu"),
        table={"dim": 24},
        encoder={"dim": 32},
        loop=loop,
        device=str(device),
        name=name,
        **folders,
    )
    return changed(small, **changes)


def error(found: Tensor, expected: Tensor) -> float:
    """Largest difference, relative to the largest value."""
    found, expected = found.detach().double().cpu(), expected.detach().double().cpu()
    return float((found - expected).abs().max() / expected.abs().max().clamp_min(1e-12))


def require(name: str, value: float, limit: float) -> float:
    """The value, rounded, if it keeps the limit."""
    if not value <= limit:
        raise AssertionError(f"{name}: error {value:.2g} is above {limit:g}")
    return float(f"{value:.2g}")


def encoders(bench: Bench) -> Result:
    """Every view and engine: vectors and gradients in fp32, vectors in bf16."""
    found: Result = {}
    batch = bench.trees.read(0, 60)
    for view, engine in itertools.product(("seq", "dep", "const"), ("native", "dgl")):
        if engine == "dgl" and (view == "seq" or find_spec("dgl") is None):
            continue
        torch.manual_seed(0)
        reference, ours = view_class(view)(24, 32), view_class(view)(24, 32, engine)
        ours.load_state_dict(reference.state_dict())
        ours.to(bench.device)
        x = torch.randn(int(batch.sentence_offsets[-1]), 24)
        sides = []
        for encoder, device in ((reference, torch.device("cpu")), (ours, bench.device)):
            leaf = x.to(device).requires_grad_()
            vectors = encoder(leaf, encoder.plan(batch))
            vectors.square().sum().backward()
            gradients = [leaf.grad, *(p.grad for p in encoder.parameters())]
            sides.append((vectors, [g for g in gradients if g is not None]))
        (expected, wanted), (vectors, gradients) = sides
        name = f"{view}/{engine}"
        worst = max(error(g, w) for g, w in zip(gradients, wanted, strict=True))
        found[name] = [require(name, error(vectors, expected), FP32), require(name, worst, GRADIENT)]
        with torch.no_grad(), torch.autocast(bench.device.type, torch.bfloat16):
            reduced = ours(x.to(bench.device), ours.plan(batch)).float().cpu()
        cosine = float(torch.nn.functional.cosine_similarity(reduced, expected.detach()).min())
        require(f"{name} in bf16, 1 - cosine", 1 - cosine, 1 - BF16_COSINE)
    return found


LOSSES: dict[str, dict[str, object]] = {
    "paper": {"objective": {"denominator": "paper", "direction": "forward"}},
    "all": {"objective": {"denominator": "quickthought", "direction": "both"}},
    "dot": {"objective": {"score": "dot", "boundary": "none"}},
    "cached": {"loop": {"micro_batch": 7}},
    "seq,dep,const": {"views": "seq,dep,const", "table": {"update": "dense"}},
}


def losses(bench: Bench) -> Result:
    """Every option of the loss: metrics and gradients of a step."""
    found: Result = {}
    for name, changes in LOSSES.items():
        sides = []
        for device in ("cpu", bench.device):
            trainer = Trainer(training_config(bench, device, "losses", **changes), bench.trees)
            result = trainer.gradient(trainer.prepare(next(trainer.jobs())))
            gradients = [p.grad for p in trainer.network.parameters() if p.grad is not None]
            sides.append((result.metrics, [*gradients, *result.row_gradients]))
        (expected, wanted), (metrics, gradients) = sides
        worst = max(error(g, w) for g, w in zip(gradients, wanted, strict=True))
        # The fractions of hits may differ where two scores are equal, so only the losses are compared.
        losses_only = slice(0, (len(expected) + 1) // 2)
        values = error(metrics[losses_only], expected[losses_only])
        found[name] = [require(name, values, FP32), require(name, worst, GRADIENT)]
    return found


def waiting(bench: Bench) -> Result:
    """Torch's own watch, on CUDA only: a step in which the program waits for the device is an error."""
    trainer = Trainer(training_config(bench, bench.device, "waiting"), bench.trees)
    jobs = trainer.jobs()
    steps = [trainer.prepare(next(jobs)) for _ in range(4)]
    for number, step in enumerate(steps):  # the first steps compile kernels and fill the allocator
        if bench.device.type == "cuda":
            torch.cuda.set_sync_debug_mode("error" if number > 1 else "default")
        try:
            trainer.update(trainer.gradient(step))
        finally:
            if bench.device.type == "cuda":
                torch.cuda.set_sync_debug_mode("default")
    return {"steps": len(trainer.read())}


def resume(bench: Bench) -> Result:
    """A run that is stopped and resumed has the bits of one that was not."""
    sides = []
    for name, codes in (("whole", (0,)), ("resumed", (143, 0))):
        for code in codes:
            config = training_config(bench, bench.device, name, loop={"max_steps": 6})
            trainer = Trainer(config, bench.trees)
            if code:
                stop_after_a_step(trainer)
            assert trainer.run() == code
        newest = sorted((trainer.config.folder / "checkpoints").glob("step-*"))[-1]
        sides.append(load_file(newest / "weights.safetensors"))
    different = [name for name, value in sides[0].items() if not torch.equal(value, sides[1][name])]
    if different:
        raise AssertionError(f"{len(different)} of {len(sides[0])} tensors differ, {different[0]} first")
    return {"tensors": len(sides[0])}


def stop_after_a_step(trainer: Trainer) -> None:
    """End its run by SIGTERM, after which it writes a checkpoint."""
    update = trainer.update

    def last(result: StepResult) -> float:
        signal.raise_signal(signal.SIGTERM)
        return update(result)

    trainer.update = last  # type: ignore[method-assign]


def memory(bench: Bench) -> Result:
    """Memory of the device and the host stays the same over 2,000 steps."""
    trainer = Trainer(training_config(bench, bench.device, "memory"), bench.trees)
    wanted = 40 if bench.quick else 2000
    readings: list[tuple[int, int]] = []
    steps = itertools.cycle([trainer.prepare(job) for job, _ in zip(trainer.jobs(), range(20), strict=False)])
    for done in range(1, wanted + 1):
        trainer.update(trainer.gradient(next(steps)))
        if done % (wanted // 10) == 0:
            trainer.read()
            give_memory_back()  # what the allocator keeps of the host's
            on_device = torch.cuda.memory_allocated(bench.device) if bench.device.type == "cuda" else 0
            readings.append((on_device, psutil.Process().memory_info().rss))
    grown = [last - half for half, last in zip(readings[len(readings) // 2], readings[-1], strict=True)]
    if not bench.quick:
        require("device memory grows, MB", grown[0] / 1e6, 1.0)
        require("host memory grows, MB", grown[1] / 1e6, 50.0)
    return {"steps": wanted, "device_mb": round(readings[-1][0] / 1e6, 1), "host_growth_mb": grown[1] / 1e6}


def parsers(bench: Bench) -> Result:
    """Both built-in parsers: per cent of trees that equal the CPU's in fp32, and sentences/s."""
    some = bench.sentences[: 40 if bench.quick else 1000]
    found: Result = {}
    for kind in ("dep", "const"):
        expected, parser = load_parser(kind).parse(some), load_parser(kind, device=bench.device)
        same = same_trees(parser.parse(some), expected)
        require(f"{kind}: sentences with other trees", 100 - same, 100 - SAME_TREES)
        per_s = bench.rate(lambda p=parser: p.parse(some), len(some))  # type: ignore[misc]
        found[kind] = {"same_trees": same, "sentences_per_s": per_s}
    return found


def training(bench: Bench) -> Result:
    """Sentences per second of whole steps of DEP and CONST."""
    found: Result = {}
    plans = [(dim, precision) for dim in (128, 1200, 2400) for precision in ("float32", "bfloat16")]
    for dim, precision in plans[:1] if bench.quick else plans:
        config = training_config(
            bench, bench.device, "speed", views="dep,const", table={"dim": WORD_DIM}, encoder={"dim": dim},
            loop={"batch": 40 if bench.quick else 400, "precision": precision},
        )  # fmt: skip
        trainer = Trainer(config, bench.trees)
        steps = [trainer.prepare(job) for job, _ in zip(trainer.jobs(), range(4), strict=False)]
        turn = itertools.cycle(steps)

        def step(trainer: Trainer = trainer, turn=turn) -> None:  # type: ignore[no-untyped-def]
            trainer.update(trainer.gradient(next(turn)))
            if len(trainer.unread) >= READ_EVERY["cuda"]:
                trainer.read()

        found[f"2x{dim} {precision}"] = bench.rate(step, sum(one.sentences for one in steps) / len(steps))
    return found


def encode(bench: Bench) -> Result:
    """Sentences per second of ``encode`` with stored trees."""
    encoder = MultiViewEncoder.untrained("dep,const", dim=128 if bench.quick else 1200, device=bench.device)
    work = lambda: encoder.encode(None, trees=bench.trees, batch_size=400)  # noqa: E731
    return {"sentences_per_s": bench.rate(work, len(bench.trees))}


CHECKS = (encoders, losses, waiting, resume, memory, parsers)
SPEEDS = (training, encode)


@configuration
class GpuBenchmark:
    """Options of the benchmark."""

    device: str = "cuda"
    """Device to check and measure; cpu tests the command itself."""
    quick: bool = False
    """Small sizes, only to show that every part runs."""


def main(config: GpuBenchmark) -> int:
    """Run every part and print the results."""
    device = pick_device(config.device)
    results: dict[str, Result] = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench.make(device, Path(folder), quick=config.quick, size=120 if config.quick else 2400)
        for part in (*CHECKS, *SPEEDS):
            began = time.monotonic()
            try:
                found = part(bench)
            except Exception as failure:
                found = {"failed": f"{failure}", "where": traceback.format_exc().splitlines()[-4:]}
            results[part.__name__] = {**found, "seconds": round(time.monotonic() - began, 1)}
            print(f"{part.__name__:<10} {json.dumps(results[part.__name__])}", flush=True)
    good = not any("failed" in found for found in results.values())
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    facts = {"benchmark": "gpu", "device": name, "torch": torch.__version__, "quick": config.quick}
    print(json.dumps({**facts, "good": good, "parts": results}))
    return int(not good)


cli = Command(GpuBenchmark, main, "benchmarks.gpu", "Check and measure everything on a GPU.")


if __name__ == "__main__":
    sys.exit(cli())
