"""Encoders taken whole: one layer, one pooling, one vector per sentence.

EMP compares the layers of BERT with averaged GloVe, Universal Sentence Encoder and InferSent in this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from senteval_runner.protocol.features import Float
from senteval_runner.towers.config import BackboneConfig
from senteval_runner.towers.units import OWN, WHOLE, Column, Unit
from senteval_runner.vectors.embed import LoadedEncoder, StoredEncoder
from senteval_runner.vectors.encoders import loader
from senteval_runner.vectors.sources import Source

UNIT = Unit((WHOLE,), OWN)
"""The only unit of such an encoder."""


class WholeBackbone:
    """Word vectors, precomputed vectors or any sentence encoder, as a backbone with one layer.

    Args:
        source: see :func:`senteval_runner.vectors.sources.find_source`.
        config: trees, device, batch size.
    """

    layers: tuple[str, ...] = (WHOLE,)
    compared: tuple[str, ...] = ()
    poolings: tuple[str, ...] = (OWN,)

    def __init__(self, source: Source, config: BackboneConfig) -> None:
        self.source, self.config, self.name = source, config, source.name
        self.columns: list[Column] = UNIT.columns()

    @cached_property
    def loaded(self) -> LoadedEncoder:
        """The encoder, loaded on first use."""
        config = self.config
        return loader(
            self.source, {"device": config.device, "trees": config.trees, "batch_size": config.batch_size}
        )()

    def identity(self) -> list[Any]:
        """The model's files."""
        return [self.source.key, WHOLE]

    def notes(self, cut: int) -> list[str]:
        """What its row contains."""
        vectors = "mean over known words" if self.source.kind == "words" else "its own sentence vectors"
        return [f"{self.name}: {vectors}, one row"]

    def encode(self, sentences: Sequence[list[str]]) -> tuple[Float, NDArray[np.bool_]]:
        """The vectors of token lists, float32 [1, n, D]; no sentence counts as shortened."""
        vectors_ND = StoredEncoder(lambda: self.loaded, name=self.name)(sentences)
        return vectors_ND[None], np.zeros(len(sentences), dtype=bool)
