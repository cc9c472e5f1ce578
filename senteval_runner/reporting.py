"""What a run leaves behind: ``results.json``, ``results.csv``, ``results.md`` and ``report.html``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from threadpoolctl import threadpool_info

from corpora.senteval.files import TaskData
from corpora.senteval.tasks import PROBING_FILES, canonical_task
from corpora.support.config import config_to_json
from corpora.support.files import json_digest, read_json, write_json, write_text
from senteval_runner.cells import FORMAT, versions
from senteval_runner.config import SentEvalConfig
from senteval_runner.protocol.config import Protocol
from senteval_runner.protocol.results import Results, TaskResult
from senteval_runner.report.page import Page, Section
from senteval_runner.report.sections import (
    comparison_sections,
    projection_section,
    score_sections,
)
from senteval_runner.report.table import Cell, Table
from senteval_runner.report.tables import Effort, averaged_columns, paper_row, similarity_row
from senteval_runner.vectors.embed import StoredEncoder
from senteval_runner.vectors.sources import TREES, Source

COUNTS_TITLE = "Row counts that differ from the published ones"
SKIPPED_TITLE = "Skipped (the average is left out when one of the table's tasks is missing)"
MOST_CLASSES = 8
"""Tasks with more classes are not drawn in the plane: their colours would look alike."""


@dataclass(kw_only=True)
class Model:
    """One row of the report."""

    name: str
    encoder: StoredEncoder
    results: dict[int, dict[str, TaskResult]] = field(default_factory=dict)
    """By seed and task."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Reason by task."""

    @property
    def key(self) -> str:
        """Digest of everything that determines its vectors."""
        return json_digest(self.encoder.identity, 16)

    @property
    def sources(self) -> list[Source]:
        """What its parts were named as."""
        return [part.source for part in self.encoder.parts if part.source is not None]

    @property
    def reads_parses(self) -> bool:
        """Whether a parser's trees go into its vectors."""
        return any(source.kind in TREES for source in self.sources)

    @property
    def hours(self) -> float | None:
        """Hours of training, all parts together; None where one part's are not recorded."""
        hours = [source.hours for source in self.sources]
        return None if None in hours else sum(filter(None, hours))

    def scores(self) -> list[dict[str, dict[str, float]]]:
        """Metrics by task, one entry per seed."""
        return [{task: result.metrics for task, result in by.items()} for by in self.results.values()]


def write_results(
    config: SentEvalConfig,
    protocol: Protocol,
    models: Sequence[Model],
    tasks: Sequence[TaskData],
) -> None:
    """Write all four files; print the tables of our own scores.

    Args:
        config: the run's options.
        protocol: how scores were computed.
        models: all models, with their results.
        tasks: all tasks that could be read.
    """
    results, remarks = _results(config, protocol, models), _remarks(models)
    write_json(config.output / "results.json", results)
    write_text(config.output / "results.csv", _flat(models, protocol))
    scored = [model for model in models if model.results]
    tasks = [task for task in tasks if all(task.name not in model.skipped for model in scored)]
    scores = {model.name: model.scores() for model in scored}
    parsed = [model.name for model in scored if model.reads_parses]
    labelled = [task.name for task in tasks if _labelled_by_parser(task)]
    efforts = {model.name: Effort(model.encoder.dim, model.hours) for model in scored}
    projected = f", projected to {config.project} dimensions" if config.project else ""
    page = Page(
        "SentEval",
        [*score_sections(scores, parsed, labelled, False, efforts), *remarks],
        f"Protocol {protocol.name}, nhid {protocol.nhid}, seeds {config.seeds}{projected}.",
    )
    print(page.markdown(), end="")
    sections = score_sections(scores, parsed, labelled, True, efforts)
    if scored:
        sections += comparison_sections({model.name: list(model.results.values()) for model in scored})
    page = replace(page, sections=[*sections, *remarks])
    write_text(config.output / "results.md", page.markdown())
    print(f"written: {config.output / 'results.json'}, results.csv, results.md")
    if scored:
        page = replace(page, sections=[*page.sections, *_sentence_sections(scored, tasks)])
        write_text(config.output / "report.html", page.html())
        print(f"written: {config.output / 'report.html'}")


