"""Speeds of ``benchmarks.gpu``: training against its arithmetic bound, parsing and encoding against peers."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.gpu.bench import Bench, Part, Result, Skipped
from benchmarks.gpu.checks import training_config
from multiview.encoders.registry import build_view
from multiview.engines.plan import ConstPlan, DepPlan
from multiview.model import MultiViewEncoder
from multiview.training.trainer import Trainer
from parsing.models import load_constituency_parser, load_dependency_parser

WORD_DIM = 300
DIMS = (128, 1200, 2400)


class Dispatches(TorchDispatchMode):
    """While it is active, every operation is counted by name, those of the backward pass included.

    Views are left out, they only make another header. An operation on a list of tensors counts once, as its
    fused kernel would. Kernels that are not torch's (numba, triton) are not seen.
    """

    ALLOCATE = ("aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default")
    """They ask torch's allocator and launch nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Called by torch for every operation."""
        if not func.is_view and str(func) not in (*self.ALLOCATE, "aten.detach.default"):
            self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))

    @property
    def launches(self) -> int:
        """How many operations were counted."""
        return self.counts.total()


def peak_flops(bench: Bench, dtype: torch.dtype) -> float:
    """Operations per second of a large product: what the device can do at best."""
    size = 512 if bench.quick else 8192
    a = torch.randn(size, size, device=bench.device, dtype=dtype)
    per_s, _ = rate(bench, lambda: torch.mm(a, a), 2 * size**3, seconds=0.1 if bench.quick else 1.0)
    return per_s


def rate(bench: Bench, work: Callable[[], object], units: float, *, seconds: float) -> tuple[float, int]:
    """Units per second of a call that is repeated for some seconds, and how often; the first is not timed."""
    work()
    bench.wait()
    began, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - began < min(seconds, max(bench.left_s(), 0)):
        work()
        calls += 1
        if calls % 8 == 0:  # the queue must not run seconds ahead of the clock
            bench.wait()
    bench.wait()
    return units * calls / (time.perf_counter() - began), calls


def flops_per_word(view: str, dim: int) -> float:
    """Operations of the products for a word, forward and twice as many backward (docs/scaling.md)."""
    if view == "const":  # each word: 3 gates; each of n - 1 internal nodes: 5 gates of two children
        forward = 2 * (3 * dim * WORD_DIM + 5 * dim * 2 * dim)
    else:  # each word: 3 gates, p and f as a child; a third of the words: q, f and the gates of h̃
        forward = 2 * (3 * dim * WORD_DIM + 2 * dim * dim + (2 * dim * WORD_DIM + 3 * dim * dim) / 3)
    return 3.0 * forward


def training(bench: Bench) -> Result:
    """Sentences per second of whole steps, and the fraction of what the arithmetic would allow."""
    found: Result = {}
    words = len(bench.trees.read(0, len(bench.trees)).token) / len(bench.trees)
    plans = [(dim, precision) for dim in DIMS for precision in ("float32", "bfloat16")]
    for dim, precision in plans[:1] if bench.quick else plans:
        peak = peak_flops(bench, torch.bfloat16 if precision == "bfloat16" else torch.float32)
        config = training_config(
            bench, bench.device, "speed", views="dep,const", table={"dim": WORD_DIM}, encoder={"dim": dim},
            loop={"batch": 40 if bench.quick else 400, "precision": precision},
        )  # fmt: skip
        trainer = Trainer(config, bench.trees)
        steps = [trainer.prepare(job) for job, _ in zip(trainer.jobs(), range(4), strict=False)]
        turn = iter(steps * 10**6)

        def step(trainer: Trainer = trainer, turn=turn) -> None:  # type: ignore[no-untyped-def]
            trainer.update(trainer.gradient(next(turn)))
            if len(trainer.unread) >= trainer.read_every:
                trainer.unread.read()

        sentences = sum(step.sentences for step in steps) / len(steps)
        per_s, calls = rate(
            bench, step, sentences, seconds=0.5 if bench.quick else min(10.0, bench.left_s() / 3)
        )
        bound = peak / (words * sum(flops_per_word(view, dim) for view in ("dep", "const")))
        found[f"2x{dim} {precision}"] = {
            "sentences_per_s": round(per_s, 1), "bound_per_s": round(bound, 1),
            "fraction": round(per_s / bound, 4), "peak_tflops": round(peak / 1e12, 2), "steps": calls,
        }  # fmt: skip
        if bench.left_s() < 2:
            break
    return found


def against_dgl(bench: Bench) -> Result:
    """One encoder forward and backward, with our engine and with DGL's message passing."""
    if find_spec("dgl") is None:
        raise Skipped("dgl is not installed")
    found: Result = {}
    count = 40 if bench.quick else 400
    batch = bench.trees.read(0, count)
    for view in ("dep", "const"):
        rates = {}
        for engine in ("native", "dgl"):
            encoder = build_view(view, WORD_DIM, DIMS[0], engine).to(bench.device)
            x = torch.randn(int(batch.sentence_offsets[-1]), WORD_DIM, device=bench.device)
            plan = encoder.plan(batch).to(bench.device)

            def step(encoder=encoder, x=x, plan=plan) -> None:  # type: ignore[no-untyped-def]
                encoder.zero_grad(set_to_none=True)
                encoder(x, plan).square().sum().backward()

            rates[engine], _ = rate(bench, step, count, seconds=0.2 if bench.quick else 4.0)
        found[view] = {name: round(value, 1) for name, value in rates.items()}
    return found


