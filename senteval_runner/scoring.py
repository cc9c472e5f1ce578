"""Score models on tasks with seeds: ``python -m senteval_runner.run`` behind its options.

Each finished cell is kept in its own file (:mod:`senteval_runner.cells`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corpora.senteval.files import TaskData
from corpora.senteval.tasks import STRUCTURE_TASKS
from multiview.folder.expansion import expanded_folder, has_trained_words
from multiview.folder.files import model_folder
from multiview.names.grammar import split_parts
from multiview.names.networks import training_trees
from multiview.names.opened import OpenedEncoder, distinct_names
from multiview.names.sources import find_source
from runtime.cli import LOGGER
from runtime.errors import UserError
from runtime.progress import progress
from senteval_runner.cells import Cells
from senteval_runner.evaluation import evaluate_task
from senteval_runner.protocol.config import TaskResult
from senteval_runner.report.tables import headline
from senteval_runner.vectors import EvaluationTrees, open_model

log = logging.getLogger(LOGGER)
RANDOM_WORDS = "bag:random"
"""What the words alone tell."""


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
class Selection:
    """Names of the models to score."""

    specs: list[str]
    """Those that were asked for, then those that stand beside them, each once."""
    requested: int
    """How many were asked for."""
    notes: list[str]
    """Which models have no start to be compared with, and why."""


def select_models(
    specs: Sequence[str], tasks: Iterable[str], *, vectors: str | None, beside: bool
) -> Selection:
    """Return the models that a run scores.

    Args:
        specs: names of models.
        tasks: their tasks; those of structure always have random words beside a model.
        vectors: expand the vocabulary of all models with trained words by these, see :func:`expand_models`.
        beside: whether random words and the models before their first step are scored too.
    """
    names = list(dict.fromkeys(specs))
    if vectors is not None:
        names = expand_models(names, vectors)
    starts, notes = baselines(names) if beside else ([], [])
    words = [RANDOM_WORDS] if (beside or set(tasks) & set(STRUCTURE_TASKS)) else []
    return Selection(list(dict.fromkeys([*names, *words, *starts])), len(names), notes)


def open_models(
    specs: Sequence[str],
    trees: EvaluationTrees,
    *,
    cache: Path,
    seed: int,
    project: int | None,
    device: str | None,
    missing: Mapping[str, str],
) -> list[Model]:
    """Give the models of a run, as :func:`open_model` opens them; all of them skip the ``missing`` tasks."""
    opened = [
        open_model(spec, cache=cache, seed=seed, project=project, device=device, trees=trees)
        for spec in specs
    ]
    names = distinct_names([encoder.name for encoder in opened], specs)
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
                _score(model, task, seeds, cells)
                bar.update(len(seeds))


def _score(model: Model, task: TaskData, seeds: Sequence[int], cells: Cells) -> None:
    """Score one model on one task with every seed; finished cells are read from disk."""
    try:
        for seed in seeds:
            path = cells.path(model.encoder.key, seed, task.name)
            result = cells.read(path, task)
            if result is None:
                result = evaluate_task(model.encoder, task, cells.protocol, seed)
                cells.write(path, result)
            model.results.setdefault(seed, {})[task.name] = result
            score = headline(task.name, result.metrics)
            log.info("%s %s seed %d: %.2f", model.name, task.name, seed, score)
    except UserError as error:
        reason = str(error)
        is_known = reason in model.skipped.values()
        log.warning("skipped %s of %s: %s", task.name, model.name, "as before" if is_known else reason)
        model.skipped[task.name] = reason


def baselines(specs: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the names of trained models before their first step, and a line for each model that has none."""
    trees: dict[str, Path | None] = {}
    for source in (find_source(part) for spec in specs for part in split_parts(spec)):
        if source.kind == "multiview" and source.base not in trees:
            trees[source.base] = training_trees(model_folder(source.base))
    starts = [f"start:{model}?corpus={cache}" for model, cache in trees.items() if cache]
    reason = "left out before its first step: the tree cache of its training is not here"
    return starts, [f"{model}: {reason}" for model, cache in trees.items() if not cache]


def expand_models(specs: Iterable[str], vectors: str) -> list[str]:
    """Replace every model with trained words, also as a part of ``A+B``, by its expansion.

    Raises:
        UserError: no model has trained words, or one cannot be expanded.
    """
    new: list[str] = []
    folders: dict[str, Path] = {}
    for spec in specs:
        parts = split_parts(spec)
        for place, source in enumerate(map(find_source, parts)):
            folder = model_folder(source.base)
            if source.kind == "multiview" and has_trained_words(folder):
                if source.base not in folders:
                    folders[source.base] = expanded_folder(folder, vectors)
                parts[place] = f"{folders[source.base]}{source.spec.removeprefix(source.base)}"
        new.append("+".join(parts))
    if not folders:
        raise UserError(f"--expand {vectors}: no model here is a multi-view model with trained words")
    return new
