"""Run models x tasks x seeds for ``senteval_runner.run``; each finished cell is kept in its own file.

A run leaves ``results.json``, ``.csv``, ``.md`` and ``report.html``.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pandas
import torch
from threadpoolctl import threadpool_info

from corpora.senteval.files import TaskData
from corpora.senteval.tasks import STRUCTURE_TASKS, data_folder, expand_tasks
from multiview.folder.files import expanded_folder, has_trained_words, model_folder
from multiview.names.grammar import split_parts
from multiview.names.networks import training_trees
from multiview.names.opened import OpenedEncoder, distinct_names
from multiview.names.sources import find_source
from runtime.cli import config_from_json, config_to_json, log_to
from runtime.errors import UserError
from runtime.files import json_digest, read_record, write_json, write_record, write_text
from runtime.folders import refuse_others
from runtime.progress import progress
from senteval_runner.config import SentEvalConfig
from senteval_runner.evaluation import data_hashes, evaluate_task, read_tasks, versions
from senteval_runner.protocol.config import Protocol, TaskResult, get_protocol
from senteval_runner.report import plots, tables
from senteval_runner.report.page import Cell, Page, Score, Section, Table
from senteval_runner.report.resamples import drawn_scores
from senteval_runner.vectors.evaluation_trees import EvaluationTrees
from senteval_runner.vectors.models import open_model

FORMAT = 1
"""Version of the cell files; scores of another version are computed again."""


@dataclass(kw_only=True)
class Model:
    """One row of the report."""

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


def run(config: SentEvalConfig) -> int:
    """Evaluate every model on every task with every seed; write the results; print the tables."""
    names, seeds = expand_tasks(config.tasks), config.seed_list
    data = data_folder(config.data, names)
    protocol = get_protocol(config.protocol, nhid=config.nhid)
    specs = list(dict.fromkeys(config.models))
    if config.expand is not None:
        specs = expand_models(specs, config.expand)
    asked = len(specs)
    added, notes = baselines(specs) if config.baselines else ([], [])
    if (config.baselines or set(names) & set(STRUCTURE_TASKS)) and "bag:random" not in specs:
        added = ["bag:random", *added]  # what the words alone tell
    specs = list(dict.fromkeys([*specs, *added]))
    tasks, missing = read_tasks(names, data)
    parsers = {"dep": config.dep_model, "const": config.const_model}
    trees = EvaluationTrees(folder=config.trees, tasks=tasks, parsers=parsers)
    named = partial(
        open_model, cache=config.cache, seed=config.random_seed, project=config.project, device=config.device,
        trees=trees,
    )  # fmt: skip
    opened = [named(spec) for spec in specs]
    shown = distinct_names([encoder.name for encoder in opened], specs)
    models = [
        Model(name=name, encoder=encoder, skipped=dict(missing))
        for name, encoder in zip(shown, opened, strict=True)
    ]
    refuse_others(config.folder, "models")
    logger = log_to(config.folder)
    write_json(config.folder / "config.json", config_to_json(config))
    for note in notes:
        logger.warning("%s", note)
    for name, why in missing.items():
        logger.warning("skipped %s: %s", name, why)
    with progress(total=len(models) * len(tasks) * len(seeds), unit="task", description="evaluate") as bar:
        for task in tasks:
            for note in task.count_notes():
                logger.warning("%s", note)
            for model in models:
                bar.set_postfix_str(f"{task.name} of {model.name}")
                _score(model, task, seeds, protocol, config.cells, logger)
                bar.update(len(seeds))
    write_results(config, protocol, models)
    return 0 if any(model.results for model in models[:asked]) else 2


def baselines(specs: Iterable[str]) -> tuple[list[str], list[str]]:
    """The names of trained models before their first step, and a line for each model that has none."""
    found: dict[str, str | None] = {}
    for source in (find_source(part) for spec in specs for part in split_parts(spec)):
        if source.kind == "multiview" and source.base not in found:
            trees = training_trees(model_folder(source.base))
            found[source.base] = None if trees is None else f"start:{source.base}?corpus={trees}"
    why = "left out before its first step: the tree cache of its training is not here"
    return [spec for spec in found.values() if spec], [f"{m}: {why}" for m, s in found.items() if not s]


def expand_models(specs: Iterable[str], vectors: str) -> list[str]:
    """Models by name, every one with trained words (also as a part of ``A+B``) replaced by its expansion.

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


def cell_folder(folder: Path, model: str, protocol: Protocol, seed: int) -> Path:
    """Where finished tasks lie, of one model (its key), protocol (its library's version too) and seed."""
    library = {"torch": "torch", "sklearn": "scikit-learn"}[protocol.backend]
    digest = json_digest([FORMAT, dataclasses.asdict(protocol), versions()[library]], 8)
    return folder / f"{model}-{protocol.name}-{digest}" / str(seed)


def _finished(path: Path, task: TaskData, logger: logging.Logger) -> TaskResult | None:
    """A finished cell; None if there is none, it is damaged, or the data changed."""
    if not path.exists():
        return None
    try:
        found = config_from_json(TaskResult, read_record(path), where=path)
        tables.headline(task.name, found.metrics)
    except (UserError, KeyError) as error:
        logger.warning("%s; computed again", error)
        return None
    return found if found.data_sha256 == data_hashes(task) else None