def _sentence_sections(models: Sequence[Model], tasks: Sequence[TaskData]) -> Iterator[Section]:
    """The sentences of the single-sentence task with most classes in the plane."""
    single = [task for task in tasks if task.kind == "single" and 2 <= len(task.classes) <= MOST_CLASSES]
    if single:
        vectors = {model.name: model.encoder for model in models}
        yield projection_section(vectors, max(single, key=lambda task: len(task.classes)))


def _labelled_by_parser(task: TaskData) -> bool:
    """Whether ``senteval_runner.build_probing`` made the task from a parser's trees, as its record says."""
    if task.name not in PROBING_FILES:
        return False
    record = task.files["train"][0].parent / "probing.json"
    values = read_json(record)["tasks"] if record.exists() else {}
    return any(canonical_task(n) == task.name and v["labels_from"] == "parser" for n, v in values.items())


def _results(config: SentEvalConfig, protocol: Protocol, models: Sequence[Model]) -> dict[str, object]:
    """What ``results.json`` holds."""
    metrics = [
        {
            "model": model.name,
            "seed": seed,
            **{k: v for k, v in dataclasses.asdict(result).items() if k not in ("predictions", "gold")},
        }
        for model in models
        for seed, by_task in model.results.items()
        for result in by_task.values()
    ]
    averaged = averaged_columns({model.name: model.scores() for model in models})
    return {
        "format": FORMAT,
        "config": config_to_json(config),
        "protocol": dataclasses.asdict(protocol),
        "versions": versions(),
        "kernels": _kernels(),
        "torch_threads": torch.get_num_threads(),
        "models": {
            model.name: {
                "spec": model.encoder.spec,
                "key": model.key,
                "dim": model.encoder.dim,
                "hours": model.hours,
                "parts": [dataclasses.asdict(source) for source in model.sources],
            }
            for model in models
        },
        "paper_table": {model.name: [paper_row(scores) for scores in model.scores()] for model in models},
        "similarity_table": {
            model.name: [similarity_row(scores, averaged) for scores in model.scores()] for model in models
        },
        "results": metrics,
        "skipped": {model.name: model.skipped for model in models if model.skipped},
    }


def _flat(models: Sequence[Model], protocol: Protocol) -> str:
    """What ``results.csv`` holds: one score a line."""
    rows = [
        {"model": model.name, **row}
        for model in models
        for seed, tasks in model.results.items()
        for row in Results(protocol=protocol, seed=seed, tasks=tasks).rows()
    ]
    columns = ["model", "protocol", "seed", "task", "metric", "value"]
    return Table(columns, [[row[column] for column in columns] for row in rows]).to_csv()


def _kernels() -> list[str]:
    """BLAS libraries with kernel family and threads: the last digits of L-BFGS depend on them."""
    keys = ("internal_api", "version", "architecture", "num_threads")
    return sorted(" ".join(str(info.get(key, "")) for key in keys) for info in threadpool_info())


def _remarks(models: Sequence[Model]) -> list[Section]:
    """Remarks on the data: unusual row counts, and what was skipped and why."""
    notes = {result.task: result.notes for m in models for by in m.results.values() for result in by.values()}
    counts: list[list[Cell]] = [
        ["; ".join([lines[0], *(line.removeprefix(f"{task} ") for line in lines[1:])])]
        for task, lines in notes.items()
        if lines
    ]
    who: dict[tuple[str, str], list[str]] = {}
    for model in models:
        for task, why in model.skipped.items():
            who.setdefault((task, why), []).append(model.name)
    # A model that cannot be read fails at every task for one reason, which is told once.
    where: dict[tuple[str, str], list[str]] = {}
    for (task, why), names in who.items():
        affected = "every model" if len(names) == len(models) else ", ".join(names)
        where.setdefault((affected, why), []).append(task)
    skipped: list[list[Cell]] = [[", ".join(tasks), *reason] for reason, tasks in where.items()]
    found = []
    if counts:
        found.append(Section(COUNTS_TITLE, [Table(["task"], counts)]))
    if skipped:
        found.append(Section(SKIPPED_TITLE, [Table(["tasks", "models", "reason"], skipped)]))
    return found
