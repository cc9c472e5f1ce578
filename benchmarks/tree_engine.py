"""The native tree engine against DGL and against its own matrix products, alternating in one run.

    MULTIVIEW_DATA=... python -m benchmarks.tree_engine [--hidden 100 300 1200 2400] [--views const dep seq]

A step is forward and backward over a batch of 400 gold-tree sentences of GUM (random trees of the same size
without the data; fewer sentences from D = 1200). ``floor`` makes the same matrix products at the same level
sizes by ``torch.mm``, with weight gradients merged, and nothing else: ``floor_fraction`` is its time over
ours, above 1 where the engine's products are faster. ``products_fraction`` is the same with the engine's own
products. ``ratio_dgl`` is DGL's time over ours; DGL's graphs and frontiers are made beforehand, like our
plans. For seq the peer is ``nn.GRU`` alone on a packed sequence. Prints a table and one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.timing import alternate
from corpora.treebanks import read_conllu
from multiview.encoders.registry import Encoder, build_view
from multiview.engines import memory
from multiview.engines.plan import ConstPlan, DepPlan, SequencePlan
from parsing.networks.products import Products
from parsing.pipeline.workers import give_memory_back
from parsing.trees.arrays import constituency_heights, dependency_heights
from parsing.trees.binarise import binarise
from parsing.trees.brackets import SpanTree, read_trees, to_parse
from tests.multiview.engines.trees import random_children, random_heads

WORD_DIM = 300
Step = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hidden", type=int, nargs="+", default=[100, 300, 1200, 2400], help="widths D")
    parser.add_argument("--views", nargs="+", default=["const", "dep", "seq"], help="views to measure")
    parser.add_argument("--sentences", type=int, default=400, help="sentences per batch")
    parser.add_argument("--rounds", type=int, default=7, help="alternations")
    parser.add_argument("--threads", type=int, default=2, help="torch threads")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu: on a machine in use")
    parser.add_argument("--without-dgl", action="store_true", help="measure against the floor alone")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    clock = time.perf_counter if arguments.clock == "wall" else time.process_time
    report: dict[str, dict[str, dict[str, float]]] = {}
    for view in arguments.views:
        for hidden in arguments.hidden:
            # At D = 2400 DGL takes minutes for a step of 400 sentences on two cores.
            sentences = arguments.sentences if hidden <= 300 else arguments.sentences * 240 // hidden
            batch = gum_batch(sentences)
            steps = engine_steps(view, hidden, batch, dgl=not arguments.without_dgl)
            row = summary(alternate(steps, arguments.rounds, clock))
            row["sentences"] = sentences
            row.update(
                {f"peak_mb_{name}": peak_mb(steps[name]) for name in ("native", "dgl") if name in steps}
            )
            report.setdefault(view, {})[str(hidden)] = row
            print(view, hidden, " ".join(f"{key}={value:.4g}" for key, value in row.items()), flush=True)
    print(json.dumps(report), flush=True)


def engine_steps(view: str, hidden: int, batch: SimpleNamespace, dgl: bool) -> dict[str, Step]:
    """One step of each contestant on the same parameters and word vectors."""
    torch.manual_seed(0)
    native = build_view(view, WORD_DIM, hidden)
    x = torch.randn(int(batch.sentence_offsets[-1]), WORD_DIM)
    steps = {"native": encoder_step(native, x, batch)}
    if view == "seq":
        return {**steps, "floor": bare_gru_step(native, x, native.plan(batch))}
    floor = floor_const if view == "const" else floor_dep
    steps["floor"] = floor(native, x, batch, Products(None, onednn=False))
    steps["products"] = floor(native, x, batch, Products.of(x))
    if dgl:
        peer = build_view(view, WORD_DIM, hidden, "dgl")
        peer.load_state_dict(native.state_dict())
        steps["dgl"] = encoder_step(peer, x, batch)
    return steps


def encoder_step(encoder: Encoder, x: Tensor, batch: SimpleNamespace) -> Step:
    """Forward, backward of the sum of squares, gradients dropped."""
    plan = encoder.plan(batch).to("cpu")
    x = x.clone().requires_grad_()

    def step() -> None:
        encoder(x, plan).square().sum().backward()
        encoder.zero_grad(set_to_none=True)
        x.grad = None

    return step


def bare_gru_step(encoder: Encoder, x: Tensor, plan: Any) -> Step:
    """``nn.GRU`` on input packed beforehand: the lower bound of SEQ's time."""
    assert isinstance(plan, SequencePlan)
    rows = x[torch.from_numpy(plan.packed)].requires_grad_()
    packed = torch.nn.utils.rnn.PackedSequence(rows, torch.from_numpy(plan.batch_sizes))

    def step() -> None:
        encoder.gru(packed)[1].square().sum().backward()
        encoder.zero_grad(set_to_none=True)
        rows.grad = None

    return step


