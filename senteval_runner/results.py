"""The files that a run leaves: ``results.json``, ``.csv``, ``.md``, ``.tex`` and ``report.html``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas
import torch
from threadpoolctl import threadpool_info

from runtime.files import write_json, write_text
from runtime.progress import progress
from senteval_runner.cells import FORMAT
from senteval_runner.evaluation import versions
from senteval_runner.protocol.config import Protocol
from senteval_runner.protocol.statistics import drawn_scores
from senteval_runner.report import plots, tables
from senteval_runner.report.page import Cell, Page, Score, Section, Table
from senteval_runner.scoring import Model


def write_results(
    folder: Path, models: Sequence[Model], protocol: Protocol, options: Mapping[str, Any]
) -> None:
    """Write all files; print the tables. ``options`` are those of the command, as JSON."""
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
    write_text(folder / "results.csv", frame.to_csv(index=False, lineterminator="\n"))
    rows = [{"model": name, "seed": seed, **result.figures()} for name, seed, result in results]
    write_json(folder / "results.json", {**_about(options, protocol, models), "results": rows})
    scored = [model for model in models if model.results]
    scores = {model.name: model.scores for model in scored}
    efforts = {model.name: (model.dim, model.hours) for model in scored}
    sections = tables.score_sections(scores, efforts, _drawn(scored))
    if len(scored) > 1:
        first = {model.name: next(iter(model.results.values())) for model in scored}
        sections.append(Section("Differences between models", [tables.difference_table(first)]))
    sections += _remarks(models)
    projected = f", projected to {options['project']} dimensions" if options["project"] else ""
    about = f"Protocol {protocol.name}, nhid {protocol.nhid}, seeds {options['seeds']}{projected}."
    page = Page("SentEval", sections, about)
    print(page.markdown(), end="")
    write_text(folder / "results.md", page.markdown())
    write_text(folder / "results.tex", page.latex())
    if scored:
        drawn = [*sections, _bars(scores)]
        write_text(folder / "report.html", Page("SentEval", drawn, about).html())
    print(f"written: {folder}: report.html, results.md, results.tex, results.csv, results.json")


def _drawn(models: Sequence[Model]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return every model's scores on resamples of the items, by task and metric."""
    resamples: dict[str, dict[str, dict[str, Any]]] = {}
    total = sum(len(model.tasks) for model in models)
    with progress(total=total, unit="task", description="report: intervals") as bar:
        for model in models:
            resamples[model.name] = {}
            for task in model.tasks:
                seeds = [results[task] for results in model.results.values() if task in results]
                resamples[model.name][task] = drawn_scores(seeds)
                bar.update(1)
    return resamples


def _bars(models: tables.Models) -> Section:
    """Return the main score of every task."""
    headlines = tables.headlines(models)
    tasks = list(dict.fromkeys(task for seeds in headlines.values() for task in seeds[0]))
    scores = {
        (name, t): Score.over_seeds([s[t] for s in headlines[name] if t in s])
        for name in headlines
        for t in tasks
    }
    known = {key: score for key, score in scores.items() if score is not None}
    return Section("Per task", [plots.bars(list(models), tasks, known)])


def _about(options: Mapping[str, Any], protocol: Protocol, models: Sequence[Model]) -> dict[str, Any]:
    """Say how the results came about: what ``results.json`` holds before them."""
    averaged = tables.averaged_columns({model.name: model.scores for model in models})
    # The last digits of L-BFGS depend on the BLAS library, its kernels and its threads.
    keys = ("internal_api", "version", "architecture", "num_threads")
    blas = sorted(" ".join(str(info.get(key, "")) for key in keys) for info in threadpool_info())
    return {
        "format": FORMAT,
        "config": options,
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
    """Return the remarks: which vectors were scored, unusual row counts, and what was skipped and why."""
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
    sections = []
    if read:
        sections.append(Section("Which vectors of a model", [Table(["model", "vectors", "tasks"], read)]))
    if counts:
        sections.append(Section("Row counts that differ from the published ones", [Table(["task"], counts)]))
    if skipped:
        title = "Skipped (the average is left out when one of the table's tasks is missing)"
        sections.append(Section(title, [Table(["tasks", "models", "reason"], skipped)]))
    return sections


def _listed(pairs: Iterable[tuple[tuple[str, str], str]]) -> dict[tuple[str, str], str]:
    """Return the names that go with each key, separated by commas."""
    names: dict[tuple[str, str], str] = {}
    for key, name in pairs:
        names[key] = f"{names[key]}, {name}" if key in names else name
    return names
