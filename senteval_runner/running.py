"""Run models x tasks x seeds for ``senteval_runner.run``; each finished cell is kept in its own file."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from corpora.senteval.files import TaskData, read_task
from corpora.senteval.tasks import PROBING_FILES, RELATEDNESS_TASKS, STS_SUBSETS, TASK_NAMES, canonical_task
from corpora.support.cli import log_to
from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import json_digest, write_json
from corpora.support.progress import progress
from senteval_runner.cells import Cells, data_folder
from senteval_runner.config import SentEvalConfig
from senteval_runner.evaluation import evaluate_task
from senteval_runner.expansion import expand_models
from senteval_runner.protocol.config import get_protocol
from senteval_runner.report.sections import read_examples
from senteval_runner.report.tables import PAPER_COLUMNS, headline
from senteval_runner.reporting import Model, write_results
from senteval_runner.vectors.encoders import open_model
from senteval_runner.vectors.evaluation_trees import EvaluationTrees
from senteval_runner.vectors.sources import distinct_names

GROUPS: Mapping[str, Sequence[str]] = {
    "mv": tuple(dict.fromkeys(task for _, task, _, _ in PAPER_COLUMNS)),
    "sts": (*STS_SUBSETS, *RELATEDNESS_TASKS),
    "sst": ("SST2", "SST5"),
    "probing": tuple(PROBING_FILES),
    "all": tuple(task for task in TASK_NAMES if task != "SNLI"),
}


def expand_tasks(text: str) -> list[str]:
    """Names and groups separated by commas or blanks as canonical names, each once.

    Raises:
        UserError: an unknown name.
    """
    names: list[str] = []
    for word in text.replace(",", " ").split():
        names += GROUPS.get(word.lower(), [word])
    if not names:
        raise UserError("--tasks is empty")
    return list(dict.fromkeys(canonical_task(name, tuple(GROUPS)) for name in names))


def _seeds(text: str) -> list[int]:
    try:
        seeds = [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise UserError(f"--seeds {text!r}: expected whole numbers separated by commas") from None
    if not seeds or min(seeds) < 0 or max(seeds) >= 2**32:
        raise UserError(f"--seeds {text!r}: expected numbers from 0 to 2**32 - 1")
    return list(dict.fromkeys(seeds))


def _model(spec: str, config: SentEvalConfig, trees: EvaluationTrees | Path) -> Model:
    opened = open_model(
        spec,
        cache=config.cache,
        seed=config.random_seed,
        normalize_parts=config.normalize_parts,
        project=config.project,
        device=config.device,
        trees=trees,
        batch_size=config.batch_size,
    )
    key = json_digest(opened.identity, 16)
    return Model(name=opened.name, spec=spec, key=key, sources=opened.sources, vectors=opened.vectors)


def run(config: SentEvalConfig) -> int:
    """Evaluate every model on every task with every seed; write the results; print the tables."""
    import torch

    tasks, seeds, data = expand_tasks(config.tasks), _seeds(config.seeds), data_folder(config.data)
    protocol = get_protocol(config.protocol, nhid=config.nhid)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    if config.examples is not None:
        read_examples(config.examples)  # refuse a bad file now, not after hours
    trees: EvaluationTrees | Path = config.trees
    if not (config.trees / "manifest.json").exists():  # a folder of caches, not one finished cache
        trees = EvaluationTrees(folder=config.trees, data=data, tasks=tasks, workers=config.parse_workers)
    specs, expanded = list(dict.fromkeys(config.models)), None
    if config.expand is not None:
        expanded = expand_models(specs, config.expand, config.expand_words)
        specs = expanded.specs
    models = [_model(spec, config, trees) for spec in specs]
    names = distinct_names([model.name for model in models], [model.spec for model in models])
    for model, name in zip(models, names, strict=True):
        model.name = name
    logger = log_to(config.output)
    write_json(config.output / "config.json", config_to_json(config))
    cells = Cells(config.output / "parts", protocol)
    total = len(models) * len(tasks) * len(seeds)
    with progress(total=total, unit="task", description="evaluate") as bar:
        for name in tasks:
            try:
                task = read_task(name, data)
            except UserError as error:
                logger.warning("skipped %s: %s", name, error)
                for model in models:
                    model.skipped[name] = str(error)
                bar.update(len(models) * len(seeds))
                continue
            for note in task.count_notes():
                logger.warning("%s", note)
            for model in models:
                _score(model, task, seeds, cells, logger)
                bar.update(len(seeds))
    scored = [model for model in models if model.results]
    done = [name for name in tasks if all(name not in model.skipped for model in scored)] if scored else []
    write_results(
        config,
        protocol,
        models,
        [read_task(name, data) for name in done],
        expanded.folders if expanded else (),
    )
    return 0 if scored else 2


def _score(model: Model, task: TaskData, seeds: Sequence[int], cells: Cells, logger: logging.Logger) -> None:
    """Score one model on one task with every seed; finished cells are read from disk."""
    try:
        for seed in seeds:
            result = cells.load(model.key, seed, task)
            if result is None:
                result = evaluate_task(model.vectors, task, cells.protocol, seed)
                cells.save(model.key, seed, result)
            model.results.setdefault(seed, {})[task.name] = result
            score = headline(task.name, result.metrics)
            logger.info("%s %s seed %d: %.2f", model.name, task.name, seed, score)
    except UserError as error:
        why = str(error)
        told = why in model.skipped.values()
        logger.warning("skipped %s of %s: %s", task.name, model.name, "as before" if told else why)
        model.skipped[task.name] = why
