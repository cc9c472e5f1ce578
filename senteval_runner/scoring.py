"""Score models on tasks with seeds and write what a run leaves: ``senteval_runner.run`` behind its options.

The result of one model, task and seed is a cell, and each finished cell is kept in its own file.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pandas
import torch
from threadpoolctl import threadpool_info

from corpora.senteval.files import TaskData
from multiview.folder.files import model_folder
from multiview.names.baselines import training_trees
from multiview.names.grammar import split_parts
from multiview.names.opened import OpenedEncoder, distinct_names
from multiview.names.sources import find_source
from runtime.cli import LOGGER, config_from_json
from runtime.errors import UserError
from runtime.files import json_digest, read_record, write_json, write_record, write_text
from runtime.progress import progress
from senteval_runner.evaluation import data_hashes, evaluate_task, versions
from senteval_runner.protocol.config import Protocol, TaskResult
from senteval_runner.protocol.statistics import drawn_scores
from senteval_runner.report import plots, tables
from senteval_runner.report.page import Figure, Page, Score, Section, Table
from senteval_runner.vectors import EvaluationTrees, open_model

log = logging.getLogger(LOGGER)
FORMAT = 1
"""Version of the cells and of ``results.json``; scores of another version are computed again."""
Value = TypeVar("Value")


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
        """Sums the hours of training of all parts; None where one part's are not recorded."""
        hours = [source.hours for source in self.encoder.sources]
        return None if None in hours else sum(filter(None, hours))

    @property
    def tasks(self) -> list[str]:
        """Lists the tasks that have a score."""
        return list(dict.fromkeys(task for results in self.results.values() for task in results))

    @property
    def scores(self) -> list[dict[str, dict[str, float]]]:
        """Gives the metrics by task, one entry per seed."""
        seeds = self.results.values()
        return [{task: result.metrics for task, result in by_task.items()} for by_task in seeds]


@dataclass(frozen=True)
class Cells:
    """Keeps the cells of one protocol below a folder: each a model's result on a task with a seed."""

    folder: Path
    protocol: Protocol

    def path(self, model: str, seed: int, task: str) -> Path:
        """Name the file of a task, by the model's key; the version of the classifiers' library counts too."""
        library = {"torch": "torch", "sklearn": "scikit-learn"}[self.protocol.backend]
        digest = json_digest([FORMAT, asdict(self.protocol), versions()[library]], 8)
        return self.folder / f"{model}-{self.protocol.name}-{digest}" / str(seed) / f"{task}.json"

    def result(self, encoder: OpenedEncoder, task: TaskData, seed: int) -> TaskResult:
        """Read a finished result, or score; one of other data or without its main metric counts as none."""
        file = self.path(encoder.key, seed, task.name)

        def read(record: dict[str, Any]) -> TaskResult:
            result = config_from_json(TaskResult, record, where=file)
            tables.headline(task.name, result.metrics)
            if result.data_sha256 != data_hashes(task):
                raise UserError(f"{file}: the data of {task.name} have changed")
            return result

        return read_or_compute(file, read, lambda: asdict(evaluate_task(encoder, task, self.protocol, seed)))


def read_or_compute(
    file: Path, read: Callable[[dict[str, Any]], Value], compute: Callable[[], dict[str, Any]]
) -> Value:
    """Return what ``read`` makes of a cell's record; without one that it can read, compute and store it."""
    if file.exists():
        try:
            return read(read_record(file))
        except (UserError, KeyError, TypeError, AttributeError) as error:
            log.warning("%s: %s; computed again", file.name, error)
    write_record(file, compute())
    return read(read_record(file))


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
                        result = cells.result(model.encoder, task, seed)
                        model.results.setdefault(seed, {})[task.name] = result
                        score = tables.headline(task.name, result.metrics)
                        log.info("%s %s seed %d: %.2f", model.name, task.name, seed, score)
                except UserError as error:
                    reason = str(error)
                    known = reason in model.skipped.values()
                    log.warning(
                        "skipped %s of %s: %s", task.name, model.name, "as before" if known else reason
                    )
                    model.skipped[task.name] = reason
                bar.update(len(seeds))


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
    """Name models with trained words (one at least), also in ``A+B``, with the words of a file of vectors."""
    new: list[str] = []
    for spec in specs:
        parts = split_parts(spec)
        for place, source in enumerate(map(find_source, parts)):
            parts[place] += f"?expand={vectors}" if source.has_trained_words else ""
        new.append("+".join(parts))
    if new == list(specs):
        raise UserError(f"--expand {vectors}: no model here is a multi-view model with trained words")
    return new


