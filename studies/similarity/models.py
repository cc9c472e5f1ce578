"""The rows of the tables: models by name, transformers once per pooling where that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import nn

from parsing.networks.device import pick_device
from senteval_runner.towers.config import Pooling
from senteval_runner.towers.transformer import Tower, embed_all, load_tower, load_whole
from senteval_runner.vectors.embed import Encoder
from senteval_runner.vectors.encoders import open_model
from senteval_runner.vectors.sources import find_source, split_parts
from studies.similarity.config import SimilarityConfig


@dataclass(frozen=True)
class Model:
    """A row, not yet loaded."""

    name: str
    spec: str
    """As it was given."""
    pooling: Pooling | None = None
    """Of a transformer's last layer, instead of its own."""
    tunable: bool = False
    """Whether gradients reach it; BURT keeps word vectors and older encoders fixed."""

    def encoder(self, seed: int) -> Encoder:
        """Load it for encoding; ``seed`` is of random encoders."""
        if self.pooling is None:
            return open_model(self.spec, seed=seed)
        return _TowerEncoder(load_tower(self.spec, pooling=self.pooling).eval())

    def tower(self, max_length: int) -> nn.Module:
        """Load it for training; texts are cut at ``max_length`` word pieces."""
        device = pick_device("auto")
        if self.pooling is None:
            return load_whole(self.spec, max_length=max_length, device=device)
        return load_tower(self.spec, pooling=self.pooling, max_length=max_length, device=device)


class _TowerEncoder:
    """A tower as an encoder of strings."""

    def __init__(self, tower: nn.Module) -> None:
        self.tower: Tower = tower  # type: ignore[assignment]

    def encode(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Vectors [n, D]."""
        return embed_all(self.tower, sentences)


def models_of(config: SimilarityConfig) -> list[Model]:
    """One row per model; a transformer has one per pooling where ``--poolings`` names some.

    Raises:
        UserError: a name cannot mean any model.
    """
    rows: list[Model] = []
    for spec in config.models:
        kinds = [find_source(part, seed=config.seed).kind for part in split_parts(spec)]
        if kinds == ["sentence-transformers"] and config.poolings:
            rows += [Model(f"{spec} {p.upper()}", spec, p, tunable=True) for p in config.poolings]
        else:
            rows.append(Model(spec, spec, tunable=kinds in (["sentence-transformers"], ["multiview"])))
    return rows
