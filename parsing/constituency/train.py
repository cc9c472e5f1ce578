"""``python -m parsing.train const``: from treebank files to a constituency model folder with its card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from corpora.documents import Sentence
from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.treebanks import read_conllu
from parsing.constituency.model import ConstituencyModel
from parsing.constituency.stored import stored_parser
from parsing.constituency.subword_model import SubwordConstituencyModel
from parsing.constituency.task import ConstituencyTask, score_parser
from parsing.networks.config import TrainConstituency
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
from parsing.networks.model_folder import ModelFolder, load_model_folder
from parsing.networks.subwords import read_transformer
from parsing.networks.training import count_parameters, seed_everything
from parsing.trees.brackets import SpanTree, read_trees


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
            annotated = path.with_suffix(".conllu")
            names = [document.id for document in read_conllu(annotated) for _ in document.sentences]
            if len(names) != len(found):
                raise UserError(
                    f"{path}: {len(found)} trees, but {annotated.name} has "
                    f"{len(names)} sentences; --exclude-documents needs the same ones"
                )
            excluded = tuple(exclude_documents)
            found = [tree for tree, name in zip(found, names, strict=True) if not name.startswith(excluded)]
        trees += found
    if not trees:
        raise UserError(f"{', '.join(map(str, paths)) or 'no file'}: no trees to read")
    return trees


def read_extra(paths: Sequence[Path], exclude_documents: Sequence[str] = ()) -> list[Sentence]:
    """Sentences of CoNLL-U files whose tags and arcs are learned as well.

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


def train_constituency_parser(config: TrainConstituency) -> Scores:
    """Train, write the model folder, return the dev scores of what was stored."""
    trees, dev_trees = read_treebank(config.train, config.exclude_documents), read_treebank(config.dev)
    sentences = read_extra(config.extra, config.exclude_documents)
    seed_everything(config.loop)
    start = None
    started_from: tuple[str, ...] = ()
    if config.start_from is not None:
        folder = load_model_folder(config.start_from, kind="constituency")
        start, started_from = ConstituencyModel.from_folder(folder), (folder.identity["sha256"],)
    transformer = None if config.transformer is None else read_transformer(config.transformer)
    if start is not None and transformer is not None:
        raise UserError("--start-from continues a model of words and characters: not with --transformer")
    if transformer is not None:
        started_from = (transformer.sha256,)
    task = ConstituencyTask(
        trees, dev_trees, config.model, extra=sentences, start=start, transformer=transformer
    )

    def score(stored: ModelFolder) -> Scores:
        return score_parser(stored_parser(stored), dev_trees)

    training = Training(
        task=task,
        stored=[Stored(kind="constituency", model=task.model, score=score, card=card_texts(task.model))],
        sources=Sources(
            model=config_to_json(config.model),
            train=file_hashes(config.train),
            extra=file_hashes(config.extra),
            dev=file_hashes(config.dev),
            exclude_documents=config.exclude_documents,
            start_from=started_from,
        ),
        dev_size=len(dev_trees),
    )
    return training.run(config, config.loop)


def _score_table(scores: Scores) -> list[str]:
    return [
        "| precision | recall | F1 | tags | complete |",
        "|---|---|---|---|---|",
        f"| {scores['precision']:.2f} | {scores['recall']:.2f} | {scores['f1']:.2f} "
        f"| {scores['tags']:.2f} | {scores['complete']:.2f} |",
    ]


def card_texts(model: ConstituencyModel | SubwordConstituencyModel) -> CardTexts:
    """What a constituency parser's card says."""
    return CardTexts(
        about="Span parser (Kitaev & Klein 2018) with part-of-speech tags over "
        f"{BILSTM if isinstance(model, ConstituencyModel) else TRANSFORMER}; "
        f"{count_parameters(model.state_dict()):,} parameters, {len(model.labels)} labels (unary chains are "
        f"labels), {len(model.tags)} tags.",
        left_out_of="train and extra",
        data_rules="Trees are learned from train; tags, and arcs as a help that is thrown away, from extra "
        "too.",
        score_table=_score_table,
        rules="Labelled brackets without function tags, punctuation and wrapper "
        "(`parsing/constituency/score.py` has the rules).",
        curve="dev",
        columns={"f1": "F1", "tags": "tags"},
    )
