"""Run models x tasks x seeds for ``senteval_runner.run``; each finished cell is kept in its own file."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from corpora.senteval.files import TaskData
from corpora.senteval.tasks import PROBING_FILES, RELATEDNESS_TASKS, STS_SUBSETS, TASK_NAMES, canonical_task
from corpora.support.cli import config_to_json, log_to
from corpora.support.errors import UserError
from corpora.support.files import write_json
from corpora.support.progress import progress
from multiview.folder.files import expanded_folder, has_trained_words
from multiview.folder.names import model_folder
from senteval_runner.cells import Cells, data_folder
from senteval_runner.config import SentEvalConfig
from senteval_runner.evaluation import evaluate_task, read_tasks
from senteval_runner.protocol.config import get_protocol
from senteval_runner.report.tables import PAPER_COLUMNS, headline
from senteval_runner.reporting import Model, write_results
from senteval_runner.vectors.encoders import open_model
from senteval_runner.vectors.evaluation_trees import EvaluationTrees
from senteval_runner.vectors.sources import distinct_names, find_source, split_parts

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


def expand_models(specs: Iterable[str], vectors: str) -> list[str]:
    """Models by name, every one with trained words (also as a part of ``A+B``) replaced by its expansion.

    Args:
        specs: models by name.
        vectors: see :func:`multiview.words.vectors.given_source`.

    Raises:
        UserError: no model has trained words, or one cannot be expanded.
    """
    new: list[str] = []
    folders: dict[str, Path] = {}
    for spec in specs:
        parts = split_parts(spec)
        for place, source in enumerate(map(find_source, parts)):
            folder = model_folder(source.base)
            if source.kind in ("multiview", "views") and has_trained_words(folder):
                if source.base not in folders:
                    folders[source.base] = expanded_folder(folder, vectors)
                parts[place] = f"{folders[source.base]}{source.spec.removeprefix(source.base)}"
        new.append("+".join(parts))
    if not folders:
        raise UserError(f"--expand {vectors}: no model here is a multi-view model with trained words")
    return new


def _seeds(text: str) -> list[int]:
    try:
        seeds = [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        seeds = []
    if not seeds or min(seeds) < 0 or max(seeds) >= 2**32:
        raise UserError(f"--seeds {text!r}: expected whole numbers from 0 to 2**32 - 1 separated by commas")
    return list(dict.fromkeys(seeds))


def run(config: SentEvalConfig) -> int:
    """Evaluate every model on every task with every seed; write the results; print the tables."""
    names, seeds, data = expand_tasks(config.tasks), _seeds(config.seeds), data_folder(config.data)
    protocol = get_protocol(config.protocol, nhid=config.nhid)
    specs = list(dict.fromkeys(config.models))
    if config.expand is not None:
        specs = expand_models(specs, config.expand)
    tasks, missing = read_tasks(names, data)
    trees: EvaluationTrees | Path = config.trees
    if not (config.trees / "manifest.json").exists():  # a folder of caches, not one finished cache
        trees = EvaluationTrees(folder=config.trees, tasks=tasks)
    opened = [
        open_model(
            spec,
            cache=config.cache,
            seed=config.random_seed,
            project=config.project,
            device=config.device,
            trees=trees,
        )
        for spec in specs
    ]
    shown = distinct_names([encoder.name for encoder in opened], specs)
    models = [
        Model(name=name, encoder=encoder, skipped=dict(missing))
        for name, encoder in zip(shown, opened, strict=True)
    ]
    logger = log_to(config.output)
    write_json(config.output / "config.json", config_to_json(config))
    cells = Cells(config.output / "parts", protocol)
    for name, why in missing.items():
        logger.warning("skipped %s: %s", name, why)
    with progress(total=len(models) * len(tasks) * len(seeds), unit="task", description="evaluate") as bar:
        for task in tasks:
            for note in task.count_notes():
                logger.warning("%s", note)
            for model in models:
                _score(model, task, seeds, cells, logger)
                bar.update(len(seeds))
    write_results(config, protocol, models)
    return 0 if any(model.results for model in models) else 2


def _score(model: Model, task: TaskData, seeds: Sequence[int], cells: Cells, logger: logging.Logger) -> None:
    """Score one model on one task with every seed; finished cells are read from disk."""
    try:
        for seed in seeds:
            result = cells.load(model.key, seed, task)
            if result is None:
                result = evaluate_task(model.encoder, task, cells.protocol, seed)
                cells.save(model.key, seed, result)
            model.results.setdefault(seed, {})[task.name] = result
            score = headline(task.name, result.metrics)
            logger.info("%s %s seed %d: %.2f", model.name, task.name, seed, score)
    except UserError as error:
        why = str(error)
        told = why in model.skipped.values()
        logger.warning("skipped %s of %s: %s", task.name, model.name, "as before" if told else why)
        model.skipped[task.name] = why
