"""``python -m parsing.train const``: from treebank files to a constituency model folder with its card."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpora.support.cli import config_to_json, log_to
from corpora.support.errors import UserError
from corpora.support.files import sha256_file, write_json
from corpora.treebanks import read_conllu
from corpora.types import Sentence
from parsing.configs import ConstituencyConfig, TrainingConfig
from parsing.const_model import ConstituencyModel, SpanParser
from parsing.const_task import ConstituencyTask, score_parser
from parsing.model_folder import load_model_folder, save_model_folder
from parsing.training import LOG, Trainer, seed_everything
from parsing.trees import SpanTree, read_trees


def read_treebank(paths: Sequence[Path], exclude_documents: Sequence[str] = ()) -> list[SpanTree]:
    """Trees of bracket files.

    Args:
        paths: the files, in order.
        exclude_documents: prefixes of ids of documents to leave out. Brackets name no documents:
            the file of the same name that ends in ``.conllu`` does, sentence by sentence.

    Raises:
        UserError: a file is missing, malformed, empty, or its ``.conllu`` has other sentences.
    """
    trees: list[SpanTree] = []
    for path in paths:
        found = list(read_trees(path))
        if exclude_documents:
            names = _document_names(path.with_suffix(".conllu"))
            if len(names) != len(found):
                raise UserError(
                    f"{path}: {len(found)} trees, but {path.with_suffix('.conllu').name} has "
                    f"{len(names)} sentences; --exclude-documents needs the same ones"
                )
            excluded = tuple(exclude_documents)
            found = [tree for tree, name in zip(found, names, strict=True) if not name.startswith(excluded)]
        trees += found
    if not trees:
        raise UserError(f"{', '.join(map(str, paths)) or 'no file'}: no trees to read")
    return trees


def _document_names(path: Path) -> list[str]:
    """Id of the document of every sentence of a CoNLL-U file."""
    return [document.id for document in read_conllu(path) for _ in document.sentences]


def read_extra(paths: Sequence[Path], exclude_documents: Sequence[str] = ()) -> list[Sentence]:
    """Sentences of CoNLL-U files whose tags and arcs are learned along.

    Raises:
        UserError: a file is missing or malformed.
    """
    return [
        sentence
        for path in paths
        for document in read_conllu(path, tags="xpos")
        if not document.id.startswith(tuple(exclude_documents))
        for sentence in document.sentences
    ]


def prepare_constituency_training(
    *,
    train: Sequence[Path],
    dev: Sequence[Path],
    extra: Sequence[Path],
    start_from: Path | None,
    output: Path,
    exclude_documents: Sequence[str],
    model: ConstituencyConfig,
    training: TrainingConfig,
) -> tuple[Trainer, ConstituencyTask, dict[str, Any]]:
    """The run, what it trains and what decides it; arguments as for :func:`train_constituency_parser`."""
    trees, dev_trees = read_treebank(train, exclude_documents), read_treebank(dev)
    sentences = read_extra(extra, exclude_documents)
    seed_everything(training)
    start = None if start_from is None else load_span_parser(start_from)
    task = ConstituencyTask(
        trees, dev_trees, model, extra=sentences, start=None if start is None else start.model
    )
    run = {
        "model": config_to_json(model),
        **{
            role: {str(path): sha256_file(path) for path in paths}
            for role, paths in (("train", train), ("extra", extra), ("dev", dev))
        },
        "exclude_documents": list(exclude_documents),
        "start_from": None if start is None else start.identity["sha256"],
    }
    return Trainer(task, training, output / "training", run), task, run


def train_constituency_parser(
    *,
    train: Sequence[Path],
    dev: Sequence[Path],
    extra: Sequence[Path],
    start_from: Path | None,
    output: Path,
    exclude_documents: Sequence[str],
    name: str,
    version: str,
    half: bool,
    model: ConstituencyConfig,
    training: TrainingConfig,
) -> dict[str, float]:
    """Train, write the model folder, return the dev scores of what was stored.

    Args:
        train: bracket files to learn from.
        dev: bracket files to choose on.
        extra: CoNLL-U files whose tags and arcs are learned along.
        start_from: model folder whose weights to go on from.
        output: the model folder; checkpoints and learning curve go to its ``training/``.
        exclude_documents: see :func:`read_treebank`; applies to ``train`` and ``extra``.
        name: of the model.
        version: of the model.
        half: store float16.
        model: configuration of the model.
        training: configuration of the optimisation.
    """
    trainer, task, run = prepare_constituency_training(
        train=train,
        dev=dev,
        extra=extra,
        start_from=start_from,
        output=output,
        exclude_documents=exclude_documents,
        model=model,
        training=training,
    )
    log = log_to(output / "training")
    write_json(
        output / "training" / "config.json",
        {**run, "training": config_to_json(training), "name": name, "version": version, "half": half},
    )
    log.info(
        "%d training sentences, %d words; %d dev trees; %d parameters",
        len(task.sizes()),
        sum(task.sizes()),
        len(task.dev),
        sum(p.numel() for p in task.model.parameters()),
    )
    summary = trainer.run()
    task.module.load_state_dict(trainer.best_tensors())
    scores = write_model(
        task.model, output, task.dev, name=name, version=version, half=half, summary=summary, run=run
    )
    log.info("%s: F1 %.2f, tags %.2f", output, scores["f1"], scores["tags"])
    return scores


def write_model(
    model: ConstituencyModel,
    output: Path,
    dev_trees: Sequence[SpanTree],
    *,
    name: str,
    version: str,
    half: bool,
    summary: dict[str, Any],
    run: dict[str, Any],
) -> dict[str, float]:
    """Write a trained model with its card; the scores of what was stored."""
    save: dict[str, Any] = {
        "kind": "constituency",
        "name": name,
        "version": version,
        "config": model.config_json(),
        "vocabulary": model.vocabulary_json(),
        "tensors": model.state_dict(),
        "half": half,
    }
    save_model_folder(output, **save, card="")
    # The stored weights are scored, not those in memory: float16 rounds them.
    scores = score_parser(load_span_parser(output), dev_trees)
    lines = (output / "training" / LOG).read_text(encoding="utf-8").splitlines()
    card = model_card(save, scores, summary, run, [json.loads(line) for line in lines])
    save_model_folder(output, **save, card=card)
    return scores


def load_span_parser(path: Path) -> SpanParser:
    """The parser of a model folder that :func:`write_model` wrote."""
    folder = load_model_folder(path, kind="constituency")
    return SpanParser(ConstituencyModel.from_folder(folder), folder.identity)


def model_card(
    save: dict[str, Any],
    scores: dict[str, float],
    summary: dict[str, Any],
    run: dict[str, Any],
    curve: Sequence[dict[str, float]],
) -> str:
    """Text of a model's README: what it is, data, scores, learning curve."""
    files = [
        f"- {role}: `{'/'.join(Path(path).parts[-2:])}` (sha256 {digest[:16]})"
        for role in ("train", "extra", "dev")
        for path, digest in run[role].items()
    ]
    if run["exclude_documents"]:
        files.append(f"- left out of train and extra: documents `{'*`, `'.join(run['exclude_documents'])}*`")
    if run["start_from"]:
        files.append(f"- started from the weights of the model with sha256 {run['start_from'][:16]}")
    shown = [line for i, line in enumerate(curve) if i % max(1, len(curve) // 12) == 0 or line is curve[-1]]
    rows = [
        f"| {c['epoch'] + 1:.0f} | {c['minutes']:.1f} | {c['loss']:.3f} | {c['f1']:.2f} | {c['tags']:.2f} |"
        for c in shown
    ]
    parameters = sum(tensor.numel() for tensor in save["tensors"].values())
    return "\n".join(
        [
            f"# {save['name']}, version {save['version']}",
            "",
            "Span parser (Kitaev & Klein 2018) with part-of-speech tags over a word and character BiLSTM; "
            f"{parameters:,} parameters, {len(save['vocabulary']['labels'])} labels (unary chains are "
            f"labels), {len(save['vocabulary']['tags'])} tags.",
            "",
            "## Data",
            "",
            *files,
            "",
            "Trees are learned from train; tags, and arcs as a help that is thrown away, from extra too.",
            "",
            "## Scores on dev, in per cent",
            "",
            "| precision | recall | F1 | tags | complete |",
            "|---|---|---|---|---|",
            f"| {scores['precision']:.2f} | {scores['recall']:.2f} | {scores['f1']:.2f} "
            f"| {scores['tags']:.2f} | {scores['complete']:.2f} |",
            "",
            "Labelled brackets without function tags, punctuation and wrapper (`parsing/const_score.py` has "
            f"the rules). The best epoch was {summary['best_epoch'] + 1} of {summary['epochs']}, chosen on "
            "the same dev sentences.",
            "",
            "## Learning curve (dev)",
            "",
            "| epoch | minutes | loss | F1 | tags |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )
