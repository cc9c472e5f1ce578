"""``python -m parsing.train dep``: from treebank files to a dependency model folder with its card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from corpora.documents import Sentence
from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.treebanks import read_conllu
from parsing.dependency.model import DependencyModel
from parsing.dependency.stored import stored_parser
from parsing.dependency.subword_model import SubwordDependencyModel
from parsing.dependency.task import DependencyTask, score_parser
from parsing.networks.config import TrainDependency
from parsing.networks.model_card import (
    BILSTM,
    TRANSFORMER,
    CardTexts,
    Scores,
    Sources,
    Stored,
    Training,
    file_hashes,
)
from parsing.networks.model_folder import ModelFolder
from parsing.networks.subwords import read_transformer
from parsing.networks.training import count_parameters, seed_everything


def read_dependencies(
    paths: Sequence[Path], exclude_documents: Sequence[str] = (), *, tags: Literal["upos", "xpos"] = "upos"
) -> list[Sentence]:
    """Sentences of CoNLL-U files with heads, relations and tags.

    Args:
        paths: the files, in order.
        exclude_documents: prefixes of ids of documents to leave out.
        tags: the column that tags are read from.

    Raises:
        UserError: a file is missing, malformed or has unannotated sentences; names file and line.
    """
    sentences = []
    for path in paths:
        for document in read_conllu(path, tags=tags):
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


def train_dependency_parser(config: TrainDependency) -> Scores:
    """Train, write the model folder, return the dev scores of what was stored."""
    sentences = read_dependencies(config.train, config.exclude_documents)
    dev_sentences = read_dependencies(config.dev)
    seed_everything(config.loop)
    transformer = None if config.transformer is None else read_transformer(config.transformer)
    task = DependencyTask(sentences, dev_sentences, config.model, transformer)

    def score(folder: ModelFolder) -> Scores:
        return score_parser(stored_parser(folder), dev_sentences)

    training = Training(
        task=task,
        stored=[Stored(kind="dependency", model=task.module, score=score, card=card_texts(task.module))],
        sources=Sources(
            model=config_to_json(config.model),
            train=file_hashes(config.train),
            dev=file_hashes(config.dev),
            exclude_documents=config.exclude_documents,
            start_from=() if transformer is None else (transformer.sha256,),
        ),
        dev_size=len(dev_sentences),
    )
    return training.run(config, config.loop)


def _score_table(scores: Scores) -> list[str]:
    return [
        "| | UAS | LAS |",
        "|---|---|---|",
        f"| without punctuation | {scores['uas']:.2f} | {scores['las']:.2f} |",
        f"| all tokens | {scores['uas_punct']:.2f} | {scores['las_punct']:.2f} |",
    ]


def card_texts(model: DependencyModel | SubwordDependencyModel) -> CardTexts:
    """What a dependency parser's card says."""
    return CardTexts(
        about="Biaffine dependency parser (Dozat & Manning 2017) over "
        f"{BILSTM if isinstance(model, DependencyModel) else TRANSFORMER}; "
        f"{count_parameters(model.state_dict()):,} parameters, {len(model.relations)} relations.",
        left_out_of="train",
        score_table=_score_table,
        rules="Words are given, tags are not used; LAS counts relation subtypes.",
        curve="dev, without punctuation",
        columns={"uas": "UAS", "las": "LAS"},
    )
