"""Score models on tasks with several seeds and write the reports: the work of ``senteval_runner.run``.

The result of one model, task and seed is a cell; each finished cell is kept in a file of its own.
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
from senteval_runner.protocol.statistics import resample_scores
from senteval_runner.report import plots, tables
from senteval_runner.report.page import Figure, Page, Score, Section, Table
from senteval_runner.vectors import EvaluationTrees, open_model

log = logging.getLogger(LOGGER)
FORMAT = 1
"""Version of cells and of ``results.json``; scores of another version are computed again."""
Value = TypeVar("Value")


@dataclass(kw_only=True)
class Model:
    """A model with its results, one row of the report."""

    name: str
    encoder: OpenedEncoder
    results: dict[int, dict[str, TaskResult]] = field(default_factory=dict)
    """Results by seed and task."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Reasons why tasks have no result, by task."""

    @property
    def dim(self) -> int | None:
        """Size of the vectors for classifiers or, if none of these was scored, of those for cosines."""
        return self.encoder.features.dim or self.encoder.dim

    @property
    def hours(self) -> float | None:
        """Hours of training of all parts; None if those of a part are not recorded."""
        hours = [source.hours for source in self.encoder.sources]
        return None if None in hours else sum(filter(None, hours))

    @property
    def tasks(self) -> list[str]:
        """The tasks that have a score."""
        return list(dict.fromkeys(task for results in self.results.values() for task in results))

    @property
    def scores(self) -> list[dict[str, dict[str, float]]]:
        """Metrics by task, one entry per seed."""
        seeds = self.results.values()
        return [{task: result.metrics for task, result in by_task.items()} for by_task in seeds]


@dataclass(frozen=True)
class Cells:
    """The cells of one protocol, kept below a folder: a model's result on a task with a seed."""

    folder: Path
    protocol: Protocol

    def path(self, model: str, seed: int, task: str) -> Path:
        """Return the file of a cell, for a model's key and the version of the classifiers' library."""
        library = {"torch": "torch", "sklearn": "scikit-learn"}[self.protocol.backend]
        digest = json_digest([FORMAT, asdict(self.protocol), versions()[library]], 8)
        return self.folder / f"{model}-{self.protocol.name}-{digest}" / str(seed) / f"{task}.json"

    def result(self, encoder: OpenedEncoder, task: TaskData, seed: int) -> TaskResult:
        """Read a finished result, or score; a result of other data or without its main metric is not used."""
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
    """Return what ``read`` makes of a cell's record; if it has none or refuses it, compute and store one."""
    if file.exists():
        try:
            return read(read_record(file))
        except (UserError, KeyError, TypeError, AttributeError) as error:
            log.warning("%s: %s; computed again", file.name, error)
    write_record(file, compute())
    return read(read_record(file))


def stored_results(report: Path, model: str = "") -> dict[str, TaskResult]:
    """Read the finished tasks, by name, of a report's only model and seed, or of the model with that key."""
    paths = sorted(report.glob(f"parts/{model}*/*/*.json"))
    return {path.stem: config_from_json(TaskResult, read_record(path), where=path) for path in paths}


def open_models(
    specs: Iterable[str], trees: EvaluationTrees, missing_tasks: Mapping[str, str], **options: Any
) -> list[Model]:
    """Open the models of a run, each once, with :func:`open_model`'s ``options``.

    All of them skip the missing tasks, which come with the reasons.
    """
    distinct_specs = list(dict.fromkeys(specs))
    encoders = [open_model(spec, trees=trees, **options) for spec in distinct_specs]
    names = distinct_names([encoder.name for encoder in encoders], distinct_specs)
    return [
        Model(name=name, encoder=encoder, skipped=dict(missing_tasks))
        for name, encoder in zip(names, encoders, strict=True)
    ]


def score_models(
    models: Sequence[Model], tasks: Sequence[TaskData], seeds: Sequence[int], cells: Cells
) -> None:
    """Score every model on every task with every seed, and keep the results in the models."""
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
                    told_reason = "as before" if reason in model.skipped.values() else reason
                    log.warning("skipped %s of %s: %s", task.name, model.name, told_reason)
                    model.skipped[task.name] = reason
                bar.update(len(seeds))


