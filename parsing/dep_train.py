"""``python -m parsing.train dep``: from treebank files to a dependency model folder with its card."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpora.support.cli import config_to_json, log_to
from corpora.support.errors import UserError
from corpora.support.files import sha256_file, write_json
from corpora.treebanks import read_conllu
from corpora.types import Sentence
from parsing.configs import DependencyConfig, TrainingConfig
from parsing.dep_model import DependencyModel
from parsing.dep_parser import BiaffineParser
from parsing.dep_task import DependencyTask, score_parser
from parsing.model_folder import load_model_folder, save_model_folder
from parsing.training import LOG, Trainer, seed_everything


def read_dependencies(paths: Sequence[Path], exclude_documents: Sequence[str] = ()) -> list[Sentence]:
    """Sentences of CoNLL-U files with heads, relations and universal tags.

    Args:
        paths: the files, in order.
        exclude_documents: prefixes of ids of documents to leave out.

    Raises:
        UserError: a file is missing, malformed or has unannotated sentences; names file and line.
    """
    sentences = []
    for path in paths:
        for document in read_conllu(path, tags="upos"):
            if document.id.startswith(tuple(exclude_documents)):
                continue
            for sentence in document.sentences:
                if sentence.heads is None:
                    text = " ".join(sentence.tokens)[:40]
                    raise UserError(
                        f"{path}: document {document.id}: {text!r} has no heads; annotate or remove it"
                    )
                sentences.append(sentence)
    if not sentences:
        raise UserError(f"{', '.join(map(str, paths)) or 'no file'}: no sentences to read")
    return sentences


def prepare_dependency_training(
    *,
    train: Sequence[Path],
    dev: Sequence[Path],
    output: Path,
    exclude_documents: Sequence[str],
    model: DependencyConfig,
    training: TrainingConfig,
) -> tuple[Trainer, DependencyTask, dict[str, Any]]:
    """The run, what it trains and what decides it; arguments as for :func:`train_dependency_parser`."""
    sentences, dev_sentences = read_dependencies(train, exclude_documents), read_dependencies(dev)
    seed_everything(training)
    task = DependencyTask(sentences, dev_sentences, model)
    run = {
        "model": config_to_json(model),
        "train": {str(path): sha256_file(path) for path in train},
        "dev": {str(path): sha256_file(path) for path in dev},
        "exclude_documents": list(exclude_documents),
    }
    return Trainer(task, training, output / "training", run), task, run


def train_dependency_parser(
    *,
    train: Sequence[Path],
    dev: Sequence[Path],
    output: Path,
    exclude_documents: Sequence[str],
    name: str,
    version: str,
    half: bool,
    model: DependencyConfig,
    training: TrainingConfig,
) -> dict[str, float]:
    """Train, write the model folder, return the dev scores of what was stored.

    Args:
        train: CoNLL-U files to learn from.
        dev: CoNLL-U files to choose on.
        output: the model folder; checkpoints and learning curve go to its ``training/``.
        exclude_documents: see :func:`read_dependencies`; applies to ``train``.
        name: of the model.
        version: of the model.
        half: store float16.
        model: configuration of the model.
        training: configuration of the optimisation.
    """
    trainer, task, run = prepare_dependency_training(
        train=train,
        dev=dev,
        output=output,
        exclude_documents=exclude_documents,
        model=model,
        training=training,
    )
    dev_sentences = task.dev
    log = log_to(output / "training")
    write_json(
        output / "training" / "config.json",
        {**run, "training": config_to_json(training), "name": name, "version": version, "half": half},
    )
    log.info(
        "%d training sentences, %d tokens; %d dev sentences; %d parameters",
        len(task.sizes()),
        sum(task.sizes()),
        len(dev_sentences),
        sum(p.numel() for p in task.module.parameters()),
    )
    summary = trainer.run()
    task.module.load_state_dict(trainer.best_tensors())
    save = functools.partial(
        save_model_folder,
        output,
        kind="dependency",
        name=name,
        version=version,
        config=task.module.config_json(),
        vocabulary=task.module.vocabulary_json(),
        tensors=task.module.state_dict(),
        half=half,
    )
    save(card="")
    # The stored weights are scored, not those in memory: float16 rounds them.
    folder = load_model_folder(output, kind="dependency")
    scores = score_parser(BiaffineParser(DependencyModel.from_folder(folder), {}), dev_sentences)
    lines = (output / "training" / LOG).read_text(encoding="utf-8").splitlines()
    curve = [json.loads(line) for line in lines]
    save(card=model_card(f"{name}, version {version}", task.module, scores, summary, run, curve))
    log.info("%s: UAS %.2f, LAS %.2f without punctuation", output, scores["uas"], scores["las"])
    return scores


def model_card(
    title: str,
    model: DependencyModel,
    scores: dict[str, float],
    summary: dict[str, Any],
    run: dict[str, Any],
    curve: Sequence[dict[str, float]],
) -> str:
    """Text of a model's README: what it is, data, scores, learning curve."""
    files = [f"- train: `{'/'.join(Path(p).parts[-2:])}` (sha256 {h[:16]})" for p, h in run["train"].items()]
    files += [f"- dev: `{'/'.join(Path(p).parts[-2:])}` (sha256 {h[:16]})" for p, h in run["dev"].items()]
    if run["exclude_documents"]:
        files.append(f"- left out of train: documents `{'*`, `'.join(run['exclude_documents'])}*`")
    shown = [line for i, line in enumerate(curve) if i % max(1, len(curve) // 12) == 0 or line is curve[-1]]
    rows = [
        f"| {c['epoch'] + 1:.0f} | {c['minutes']:.1f} | {c['loss']:.3f} | {c['uas']:.2f} | {c['las']:.2f} |"
        for c in shown
    ]
    parameters = sum(p.numel() for p in model.parameters())
    return "\n".join(
        [
            f"# {title}",
            "",
            "Biaffine dependency parser (Dozat & Manning 2017) over a word and character BiLSTM; "
            f"{parameters:,} parameters, {len(model.relations)} relations.",
            "",
            "## Data",
            "",
            *files,
            "",
            "## Scores on dev, in per cent",
            "",
            "| | UAS | LAS |",
            "|---|---|---|",
            f"| without punctuation | {scores['uas']:.2f} | {scores['las']:.2f} |",
            f"| all tokens | {scores['uas_punct']:.2f} | {scores['las_punct']:.2f} |",
            "",
            "Words are given, tags are not used; LAS counts relation subtypes. The best epoch was "
            f"{summary['best_epoch'] + 1} of {summary['epochs']}, chosen on the same dev sentences.",
            "",
            "## Learning curve (dev, without punctuation)",
            "",
            "| epoch | minutes | loss | UAS | LAS |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )
