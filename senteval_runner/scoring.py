"""Score models on tasks with seeds: ``python -m senteval_runner.run`` behind its options.

The result of one model, task and seed is a cell, and each finished cell is kept in its own file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from corpora.senteval.files import TaskData
from multiview.folder.files import model_folder
from multiview.names.baselines import training_trees
from multiview.names.grammar import split_parts
from multiview.names.opened import OpenedEncoder, distinct_names
from multiview.names.sources import find_source
from runtime.cli import LOGGER, config_from_json
from runtime.errors import UserError
from runtime.files import json_digest, read_record, write_record
from runtime.progress import progress
from senteval_runner.evaluation import data_hashes, evaluate_task, versions
from senteval_runner.protocol.config import Protocol, TaskResult
from senteval_runner.report.tables import headline
from senteval_runner.vectors import EvaluationTrees, open_model

log = logging.getLogger(LOGGER)
FORMAT = 1
"""Version of the cells and of ``results.json``; scores of another version are computed again."""


@dataclass(kw_only=True)
class Model:
    """Holds one row of the report."""

    name: str
    encoder: OpenedEncoder
    results: dict[int, dict[str, TaskResult]] = field(default_factory=dict)
    """By seed and task."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Reason by task."""

    @property
    def dim(self) -> int | None:
        """Size of the vectors that classifiers get or, where none was scored, of those that are compared."""
        return self.encoder.features.dim or self.encoder.dim

    @property
    def hours(self) -> float | None:
        """Hours of training, all parts together; None where one part's are not recorded."""
        hours = [source.hours for source in self.encoder.sources]
        return None if None in hours else sum(filter(None, hours))

    @property
    def tasks(self) -> list[str]:
        """The tasks that have a score."""
        return list(dict.fromkeys(task for results in self.results.values() for task in results))

    @property
    def scores(self) -> list[dict[str, dict[str, float]]]:
        """Metrics by task, one entry per seed."""
        return [{task: result.metrics for task, result in by.items()} for by in self.results.values()]


@dataclass(frozen=True)
class Cells:
    """The finished cells of one protocol below a folder: a model's result on one task with one seed each."""

    folder: Path
    protocol: Protocol

    def path(self, model: str, seed: int, task: str) -> Path:
        """Name the file of a task, by the model's key; the version of the classifiers' library counts too."""
        library = {"torch": "torch", "sklearn": "scikit-learn"}[self.protocol.backend]
        digest = json_digest([FORMAT, asdict(self.protocol), versions()[library]], 8)
        return self.folder / f"{model}-{self.protocol.name}-{digest}" / str(seed) / f"{task}.json"

    def read(self, path: Path, task: TaskData) -> TaskResult | None:
        """Return a finished result; None if there is none, it is damaged, or the data changed."""
        if not path.exists():
            return None
        try:
            result = config_from_json(TaskResult, read_record(path), where=path)
            headline(task.name, result.metrics)
        except (UserError, KeyError) as error:
            log.warning("%s; computed again", error)
            return None
        return result if result.data_sha256 == data_hashes(task) else None


def stored_results(report: Path, model: str = "") -> dict[str, TaskResult]:
    """Read the finished tasks of a report's only model and seed, or of the model with that key, by name."""
    paths = sorted(report.glob(f"parts/{model}*/*/*.json"))
    return {path.stem: config_from_json(TaskResult, read_record(path), where=path) for path in paths}


def open_models(
    specs: Iterable[str], trees: EvaluationTrees, missing: Mapping[str, str], **options: Any
) -> list[Model]:
    """Open the models of a run, each once, with :func:`open_model`'s ``options``.

    All of them skip the ``missing`` tasks, for the reasons given.
    """
    distinct = list(dict.fromkeys(specs))
    opened = [open_model(spec, trees=trees, **options) for spec in distinct]
    names = distinct_names([encoder.name for encoder in opened], distinct)
    return [
        Model(name=name, encoder=encoder, skipped=dict(missing))
        for name, encoder in zip(names, opened, strict=True)
    ]


def score_models(
    models: Sequence[Model], tasks: Sequence[TaskData], seeds: Sequence[int], cells: Cells
) -> None:
    """Score every model on every task with every seed; the results are the models' own."""
    total = len(models) * len(tasks) * len(seeds)
    with progress(total=total, unit="task", description="evaluate") as bar:
        for task in tasks:
            for note in task.count_notes():
                log.warning("%s", note)
            for model in models:
                bar.set_postfix_str(f"{task.name} of {model.name}")
                try:
                    for seed in seeds:
                        _score(model, task, seed, cells)
                except UserError as error:
                    reason = str(error)
                    known = reason in model.skipped.values()
                    log.warning(
                        "skipped %s of %s: %s", task.name, model.name, "as before" if known else reason
                    )
                    model.skipped[task.name] = reason
                bar.update(len(seeds))


def _score(model: Model, task: TaskData, seed: int, cells: Cells) -> None:
    """Score one model on one task with one seed; a finished cell is read from disk."""
    path = cells.path(model.encoder.key, seed, task.name)
    result = cells.read(path, task)
    if result is None:
        result = evaluate_task(model.encoder, task, cells.protocol, seed)
        write_record(path, asdict(result))
    model.results.setdefault(seed, {})[task.name] = result
    log.info("%s %s seed %d: %.2f", model.name, task.name, seed, headline(task.name, result.metrics))


def starts_of(specs: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the names of trained models before their first step, and a line for each model that has none."""
    trees: dict[str, Path | None] = {}
    for source in (find_source(part) for spec in specs for part in split_parts(spec)):
        if source.kind == "multiview" and source.base not in trees:
            trees[source.base] = training_trees(model_folder(source.base))
    starts = [f"start:{model}?corpus={cache}" for model, cache in trees.items() if cache]
    reason = "left out before its first step: the tree cache of its training is not here"
    return starts, [f"{model}: {reason}" for model, cache in trees.items() if not cache]


def expand_models(specs: Sequence[str], vectors: str) -> list[str]:
    """Name every model with trained words, also as a part of ``A+B``, with the words of a file of vectors.

    Raises:
        UserError: no model has trained words.
    """
    new: list[str] = []
    for spec in specs:
        parts = split_parts(spec)
        for place, source in enumerate(map(find_source, parts)):
            parts[place] += f"?expand={vectors}" if source.has_trained_words else ""
        new.append("+".join(parts))
    if new == list(specs):
        raise UserError(f"--expand {vectors}: no model here is a multi-view model with trained words")
    return new