def write_results(
    folder: Path, models: Sequence[Model], protocol: Protocol, options: Mapping[str, Any]
) -> None:
    """Write all files; print the tables. ``options`` are those of the command, as JSON."""
    results = [
        (model.name, seed, result)
        for model in models
        for seed, by_task in model.results.items()
        for result in by_task.values()
    ]
    flat = [
        (name, protocol.name, seed, result.task, metric, value)
        for name, seed, result in results
        for metric, value in sorted(result.metrics.items())
    ]
    frame = pandas.DataFrame(flat, columns=["model", "protocol", "seed", "task", "metric", "value"])
    write_text(folder / "results.csv", frame.to_csv(index=False, lineterminator="\n"))
    rows = [{"model": name, "seed": seed, **result.figures()} for name, seed, result in results]
    write_json(folder / "results.json", {**_about(options, protocol, models), "results": rows})
    scored = {model.name: model for model in models if model.results}
    scores = {name: model.scores for name, model in scored.items()}
    efforts = {name: (model.dim, model.hours) for name, model in scored.items()}
    sections = tables.score_sections(scores, efforts, _drawn(scored))
    if len(scored) > 1:
        first = {name: next(iter(model.results.values())) for name, model in scored.items()}
        sections.append(Section("Differences between models", [tables.difference_table(first)]))
    sections += _remarks(models)
    projected = f", projected to {options['project']} dimensions" if options["project"] else ""
    about = f"Protocol {protocol.name}, nhid {protocol.nhid}, seeds {options['seeds']}{projected}."
    page = Page("SentEval", sections, about)
    print(page.text(), end="")
    write_text(folder / "results.md", page.markdown())
    write_text(folder / "results.tex", page.latex())
    if scored:
        sections.append(Section("Per task", [_bars(scores)]))
        write_text(folder / "report.html", page.html())
    print(f"written: {folder}: report.html, results.md, results.tex, results.csv, results.json")


def _bars(models: tables.Models) -> Figure:
    """Draw the main score of every task."""
    rows = {name: [tables.headlines(scores) for scores in seeds] for name, seeds in models.items()}
    tasks = list(dict.fromkeys(task for seeds in rows.values() for seed_row in seeds for task in seed_row))
    scores = {
        (name, task): Score.over_seeds([seed_row[task] for seed_row in seeds if task in seed_row])
        for name, seeds in rows.items()
        for task in tasks
    }
    return plots.bars(list(models), tasks, scores)


def _drawn(models: Mapping[str, Model]) -> tables.Drawn:
    """Return every model's scores on resamples of the items, by task and metric."""
    total = sum(len(model.tasks) for model in models.values())
    resamples: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in models}
    with progress(total=total, unit="task", description="report: intervals") as bar:
        for name, model in models.items():
            for task in model.tasks:
                seeds = [by_task[task] for by_task in model.results.values() if task in by_task]
                resamples[name][task] = drawn_scores(seeds)
                bar.update(1)
    return resamples


def _about(options: Mapping[str, Any], protocol: Protocol, models: Sequence[Model]) -> dict[str, Any]:
    """Say how the results came about: what ``results.json`` holds before them."""
    averaged = tables.averaged_columns({model.name: model.scores for model in models})
    # The last digits of L-BFGS depend on the BLAS library, its kernels and its threads.
    keys = ("internal_api", "version", "architecture", "num_threads")
    blas = sorted(" ".join(str(info.get(key, "")) for key in keys) for info in threadpool_info())
    return {
        "format": FORMAT,
        "config": options,
        "protocol": asdict(protocol),
        "versions": versions(),
        "kernels": blas,
        "torch_threads": torch.get_num_threads(),
        "models": {
            model.name: {
                "spec": model.encoder.spec,
                "key": model.encoder.key,
                "dim": model.dim,
                "hours": model.hours,
                "parts": [source.record for source in model.encoder.sources],
                "paper_table": [tables.paper_row(scores) for scores in model.scores],
                "similarity_table": [tables.similarity_row(scores, averaged) for scores in model.scores],
                "skipped": model.skipped,
            }
            for model in models
        },
    }


def _remarks(models: Sequence[Model]) -> list[Section]:
    """Return the remarks: which vectors were scored, unusual row counts, and what was skipped and why."""
    results = [
        (model.name, result)
        for model in models
        for by_task in model.results.values()
        for result in by_task.values()
    ]
    readings = dict.fromkeys(
        (name, result.reading, result.task) for name, result in results if result.reading
    )
    notes = {result.task: "; ".join(result.notes) for _, result in results if result.notes}
    reasons = [(task, why, model.name) for model in models for task, why in model.skipped.items()]
    everyone = ", ".join(model.name for model in models)
    # A model that cannot be read fails at every task for one reason, which is told once.
    skipped = [
        ("every model" if names == everyone else names, why, task) for task, why, names in _joined(reasons)
    ]
    tables_by_title = {
        "Which vectors of a model": Table(["model", "vectors", "tasks"], _joined(readings)),
        "Row counts that differ from the published ones": Table(
            ["task"], [[note] for note in notes.values()]
        ),
        "Skipped (the average is left out when one of the table's tasks is missing)": Table(
            ["tasks", "models", "reason"], [(tasks, names, why) for names, why, tasks in _joined(skipped)]
        ),
    }
    return [Section(title, [table]) for title, table in tables_by_title.items() if table.rows]


def _joined(rows: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Merge rows that are alike but for the last column: its texts, separated by commas."""
    texts: dict[tuple[str, str], list[str]] = {}
    for first, second, last in rows:
        texts.setdefault((first, second), []).append(last)
    return [(*key, ", ".join(listed)) for key, listed in texts.items()]
