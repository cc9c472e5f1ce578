"""From treebank files to model folders with their cards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from corpora.support.cli import log_to
from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import sha256_file, write_text
from parsing.constituency.model import ConstituencyModel, SpanParser
from parsing.dependency.model import BiaffineParser, DependencyModel
from parsing.networks.device import pick_device
from parsing.networks.model_folder import CARD, CONFIG, ModelFolder, load_model_folder, save_model_folder
from parsing.training.config import TrainConfig
from parsing.training.loop import Loop, Plan
from parsing.training.parsers import Model, ParserTask, Treebanks
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
    "dep": "Biaffine dependency parser (Dozat & Manning 2017)",
    "const": "Span parser (Kitaev & Klein 2018) with part-of-speech tags",
}
RULES = {
    "dep": "Words are given, tags are not used; LAS counts relation subtypes; `_punct`: with punctuation.",
    "const": "Labelled brackets without function tags, punctuation and wrapper "
    "(`parsing/training/scores.py` has the rules).",
}


def train_parsers(config: TrainConfig) -> int:
    """Train, write the model folders, log the dev scores of what was stored; return the exit code.

    Raises:
        UserError: no or bad training data.
    """
    for kind, train, dev in (
        ("dep", config.train_dep, config.dev_dep),
        ("const", config.train_const, config.dev_const),
    ):
        if bool(train) != bool(dev):
            raise UserError(f"--train-{kind} and --dev-{kind} are given together")
    if not (config.train_dep or config.train_const):
        raise UserError("give --train-dep and --dev-dep, or --train-const and --dev-const, or all four")
    treebanks = Treebanks(
        sentences=read_dependencies(config.train_dep, tags="xpos") if config.train_dep else (),
        dev_sentences=read_dependencies(config.dev_dep) if config.dev_dep else (),
        trees=read_treebank(config.train_const) if config.train_const else (),
        dev_trees=read_treebank(config.dev_const) if config.dev_const else (),
    )
    start = [] if config.start_from is None else _read_start(config.start_from)
    device = pick_device(config.device)
    task = ParserTask(treebanks, config.model, config.loop, device, [_model(folder) for folder in start])
    data = {
        "train": _hashes((*config.train_dep, *config.train_const)),
        "dev": _hashes((*config.dev_dep, *config.dev_const)),
    }
    loop = config_to_json(config.loop)
    identity = {key: value for key, value in loop.items() if key != "checkpoint_s"} | {
        "model": config_to_json(config.model),
        "start_from": [folder.identity["sha256"] for folder in start],
        "device": device.type,
        **data,
    }
    plan = Plan(
        epochs=config.loop.epochs, max_minutes=config.loop.max_minutes, checkpoint_s=config.loop.checkpoint_s
    )
    log = log_to(config.output / "training")
    run = Loop(task, plan, config.output / "training", identity=identity)
    parameters = sum(parameter.numel() for parameter in task.module.parameters())
    log.info("%d sentences, %d words; %d parameters", len(task.sizes), sum(task.sizes), parameters)
    if code := run.run():
        return code
    run.load_best()
    name = config.name or config.output.resolve().name
    models = {"const": task.constituency, "dep": task.dependency}
    for kind, model in models.items():
        if model is None:
            continue
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
        scores = score(folder, treebanks)
        write_text(path / CARD, "\n".join(_card(kind, folder, data, scores, run.position.best)))
        log.info("%s: %s", path, ", ".join(f"{key} {value:.2f}" for key, value in scores.items()))
    return 0


def score(folder: ModelFolder, treebanks: Treebanks) -> Scores:
    """Scores of a model folder on dev."""
    model = _model(folder)
    if isinstance(model, DependencyModel):
        return score_dependency(BiaffineParser(model, {}), treebanks.dev_sentences)
    return score_constituency(SpanParser(model, {}), treebanks.dev_trees)


def _model(folder: ModelFolder) -> Model:
    kind = DependencyModel if folder.kind == "dependency" else ConstituencyModel
    return kind.from_folder(folder)


def _read_start(path: Path) -> list[ModelFolder]:
    """The model folder itself, or those in the output of a run."""
    kinds = [kind for kind in KINDS if (path / kind).is_dir()]
    folders = [path] if (path / CONFIG).is_file() or not kinds else [path / kind for kind in kinds]
    return [load_model_folder(folder, *KINDS.values()) for folder in folders]


def _hashes(paths: Sequence[Path]) -> dict[str, str]:
    return {str(path): sha256_file(path) for path in paths}


def _card(
    kind: str, folder: ModelFolder, data: dict[str, dict[str, str]], scores: Scores, best: Row
) -> Iterator[str]:
    """The lines of a model card: what it is, data, scores."""
    parameters = sum(tensor.numel() for tensor in folder.tensors.values())
    sizes = [
        f"{len(folder.names(names))} {names}"
        for names in ("relations", "labels", "tags")
        if names in folder.vocabulary
    ]
    yield from (f"# {folder.identity['name']}, version {folder.identity['version']}", "")
    yield f"{ABOUT[kind]} over a word and character BiLSTM; {parameters:,} parameters, {', '.join(sizes)}."
    yield from ("", "## Data", "")
    for role, files in data.items():
        for path, digest in files.items():
            yield f"- {role}: `{'/'.join(Path(path).parts[-2:])}` (sha256 {digest[:16]})"
    yield from ("", "## Scores on dev, in per cent", "")
    yield f"| {' | '.join(scores)} |"
    yield "|---" * len(scores) + "|"
    yield f"| {' | '.join(f'{value:.2f}' for value in scores.values())} |"
    yield from (
        "",
        f"{RULES[kind]} The best epoch was {best['epoch'] + 1}, chosen on the same sentences.",
        "",
    )
