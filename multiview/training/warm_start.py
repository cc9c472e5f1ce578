"""``--init MODEL``: a finished model goes on, on another corpus."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from corpora.support.errors import UserError
from multiview.config import EncoderConfig, TrainConfig
from multiview.encoders.registry import trained_views
from multiview.encoders.stack import ViewStack
from multiview.folder.files import load_members, member_names, member_record, model_sha256
from multiview.folder.reading import Reader
from multiview.words.new import tuned_table
from multiview.words.vectors import WordVectors
from multiview.words.vocabulary import Vocabulary, corpus_words
from parsing.cache.reader import TreeCache

NOT_OF_WEIGHTS = ("forget_bias", "recurrent_scale", "equal_inputs", "pooling", "engine")
"""Options of an encoder that finished weights do not depend on."""


def warm_start(config: TrainConfig, folder: Path, trees: TreeCache) -> ViewStack:
    """The views of a model, with the words of a corpus added to its own.

    Trained tables take in the most frequent words of the corpus that they lack, see
    :meth:`multiview.words.table.WordTable.grown`. The words of a model of fixed vectors stay as they are, or
    with ``--words tuned`` become trained tables, whose new words start as :func:`tuned_table` says. In both,
    the corpus's words come first, by their frequency there, so that a view which weighs words by their place
    (``hash``) has this corpus's weights. The objective's weights are not part of a model.

    Args:
        config: of the training.
        folder: of the model.
        trees: the corpus.

    Raises:
        UserError: no model there, or its views, encoders, words or parsers are not those of this run.
    """
    if member_names(folder) != [""]:
        raise UserError(
            f"--init {folder}: holds the models {', '.join(member_names(folder))}; name one of these "
            "folders, or give --words both"
        )
    _refuse_others(config, folder)
    (member,) = load_members(folder)
    network = member.network
    requires = {need for encoder in network.encoder_list for need in encoder.requires}
    Reader([member]).check_trees(trees, requires)
    origin = f"continued from `{config.init}` (SHA-256 {model_sha256(folder)[:16]})"
    if config.words != "fixed":
        own = network.words.trained_vocabulary
        here, _ = corpus_words(trees.type_counts(), config.vocabulary)
        words = list(dict.fromkeys([*here, *own.words]))
        origin += f" with {len(words) - len(own):,} words more"
        if network.words.fixed is None:
            network.words = network.words.grown(words)
        else:
            more = Vocabulary(words, buckets=config.vocabulary.buckets, case=own.case)
            network.words = tuned_table(config, more, WordVectors(own.words, network.words.fixed))
    network.words.origin = origin
    return network


def _refuse_others(config: TrainConfig, folder: Path) -> None:
    """Refuse a model that the options do not describe.

    Raises:
        UserError: the first option that differs, with both values.
    """
    record = member_record(folder)
    mode = record.words.mode if config.words == "tuned" else config.words
    compared: list[tuple[str, object, object]] = [
        ("--views", ",".join(config.view_list), ",".join(trained_views(record.views))),
        ("--words", mode, record.words.mode),
        ("--vocabulary.case", config.vocabulary.case, record.words.case),
    ]
    if config.words != "tuned" or record.words.mode == "trained":
        compared.append(("--vocabulary.buckets", config.vocabulary.buckets, record.words.buckets))
    for field in fields(EncoderConfig):
        if field.name not in NOT_OF_WEIGHTS:
            option = f"--encoder.{field.name.replace('_', '-')}"
            compared.append(
                (option, getattr(config.encoder, field.name), getattr(record.encoder, field.name))
            )
    for option, wanted, found in compared:
        if wanted != found:
            raise UserError(f"{option} {wanted}: --init {folder} has {found}; give that, or another model")
