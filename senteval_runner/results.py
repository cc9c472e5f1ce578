"""Write the report of scored models: results.json, results.csv, tables, and a page for the browser."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_info

from runtime.files import write_json, write_text
from senteval_runner.evaluation import versions
from senteval_runner.models import Model
from senteval_runner.protocol.config import Protocol
from senteval_runner.report import plots, tables
from senteval_runner.report.page import Page, Section, Table
from senteval_runner.result_store import FORMAT


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as comma-separated values; the columns are the keys of all rows, in order of appearance."""
    stream = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, stream.getvalue())


def write_results(
    folder: Path, models: Sequence[Model], protocol: Protocol, options: Mapping[str, Any]
) -> None:
    """Write all files of the report and print its tables; ``options`` are those of the command, as JSON."""
    results: list[dict[str, Any]] = []
    scores: list[dict[str, Any]] = []
    for model in models:
        for seed, results_by_task in model.results.items():
            for result in results_by_task.values():
                names = {"model": model.name, "protocol": protocol.name, "seed": seed}
                scores += [names | row for row in result.score_rows()]
                results.append({"model": model.name, "seed": seed, **result.figures()})
    write_csv(folder / "results.csv", scores)
    write_json(folder / "results.json", {**_provenance(options, protocol, models), "results": results})
    scored_models = [model for model in models if model.results]
    sections = tables.score_sections(scored_models, intervals=True)
    if len(scored_models) > 1:
        sections.append(Section("Differences between models", [tables.difference_table(scored_models)]))
    sections += _remarks(models)
    projection = f", projected to {options['project']} dimensions" if options["project"] else ""
    introduction = f"Protocol {protocol.name}, nhid {protocol.nhid}, seeds {options['seeds']}{projection}."
    page = Page("SentEval", sections, introduction)
    print(page.text(), end="")
    write_text(folder / "results.md", page.markdown())
    write_text(folder / "results.tex", page.latex())
    if scored_models:
        headline_scores = {
            (model.name, task): score
            for model in scored_models
            for task, score in model.scores(tables.headlines, intervals=False).items()
        }
        task_names = list(dict.fromkeys(task for _, task in headline_scores))
        bars = plots.bars([model.name for model in scored_models], task_names, headline_scores)
        sections.append(Section("Per task", [bars]))
        write_text(folder / "report.html", page.html())
    print(f"written: {folder}: report.html, results.md, results.tex, results.csv, results.json")


def _provenance(options: Mapping[str, Any], protocol: Protocol, models: Sequence[Model]) -> dict[str, Any]:
    """Return the record of how the results were made; ``results.json`` begins with it."""
    mean_columns = tables.columns_of_mean(metrics for model in models for metrics in model.metrics)
    # The last digits of L-BFGS depend on the BLAS library, its kernels and its threads.
    keys = ("internal_api", "version", "architecture", "num_threads")
    kernels = []
    for info in threadpool_info():
        kernels.append(" ".join(str(info.get(key, "")) for key in keys))
    return {
        "format": FORMAT,
        "config": options,
        "protocol": asdict(protocol),
        "versions": versions(),
        "kernels": sorted(kernels),
        "torch_threads": torch.get_num_threads(),
        "models": {
            model.name: {
                "spec": model.encoder.full_name,
                "key": model.encoder.key(),
                "dim": model.dim,
                "hours": model.hours,
                "parts": [
                    {
                        "spec": member.parsed.full_name,
                        "kind": member.family,
                        "vector_label": member.label(),
                        "key": member.key(),
                    }
                    for member in model.encoder.members
                ],
                "paper_table": [tables.paper_row(row) for row in model.metrics],
                "similarity_table": [tables.similarity_row(row, mean_columns) for row in model.metrics],
                "skipped": model.skipped,
            }
            for model in models
        },
    }


def _remarks(models: Sequence[Model]) -> list[Section]:
    """Return tables of the vectors that were scored, of unusual row counts, and of skipped tasks."""
    labels: dict[tuple[str, str, str], None] = {}
    notes: dict[str, str] = {}
    for model in models:
        for results_by_task in model.results.values():
            for task, result in results_by_task.items():
                if result.vector_label:
                    labels[model.name, result.vector_label, task] = None
                if result.notes:
                    notes[task] = "; ".join(result.notes)
    reasons = [(task, reason, model.name) for model in models for task, reason in model.skipped.items()]
    all_names = ", ".join(model.name for model in models)
    # A model that cannot be read fails at every task for the same reason, which is printed once.
    skipped_tasks = []
    for task, reason, names in _join_last(reasons):
        skipped_tasks.append(("every model" if names == all_names else names, reason, task))
    tables_by_title = {
        "Which vectors of a model": Table(["model", "vectors", "tasks"], _join_last(labels)),
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
    """Merge rows whose first two columns are equal, and join their third columns by commas."""
    third_columns: dict[tuple[str, str], list[str]] = {}
    for first, second, third in rows:
        third_columns.setdefault((first, second), []).append(third)
    return [(first, second, ", ".join(texts)) for (first, second), texts in third_columns.items()]
