"""Encoders, losses, runs and parsers on a GPU beside the CPU: ``pytest -m gpu tests/test_gpu.py``.

They passed on an H100 80GB with torch 2.11 on 26 November 2026. The same checks run on the CPU at a small
size, so that they stay whole.
No data and no network are needed.
"""

import itertools
import signal
from pathlib import Path
from unittest.mock import patch

import psutil
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from multiview.config import NewViewsConfig, preset
from multiview.encoders.registry import view_class
from multiview.train import open_trainer
from multiview.training.gradient import StepResult
from multiview.training.trainer import Trainer
from parsing.run import cli as parse
from parsing.score import equal_trees
from parsing.text_parser import load_parser
from parsing.trees.cache import TreeCache
from runtime.device import pick_device
from runtime.pool import LocalPool, give_memory_back
from runtime.training_step import StepMetrics, read_metrics
from tests.fixtures.trees import changed

VALUES, GRADIENTS = 1e-4, 2e-3
"""Largest error in float32, relative to a tensor's largest value. Sums of a few thousand products differ by
about 1e-6; a gradient adds up over all words and levels."""
BF16_COSINE = 0.99
"""Smallest cosine of sentence vectors in bfloat16 with those in float32."""
EQUAL_TREES = 98.0
"""Per cent of sentences whose trees must equal the CPU's."""


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    return pick_device(request.param)


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> TreeCache:
    folder = tmp_path_factory.mktemp("gpu") / "trees"
    size = 2400 if torch.cuda.is_available() else 120
    with patch.object(LocalPool, "_start"):  # this process parses
        parse(["books", "--limit", str(size), "--output", str(folder), "--workers", "1"])
    return TreeCache.open(folder)


Outputs = tuple[Tensor, list[Tensor]]
"""Vectors or losses, and gradients."""


def error(result: Tensor, reference: Tensor) -> float:
    """Largest difference, relative to the largest value."""
    result, reference = result.detach().double().cpu(), reference.detach().double().cpu()
    return float((result - reference).abs().max() / reference.abs().max().clamp_min(1e-12))


def assert_close(reference: Outputs, outputs: Outputs) -> None:
    assert error(outputs[0], reference[0]) < VALUES
    assert max(error(*pair) for pair in zip(outputs[1], reference[1], strict=True)) < GRADIENTS


def training_config(
    trees: TreeCache, output: Path, device: torch.device | str, **changes: object
) -> NewViewsConfig:
    """A small run; groups of options are given as dictionaries."""
    loop = {"batch": 40, "segments": 1, "precision": "float32", "epochs": 50, "validation": 0}
    small = changed(
        preset("gpu"),
        table={"dim": 24},
        encoder={"dim": 32},
        loop=loop,
        device=str(device),
        trees=trees.folder,
        output=output,
        name="gpu",
    )
    return changed(small, **changes)


