"""The work behind ``studies.layers``: encode once, evaluate cell by cell, write the report."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpora.senteval.files import TaskData, read_task
from corpora.support.cli import log_to
from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import write_json, write_text
from corpora.support.progress import progress
from senteval_runner.cells import FORMAT, Cells, data_folder, versions
from senteval_runner.evaluation import evaluate_task
from senteval_runner.protocol.config import Protocol, get_protocol
from senteval_runner.protocol.results import TaskResult
from senteval_runner.running import expand_tasks
from senteval_runner.towers.backbones import WholeBackbone, open_backbone
from senteval_runner.towers.units import WHOLE
from senteval_runner.vectors.sources import distinct_names, find_source
from studies.layers import report
from studies.layers.config import LayersConfig
from studies.layers.paper import BERT, refuse_missing_inputs
from studies.layers.subject import Subject, choose
from studies.layers.subset import limited
from studies.layers.tables import NO_HIDDEN_LAYER, best_of, normalised


def run(config: LayersConfig) -> int:
    """Evaluate every backbone on every task; write the results; print the tables."""
    import torch

    if config.preset is not None:
        refuse_missing_inputs(config)
    if not (config.backbones or config.encoders):
        raise UserError(
            f"no backbone: name Hugging Face encoders ({BERT} is the paper's), folders of encoders, or "
            "--encoders"
        )
    tasks, data = expand_tasks(config.tasks), data_folder(config.data)
    protocol = get_protocol(config.protocol)
    protocols = [protocol, *([get_protocol(config.protocol, nhid=config.mlp)] if config.mlp else [])]
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    subjects = _open(config)
    logger = log_to(config.output)
    write_json(config.output / "config.json", config_to_json(config))
    readouts = [Cells(config.output / "parts", one) for one in protocols]
    reduced = []
    per_task = sum(len(subject.units) for subject in subjects)
    total = sum(_is_trained(name, one) * per_task for name in tasks for one in protocols)
    with progress(total=total, unit="cell", description="evaluate") as bar:
        for name in tasks:
            try:
                task, lost = _read(name, data, config)
            except UserError as error:
                logger.warning("skipped %s: %s", name, error)
                for subject in subjects:
                    subject.skipped[name] = str(error)
                bar.update(sum(_is_trained(name, one) * per_task for one in protocols))
                continue
            if lost:
                reduced.append(lost)
            for subject in subjects:
                _evaluate(config, subject, task, readouts, logger, bar)
    return _write(config, protocol, subjects, reduced)


def _open(config: LayersConfig) -> list[Subject]:
    """All backbones, then the encoders taken whole, under distinct names."""
    backbones = [open_backbone(spec, config) for spec in dict.fromkeys(config.backbones)]
    backbones += [WholeBackbone(find_source(spec), config) for spec in dict.fromkeys(config.encoders)]
    subjects = [choose(backbone, config) for backbone in backbones]
    specs = [
        f"{backbone.source.spec} {WHOLE}" if isinstance(backbone, WholeBackbone) else backbone.source.spec
        for backbone in backbones
    ]
    for subject, name in zip(
        subjects, distinct_names([s.studied.name for s in subjects], specs), strict=True
    ):
        subject.studied = dataclasses.replace(subject.studied, name=name)
    return subjects


def _read(name: str, data: Path, config: LayersConfig) -> tuple[TaskData, str]:
    task = read_task(name, data)
    return (task, "") if config.limit is None else limited(task, config.limit, config.seed)


def _is_trained(task: str, protocol: Protocol) -> bool:
    """Whether a task has cells under a protocol: with a hidden layer only where that changes something."""
    return protocol.nhid == 0 or task not in NO_HIDDEN_LAYER


def _evaluate(
    config: LayersConfig,
    subject: Subject,
    task: TaskData,
    readouts: Sequence[Cells],
    logger: logging.Logger,
    bar: Any,
) -> None:
    """All cells of one backbone and task; the finished ones are read."""
    started = time.perf_counter()
    try:
        for cells in readouts:
            if _is_trained(task.name, cells.protocol):
                _score(config, subject, task, cells, bar)
    except UserError as error:
        logger.warning("skipped %s of %s: %s", task.name, subject.studied.name, error)
        subject.skipped[task.name] = str(error)
        subject.forget(task.name)
        return
    best = max(subject.units, key=lambda unit: subject.studied.scores[unit][task.name])
    logger.info(
        "%s %s: best %s %.2f (%d cells, %.0f s)",
        subject.studied.name,
        task.name,
        best.name,
        subject.studied.scores[best][task.name],
        len(subject.units),
        time.perf_counter() - started,
    )


def _score(config: LayersConfig, subject: Subject, task: TaskData, cells: Cells, bar: Any) -> None:
    """The cells of one classifier, with or without a hidden layer."""
    drawn = [] if config.limit is None else [config.limit, config.seed]
    keys = {unit: subject.key(unit, config.storage, drawn) for unit in subject.units}
    found = {unit: cells.load(key, config.seed, task) for unit, key in keys.items()}
    for unit in subject.units:
        result = found[unit]
        if result is None:
            result = evaluate_task(subject.vectors(unit), task, cells.protocol, config.seed)
            # Per-item predictions of every cell would be a hundred times the figures.
            result = dataclasses.replace(result, predictions={}, gold={})
            cells.save(keys[unit], config.seed, result)
        subject.keep(unit, result, hidden=cells.protocol.nhid > 0)
        bar.update(1)


def _write(config: LayersConfig, protocol: Protocol, subjects: Sequence[Subject], reduced: list[str]) -> int:
    studied = [subject.studied for subject in subjects if any(subject.results.values())]
    remarks = _remarks(config, protocol, subjects, reduced)
    page = report.page(studied, config.table_pooling, remarks)
    text = page.markdown()
    write_text(config.output / "report.html", page.html())
    write_text(config.output / "results.md", text)
    write_json(config.output / "results.json", _results(config, protocol, subjects, remarks))
    print(text, end="")
    print(f"written: {config.output}/results.json, results.md, report.html")
    return 0 if studied else 2


def _remarks(
    config: LayersConfig, protocol: Protocol, subjects: Sequence[Subject], reduced: list[str]
) -> list[str]:
    """What a reader of the figures must know."""
    counted = "with" if config.special_tokens else "without"
    remarks = [
        f"logistic regression, protocol {protocol.name}, seed {config.seed}; vectors stored as "
        f"{config.storage}; mean and max {counted} special tokens",
        "figures: accuracy; Pearson x 100 of SICK-R and STS-B; mean Spearman x 100 over subsets of STS12-16",
    ]
    if config.mlp:
        remarks.append(
            f"multi-layer perceptron: {config.mlp} hidden units; {', '.join(NO_HIDDEN_LAYER)} have none"
        )
    if reduced:
        remarks.append(f"--limit {config.limit}: not comparable with full tasks. " + "; ".join(reduced))
    remarks += [note for subject in subjects for note in subject.backbone.notes()]
    reasons = dict.fromkeys(f"{task}: {why}" for s in subjects for task, why in s.skipped.items())
    return remarks + [f"skipped {reason}" for reason in reasons]


def _results(
    config: LayersConfig, protocol: Protocol, subjects: Sequence[Subject], remarks: list[str]
) -> dict[str, Any]:
    best = best_of([subject.studied for subject in subjects])
    return {
        "format": FORMAT,
        "config": config_to_json(config),
        "protocol": dataclasses.asdict(protocol),
        "versions": versions("transformers"),
        "remarks": remarks,
        "best": best,
        "backbones": {
            subject.studied.name: {
                "source": dataclasses.asdict(subject.backbone.source),
                "layers": subject.studied.layers,
                "poolings": subject.studied.poolings,
                "scores": {unit.name: values for unit, values in subject.studied.scores.items()},
                "normalised": {
                    unit.name: normalised(values, best) for unit, values in subject.studied.scores.items()
                },
                "mlp": {unit.name: values for unit, values in subject.studied.mlp.items()},
                "cells": [
                    {"layers": unit.layers, "pooling": unit.pooling, "nhid": nhid, **_figures(result)}
                    for nhid, results in ((0, subject.results), (config.mlp, subject.mlp))
                    for unit, by_task in results.items()
                    for result in by_task.values()
                ],
                "skipped": subject.skipped,
            }
            for subject in subjects
        },
    }


def _figures(result: TaskResult) -> dict[str, Any]:
    return {k: v for k, v in dataclasses.asdict(result).items() if k not in ("predictions", "gold")}
