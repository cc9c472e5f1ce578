"""The files that a run leaves: ``results.json``, ``.csv``, ``.md``, ``.tex`` and ``report.html``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas
import torch
from threadpoolctl import threadpool_info

from runtime.files import write_json, write_text
from runtime.progress import progress
from senteval_runner.evaluation import versions
from senteval_runner.protocol.config import Protocol
from senteval_runner.protocol.statistics import drawn_scores
from senteval_runner.report import plots, tables
from senteval_runner.report.page import Figure, Page, Score, Section, Table
from senteval_runner.scoring import FORMAT, Model


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
    rows = {name: [tables.headlines(one) for one in seeds] for name, seeds in models.items()}
    tasks = list(dict.fromkeys(task for seeds in rows.values() for one in seeds for task in one))
    scores = {
        (name, task): Score.over_seeds([one[task] for one in seeds if task in one])
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
        (model.name, result) for model in models for by in model.results.values() for result in by.values()
    ]
    read = dict.fromkeys((name, one.reading, one.task) for name, one in results if one.reading)
    notes = {one.task: "; ".join(one.notes) for _, one in results if one.notes}
    reasons = [(task, why, model.name) for model in models for task, why in model.skipped.items()]
    everyone = ", ".join(model.name for model in models)
    # A model that cannot be read fails at every task for one reason, which is told once.
    skipped = [
        ("every model" if names == everyone else names, why, task) for task, why, names in _joined(reasons)
    ]
    tables_by_title = {
        "Which vectors of a model": Table(["model", "vectors", "tasks"], _joined(read)),
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
    for one, other, last in rows:
        texts.setdefault((one, other), []).append(last)
    return [(*key, ", ".join(listed)) for key, listed in texts.items()]
