"""Checks of ``benchmarks.gpu``: a device against the CPU, and what a run on it has to keep."""

from __future__ import annotations

import dataclasses
import itertools
import os
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.gpu.bench import Bench, Part, Result, Skipped
from multiview.config import TrainConfig, preset
from multiview.encoders.registry import build_view
from multiview.training.distributed import _Gather
from multiview.training.trainer import Trainer
from parsing.models import load_constituency_parser, load_dependency_parser
from parsing.networks.config import ModelConfig
from parsing.pipeline.workers import give_memory_back
from parsing.text_parser import TextParser
from parsing.training.config import LoopConfig
from parsing.training.parsers import ParserTask, Treebanks
from parsing.trees.agreement import constituency_agreement, dependency_agreement
from parsing.trees.brackets import read_tree

FP32, GRADIENT = 1e-4, 2e-3
"""Largest error of values and gradients in fp32, relative to the largest value of the tensor. Sums of a few
thousand products differ by about 1e-6; a gradient adds up over all words and levels."""
BF16_COSINE = 0.99
"""Smallest cosine of sentence vectors in bf16 with those in fp32."""
SAME_TREES = 98.0
"""Per cent of sentences whose trees must equal the CPU's in fp32."""


def training_config(bench: Bench, device: torch.device | str, name: str, **changes: object) -> TrainConfig:
    """A small run on the benchmark's trees; groups of options are given as dictionaries."""
    base = dataclasses.replace(
        preset("gpu"), device=str(device), trees=bench.trees.folder, output=bench.folder / "models", name=name
    )
    small: dict[str, dict[str, object]] = {
        "table": {"dim": 24}, "encoder": {"dim": 32}, "validation": {"sentences": 0},
        "loop": {"batch": 40, "segments": 1, "precision": "float32", "epochs": 50},
    }  # fmt: skip
    for group, values in changes.items():
        small[group] = {**small.get(group, {}), **values} if isinstance(values, dict) else values  # type: ignore[assignment]
    groups = {
        group: dataclasses.replace(getattr(base, group), **values) if isinstance(values, dict) else values
        for group, values in small.items()
    }
    return dataclasses.replace(base, **groups)  # type: ignore[arg-type]


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
    for view, engine in itertools.product(("seq", "dep", "const"), ("native", "torch", "dgl")):
        if engine == "dgl" and (view == "seq" or find_spec("dgl") is None):
            continue
        torch.manual_seed(0)
        reference, ours = build_view(view, 24, 32, "torch"), build_view(view, 24, 32, engine)
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
    return {"errors": found, "limits": [FP32, GRADIENT]}