@pytest.mark.parametrize(
    ("view", "engine"),
    [("seq", "native"), ("dep", "native"), ("dep", "dgl"), ("const", "native"), ("const", "dgl")],
)
def test_vectors_and_gradients(view: str, engine: str, device: torch.device, trees: TreeCache) -> None:
    if engine == "dgl":
        pytest.importorskip("dgl")
    torch.manual_seed(0)
    batch = trees.read(0, 60)
    reference, ours = view_class(view)(24, 32), view_class(view)(24, 32, engine)
    ours.load_state_dict(reference.state_dict())
    ours.to(device)
    x = torch.randn(int(batch.sentence_offsets[-1]), 24)
    sides = []
    for encoder, place in ((reference, torch.device("cpu")), (ours, device)):
        leaf = x.to(place).detach().requires_grad_()
        vectors = encoder(leaf, encoder.plan(batch), torch.arange(len(leaf), device=place))
        vectors.square().sum().backward()
        gradients = [leaf.grad, *(p.grad for p in encoder.parameters())]
        sides.append((vectors, [g for g in gradients if g is not None]))
    assert_close(*sides)
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
        places = torch.arange(len(x), device=device)
        rough_vectors = ours(x.to(device), ours.plan(batch), places).float().cpu()
    vectors = sides[0][0].detach()
    assert torch.nn.functional.cosine_similarity(rough_vectors, vectors).min() > BF16_COSINE


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": {"denominator": "paper", "direction": "forward"}},
        {"objective": {"denominator": "quickthought", "direction": "both"}},
        {"objective": {"score": "dot", "boundary": "none"}},
        {"loop": {"micro_batch": 7}},
        {"views": "seq,dep,const", "table": {"update": "dense"}},
    ],
    ids=lambda changes: ",".join(changes),
)
def test_losses(changes: dict[str, object], device: torch.device, trees: TreeCache, tmp_path: Path) -> None:
    """Metrics and gradients of a step. Hits may differ where two scores are equal, so losses are compared."""
    sides = []
    for place in ("cpu", device):
        trainer = open_trainer(training_config(trees, tmp_path, place, **changes))
        result = trainer.gradient(next(trainer.jobs())())
        gradients = [p.grad for p in trainer.network.parameters() if p.grad is not None]
        losses = result.metrics[: (len(result.metrics) + 1) // 2]
        sides.append((losses, [*gradients, *result.row_gradients]))
    assert_close(*sides)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype:UserWarning")
def test_a_step_waits_for_nothing(device: torch.device, trees: TreeCache, tmp_path: Path) -> None:
    """By torch's own watch, on CUDA alone. The first steps compile kernels and fill the allocator."""
    trainer = open_trainer(training_config(trees, tmp_path, device))
    jobs = trainer.jobs()
    steps, unread = [next(jobs)() for _ in range(4)], list[StepMetrics]()
    for number, step in enumerate(steps):
        if device.type == "cuda":
            torch.cuda.set_sync_debug_mode("error" if number > 1 else "default")
        try:
            unread.append(trainer.update(trainer.gradient(step)))
        finally:
            if device.type == "cuda":
                torch.cuda.set_sync_debug_mode("default")
    assert len(read_metrics(unread, 4, "--name")) == 4


def test_a_stopped_run_resumes_to_the_same_bits(
    device: torch.device, trees: TreeCache, tmp_path: Path
) -> None:
    sides = []
    for name, codes in (("whole", (0,)), ("resumed", (143, 0))):
        for code in codes:
            config = training_config(trees, tmp_path, device, name=name, loop={"max_steps": 6})
            trainer = open_trainer(config)
            if code:
                stop_after_a_step(trainer)
            assert trainer.run() == code
        newest = sorted((trainer.folder / "checkpoints").glob("step-*"))[-1]
        sides.append(load_file(newest / "weights.safetensors"))
    assert [name for name, value in sides[0].items() if not torch.equal(value, sides[1][name])] == []


def stop_after_a_step(trainer: Trainer) -> None:
    """End its run by SIGTERM, after which it writes a checkpoint."""
    update = trainer.update

    def last_update(result: StepResult, sentences: int) -> StepMetrics:
        signal.raise_signal(signal.SIGTERM)
        return update(result, sentences)

    trainer.update = last_update  # type: ignore[method-assign]


def test_memory_does_not_grow(device: torch.device, trees: TreeCache, tmp_path: Path) -> None:
    """Over 2,000 steps on a device, at most 1 MB there and 50 MB of the host."""
    trainer = open_trainer(training_config(trees, tmp_path, device))
    step_count = 2000 if device.type == "cuda" else 40
    readings: list[tuple[int, int]] = []
    steps = itertools.cycle([job() for job in itertools.islice(trainer.jobs(), 20)])
    for number in range(1, step_count + 1):
        metrics = trainer.update(trainer.gradient(next(steps)))
        if number % (step_count // 10) == 0:
            read_metrics([metrics], number, "--name")
            give_memory_back()  # what the allocator keeps of the host's
            on_device = torch.cuda.memory_allocated(device) if device.type == "cuda" else 0
            readings.append((on_device, psutil.Process().memory_info().rss))
    growth_of_device, growth_of_host = (
        end - half for half, end in zip(readings[4], readings[-1], strict=True)
    )
    assert growth_of_device < 1e6 and growth_of_host < 50e6


@pytest.mark.parametrize("kind", ["dep", "const"])
def test_trees(kind: str, device: torch.device, trees: TreeCache) -> None:
    sentences = [*trees.read(0, min(len(trees), 1000), ("token",)).words()]
    trees_of_cpu, trees_of_device = (
        load_parser(kind, device=place).parse(sentences) for place in (torch.device("cpu"), device)
    )
    assert equal_trees(trees_of_device, trees_of_cpu) >= EQUAL_TREES
