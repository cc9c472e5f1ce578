"""From treebank files to model folders with their cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from corpora.support.cli import log_to
from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import sha256_file, write_text
from parsing.models import parser_of
from parsing.networks.config import TrainConfig
from parsing.networks.device import pick_device
from parsing.networks.model_folder import CARD, ModelFolder, load_model_folder, save_model_folder
from parsing.training.loop import Loop, Plan
from parsing.training.parsers import ParserTask, Treebanks
from parsing.training.scores import (
    Scores,
    read_dependencies,
    read_treebank,
    score_constituency,
    score_dependency,
)
from parsing.training.task import Row

KINDS = {"const": "constituency", "dep": "dependency"}
"""Folder of a parser in the output, and kind of its model folder."""
ABOUT = {
    "dep": (
        "Biaffine dependency parser (Dozat & Manning 2017)",
        "Words are given, tags are not used; relation subtypes count; `_punct`: with punctuation.",
    ),
    "const": (
        "Span parser (Kitaev & Klein 2018) with part-of-speech tags",
        "Brackets without function tags, punctuation and wrapper (`parsing/training/scores.py`).",
    ),
}
"""What a model is, and how it is scored."""


def train_parsers(config: TrainConfig) -> int:
    """Train, write the model folders, log the dev scores of what was stored; return the exit code.

    Raises:
        UserError: no or bad training data.
    """
    if bool(config.train_dep) != bool(config.dev_dep) or bool(config.train_const) != bool(config.dev_const):
        raise UserError("--train-dep and --dev-dep are given together, as --train-const and --dev-const")
    if not (config.train_dep or config.train_const):
        raise UserError("give --train-dep and --dev-dep, or --train-const and --dev-const, or all four")
    treebanks = Treebanks(
        sentences=read_dependencies(config.train_dep, tags="xpos") if config.train_dep else (),
        dev_sentences=read_dependencies(config.dev_dep) if config.dev_dep else (),
        trees=read_treebank(config.train_const) if config.train_const else (),
        dev_trees=read_treebank(config.dev_const) if config.dev_const else (),
    )
    device = pick_device(config.device)
    task = ParserTask(treebanks, config.model, config.loop, device)
    files = {
        "train": (*config.train_dep, *config.train_const),
        "dev": (*config.dev_dep, *config.dev_const),
    }
    data = {role: {str(path): sha256_file(path) for path in paths} for role, paths in files.items()}
    options = config_to_json(config.loop)
    del options["checkpoint_s"]
    identity = {"model": config_to_json(config.model), "device": device.type}
    plan = Plan(
        epochs=config.loop.epochs, max_minutes=config.loop.max_minutes, checkpoint_s=config.loop.checkpoint_s
    )
    log = log_to(config.output / "training")
    loop = Loop(task, plan, config.output / "training", identity=options | identity | data)
    parameters = sum(parameter.numel() for parameter in task.module.parameters())
    log.info("%d sentences, %d words; %d parameters", len(task.sizes), sum(task.sizes), parameters)
    if code := loop.run():
        return code
    loop.load_best()
    name = config.name or config.output.resolve().name
    for model in task.models:
        kind = "dep" if model is task.dependency else "const"
        path = config.output / kind
        save_model_folder(
            path,
            kind=KINDS[kind],
            name=f"{name}-{kind}",
            version=config.version,
            config=model.config_json(),
            vocabulary=model.vocabulary_json(),
            tensors=model.state_dict(),
        )
        # The stored weights are scored, not those in memory: float16 rounds them.
        folder = load_model_folder(path, KINDS[kind])
        if kind == "dep":
            scores = score_dependency(parser_of(folder), treebanks.dev_sentences)
        else:
            scores = score_constituency(parser_of(folder), treebanks.dev_trees)
        write_text(path / CARD, "\n".join(_card(kind, folder, data, scores, loop.position.best)))
        log.info("%s: %s", path, ", ".join(f"{key} {value:.2f}" for key, value in scores.items()))
    return 0


def _card(
    kind: str, folder: ModelFolder, data: Mapping[str, Mapping[str, str]], scores: Scores, best: Row
) -> Iterator[str]:
    """The lines of a model card: what it is, data, scores."""
    about, rules = ABOUT[kind]
    parameters = sum(tensor.numel() for tensor in folder.tensors.values())
    predicted = [names for names in ("relations", "labels", "tags") if names in folder.vocabulary]
    sizes = ", ".join(f"{len(folder.names(names))} {names}" for names in predicted)
    yield from (f"# {folder.identity['name']}, version {folder.identity['version']}", "")
    yield f"{about} over a word and character BiLSTM; {parameters:,} parameters, {sizes}."
    yield from ("", "## Data", "")
    for role, files in data.items():
        for path, digest in files.items():
            yield f"- {role}: `{'/'.join(Path(path).parts[-2:])}` (sha256 {digest[:16]})"
    yield from ("", "## Scores on dev, in per cent", "", f"| {' | '.join(scores)} |")
    yield "|---" * len(scores) + "|"
    yield f"| {' | '.join(f'{value:.2f}' for value in scores.values())} |"
    yield from ("", f"{rules} Epoch {best['epoch'] + 1} was the best on the same sentences.", "")