def untrained_models(specs: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the names of trained models before their first step, and a note for each that is left out."""
    sources = [find_source(part) for spec in specs for part in split_parts(spec)]
    models = dict.fromkeys(source.name.base for source in sources if source.kind == "multiview")
    names = []
    notes = []
    for model in models:
        if cache := training_trees(model_folder(model)):
            names.append(f"start:{model}?corpus={cache}")
        else:
            reason = "left out before its first step: the tree cache of its training is not here"
            notes.append(f"{model}: {reason}")
    return names, notes


def expand_models(specs: Sequence[str], vectors: str) -> list[str]:
    """Return the names of models, those with trained words (one at least) with the words of a file."""
    expanded_specs = []
    for spec in specs:
        parts = split_parts(spec)
        options = [f"?expand={vectors}" if find_source(part).has_trained_words else "" for part in parts]
        expanded_specs.append("+".join(map(str.__add__, parts, options)))
    if expanded_specs == list(specs):
        raise UserError(f"--expand {vectors}: no model here is a multi-view model with trained words")
    return expanded_specs


def write_results(
    folder: Path, models: Sequence[Model], protocol: Protocol, options: Mapping[str, Any]
) -> None:
    """Write all files and print the tables; ``options`` are those of the command, as JSON."""
    results = [
        (model.name, seed, result)
        for model in models
        for seed, by_task in model.results.items()
        for result in by_task.values()
    ]
    scores_by_line = [
        (name, protocol.name, seed, result.task, metric, value)
        for name, seed, result in results
        for metric, value in sorted(result.metrics.items())
    ]
    frame = pandas.DataFrame(scores_by_line, columns=["model", "protocol", "seed", "task", "metric", "value"])
    write_text(folder / "results.csv", frame.to_csv(index=False, lineterminator="\n"))
    rows = [{"model": name, "seed": seed, **result.figures()} for name, seed, result in results]
    write_json(folder / "results.json", {**_provenance(options, protocol, models), "results": rows})
    scored_models = {model.name: model for model in models if model.results}
    scores = {name: model.scores for name, model in scored_models.items()}
    efforts = {name: (model.dim, model.hours) for name, model in scored_models.items()}
    sections = tables.score_sections(scores, efforts, _resample(scored_models))
    if len(scored_models) > 1:
        first_seeds = {name: next(iter(model.results.values())) for name, model in scored_models.items()}
        sections.append(Section("Differences between models", [tables.difference_table(first_seeds)]))
    sections += _remarks(models)
    projection = f", projected to {options['project']} dimensions" if options["project"] else ""
    introduction = f"Protocol {protocol.name}, nhid {protocol.nhid}, seeds {options['seeds']}{projection}."
    page = Page("SentEval", sections, introduction)
    print(page.text(), end="")
    write_text(folder / "results.md", page.markdown())
    write_text(folder / "results.tex", page.latex())
    if scored_models:
        sections.append(Section("Per task", [_bars(scores)]))
        write_text(folder / "report.html", page.html())
    print(f"written: {folder}: report.html, results.md, results.tex, results.csv, results.json")


def _bars(models: tables.Models) -> Figure:
    """Draw the main score of every task."""
    values: dict[tuple[str, str], list[float]] = {}
    for name, seeds in models.items():
        for metrics in seeds:
            for task, value in tables.headlines(metrics).items():
                values.setdefault((name, task), []).append(value)
    scores = {key: Score.over_seeds(values_of_seeds) for key, values_of_seeds in values.items()}
    return plots.bars(list(models), list(dict.fromkeys(task for _, task in values)), scores)


def _resample(models: Mapping[str, Model]) -> tables.Resamples:
    """Return every model's scores on resamples of the items, by task and metric."""
    total = sum(len(model.tasks) for model in models.values())
    resamples: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in models}
    with progress(total=total, unit="task", description="report: intervals") as bar:
        for name, model in models.items():
            for task in model.tasks:
                seeds = [by_task[task] for by_task in model.results.values() if task in by_task]
                resamples[name][task] = resample_scores(seeds)
                bar.update(1)
    return resamples


def _provenance(options: Mapping[str, Any], protocol: Protocol, models: Sequence[Model]) -> dict[str, Any]:
    """Return how the results were made, which ``results.json`` holds before them."""
    mean_columns = tables.columns_of_mean({model.name: model.scores for model in models})
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
                "parts": [
                    {
                        "spec": source.name.spec,
                        "kind": source.kind,
                        "reading": source.reading,
                        "key": source.key,
                    }
                    for source in model.encoder.sources
                ],
                "paper_table": [tables.paper_row(scores) for scores in model.scores],
                "similarity_table": [tables.similarity_row(scores, mean_columns) for scores in model.scores],
                "skipped": model.skipped,
            }
            for model in models
        },
    }


def _remarks(models: Sequence[Model]) -> list[Section]:
    """Return tables of the vectors that were scored, of unusual row counts, and of skipped tasks."""
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
    reasons = [(task, reason, model.name) for model in models for task, reason in model.skipped.items()]
    all_names = ", ".join(model.name for model in models)
    # A model that cannot be read fails at every task for one reason, which is told once.
    skipped_tasks = [
        ("every model" if names == all_names else names, reason, task)
        for task, reason, names in _join_last(reasons)
    ]
    tables_by_title = {
        "Which vectors of a model": Table(["model", "vectors", "tasks"], _join_last(readings)),
        "Row counts that differ from the published ones": Table(
            ["task"], [[note] for note in notes.values()]
        ),
        "Skipped (the average is left out when one of the table's tasks is missing)": Table(
            ["tasks", "models", "reason"],
            [(tasks, names, reason) for names, reason, tasks in _join_last(skipped_tasks)],
        ),
    }
    return [Section(title, [table]) for title, table in tables_by_title.items() if table.rows]


def _join_last(rows: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Merge rows that differ in the last column alone, and join its texts by commas."""
    texts: dict[tuple[str, str], list[str]] = {}
    for first, second, third in rows:
        texts.setdefault((first, second), []).append(third)
    return [(*key, ", ".join(texts_of_key)) for key, texts_of_key in texts.items()]
