"""Heads over sentence vectors: they only see vectors, so they work with any tower.

Shapes: B pairs, D tower's width, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from runtime.files import atomic_path
from senteval_runner.towers import Concatenation
from senteval_runner.towers.transformer import Tower, embed_all
from studies.finetune.examples import Draw, Examples, Stream
from studies.finetune.loop import LoopConfig, Task, fit

_WIDTH = {"uv": 2, "diff": 1, "prod": 1}
BATCH = 16
"""Pairs per step of :func:`tune_pairs` (BURT, UNI)."""


def combine(u_BD: Tensor, v_BD: Tensor, concatenation: Concatenation) -> Tensor:
    """Make features [B, ·D] of pairs: ``uv`` [u; v], ``diff`` |u−v|, ``prod`` u∗v, in this order (BURT)."""
    parts = {"uv": (u_BD, v_BD), "diff": ((u_BD - v_BD).abs(),), "prod": (u_BD * v_BD,)}
    return torch.cat([part for name in concatenation.split("-") for part in parts[name]], dim=-1)


class PairHead(nn.Module):
    """Linear layer over :func:`combine`; its initial weights (torch's default) depend on the seed alone."""

    def __init__(self, dim: int, classes: int, concatenation: Concatenation, seed: int) -> None:
        super().__init__()
        self.concatenation: Concatenation = concatenation
        self.linear = seeded_linear(dim * sum(_WIDTH[p] for p in concatenation.split("-")), classes, seed)

    def forward(self, u_BD: Tensor, v_BD: Tensor) -> Tensor:
        """Compute logits [B, C]."""
        logits: Tensor = self.linear(combine(u_BD, v_BD, self.concatenation))
        return logits


class Siamese(nn.Module):
    """A tower that embeds both texts of a pair, and a softmax head per task."""

    def __init__(self, tower: Tower, heads: Mapping[str, PairHead]) -> None:
        super().__init__()
        self.tower = tower
        self.heads = nn.ModuleDict(heads)

    def loss(self, task: str, examples: Examples) -> Tensor:
        """Compute −1/B Σ log softmax(head(u, v))[class]; both sides share one forward pass."""
        u_BD, v_BD = self.tower.embed(examples.texts).split(len(examples))
        target = torch.from_numpy(examples.target).to(u_BD.device)
        return functional.cross_entropy(self.heads[task](u_BD, v_BD), target)

    def predict(self, task: str, examples: Examples) -> np.ndarray:
        """Find the most probable class of each pair, int64 [n]."""
        head = self.heads[task]
        table = torch.from_numpy(embed_all(self.tower, examples.texts))
        u_BD, v_BD = table.to(next(head.parameters()).device).split(len(examples))
        classes: np.ndarray = head(u_BD, v_BD).argmax(dim=-1).cpu().numpy()
        return classes


def tune_pairs(
    tower: Tower, draw: Draw, name: str, *, epochs: int, learning_rate: float, seed: int, folder: Path
) -> Siamese:
    """Train a tower and a new head of two classes on [u; v; |u−v|], 16 pairs a step, as BURT and UNI do.

    The tower's weights move; ``seed`` is that of the head, the order of the pairs and dropout. A state of
    training in ``folder`` is resumed. The head is named ``name``.
    """
    device = next(tower.parameters()).device
    net = Siamese(tower, {name: PairHead(tower.dim, 2, "uv-diff", seed)}).to(device)
    stream = Stream(draw, BATCH, seed, name)
    fit(
        net,
        [Task(stream, partial(net.loss, name))],
        LoopConfig(learning_rate=learning_rate),
        steps=epochs * stream.batches_per_pass,
        evaluate=dict,
        seed=seed,
        folder=folder,
    )
    return net


def seeded_linear(inputs: int, outputs: int, seed: int) -> nn.Linear:
    """Make a linear layer whose weights depend on ``seed`` alone; the global generator is not touched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(inputs, outputs)


def save_tuned(tower: Tower, heads: nn.Module, folder: Path, name: str) -> None:
    """Write a tower as a model folder, and the weights of its heads beside it."""
    tower.cpu().save(folder)
    weights = {key: tensor.cpu().contiguous() for key, tensor in heads.state_dict().items()}
    with atomic_path(folder / name) as temporary:
        save_file(weights, temporary)
