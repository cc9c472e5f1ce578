"""One backbone of a study: its evaluated units, stored vectors and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from corpora.support.errors import UserError
from corpora.support.files import json_digest
from senteval_runner.protocol.features import Float
from senteval_runner.protocol.results import TaskResult
from senteval_runner.report.tables import headline
from senteval_runner.towers.backbones import Backbone, WholeBackbone
from senteval_runner.towers.units import Unit, chosen_joins, chosen_layers, units_of
from senteval_runner.vectors.embed import Part, Tokens
from studies.layers.config import LayersConfig
from studies.layers.tables import Studied


@dataclass(kw_only=True)
class Subject:
    """One backbone of a study, its vectors and its results."""

    backbone: Backbone
    units: list[Unit]
    part: Part
    """The vectors of all its columns."""
    studied: Studied
    results: dict[Unit, dict[str, TaskResult]] = field(default_factory=dict)
    mlp: dict[Unit, dict[str, TaskResult]] = field(default_factory=dict)
    """With a hidden layer, of the tasks it changes."""
    skipped: dict[str, str] = field(default_factory=dict)

    def key(self, unit: Unit, storage: str, drawn: Sequence[int]) -> str:
        """Digest of everything that decides a cell's score, except protocol and data."""
        values = [*self.backbone.identity(), storage, unit.layers, unit.pooling, drawn]
        return json_digest(values, 16)

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
        """The vectors of a unit."""
        return UnitVectors(self.part, [self.backbone.columns.index(column) for column in unit.columns()])


class UnitVectors:
    """Columns of a backbone side by side: token lists to float32 [n, D]."""

    def __init__(self, part: Part, columns: Sequence[int]) -> None:
        self.part, self.columns = part, columns

    def __call__(self, sentences: Sequence[Tokens]) -> Float:
        """Vectors of the sentences in order, [n, D]; what the store lacks is encoded now."""
        texts = self.part.fill(sentences)
        return np.concatenate([self.part.store.get(texts, column) for column in self.columns], axis=1)


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
    part = backbone.part(config.cache, config.storage)
    studied = Studied(
        name=backbone.name,
        layers=tuple(layers),
        compared=backbone.compared,
        poolings=poolings,
        units=tuple(units),
    )
    return Subject(backbone=backbone, units=units, part=part, studied=studied)
