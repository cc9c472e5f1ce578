"""One backbone of a study: its evaluated units, stored vectors and results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from corpora.support.errors import UserError
from corpora.support.files import json_digest
from corpora.support.progress import progress
from senteval_runner.protocol.features import Float
from senteval_runner.protocol.results import TaskResult
from senteval_runner.towers.backbones import Backbone, store_name
from senteval_runner.towers.layer_store import LayerStore
from senteval_runner.towers.units import Unit, chosen_layers, chosen_pairs, units_of
from senteval_runner.vectors.embed import Tokens, text_of
from studies.layers.config import LayersConfig
from studies.layers.tables import Studied

CHUNK = 1024
"""Sentences per shard, which is what a kill can lose; 164 MB in memory for BERT base with all columns."""


@dataclass(kw_only=True)
class Subject:
    """One backbone of a study, its vectors and its results."""

    backbone: Backbone
    units: list[Unit]
    store: LayerStore
    studied: Studied
    results: dict[Unit, dict[str, TaskResult]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    encoded: int = 0
    encoding_s: float = 0.0

    def key(self, unit: Unit, storage: str, drawn: Sequence[int]) -> str:
        """Digest of everything that decides a cell's score, except protocol and data."""
        values = [*self.backbone.identity(), storage, unit.layers, unit.pooling, drawn]
        return json_digest(values, 16)

    def encode(self, sentences: Sequence[Tokens]) -> None:
        """Encode the sentences that are not stored yet and store all their columns."""
        missing = self.store.missing([text_of(tokens) for tokens in sentences])
        if not missing:
            return
        started = time.perf_counter()
        self.store.check_space(len(missing), self.backbone.dim)
        with progress(total=len(missing), description=f"encode {self.backbone.name}") as bar:
            for start in range(0, len(missing), CHUNK):
                texts = missing[start : start + CHUNK]
                self.store.add(texts, *self.backbone.encode([text.split(" ") for text in texts]))
                bar.update(len(texts))
        self.encoded += len(missing)
        self.encoding_s += time.perf_counter() - started

    def vectors(self, unit: Unit) -> UnitVectors:
        """The stored vectors of a unit."""
        return UnitVectors(self.store, [self.backbone.columns.index(column) for column in unit.columns()])


class UnitVectors:
    """An encoder that reads stored columns and joins them: token lists to float32 [n, D]."""

    def __init__(self, store: LayerStore, columns: Sequence[int]) -> None:
        self.store, self.columns = store, columns

    def __call__(self, sentences: Sequence[Tokens]) -> Float:
        """Vectors of the sentences in order, [n, D]."""
        texts = [text_of(tokens) for tokens in sentences]
        return np.concatenate([self.store.get(texts, column) for column in self.columns], axis=1)


def choose(backbone: Backbone, config: LayersConfig) -> Subject:
    """Choose layers and poolings of a backbone; only their columns are computed and stored.

    Raises:
        UserError: the backbone lacks one of them, or nothing is left to evaluate.
    """
    for pooling in config.poolings:
        if pooling not in backbone.poolings:
            raise UserError(f"{backbone.name}: no pooling {pooling!r}; it has {', '.join(backbone.poolings)}")
    poolings = tuple(p for p in backbone.poolings if p in (config.poolings or backbone.poolings))
    layers = chosen_layers(config.layers, backbone.layers, backbone.name)
    pairs = chosen_pairs(config.concatenate, backbone.layers, backbone.name)
    units = units_of(backbone.columns, layers, pairs, poolings)
    if not units:
        raise UserError(f"{backbone.name}: nothing to evaluate with these --layers and --poolings")
    needed = {column for unit in units for column in unit.columns()}
    backbone.columns = [column for column in backbone.columns if column in needed]
    store = LayerStore(
        config.cache / store_name(backbone, config.storage), len(backbone.columns), config.storage
    )
    studied = Studied(
        name=backbone.name,
        layers=tuple(layers),
        compared=backbone.compared,
        poolings=poolings,
        units=tuple(units),
    )
    return Subject(backbone=backbone, units=units, store=store, studied=studied)
