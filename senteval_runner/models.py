"""Open the models that a command names, and score every one on every task with every seed."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from corpora.senteval.tasks import TASKS
from multiview.baselines import training_trees
from multiview.folder.files import model_folder, training_seconds
from multiview.names.constructors import encoder_of
from multiview.names.grammar import Name, parse_name
from multiview.names.opened import OpenedEncoder, distinct_names
from runtime.cli import LOGGER
from runtime.errors import UserError
from runtime.progress import progress
from senteval_runner.evaluation import Tasks
from senteval_runner.evaluation_trees import EvaluationTrees, open_model
from senteval_runner.report.tables import ModelScores, headline
from senteval_runner.result_store import ResultStore

log = logging.getLogger(LOGGER)


@dataclass(kw_only=True)
class Model(ModelScores):
    """A model with its scores."""

    encoder: OpenedEncoder
    skipped: dict[str, str] = field(default_factory=dict)
    """Reasons why tasks have no result, by task."""


def open_models(models: Iterable[Sequence[Name]], trees: EvaluationTrees, **options: Any) -> list[Model]:
    """Open the models of a run, each once, under names that differ; ``options`` go to :func:`open_model`."""
    distinct_models = dict.fromkeys(map(tuple, models))
    encoders = [open_model(names, trees=trees, **options) for names in distinct_models]
    full_names = [encoder.full_name for encoder in encoders]
    labels = distinct_names([encoder.name for encoder in encoders], full_names)
    return [Model(name=label, encoder=encoder) for label, encoder in zip(labels, encoders, strict=True)]


def score_models(models: Sequence[Model], tasks: Tasks, seeds: Sequence[int], store: ResultStore) -> None:
    """Score every model on every task with every seed, and keep the results in the models.

    The size ``dim`` of a model is that of its vectors for classifiers or, if no task was scored with a
    classifier, of its vectors for cosines. Its ``hours`` of training are the sum over the models of its name
    (``A+B``); None if one of these has no record of the time, or is no multi-view model.
    """
    for name, reason in tasks.missing.items():
        log.warning("skipped %s: %s", name, reason)
    for model in models:
        model.skipped |= tasks.missing
    total = len(models) * len(tasks.data) * len(seeds)
    with progress(total=total, unit="task", description="evaluate") as bar:
        for task in tasks.data:
            for note in task.count_notes():
                log.warning("%s", note)
            for model in models:
                bar.set_postfix_str(f"{task.name} of {model.name}")
                try:
                    for seed in seeds:
                        result = store.result(model.encoder, task, seed)
                        model.results.setdefault(seed, {})[task.name] = result
                        score = headline(task.name, result.metrics)
                        log.info("%s %s seed %d: %.2f", model.name, task.name, seed, score)
                except UserError as error:
                    is_repeated = str(error) in model.skipped.values()
                    reason = "as before" if is_repeated else str(error)
                    log.warning("skipped %s of %s: %s", task.name, model.name, reason)
                    model.skipped[task.name] = str(error)
                bar.update(len(seeds))
    for model in models:
        results = [result for by_task in model.results.values() for result in by_task.values()]
        results_of_classifiers = [
            result for result in results if TASKS[result.task].kind in ("classes", "graded")
        ]
        if results:
            model.dim = (results_of_classifiers or results)[0].dim
        members = model.encoder.members
        if all(member.family == "multiview" for member in members):
            seconds = [training_seconds(model_folder(member.parsed.base)) for member in members]
            model.hours = None if None in seconds else sum(filter(None, seconds)) / 3600


def names_before_training(models: Iterable[Sequence[Name]]) -> dict[str, str]:
    """Return the name of each trained model before its first step (``start:MODEL``), by the model's name.

    The name is empty where the tree cache that a model was trained on is not on this machine.
    """
    encoders = [encoder_of(name) for names in models for name in names]
    trained_models = dict.fromkeys(each.parsed.base for each in encoders if each.family == "multiview")
    starts = {}
    for model in trained_models:
        cache = training_trees(model_folder(model))
        starts[model] = f"start:{model}?corpus={cache}" if cache else ""
    return starts


def expand_models(models: Sequence[Sequence[Name]], vectors: str) -> list[list[Name]]:
    """Return the names of the models, with ``?expand=VECTORS`` where a model has trained words.

    ``vectors`` is the file of word vectors by which a vocabulary is expanded. Raises UserError if no model
    has trained words.
    """

    def expand(name: Name) -> Name:
        has_vocabulary = encoder_of(name).has_trained_words
        return parse_name(f"{name.full_name}?expand={vectors}") if has_vocabulary else name

    expanded_models = [[expand(name) for name in names] for names in models]
    if expanded_models == [list(names) for names in models]:
        raise UserError(f"--expand {vectors}: no model here is a multi-view model with trained words")
    return expanded_models