def _score(
    model: Model,
    task: TaskData,
    seeds: Sequence[int],
    protocol: Protocol,
    cells: Path,
    logger: logging.Logger,
) -> None:
    """Score one model on one task with every seed; finished cells are read from disk."""
    try:
        for seed in seeds:
            path = cell_folder(cells, model.encoder.key, protocol, seed) / f"{task.name}.json"
            result = _finished(path, task, logger)
            if result is None:
                result = evaluate_task(model.encoder, task, protocol, seed)
                write_record(path, dataclasses.asdict(result))
            model.results.setdefault(seed, {})[task.name] = result
            score = tables.headline(task.name, result.metrics)
            logger.info("%s %s seed %d: %.2f", model.name, task.name, seed, score)
    except UserError as error:
        why = str(error)
        told = why in model.skipped.values()
        logger.warning("skipped %s of %s: %s", task.name, model.name, "as before" if told else why)
        model.skipped[task.name] = why


def write_results(config: SentEvalConfig, protocol: Protocol, models: Sequence[Model]) -> None:
    """Write all files; print the tables."""
    results = [
        (model.name, seed, result)
        for model in models
        for seed, by in model.results.items()
        for result in by.values()
    ]
    flat = [
        (name, protocol.name, seed, result.task, metric, value)
        for name, seed, result in results
        for metric, value in sorted(result.metrics.items())
    ]
    frame = pandas.DataFrame(flat, columns=["model", "protocol", "seed", "task", "metric", "value"])
    write_text(config.folder / "results.csv", frame.to_csv(index=False, lineterminator="\n"))
    rows = [{"model": name, "seed": seed, **result.figures()} for name, seed, result in results]
    write_json(config.folder / "results.json", {**_about(config, protocol, models), "results": rows})
    scored = [model for model in models if model.results]
    scores = {model.name: model.scores for model in scored}
    efforts = {model.name: (model.dim, model.hours) for model in scored}
    sections = tables.score_sections(scores, efforts, _drawn(scored))
    if len(scored) > 1:
        first = {model.name: next(iter(model.results.values())) for model in scored}
        sections.append(Section("Differences between models", [tables.difference_table(first)]))
    sections += _remarks(models)
    projected = f", projected to {config.project} dimensions" if config.project else ""
    about = f"Protocol {protocol.name}, nhid {protocol.nhid}, seeds {config.seeds}{projected}."
    page = Page("SentEval", sections, about)
    print(page.markdown(), end="")
    write_text(config.folder / "results.md", page.markdown())
    write_text(config.folder / "results.tex", page.latex())
    if scored:
        drawn = [*sections, _bars(scores)]
        write_text(config.folder / "report.html", Page("SentEval", drawn, about).html())
    print(f"written: {config.folder}: report.html, results.md, results.tex, results.csv, results.json")


def _drawn(models: Sequence[Model]) -> dict[str, dict[str, dict[str, Any]]]:
    """Every model's scores on resamples of the items, by task and metric."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    total = sum(len(model.tasks) for model in models)
    with progress(total=total, unit="task", description="report: intervals") as bar:
        for model in models:
            found[model.name] = {}
            for task in model.tasks:
                seeds = [results[task] for results in model.results.values() if task in results]
                found[model.name][task] = drawn_scores(seeds)
                bar.update(1)
    return found


def _bars(models: tables.Models) -> Section:
    """The main score of every task."""
    found = tables.headlines(models)
    tasks = list(dict.fromkeys(task for seeds in found.values() for task in seeds[0]))
    scores = {
        (name, t): Score.over_seeds([s[t] for s in found[name] if t in s]) for name in found for t in tasks
    }
    known = {key: score for key, score in scores.items() if score is not None}
    return Section("Per task", [plots.bars(list(models), tasks, known)])


def _about(config: SentEvalConfig, protocol: Protocol, models: Sequence[Model]) -> dict[str, Any]:
    """What ``results.json`` holds before the results: how they came about."""
    averaged = tables.averaged_columns({model.name: model.scores for model in models})
    # The last digits of L-BFGS depend on the BLAS library, its kernels and its threads.
    keys = ("internal_api", "version", "architecture", "num_threads")
    blas = sorted(" ".join(str(info.get(key, "")) for key in keys) for info in threadpool_info())
    return {
        "format": FORMAT,
        "config": config_to_json(config),
        "protocol": dataclasses.asdict(protocol),
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
    """Remarks: which vectors were scored, unusual row counts, and what was skipped and why."""
    notes = {result.task: result.notes for m in models for by in m.results.values() for result in by.values()}
    counts: list[list[Cell]] = [["; ".join(lines)] for lines in notes.values() if lines]
    who = _listed(((task, why), model.name) for model in models for task, why in model.skipped.items())
    everyone = ", ".join(model.name for model in models)
    # A model that cannot be read fails at every task for one reason, which is told once.
    where = _listed(
        (("every model" if names == everyone else names, why), task) for (task, why), names in who.items()
    )
    skipped: list[list[Cell]] = [[tasks, *reason] for reason, tasks in where.items()]
    readings = _listed(
        ((model.name, result.reading), result.task)
        for model in models
        for result in next(iter(model.results.values()), {}).values()
        if result.reading
    )
    read: list[list[Cell]] = [[*key, tasks] for key, tasks in readings.items()]
    found = []
    if read:
        found.append(Section("Which vectors of a model", [Table(["model", "vectors", "tasks"], read)]))
    if counts:
        found.append(Section("Row counts that differ from the published ones", [Table(["task"], counts)]))
    if skipped:
        title = "Skipped (the average is left out when one of the table's tasks is missing)"
        found.append(Section(title, [Table(["tasks", "models", "reason"], skipped)]))
    return found


def _listed(pairs: Iterable[tuple[tuple[str, str], str]]) -> dict[tuple[str, str], str]:
    """The names that go with each key, separated by commas."""
    found: dict[tuple[str, str], str] = {}
    for key, name in pairs:
        found[key] = f"{found[key]}, {name}" if key in found else name
    return found
