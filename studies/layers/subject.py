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
from senteval_runner.report.tables import headline
from senteval_runner.towers.backbones import Backbone, store_name
from senteval_runner.towers.layer_store import LayerStore
from senteval_runner.towers.units import Unit, chosen_joins, chosen_layers, units_of
from senteval_runner.towers.whole import WholeBackbone
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
    mlp: dict[Unit, dict[str, TaskResult]] = field(default_factory=dict)
    """With a hidden layer, of the tasks it changes."""
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
        with progress(total=len(missing), description=f"encode {self.backbone.name}") as bar:
            for start in range(0, len(missing), CHUNK):
                texts = missing[start : start + CHUNK]
                vectors_KND, cut_n = self.backbone.encode([text.split(" ") for text in texts])
                if not start:
                    self.store.check_space(len(missing), vectors_KND.shape[2])
                self.store.add(texts, vectors_KND, cut_n)
                bar.update(len(texts))
        self.encoded += len(missing)
        self.encoding_s += time.perf_counter() - started

    def keep(self, unit: Unit, result: TaskResult, *, hidden: bool) -> None:
        """Take the result of a cell; ``hidden``: its classifier has a hidden layer."""
        results, scores = (self.mlp, self.studied.mlp) if hidden else (self.results, self.studied.scores)
        results.setdefault(unit, {})[result.task] = result
        scores.setdefault(unit, {})[result.task] = headline(result.task, result.metrics)

    def forget(self, task: str) -> None:
        """Drop the cells of a task that could not be finished."""
        for by_unit in (self.results, self.mlp):
            for results in by_unit.values():
                results.pop(task, None)
        for scores_by_unit in (self.studied.scores, self.studied.mlp):
            for scores in scores_by_unit.values():
                scores.pop(task, None)

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

    An encoder without layers has its one row whatever is wanted of the others.

    Raises:
        UserError: the backbone lacks one of them, or nothing is left to evaluate.
    """
    whole = isinstance(backbone, WholeBackbone)
    wanted = backbone.poolings if whole else config.poolings or backbone.poolings
    for pooling in wanted:
        if pooling not in backbone.poolings:
            raise UserError(f"{backbone.name}: no pooling {pooling!r}; it has {', '.join(backbone.poolings)}")
    poolings = tuple(p for p in backbone.poolings if p in wanted)
    layers = chosen_layers("all" if whole else config.layers, backbone.layers, backbone.name)
    joins = chosen_joins(() if whole else config.concatenate, backbone.layers, backbone.name)
    units = units_of(backbone.columns, layers, joins, poolings)
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