LOSSES: dict[str, dict[str, object]] = {
    "paper": {"objective": {"denominator": "paper", "direction": "forward"}},
    "all": {"objective": {"denominator": "all", "direction": "both", "self_score": "zero"}},
    "dot": {"objective": {"score": "dot", "boundary": "none"}},
    "gathered": {"objective": {"negatives": "step"}, "loop": {"segments": 2}},
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
    return {"errors": found, "limits": [FP32, GRADIENT]}


def waiting(bench: Bench) -> Result:
    """Torch's own watch: a step in which the program waits for the device is an error."""
    if bench.device.type != "cuda":
        raise Skipped("torch watches for waiting on CUDA only; tests/multiview/training/test_waiting.py here")
    trainer = Trainer(training_config(bench, bench.device, "waiting"), bench.trees)
    jobs = trainer.jobs()
    steps = [trainer.prepare(next(jobs)) for _ in range(4)]
    for number, step in enumerate(steps):  # the first steps compile kernels and fill the allocator
        torch.cuda.set_sync_debug_mode("error" if number > 1 else "default")
        try:
            trainer.update(trainer.gradient(step))
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return {"steps": len(trainer.unread.read())}


def resume(bench: Bench) -> Result:
    """A run that is stopped and resumed has the bits of one that was not."""
    sides = []
    for name, limits in (("whole", (6,)), ("resumed", (3, 6))):
        for steps in limits:
            # A constant rate does not depend on how many steps are still to come.
            changes = {"loop": {"max_steps": 6, "checkpoint_every": 3}, "optimiser": {"schedule": "constant"}}
            trainer = Trainer(training_config(bench, bench.device, name, **changes), bench.trees)
            trainer.resume()
            trainer.total_steps = steps  # as if it were killed after the checkpoint
            trainer.position.finished = ""
            trainer.config.folder.mkdir(parents=True, exist_ok=True)
            trainer.run(lambda _: None)
        newest = sorted((trainer.config.folder / "checkpoints").glob("step-*"))[-1]
        sides.append(_tensors(newest))
    different = [name for name, value in sides[0].items() if not torch.equal(value, sides[1][name])]
    if different:
        raise AssertionError(f"{len(different)} of {len(sides[0])} tensors differ, {different[0]} first")
    return {"tensors": len(sides[0])}


def _tensors(folder: Path) -> dict[str, Tensor]:
    files = ("weights.safetensors", "optimiser.safetensors")
    return {f"{file}/{name}": value for file in files for name, value in load_file(folder / file).items()}


def one_process(bench: Bench) -> Result:
    """The collective calls of a group of one process: gathering with gradient, sums, the hosts' group."""
    import torch.distributed as dist

    cuda = bench.device.type == "cuda"
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29577"}
    dist.init_process_group("nccl" if cuda else "gloo", rank=0, world_size=1)
    try:
        hosts = dist.new_group(backend="gloo")
        x = torch.randn(5, 3, device=bench.device, requires_grad=True)
        gathered: Tensor = _Gather.apply(x, (5,), 0)  # type: ignore[no-untyped-call]
        gathered.square().sum().backward()
        assert x.grad is not None
        require("gather", error(x.grad, 2 * x), 0.0)
        total = x.detach().clone()
        dist.all_reduce(total)
        require("all_reduce", error(total, x), 0.0)
        rows = torch.arange(4)
        dist.all_reduce(rows, group=hosts)
    finally:
        dist.destroy_process_group()
    return {"backend": "nccl" if cuda else "gloo"}


def memory(bench: Bench) -> Result:
    """Memory of the device and the host over 2,000 steps."""
    trainer = Trainer(training_config(bench, bench.device, "memory"), bench.trees)
    wanted, done = (40 if bench.quick else 2000), 0
    readings: list[tuple[int, int]] = []
    while done < wanted and bench.left_s() > 1:
        for job in trainer.jobs():
            trainer.update(trainer.gradient(trainer.prepare(job)))
            done += 1
            if done % (wanted // 10) == 0:
                trainer.unread.read()
                cuda = bench.device.type == "cuda"
                readings.append((torch.cuda.memory_allocated(bench.device) if cuda else 0, _resident()))
            if done >= wanted or bench.left_s() <= 1:
                break
    if len(readings) < 4:
        raise Skipped(f"only {done} steps in its time")
    (device_before, host_before), (device_after, host_after) = readings[len(readings) // 3], readings[-1]
    grown = host_after - host_before
    require("device memory growth", (device_after - device_before) / max(device_before, 1), 0.05)
    require("host memory growth, bytes", float(grown), 200e6)
    return {"steps": done, "device_mb": round(device_after / 1e6, 1), "host_growth_mb": round(grown / 1e6, 1)}


def _resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    give_memory_back()  # what the allocator keeps of it came to 0.2 GB in 27 steps
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else 0


def parsers(bench: Bench) -> Result:
    """Both built-in parsers in fp32 and bf16: agreement with the trees of the CPU in fp32, in per cent."""
    some = bench.sentences[: 40 if bench.quick else 1000]
    found: Result = {}
    for kind in ("dep", "const"):
        for precision in ("fp32",) if bench.quick else ("fp32", "bf16"):
            if kind == "dep":
                agreement = dependency_agreement(
                    load_dependency_parser("builtin", precision, bench.device).parse(some),  # type: ignore[arg-type]
                    load_dependency_parser("builtin").parse(some),
                )
            else:
                agreement = constituency_agreement(
                    load_constituency_parser("builtin", precision, bench.device).parse(some),  # type: ignore[arg-type]
                    load_constituency_parser("builtin").parse(some),
                )
            if precision == "fp32":
                require(
                    f"{kind}: sentences with other trees", 100 - agreement["same_trees"], 100 - SAME_TREES
                )
            found[f"{kind}/{precision}"] = {name: round(value, 2) for name, value in agreement.items()}
    return found


def parser_training(bench: Bench) -> Result:
    """Loss and gradients of both parsers over one encoder, on their own trees of some sentences."""
    parsed = TextParser(load_dependency_parser("builtin"), load_constituency_parser("builtin")).parse(
        bench.sentences[:60]
    )
    gold = [sentence.annotation() for sentence in parsed]
    trees = [read_tree(sentence.tree) for sentence in gold if sentence.tree is not None]
    losses, gradients = [], []
    for device in ("cpu", bench.device):
        task = ParserTask(
            Treebanks(sentences=gold, trees=trees), ModelConfig(), LoopConfig(), torch.device(device)
        )
        task.module.eval()
        loss = task.loss(list(range(len(gold))))
        loss.backward()
        losses.append(loss)
        gradients.append({name: p.grad for name, p in task.module.named_parameters() if p.grad is not None})
    largest = max(error(gradients[1][name], expected) for name, expected in gradients[0].items())
    return {
        "loss": require("loss", error(losses[1], losses[0]), FP32),
        "gradients": require("gradients", largest, GRADIENT),
    }


PARTS: dict[str, tuple[Part, float]] = {
    "encoders": (encoders, 2),
    "losses": (losses, 2),
    "waiting": (waiting, 1),
    "resume": (resume, 1),
    "one process": (one_process, 1),
    "parsers": (parsers, 2),
    "parser training": (parser_training, 1),
    "memory": (memory, 4),
}
