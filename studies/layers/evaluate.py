"""Encode once, evaluate cell by cell: (encoder, layers, pooling, task, classifier)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from corpora.senteval.files import Split, TaskData, read_task
from corpora.senteval.tasks import STS_SUBSETS, data_folder, expand_tasks
from multiview.names.opened import SingleEncoder, Tokens, distinct_names
from multiview.names.sources import find_source
from runtime.errors import UserError
from senteval_runner.evaluation import data_hashes, evaluate_task
from senteval_runner.protocol.config import Protocol, get_protocol
from senteval_runner.protocol.features import Float
from senteval_runner.report.page import Page
from senteval_runner.report.tables import headline
from senteval_runner.towers.backbones import (
    WHOLE,
    Backbone,
    Unit,
    WholeBackbone,
    chosen_joins,
    open_backbone,
)
from studies.kit import Cell, Figures, Run
from studies.layers.config import LayersConfig
from studies.layers.report import frame, page

SEED = 1111
"""SentEval's seed of classifiers and folds, and that of the rows that --limit draws."""
STORAGE = "float16"
"""Type of stored vectors: half the disk space of float32."""
NO_HIDDEN_LAYER = (*STS_SUBSETS, "STSBenchmark", "SICKRelatedness", "WordContent")
"""Tasks that no hidden layer changes: cosines, regressions, and WordContent's logistic regression."""
LEAST_PER_CLASS = 12
"""Rows that --limit leaves a class, if it has them: the folds need as many."""
FIGURES = "figures: accuracy; Pearson x 100 of SICK-R and STS-B; mean Spearman x 100 over subsets of STS12-16"


