"""Heads on a tower's sentence vectors, their objectives and scores.

Shapes: B pairs, D tower's width, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from runtime.files import atomic_path
from senteval_runner.protocol.correlation import accuracy, pearson
from senteval_runner.towers import Concatenation, Pooling
from senteval_runner.towers.transformer import Tower
from studies.finetune.examples import Draw, Examples, Stream
from studies.finetune.loop import LoopConfig, Task, fit

Features = Concatenation | Literal["one", "cosine"]
"""What a head sees: features of a pair of vectors, one vector, or the cosine of two."""
_WIDTH = {"one": 1, "uv": 2, "diff": 1, "prod": 1}
BATCH, SCORE_BATCH = 16, 64
"""Pairs per step of :func:`tune_pairs` (BURT, UNI); examples scored at a time."""


def combine(u_BD: Tensor, v_BD: Tensor, concatenation: Concatenation) -> Tensor:
    """Make features [B, ·D] of pairs: ``uv`` [u; v], ``diff`` |u−v|, ``prod`` u∗v, in this order (BURT)."""
    parts = {"uv": (u_BD, v_BD), "diff": ((u_BD - v_BD).abs(),), "prod": (u_BD * v_BD,)}
    return torch.cat([part for name in concatenation.split("-") for part in parts[name]], dim=-1)


class Head(nn.Module):
    """The head of one task: a linear layer whose initial weights depend on the seed alone, or the cosine.

    ``outputs`` are classes, or one value. One vector is that of a text, or of a pair that is read as one.
    ``pooling`` None is the tower's.
    """

    def __init__(
        self, dim: int, outputs: int, features: Features, seed: int, pooling: Pooling | None = None
    ) -> None:
        super().__init__()
        self.outputs, self.pooling = outputs, pooling
        self.features: Features = features
        if features != "cosine":
            width = sum(_WIDTH[part] for part in features.split("-"))
            self.linear = seeded_linear(width * dim, outputs, seed)

    def forward(self, tower: Tower, examples: Examples) -> Tensor:
        """Compute logits [B, C], or one value per example [B]; both texts of a pair share a forward pass."""
        if self.features == "one":
            texts: Sequence[Any] = examples.first if examples.second is None else examples.pairs
            out: Tensor = self.linear(tower.embed(texts, self.pooling))
        else:
            u_BD, v_BD = tower.embed(examples.texts, self.pooling).split(len(examples))
            if self.features == "cosine":
                return functional.cosine_similarity(u_BD, v_BD)
            out = self.linear(combine(u_BD, v_BD, self.features))
        return out[:, 0] if self.outputs == 1 else out

    def loss(self, tower: Tower, examples: Examples) -> Tensor:
        """Compute the objective.

        Of classes cross-entropy, the mean of −log softmax(logits)[target]; of a cosine the mean of
        (cosine − t)²; of one logit binary cross-entropy, the mean of −t log σ(x) − (1−t) log(1−σ(x)).
        """
        out = self(tower, examples)
        target = torch.from_numpy(examples.target).to(out.device)
        if self.outputs > 1:
            return functional.cross_entropy(out, target)
        if self.features == "cosine":
            return functional.mse_loss(out, target)
        return functional.binary_cross_entropy_with_logits(out, target.float())

    @torch.inference_mode()
    def score(self, tower: Tower, examples: Examples) -> float:
        """Measure accuracy, or the Pearson correlation with graded targets."""
        # Texts of similar length share a batch to save padding; the scores do not depend on it.
        order = np.argsort([len(text) for text in examples.first], kind="stable")
        starts = range(0, len(order), SCORE_BATCH)
        batches = [examples.take(order[start : start + SCORE_BATCH]) for start in starts]
        out = np.concatenate([self(tower, batch).float().cpu().numpy() for batch in batches])
        target = examples.target[order]
        if target.dtype == np.float32:
            return pearson(out, target)
        predicted = out.argmax(axis=1) if self.outputs > 1 else out > 0
        return accuracy(predicted.astype(np.int64), target)


def tune_pairs(
    tower: Tower, draw: Draw, name: str, *, epochs: int, learning_rate: float, seed: int, folder: Path
) -> Head:
    """Train a tower and a new head of two classes on [u; v; |u−v|], 16 pairs a step, as BURT and UNI do.

    The tower's weights move; ``seed`` is that of the head, the order of the pairs and dropout. A state of
    training in ``folder`` is resumed. The head is named ``name``.
    """
    head = Head(tower.dim, 2, "uv-diff", seed).to(next(tower.parameters()).device)
    stream = Stream(draw, BATCH, seed, name)
    fit(
        nn.ModuleDict({"tower": tower, name: head}),
        [Task(stream, partial(head.loss, tower))],
        LoopConfig(learning_rate=learning_rate),
        steps=epochs * stream.batches_per_pass,
        evaluate=dict,
        seed=seed,
        folder=folder,
    )
    return head


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
