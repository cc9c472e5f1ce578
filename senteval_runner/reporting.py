"""What a run leaves behind: ``results.json``, ``.csv``, ``.md`` and ``report.html``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas
import torch
from threadpoolctl import threadpool_info

from corpora.support.cli import config_to_json
from corpora.support.files import json_digest, write_json, write_text
from senteval_runner.cells import FORMAT, versions
from senteval_runner.config import SentEvalConfig
from senteval_runner.protocol.config import Protocol, Results, TaskResult
from senteval_runner.report import plots, tables
from senteval_runner.report.page import Cell, Page, Section, Table, mean_and_deviation
from senteval_runner.vectors.embed import StoredEncoder
from senteval_runner.vectors.sources import Source

COUNTS_TITLE = "Row counts that differ from the published ones"
SKIPPED_TITLE = "Skipped (the average is left out when one of the table's tasks is missing)"


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
    def hours(self) -> float | None:
        """Hours of training, all parts together; None where one part's are not recorded."""
        hours = [source.hours for source in self.sources]
        return None if None in hours else sum(filter(None, hours))

    def scores(self) -> list[dict[str, dict[str, float]]]:
        """Metrics by task, one entry per seed."""
        return [{task: result.metrics for task, result in by.items()} for by in self.results.values()]


def write_results(config: SentEvalConfig, protocol: Protocol, models: Sequence[Model]) -> None:
    """Write all files; print the tables.

    Args:
        config: the run's options.
        protocol: how scores were computed.
        models: all models, with their results.
    """
    scored = [model for model in models if model.results]
    results = [
        (model.name, Results(protocol=protocol, seed=seed, tasks=by))
        for model in models
        for seed, by in model.results.items()
    ]
    flat = [one.to_dataframe().assign(model=name) for name, one in results]
    columns = ["model", "protocol", "seed", "task", "metric", "value"]
    frame = pandas.concat(flat) if flat else pandas.DataFrame(columns=columns)
    write_text(config.output / "results.csv", frame.to_csv(columns=columns, index=False, lineterminator="\n"))
    write_json(config.output / "results.json", _results(config, protocol, models, results))
    scores = {model.name: model.scores() for model in scored}
    sections = tables.score_sections(
        scores,
        {model.name: (model.encoder.dim, model.hours) for model in scored},
    )
    if len(scored) > 1:
        first = {model.name: next(iter(model.results.values())) for model in scored}
        sections.append(Section("Differences between models", [tables.difference_table(first)]))
    sections += _remarks(models)
    projected = f", projected to {config.project} dimensions" if config.project else ""
    about = f"Protocol {protocol.name}, nhid {protocol.nhid}, seeds {config.seeds}{projected}."
    page = Page("SentEval", sections, about)
    print(page.markdown(), end="")
    write_text(config.output / "results.md", page.markdown())
    if scored:
        drawn = [_bars(scores)]
        write_text(config.output / "report.html", Page("SentEval", [*sections, *drawn], about).html())
    print(f"written: {config.output}: report.html, results.md, results.csv, results.json")


def _bars(models: tables.Models) -> Section:
    """The main score of every task."""
    heights, spread = {}, {}
    for name, seeds in tables.headlines(models).items():
        for task in seeds[0]:
            values = [one[task] for one in seeds if task in one]
            heights[name, task], spread[name, task] = mean_and_deviation(values)
    tasks = list(dict.fromkeys(task for _, task in heights))
    return Section("Per task", [plots.bars(list(models), tasks, heights, spread=spread)])


def _results(
    config: SentEvalConfig, protocol: Protocol, models: Sequence[Model], results: list[tuple[str, Results]]
) -> dict[str, Any]:
    """What ``results.json`` holds."""
    averaged = tables.averaged_columns({model.name: model.scores() for model in models})
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
                "key": model.key,
                "dim": model.encoder.dim,
                "hours": model.hours,
                "parts": [dataclasses.asdict(source) for source in model.sources],
                "paper_table": [tables.paper_row(scores) for scores in model.scores()],
                "similarity_table": [tables.similarity_row(scores, averaged) for scores in model.scores()],
                "skipped": model.skipped,
            }
            for model in models
        },
        "results": [
            {"model": name, "seed": one.seed, **result.figures()}
            for name, one in results
            for result in one.tasks.values()
        ],
    }


def _remarks(models: Sequence[Model]) -> list[Section]:
    """Remarks on the data: unusual row counts, and what was skipped and why."""
    notes = {result.task: result.notes for m in models for by in m.results.values() for result in by.values()}
    counts: list[list[Cell]] = [["; ".join(lines)] for lines in notes.values() if lines]
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
