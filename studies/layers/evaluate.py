"""Encode once, evaluate cell by cell: (encoder, layers, pooling, task, classifier)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

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
from studies.layers.report import frame, page

if TYPE_CHECKING:
    from studies.layers.__main__ import LayersConfig

SEED = 1111
"""SentEval's, of classifiers and folds; and of the rows that --limit draws."""
STORAGE = "float16"
"""Of stored vectors: half the disk space of float32."""
NO_HIDDEN_LAYER = (*STS_SUBSETS, "STSBenchmark", "SICKRelatedness", "WordContent")
"""Tasks that no hidden layer changes: cosines, regressions, and WordContent's logistic regression."""
LEAST_PER_CLASS = 12
"""Rows that --limit leaves a class, if it has them: the folds need as many."""
FIGURES = "figures: accuracy; Pearson x 100 of SICK-R and STS-B; mean Spearman x 100 over subsets of STS12-16"


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """One encoder of a study."""

    name: str
    backbone: Backbone
    part: SingleEncoder
    """The vectors of all its columns."""
    units: list[Unit]

    def key(self, unit: Unit) -> list[object]:
        """Everything that decides the vectors of a unit."""
        return [*self.backbone.identity, unit.layers, unit.pooling]

    def vectors(self, unit: Unit, sentences: Sequence[Tokens]) -> Float:
        """The columns of a unit side by side, float32 [n, D]; what the store lacks is encoded now."""
        texts, columns = self.part.fill(sentences), self.backbone.columns
        return np.concatenate(
            [self.part.store.get(texts, columns.index(column)) for column in unit.columns()], axis=1
        )


def evaluate(config: LayersConfig, run: Run) -> Page:
    """Evaluate every encoder on every task.

    Raises:
        UserError: a layer or pooling that an encoder lacks, or no data.
    """
    tasks, data = expand_tasks(config.tasks), data_folder(config.data)
    subjects = open_subjects(config, run)
    plain = get_protocol(config.protocol)
    protocols = [plain, *([get_protocol(config.protocol, nhid=config.mlp)] if config.mlp else [])]
    remarks = [
        f"logistic regression, protocol {plain.name}, seed {SEED}; vectors stored as {STORAGE}; mean and max "
        "with special tokens",
        FIGURES,
    ]
    if config.mlp:
        without = ", ".join(NO_HIDDEN_LAYER)
        remarks.append(f"multi-layer perceptron: {config.mlp} hidden units; {without} have none")
    scores: dict[bool, dict[tuple[str, str, str], dict[str, float]]] = {False: {}, True: {}}
    """Without and with a hidden layer."""
    for name in tasks:
        try:
            task = read_task(name, data)
        except UserError as error:
            run.leave_out(name, error)
            continue
        if config.limit:
            whole, task = task.splits, limited(task, config.limit)
            rows = ", ".join(f"{key} {len(task.splits[key]):,} of {len(whole[key]):,}" for key in whole)
            remarks.append(f"--limit, not comparable with the full task: {name}: {rows}")
        decided = [STORAGE, SEED, config.limit, data_hashes(task)]
        trained = [one for one in protocols if not one.nhid or name not in NO_HIDDEN_LAYER]
        cells = {
            (subject.name, unit, protocol.nhid): Cell(
                name=f"{subject.name}: {unit.name}, {name}" + ", MLP" * bool(protocol.nhid),
                identity=[*subject.key(unit), dataclasses.asdict(protocol), *decided],
                compute=partial(_score, subject, unit, task, protocol),
            )
            for subject, protocol in product(subjects, trained)
            for unit in subject.units
        }
        for (subject_name, unit, hidden), figures in run.figures(cells).items():
            row = scores[hidden > 0].setdefault((subject_name, unit.row, unit.pooling), {})
            row[name] = figures["score"]
    remarks += [note for subject in subjects for note in subject.backbone.notes()]
    compared = {subject.name: subject.backbone.compared for subject in subjects}
    return page(frame(scores[False]), frame(scores[True]), compared, remarks)


def _score(subject: Subject, unit: Unit, task: TaskData, protocol: Protocol, folder: Path) -> Figures:
    result = evaluate_task(partial(subject.vectors, unit), task, protocol, SEED)
    return {"score": headline(task.name, result.metrics), "dim": result.dim, "metrics": result.metrics}


def open_subjects(config: LayersConfig, run: Run) -> list[Subject]:
    """All backbones, then the encoders taken whole, under distinct names; left out where that fails.

    Raises:
        UserError: a layer or pooling that an encoder lacks.
    """
    read = run.opened({spec: partial(open_backbone, spec) for spec in config.backbones})
    whole = run.opened({spec: partial(find_source, spec) for spec in config.encoders})
    found: dict[str, Backbone] = {
        f"{spec} {WHOLE}": WholeBackbone(one.for_classifiers()) for spec, one in whole.items()
    }
    found = read | found
    names = distinct_names([backbone.name for backbone in found.values()], list(found))
    return [choose(*pair, config) for pair in zip(names, found.values(), strict=True)]


def choose(name: str, backbone: Backbone, config: LayersConfig) -> Subject:
    """The layers and poolings of a backbone; only their columns are computed and stored.

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
    """A task with about ``limit`` rows per split at most: each class keeps its share, but twelve rows.

    The draw is the same for every layer and encoder; rows keep the files' order.
    """
    splits = {}
    for name, split in task.splits.items():
        rng, y = np.random.RandomState(SEED), np.asarray(split.y)
        groups = [np.flatnonzero(y == label) for label in range(len(task.classes))] or [np.arange(len(y))]
        quotas = [max(round(min(1, limit / len(y)) * len(group)), LEAST_PER_CLASS) for group in groups]
        drawn = [rng.permutation(group)[:quota] for group, quota in zip(groups, quotas, strict=True)]
        rows = np.sort(np.concatenate(drawn)).tolist()
        b = None if split.b is None else [split.b[row] for row in rows]
        splits[name] = Split(a=[split.a[row] for row in rows], b=b, y=[split.y[row] for row in rows])
    return dataclasses.replace(task, splits=splits)
