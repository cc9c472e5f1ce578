"""Chosen layers of an encoder under one pooling, as a model with a store of its vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from senteval_runner.protocol.features import Float
from senteval_runner.towers.backbones import Backbone, open_backbone, store_name
from senteval_runner.towers.config import BackboneConfig
from senteval_runner.towers.units import chosen_unit
from senteval_runner.vectors.embed import StoredEncoder, VectorStore
from senteval_runner.vectors.encoders import StoredModel


class LayerVectors:
    """An encoder that puts the columns of a backbone side by side."""

    pretokenized = True

    def __init__(self, backbone: Backbone) -> None:
        self.backbone = backbone

    def encode(self, sentences: Sequence[list[str]]) -> Float:
        """Vectors [n, K · D] of token lists, in the order of the backbone's columns."""
        columns_KND, _ = self.backbone.encode(sentences)
        return np.concatenate(list(columns_KND), axis=1)


def open_layers(
    spec: str, layers: str, pooling: str, config: BackboneConfig, *, cache: Path | None
) -> StoredModel:
    """One choice of layers and pooling; weights load when a vector is missing.

    Args:
        spec: see :func:`~senteval_runner.towers.backbones.open_backbone`.
        layers: one layer, or several separated by commas whose vectors are put side by side: ``top,bottom``.
        pooling: one of the backbone's.
        config: how the encoder is read.
        cache: folder of stores, one subfolder per choice; None keeps vectors in memory.

    Raises:
        UserError: no such encoder, layer or pooling.
    """
    backbone = open_backbone(spec, config)
    unit = chosen_unit(layers, pooling, backbone)
    backbone.columns = unit.columns()
    name = f"{backbone.name} {unit.name}"
    store = VectorStore(cache and cache / store_name(backbone, "float32"))
    return StoredModel(
        name=name,
        spec=f"{spec} {unit.name}",
        sources=[backbone.source],
        identity=[*backbone.identity(), unit.row, unit.pooling],
        vectors=StoredEncoder(LayerVectors(backbone), store, name),
    )
