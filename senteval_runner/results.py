"""Write the report of a run of models: results.json, results.csv, tables, and a page for the browser."""

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
    """Write rows as a table with all of their columns."""
    stream = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, stream.getvalue())


def write_results(
    folder: Path, models: Sequence[Model], protocol: Protocol, options: Mapping[str, Any]
) -> None:
    """Write all files and print the tables; ``options`` are those of the command, as JSON."""
    results = [
        ({"model": model.name, "protocol": protocol.name, "seed": seed}, result)
        for model in models
        for seed, by_task in model.results.items()
        for result in by_task.values()
    ]
    write_csv(
        folder / "results.csv", [names | row for names, result in results for row in result.score_rows()]
    )
    rows = [{"model": names["model"], "seed": names["seed"], **result.figures()} for names, result in results]
    write_json(folder / "results.json", {**_provenance(options, protocol, models), "results": rows})
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
        scores = {
            (model.name, task): score
            for model in scored_models
            for task, score in model.scores(tables.headlines, intervals=False).items()
        }
        task_names = list(dict.fromkeys(task for _, task in scores))
        bars = plots.bars([model.name for model in scored_models], task_names, scores)
        sections.append(Section("Per task", [bars]))
        write_text(folder / "report.html", page.html())
    print(f"written: {folder}: report.html, results.md, results.tex, results.csv, results.json")


def _provenance(options: Mapping[str, Any], protocol: Protocol, models: Sequence[Model]) -> dict[str, Any]:
    """Return how the results were made, which ``results.json`` holds before them."""
    mean_columns = tables.columns_of_mean(metrics for model in models for metrics in model.metrics)
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
                        "spec": part.recipe.name.spec,
                        "kind": part.recipe.kind,
                        "vector_label": part.encode.label,
                        "key": part.encode.key,
                    }
                    for part in model.encoder.parts
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
    results = [
        (model.name, result)
        for model in models
        for by_task in model.results.values()
        for result in by_task.values()
    ]
    labels = dict.fromkeys(
        (name, result.vector_label, result.task) for name, result in results if result.vector_label
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
    """Merge rows that differ in the last column alone, and join its texts by commas."""
    texts: dict[tuple[str, str], list[str]] = {}
    for first, second, third in rows:
        texts.setdefault((first, second), []).append(third)
    return [(*key, ", ".join(texts_of_key)) for key, texts_of_key in texts.items()]