def parsing(bench: Bench) -> Result:
    """Sentences per second of both built-in parsers."""
    some = bench.sentences[: 40 if bench.quick else 2400]
    found: Result = {}
    for name, load in (("dep", load_dependency_parser), ("const", load_constituency_parser)):
        for precision in ("fp32",) if bench.quick else ("fp32", "bf16"):
            parser = load("builtin", precision, bench.device)  # type: ignore[arg-type]
            per_s, _ = rate(
                bench, lambda p=parser: p.parse(some), len(some), seconds=0.1 if bench.quick else 3.0
            )  # type: ignore[misc]
            found[f"{name}/{precision}"] = round(per_s, 1)
    return found


def libraries(bench: Bench) -> Result:
    """Sentences per second of supar's and benepar's own code, with the weights of our built-in parsers.

    A library that fails on the device is reported; it does not fail the benchmark.
    """
    some = [list(tokens) for tokens in bench.sentences[: 20 if bench.quick else 1000]]
    found: Result = {}
    for name, stock in (("supar", _supar), ("benepar", _benepar)):
        if find_spec(name) is None:
            found[name] = "not installed"
            continue
        try:
            with warnings.catch_warnings():  # they use what torch deprecates
                warnings.simplefilter("ignore")
                parse = stock(bench, some)
                per_s, _ = rate(bench, parse, len(some), seconds=0.1 if bench.quick else bench.left_s() / 3)
            found[name] = round(per_s, 1)
        except Exception as error:
            found[name] = f"failed on {bench.device}: {type(error).__name__}: {error}"
    return found


def _supar(bench: Bench, sentences: list[list[str]]) -> Callable[[], object]:
    from parsing.dependency.model import DependencyModel
    from parsing.models import BUILTIN, BUILTIN_DEPENDENCY
    from parsing.networks.model_folder import load_model_folder
    from tests.oracles.supar import stock_predict, to_supar

    folder = load_model_folder(BUILTIN / BUILTIN_DEPENDENCY, "dependency")
    stock = to_supar(DependencyModel.from_folder(folder))
    stock.model.to(bench.device)
    return lambda: stock_predict(stock, sentences)


def _benepar(bench: Bench, sentences: list[list[str]]) -> Callable[[], object]:
    from parsing.constituency.model import ConstituencyModel
    from parsing.models import BUILTIN, BUILTIN_CONSTITUENCY
    from parsing.networks.model_folder import load_model_folder
    from tests.oracles.benepar import stock_parse, to_benepar

    folder = load_model_folder(BUILTIN / BUILTIN_CONSTITUENCY, "constituency")
    stock = to_benepar(ConstituencyModel.from_folder(folder)).to(bench.device)
    return lambda: stock_parse(stock, sentences, subbatch_max_tokens=20_000)


def encode(bench: Bench) -> Result:
    """Sentences per second of ``encode`` with stored trees, and of a MiniLM if it is on this machine."""
    dim = DIMS[0] if bench.quick else DIMS[1]
    encoder = MultiViewEncoder.untrained("dep,const", dim=dim, device=bench.device)
    some = [list(tokens) for tokens in bench.sentences[: 40 if bench.quick else 2400]]
    found: Result = {}
    per_s, _ = rate(
        bench,
        lambda: encoder.encode(some, trees=bench.trees, batch_size=400),
        len(some),
        seconds=0.1 if bench.quick else 5.0,
    )
    found["ours"] = round(per_s, 1)
    try:
        from sentence_transformers import SentenceTransformer

        name = "sentence-transformers/all-MiniLM-L6-v2"
        peer = SentenceTransformer(name, device=str(bench.device), local_files_only=True)
    except Exception as error:
        return {**found, "minilm": f"not here ({type(error).__name__})"}
    texts = [" ".join(tokens) for tokens in some]
    per_s, _ = rate(
        bench, lambda: peer.encode(texts, batch_size=400), len(some), seconds=0.1 if bench.quick else 5.0
    )
    return {**found, "minilm": round(per_s, 1)}


def launches(bench: Bench) -> Result:
    """Operations that a batch of each view queues, forward and backward, and its number of levels."""
    found: Result = {}
    batch = bench.trees.read(0, 40 if bench.quick else 400)
    for view in ("seq", "dep", "const"):
        encoder = build_view(view, 24, 32).to(bench.device)
        x = torch.randn(int(batch.sentence_offsets[-1]), 24, device=bench.device, requires_grad=True)
        plan = encoder.plan(batch).to(bench.device)
        with Dispatches() as seen:
            encoder(x, plan).square().sum().backward()
        levels = len(plan.levels()) if isinstance(plan, ConstPlan | DepPlan) else len(plan.batch_sizes)
        found[view] = {"operations": seen.launches, "levels": levels}
    return {**found, "note": "kernels of numba or triton, two to four per level, come on top"}


PARTS: dict[str, tuple[Part, float]] = {
    "launches": (launches, 0.5),
    "training": (training, 8),
    "dgl": (against_dgl, 2),
    "parsing": (parsing, 2),
    "libraries": (libraries, 2),
    "encode": (encode, 2),
}