Scores = dict[tuple[str, str, str], dict[str, float]]
"""Scores by (encoder, layers, pooling) and task, in percent."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """One encoder of a study."""

    name: str
    backbone: Backbone
    part: SingleEncoder
    """The vectors of all its columns."""
    units: list[Unit]

    def key(self, unit: Unit) -> list[object]:
        """Collect everything that decides the vectors of a unit."""
        return [*self.backbone.identity, unit.layers, unit.pooling]

    def vectors(self, unit: Unit, sentences: Sequence[Tokens]) -> Float:
        """Put the columns of a unit side by side, float32 [n, D]; what the store lacks is encoded now."""
        texts, columns = self.part.fill(sentences), self.backbone.columns
        return np.concatenate(
            [self.part.store.get(texts, columns.index(column)) for column in unit.columns()], axis=1
        )


def evaluate(config: LayersConfig, run: Run) -> Page:
    """Evaluate every encoder on every task.

    Raises:
        UserError: a layer or pooling that an encoder lacks, or no data.
    """
    names, data = expand_tasks(config.tasks), data_folder(config.data)
    subjects = open_subjects(config, run)
    protocols = [get_protocol(config.protocol)]
    remarks = [
        f"logistic regression, protocol {protocols[0].name}, seed {SEED}; vectors stored as {STORAGE}; mean "
        "and max with special tokens",
        FIGURES,
    ]
    if config.mlp:
        protocols.append(get_protocol(config.protocol, nhid=config.mlp))
        without = ", ".join(NO_HIDDEN_LAYER)
        remarks.append(f"multi-layer perceptron: {config.mlp} hidden units; {without} have none")
    plain: Scores = {}
    hidden: Scores = {}
    for name in names:
        try:
            task = read_task(name, data)
        except UserError as error:
            run.leave_out(name, error)
            continue
        if config.limit:
            whole, task = task.splits, limited(task, config.limit)
            rows = ", ".join(f"{key} {len(task.splits[key]):,} of {len(whole[key]):,}" for key in whole)
            remarks.append(f"--limit, not comparable with the full task: {name}: {rows}")
        cells = task_cells(subjects, protocols, task, config.limit)
        for (subject, unit, units), figures in run.figures(cells).items():
            row = (hidden if units else plain).setdefault((subject, unit.row, unit.pooling), {})
            row[name] = figures["score"]
    remarks += [note for subject in subjects for note in subject.backbone.notes()]
    compared = {subject.name: subject.backbone.compared for subject in subjects}
    return page(frame(plain), frame(hidden), compared, remarks)


def task_cells(
    subjects: Sequence[Subject], protocols: Sequence[Protocol], task: TaskData, limit: int | None
) -> dict[tuple[str, Unit, int], Cell]:
    """Make the cells of a task by encoder, layers and pooling, and hidden units of the classifier."""
    identity = [STORAGE, SEED, limit, data_hashes(task)]
    trained = [one for one in protocols if not one.nhid or task.name not in NO_HIDDEN_LAYER]
    return {
        (subject.name, unit, protocol.nhid): Cell(
            name=f"{subject.name}: {unit.name}, {task.name}" + ", MLP" * bool(protocol.nhid),
            identity=[*subject.key(unit), dataclasses.asdict(protocol), *identity],
            compute=partial(_score, subject, unit, task, protocol),
        )
        for subject, protocol in product(subjects, trained)
        for unit in subject.units
    }


def _score(subject: Subject, unit: Unit, task: TaskData, protocol: Protocol, folder: Path) -> Figures:
    result = evaluate_task(partial(subject.vectors, unit), task, protocol, SEED)
    return {"score": headline(task.name, result.metrics), "dim": result.dim, "metrics": result.metrics}


def open_subjects(config: LayersConfig, run: Run) -> list[Subject]:
    """Open all backbones, then the encoders taken whole, under distinct names; some may be left out.

    Raises:
        UserError: a layer or pooling that an encoder lacks.
    """
    backbones = run.opened({spec: partial(open_backbone, spec) for spec in config.backbones})
    whole = run.opened({spec: partial(find_source, spec) for spec in config.encoders})
    backbones |= {f"{spec} {WHOLE}": WholeBackbone(one.for_classifiers()) for spec, one in whole.items()}
    names = distinct_names([backbone.name for backbone in backbones.values()], list(backbones))
    return [choose(*pair, config) for pair in zip(names, backbones.values(), strict=True)]


def choose(name: str, backbone: Backbone, config: LayersConfig) -> Subject:
    """Choose the layers and poolings of a backbone; only their columns are computed and stored.

    An encoder taken whole has its one row whatever is wanted of the others.

    Raises:
        UserError: the backbone lacks a pooling, or a layer that is to be joined.
    """
    whole = isinstance(backbone, WholeBackbone)
    wanted = backbone.poolings if whole else config.poolings or backbone.poolings
    for pooling in wanted:
        if pooling not in backbone.poolings:
            raise UserError(f"{backbone.name}: no pooling {pooling!r}; it has {', '.join(backbone.poolings)}")
    rows = [(layer,) for layer in backbone.layers]
    joins = chosen_joins(() if whole else config.concatenate, backbone.layers, backbone.name)
    poolings = [pooling for pooling in backbone.poolings if pooling in wanted]
    units = [Unit(*pair) for pair in product([*rows, *joins], poolings)]
    backbone.columns = [column for column in backbone.columns if column[1] in poolings]
    return Subject(name=name, backbone=backbone, part=backbone.part(config.cache, STORAGE), units=units)


def limited(task: TaskData, limit: int) -> TaskData:
    """Cut a task to about ``limit`` rows per split: each class keeps its share, but twelve rows at least.

    The draw is the same for every layer and encoder; rows keep the files' order.
    """
    splits = {}
    for name, split in task.splits.items():
        rng, y = np.random.RandomState(SEED), np.asarray(split.y)
        groups = [np.flatnonzero(y == label) for label in range(len(task.classes))] or [np.arange(len(y))]
        quotas = [max(round(min(1, limit / len(y)) * len(group)), LEAST_PER_CLASS) for group in groups]
        parts = [rng.permutation(group)[:quota] for group, quota in zip(groups, quotas, strict=True)]
        rows = np.sort(np.concatenate(parts)).tolist()
        b = None if split.b is None else [split.b[row] for row in rows]
        splits[name] = Split(a=[split.a[row] for row in rows], b=b, y=[split.y[row] for row in rows])
    return dataclasses.replace(task, splits=splits)
