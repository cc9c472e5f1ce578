"""Heads over sentence vectors: they only see vectors, so they work with any tower.

Shapes: B pairs, D tower's width, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from senteval_runner.towers.transformer import Tower, embed_all
from studies.finetune.config import Concatenation
from studies.finetune.examples import Examples

_WIDTH = {"uv": 2, "diff": 1, "prod": 1}


class TowerModule(nn.Module):
    """A network that trains a tower."""

    def __init__(self, tower: nn.Module) -> None:
        super().__init__()
        self.tower = tower

    @property
    def encoder(self) -> Tower:
        """The tower, typed as what it can do."""
        return cast(Tower, self.tower)


def combine(u_BD: Tensor, v_BD: Tensor, concatenation: Concatenation) -> Tensor:
    """Pair features [B, ·D]: ``uv`` [u; v], ``diff`` |u−v|, ``prod`` u∗v, in this order (BURT Table 4)."""
    parts = {"uv": (u_BD, v_BD), "diff": ((u_BD - v_BD).abs(),), "prod": (u_BD * v_BD,)}
    return torch.cat([part for name in concatenation.split("-") for part in parts[name]], dim=-1)


class PairHead(nn.Module):
    """Linear layer over :func:`combine`: logits [B, C] of a pair's class.

    Args:
        dim: D.
        classes: C.
        concatenation: which features.
        seed: seed of the initial weights (torch's default for a linear layer).
    """

    def __init__(self, dim: int, classes: int, concatenation: Concatenation, seed: int) -> None:
        super().__init__()
        self.concatenation: Concatenation = concatenation
        self.linear = seeded_linear(dim * sum(_WIDTH[p] for p in concatenation.split("-")), classes, seed)

    def forward(self, u_BD: Tensor, v_BD: Tensor) -> Tensor:
        """Logits [B, C]."""
        logits: Tensor = self.linear(combine(u_BD, v_BD, self.concatenation))
        return logits


class Siamese(TowerModule):
    """A tower that embeds both texts of a pair, and a softmax head per task.

    Args:
        tower: the encoder.
        heads: by task.
    """

    def __init__(self, tower: nn.Module, heads: Mapping[str, PairHead]) -> None:
        super().__init__(tower)
        self.heads = nn.ModuleDict(heads)

    def loss(self, task: str, examples: Examples) -> Tensor:
        """−1/B Σ log softmax(head(u, v))[class]; both sides of the batch share one forward pass."""
        u_BD, v_BD = self.encoder.embed(list(examples.texts())).split(len(examples))
        target = torch.from_numpy(examples.target).to(u_BD.device)
        return functional.cross_entropy(self.heads[task](u_BD, v_BD), target)

    def predict(self, task: str, examples: Examples) -> np.ndarray:
        """Most probable class per pair, int64 [n]."""
        head = self.heads[task]
        table = torch.from_numpy(embed_all(self.encoder, list(examples.texts())))
        u_BD, v_BD = table.to(next(head.parameters()).device).split(len(examples))
        classes: np.ndarray = head(u_BD, v_BD).argmax(dim=-1).cpu().numpy()
        return classes


def seeded_linear(inputs: int, outputs: int, seed: int) -> nn.Linear:
    """A linear layer whose initial weights only depend on ``seed``; the global generator is not touched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(inputs, outputs)