def floor_const(encoder: Encoder, x: Tensor, batch: SimpleNamespace, products: Products) -> Step:
    """The products of CONST: leaves, every level both ways, and merged weight gradients."""
    plan = encoder.plan(batch)
    assert isinstance(plan, ConstPlan)
    w, u = encoder.input_weight.detach(), encoder.recurrent_weight.detach()
    hidden, levels = encoder.dim, plan.levels()
    pairs, gates = torch.randn(plan.internal, 2 * hidden), torch.randn(plan.internal, 5 * hidden)
    dpairs, dx, leaf = torch.empty_like(pairs), torch.empty_like(x), torch.empty(len(x), 3 * hidden)

    def step() -> None:
        products.mm(x, w.t(), leaf)
        for low, high in levels:
            products.mm(pairs[low:high], u.t(), gates[low:high])
        for low, high in reversed(levels):
            products.mm(gates[low:high], u, dpairs[low:high])
        products.mm(leaf, w, dx)
        products.gradient(leaf, x)
        products.gradient(gates, pairs)

    return step


def floor_dep(encoder: Encoder, x: Tensor, batch: SimpleNamespace, products: Products) -> Step:
    """The products of DEP: inputs, two per level each way, and merged weight gradients."""
    plan = encoder.plan(batch)
    assert isinstance(plan, DepPlan)
    w, wp, uc, u = (
        parameter.detach()
        for parameter in (
            encoder.input_weight,
            encoder.parent_weight,
            encoder.child_weight,
            encoder.recurrent_weight,
        )
    )
    hidden, leaves, levels = encoder.dim, plan.leaves, plan.levels()
    h, gates = torch.randn(len(x), hidden), torch.randn(len(x), 3 * hidden)
    mixed, parents = torch.randn(plan.internal, hidden), torch.randn(plan.internal, 2 * hidden)
    children = torch.randn(len(x) - plan.sentences, 2 * hidden)
    edges, dx = len(children), torch.empty_like(x)

    def step() -> None:
        products.mm(x, w.t(), gates)
        products.mm(x[leaves:], wp.t(), parents)
        for low, high, edge_low, edge_high in levels:
            products.mm(h[edge_low:edge_high], uc.t(), children[edge_low:edge_high])
            products.mm(mixed[low:high], u.t(), gates[leaves + low : leaves + high])
        for low, high, edge_low, edge_high in reversed(levels):
            products.mm(gates[leaves + low : leaves + high], u, mixed[low:high])
            products.mm(children[edge_low:edge_high], uc, h[edge_low:edge_high])
        products.mm(gates, w, dx)
        products.mm(parents, wp, dx[leaves:])
        products.gradient(gates, x)
        products.gradient(parents, x[leaves:])
        products.gradient(children, h[:edges])
        products.gradient(gates[leaves:], mixed)

    return step


def summary(seconds: dict[str, list[float]]) -> dict[str, float]:
    """Medians of the ratios of each round, with quartiles."""
    row: dict[str, float] = {"native_s": statistics.median(seconds["native"])}
    for name, key in (("floor", "floor_fraction"), ("products", "products_fraction"), ("dgl", "ratio_dgl")):
        if name in seconds:
            ratios = sorted(peer / ours for peer, ours in zip(seconds[name], seconds["native"], strict=True))
            row[key] = statistics.median(ratios)
            row[f"{key}_low"], row[f"{key}_high"] = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    return row


def peak_mb(step: Step) -> float:
    """Highest resident memory during a step above that before it, in MB, sampled every millisecond."""
    page = os.sysconf("SC_PAGE_SIZE")
    memory.release()
    give_memory_back()  # memory that the allocator kept from earlier steps would hide the peak

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * page

    before, peak, done = resident(), [0], threading.Event()

    def sample() -> None:
        while not done.wait(0.001):
            peak[0] = max(peak[0], resident())

    sampler = threading.Thread(target=sample)
    sampler.start()
    step()
    done.set()
    sampler.join()
    return max(peak[0] - before, 0) / 1e6


def gum_batch(sentences: int) -> SimpleNamespace:
    """The first sentences of GUM's training part with gold trees; random trees without the data folder."""
    folder = os.environ.get("MULTIVIEW_DATA")
    if folder:
        gum = Path(folder) / "treebank" / "gum"
        gold = (sentence for document in read_conllu(gum / "train.conllu") for sentence in document.sentences)
        heads = [list(sentence.heads or ()) for sentence in islice(gold, sentences)]
        children = [gold_children(tree) for tree in islice(read_trees(gum / "train.ptb"), sentences)]
    else:
        rng = np.random.default_rng(0)
        lengths = np.clip(rng.gamma(1.6, 10.6, sentences), 1, 100).astype(int)
        heads = [random_heads(n, rng) for n in lengths]
        children = [np.reshape(random_children(n, rng), (-1, 2)) for n in lengths]
    offsets = np.cumsum([0, *map(len, heads)]).astype(np.int64)
    head = np.concatenate(heads).astype(np.int32)
    left, right = np.concatenate(children).astype(np.int32).T.copy()
    return SimpleNamespace(
        sentence_offsets=offsets,
        head=head,
        dep_height=dependency_heights(head, offsets)[0],
        left=left,
        right=right,
        const_height=constituency_heights(left, right, offsets)[0],
    )


def gold_children(tree: SpanTree) -> np.ndarray:
    """Children [n - 1, 2] of the internal nodes of a binarised tree; its labels do not matter."""
    binary = binarise(to_parse(tree, defaultdict(int), defaultdict(int)), dummy_label=1)
    return np.stack([binary.left, binary.right], axis=1)


if __name__ == "__main__":
    main()
