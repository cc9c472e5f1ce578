"""Encode once, evaluate cell by cell: (encoder, layers, pooling, task, classifier)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from corpora.senteval.files import Split, TaskData, read_task
from corpora.senteval.tasks import STS_SUBSETS, data_folder, expand_tasks
from multiview.names.opened import distinct_names
from multiview.names.sources import find_source
from runtime.errors import UserError
from senteval_runner.evaluation import data_hashes, evaluate_task
from senteval_runner.protocol.config import Protocol, get_protocol
from senteval_runner.report.page import Page
from senteval_runner.report.tables import headline
from senteval_runner.towers.backbones import (
    WHOLE,
    Backbone,
    TransformerBackbone,
    Unit,
    chosen,
    open_backbone,
)
from studies.kit import Cell, Figures, Run
from studies.layers.report import frame, page

if TYPE_CHECKING:
    from studies.layers.__main__ import LayersConfig

SEED = 1111
"""SentEval's seed of classifiers and folds, and that of the rows that --limit draws."""
STORAGE = "float16"
"""Type of stored vectors: half the disk space of float32."""
NO_HIDDEN_LAYER = (*STS_SUBSETS, "STSBenchmark", "SICKRelatedness", "WordContent")
"""Tasks that no hidden layer changes: cosines, regressions, and WordContent's logistic regression."""
LEAST_PER_CLASS = 12
"""Rows that --limit leaves a class, if it has them: the folds need as many."""
FIGURES = "figures: accuracy; Pearson x 100 of SICK-R and STS-B; mean Spearman x 100 over subsets of STS12-16"


def evaluate(config: LayersConfig, run: Run) -> Page:
    """Evaluate every encoder on every task."""
    names, data = expand_tasks(config.tasks), data_folder(config.data)
    backbones = open_backbones(config, run)
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
    scores: dict[bool, dict[tuple[str, str, str], dict[str, float]]] = {False: {}, True: {}}
    """Of logistic regression and of the perceptron, by (encoder, layers, pooling) and task."""
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
        cells = task_cells(backbones, protocols, task, config.limit)
        for (backbone, unit, hidden), figures in run.figures(cells).items():
            scores[hidden > 0].setdefault((backbone, *unit), {})[name] = figures["score"]
    remarks += [note for backbone in backbones for note in backbone.notes()]
    return page(frame(scores[False]), frame(scores[True]), remarks)


def task_cells(
    backbones: Sequence[Backbone], protocols: Sequence[Protocol], task: TaskData, limit: int | None
) -> dict[tuple[str, Unit, int], Cell]:
    """Make the cells of a task by encoder, layers and pooling, and hidden units of the classifier."""
    identity = [STORAGE, SEED, limit, data_hashes(task)]
    trained = [one for one in protocols if not one.nhid or task.name not in NO_HIDDEN_LAYER]
    return {
        (backbone.name, unit, protocol.nhid): Cell(
            name=f"{backbone.name}: {' '.join(unit)}, {task.name}" + ", MLP" * bool(protocol.nhid),
            identity=[*backbone.identity, *unit, dataclasses.asdict(protocol), *identity],
            compute=partial(_score, backbone, unit, task, protocol),
        )
        for backbone, protocol in product(backbones, trained)
        for unit in backbone.units
    }


def _score(backbone: Backbone, unit: Unit, task: TaskData, protocol: Protocol, folder: Path) -> Figures:
    result = evaluate_task(partial(backbone.vectors, unit), task, protocol, SEED)
    return {"score": headline(task.name, result.metrics), "dim": result.dim, "metrics": result.metrics}


def open_backbones(config: LayersConfig, run: Run) -> list[Backbone]:
    """Open all backbones, then the encoders taken whole, under distinct names; some may be left out.

    Only the wanted layers and poolings are computed and stored, and one that a backbone lacks is an error. An
    encoder taken whole has its one row; ``top,bottom`` says nothing to a backbone with one layer.
    """
    for text in config.concatenate:
        if "," not in text:
            raise UserError(f"--concatenate {text!r}: expected two or more layers, as in -1,-12")
    backbones = run.opened({spec: partial(open_backbone, spec) for spec in config.backbones})
    whole = run.opened({spec: partial(find_source, spec) for spec in config.encoders})
    backbones |= {f"{spec} {WHOLE}": Backbone(one.for_classifiers()) for spec, one in whole.items()}
    names = distinct_names([backbone.name for backbone in backbones.values()], list(backbones))
    for name, backbone in zip(names, backbones.values(), strict=True):
        rows, poolings = list(backbone.layers), backbone.poolings
        if isinstance(backbone, TransformerBackbone):
            poolings = config.poolings or poolings
            joined = [text for text in config.concatenate if text != "top,bottom" or len(rows) > 2]
            rows += [chosen(text, backbone.layers, name) for text in joined]
        backbone.name = name
        backbone.open([*product(dict.fromkeys(rows), dict.fromkeys(poolings))], config.cache, STORAGE)
    return list(backbones.values())


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
