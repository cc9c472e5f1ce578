"""``python -m parsing.train dep``: from treebank files to a dependency model folder with its card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from corpora.documents import Sentence
from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.treebanks import read_conllu
from parsing.dependency.model import DependencyModel
from parsing.dependency.parser import BiaffineParser
from parsing.dependency.task import DependencyTask, score_parser
from parsing.networks.config import TrainDependency
from parsing.networks.model_card import CardTexts, Scores, file_hashes, train_and_store
from parsing.networks.model_folder import ModelFolder
from parsing.networks.training import Trainer, seed_everything


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


def prepare_dependency_training(config: TrainDependency) -> tuple[Trainer, DependencyTask]:
    """The run that ``config`` describes, not begun yet, and what it trains."""
    sentences = read_dependencies(config.train, config.exclude_documents)
    dev_sentences = read_dependencies(config.dev)
    seed_everything(config.training)
    task = DependencyTask(sentences, dev_sentences, config.model)
    run = {
        "model": config_to_json(config.model),
        "train": file_hashes(config.train),
        "dev": file_hashes(config.dev),
        "exclude_documents": list(config.exclude_documents),
    }
    return Trainer(task, config.training, config.output / "training", run), task


def train_dependency_parser(config: TrainDependency) -> Scores:
    """Train, write the model folder, return the dev scores of what was stored."""
    trainer, task = prepare_dependency_training(config)

    def score(folder: ModelFolder) -> Scores:
        return score_parser(BiaffineParser(DependencyModel.from_folder(folder), {}), task.dev)

    return train_and_store(
        config, trainer, task.module, kind="dependency", dev_size=len(task.dev), score=score, card=CARD
    )


def _score_table(scores: Scores) -> list[str]:
    return [
        "| | UAS | LAS |",
        "|---|---|---|",
        f"| without punctuation | {scores['uas']:.2f} | {scores['las']:.2f} |",
        f"| all tokens | {scores['uas_punct']:.2f} | {scores['las_punct']:.2f} |",
    ]


CARD = CardTexts(
    about=lambda model, parameters: (
        "Biaffine dependency parser (Dozat & Manning 2017) over a word and character BiLSTM; "
        f"{parameters:,} parameters, {len(model.relations)} relations."
    ),
    left_out_of="train",
    score_table=_score_table,
    rules="Words are given, tags are not used; LAS counts relation subtypes.",
    curve="dev, without punctuation",
    columns={"uas": "UAS", "las": "LAS"},
)
