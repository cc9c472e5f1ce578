"""Step 2 of 3 from a name to vectors: the encoder of a parsed name, of which nothing is loaded yet.

:func:`encoder_of` looks up the name's prefix in :data:`multiview.names.grammar.PREFIXES` and calls the
function that the table gives: :func:`without_prefix`, :func:`pooled`, :func:`untrained`, :func:`bag` or
:func:`before_training`. Each takes a :class:`Name` and the seed of random encoders, and returns a
:class:`~multiview.names.encoder.LazyEncoder`. :func:`encoder_of_object` does the same for an object.
"""

import functools
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np

from corpora.characters import VERSION
from corpora.inputs import input_hash, list_files
from multiview.baselines import Bag, RandomLSTM, load_start, lookup_of
from multiview.encoders.batch_encoder import view_positions
from multiview.encoders.meaning import SAMPLE_BLOCK_SENTENCES, SAMPLE_SENTENCES
from multiview.encoders.registry import view_class
from multiview.folder.files import model_folder, model_record, model_sha256
from multiview.libraries.pretrained import Encode, assemble, encode_texts, load_pretrained
from multiview.model import MultiViewEncoder
from multiview.names.encoder import LazyEncoder, TextEncoder, TreeEncoder, TreesOf
from multiview.names.grammar import PREFIXES, Name, parse_name, wrong_form
from multiview.structure.binding import WIDTH
from multiview.structure.joining import check_share
from multiview.words.sources import MODEL_SUFFIXES
from multiview.words.table import WordTable
from multiview.words.vectors import load_word_vectors
from multiview.words.vocabulary import Vocabulary
from parsing.names import MANIFEST
from runtime.device import pick_device
from runtime.errors import UserError, extra
from runtime.files import read_json, sha256_file
from runtime.folders import current_folder

TRANSFORMER_BATCH = 128
"""Sentences that a transformer encodes at a time."""
VIEW_DIM = 128
"""Dimensions of one untrained view."""


def encoder_of(name: Name | str, seed: int = 0, **options: Any) -> LazyEncoder:
    """Return the encoder of one name.

    ``seed`` is the seed of random encoders. ``options`` are the fields ``device``, ``trees``, ``parsers`` and
    ``products`` of :class:`~multiview.names.encoder.LazyEncoder`.
    """
    name = parse_name(name) if isinstance(name, str) else name
    encoder: LazyEncoder = resolve_name(PREFIXES[name.prefix].constructor)(name, seed)
    values: dict[str, object] = {"dim": name.dim, "scale": name.scale, "characters": VERSION}
    if name.option_file is not None:
        values["file"] = sha256_file(name.option_file)
    if name.scale_trees is not None:
        sha256 = sha256_file(name.scale_trees / MANIFEST)
        values["scale"] = [sha256, SAMPLE_SENTENCES, SAMPLE_BLOCK_SENTENCES]
    if name.structure is not None:
        values["structure"] = [check_share(name.structure), WIDTH]
    identity = [name.prefix, *encoder.identity, values]
    if name.views:
        identity.append(view_positions(model_record(model_folder(name.base)).views, name.views))
    return replace(encoder, identity=identity, **options)


def without_prefix(name: Name, seed: int) -> LazyEncoder:
    """Return the encoder of a file, a folder, or a model that sentence-transformers finds by its name."""
    folder = model_folder(name.base)
    encoder = _on_disk(name, current_folder(folder)) if folder.exists() else _of_library(name)
    if (name.views or name.kind or name.expand) and encoder.family != "multiview":
        raise wrong_form(name.full_name, name.prefix)
    if name.expand and not encoder.has_trained_words:
        raise UserError(f"model {name.full_name!r}: has fixed word vectors only, no vocabulary to expand")
    return encoder


def _on_disk(name: Name, path: Path) -> LazyEncoder:
    """Return the encoder of a file or folder; a folder is a multi-view model if its config.json says so."""
    if path.is_file():
        identity = [sha256_file(path)]
        if path.suffix == ".npz":
            load = functools.partial(precomputed, path)
            return TextEncoder(parsed=name, family="vectors", load=load, identity=identity, reads_text=True)
        return TextEncoder(
            parsed=name, family="words", load=lambda _: Bag(lookup_of(name.base)), identity=identity
        )
    config = path / "config.json"
    values = read_json(config) if config.is_file() else None
    is_ours = isinstance(values, dict) and "format" in values and "views" in values
    if not is_ours:
        return _of_library(name, input_hash(path, list_files(path, MODEL_SUFFIXES)))
    record = model_record(path)
    return TreeEncoder(
        parsed=name,
        family="multiview",
        load=functools.partial(MultiViewEncoder.load, name.base),
        identity=[model_sha256(path)],
        has_own_features=bool(record.readout or record.structure) or record.scale is not None,
        # If the name chooses views, there is no meaning and no structure, because all views make them.
        has_meaning=bool(record.readout) and not name.views,
        share=0.0 if name.views else record.structure,
    )


def _of_library(name: Name, folder_hash: str | None = None) -> LazyEncoder:
    """Return the encoder of a sentence-transformers model: a folder, whose hash is given, or a name."""
    with extra("burt", "sentence-transformers"):
        key = folder_hash or [name.base, version("sentence-transformers")]

    def load(device: str | None) -> Encode:
        model = load_pretrained(name.base, all_modules=True, device=str(pick_device(device)))
        return functools.partial(encode_texts, model, name.base, batch_size=TRANSFORMER_BATCH)

    family = "sentence-transformers"
    return TextEncoder(parsed=name, family=family, load=load, identity=[key], reads_text=True)


def precomputed(path: Path, device: str | None = None) -> Encode:
    """Return a function that looks sentences up in an ``.npz``, and raises UserError if one is missing."""
    try:
        # Opened here because numpy does not close a damaged archive.
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            sentences, vectors = arrays["sentences"], arrays["vectors"]
        if vectors.ndim != 2 or len(sentences) != len(vectors):
            raise ValueError(f"{len(sentences)} sentences, vectors {list(vectors.shape)}")
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        expected = "arrays 'sentences' (strings) and 'vectors' [n, d]"
        raise UserError(f"{path}: expected {expected} ({error})") from None
    row_of = {str(sentence): row for row, sentence in enumerate(sentences)}

    def encode(batch: Sequence[str]) -> Any:
        missing = [sentence for sentence in batch if sentence not in row_of]
        if missing:
            raise UserError(
                f"{path}: no vector for {len(missing)} of {len(batch)} sentences, first {missing[0]!r}; "
                "python -m studies.sentences FILE --tasks NAMES lists all that an evaluation asks for"
            )
        return vectors[[row_of[sentence] for sentence in batch]]

    return encode


def pooled(name: Name, seed: int) -> LazyEncoder:
    """Return the encoder of a transformer whose last layer is pooled by ``cls``, ``mean`` or ``max``."""

    def load(device: str | None) -> Encode:
        model = assemble(load_pretrained(name.base), name.prefix).to(pick_device(device))
        return functools.partial(encode_texts, model, name.base, batch_size=TRANSFORMER_BATCH)

    identity = [_inner(name, "sentence-transformers").key()]
    return TextEncoder(parsed=name, family="pooled", load=load, identity=identity, reads_text=True)


def untrained(name: Name, seed: int) -> LazyEncoder:
    """Return the encoder of views with random weights, or of ``lstm``, which cannot be joined with views."""
    views = name.base.split(",")
    is_lstm = views == ["lstm"]
    for view in () if is_lstm else views:
        view_class(view)
    dim, remainder = divmod(name.dim or VIEW_DIM * len(views), len(views))
    has_two_directions = is_lstm or "seq" in views
    if remainder or (has_two_directions and dim % 2):
        raise UserError(
            f"model {name.full_name!r}: {name.dim} dimensions cannot be divided by {len(views)} views, or "
            "not halved for the two directions of seq and lstm"
        )

    def load(device: str | None) -> RandomLSTM | MultiViewEncoder:
        table = None
        if name.vectors is not None:
            word_vectors = load_word_vectors(name.vectors)
            table = WordTable.with_fixed(Vocabulary(word_vectors.words), word_vectors.vectors)
        if is_lstm:
            return RandomLSTM(dim, table, seed, device)
        return MultiViewEncoder.untrained(views, dim=dim, words=table, seed=seed, device=device)

    encoder_class = TextEncoder if is_lstm else TreeEncoder
    return encoder_class(parsed=name, family="random", load=load, identity=[name.base, seed])


def bag(name: Name, seed: int) -> LazyEncoder:
    """Return the encoder that is a mean of word vectors, weighted by SIF if the name has a corpus."""

    def load(device: str | None) -> Bag:
        return Bag(lookup_of(name.base, name.dim, seed=seed), name.corpus)

    identity = [name.base, seed] if name.has_own_base else [_inner(name, "multiview", "words").key()]
    return TextEncoder(parsed=name, family="bag", load=load, identity=identity)


def before_training(name: Name, seed: int) -> LazyEncoder:
    """Return the encoder of a model before its first step; it has features if the model has them."""
    model = _inner(name, "multiview")
    assert name.corpus is not None
    went_on_from_model = "start" in model_record(model_folder(name.base)).training
    return replace(
        model,
        parsed=name,
        family="start",
        load=functools.partial(load_start, name.base, name.corpus),
        identity=[model.key()],
        has_meaning=model.has_meaning and went_on_from_model,
    )


def _inner(name: Name, *families: str) -> LazyEncoder:
    """Return the encoder behind a prefix. Raises UserError if it is of none of these families."""
    assert name.inner is not None
    encoder = encoder_of(name.inner)
    if encoder.family not in families:
        raise wrong_form(name.full_name, name.prefix)
    return encoder


def encoder_of_object(encoder: Any, trees: TreesOf | None = None) -> LazyEncoder:
    """Return the encoder that calls an object with ``encode``, or a function of token lists.

    ``trees`` is the field of :class:`~multiview.names.encoder.LazyEncoder`. Raises UserError if ``encoder``
    is neither an object with ``encode`` nor a function.
    """
    fields: dict[str, Any] = {"parsed": Name(base="encoder"), "family": "object", "trees": trees}
    fields["load"] = functools.partial(_return_encoder, encoder)
    if isinstance(encoder, MultiViewEncoder):
        return TreeEncoder(
            has_own_features=bool(encoder.readout or encoder.structure) or encoder.has_scale,
            has_meaning=bool(encoder.readout),
            share=encoder.structure,
            **fields,
        )
    is_object = callable(getattr(encoder, "encode", None))
    if not is_object and not callable(encoder):
        raise UserError(
            f"{encoder!r:.60} is no encoder: give an object with encode(sentences) or a function of token "
            "lists; either returns an array [sentences, dimensions]"
        )
    has_features = is_object and callable(getattr(encoder, "features", None))
    reads_text = not getattr(encoder, "pretokenized", not is_object)
    return TextEncoder(has_own_features=has_features, reads_text=reads_text, **fields)


def _return_encoder(encoder: Any, device: str | None) -> Any:
    """Return a loaded encoder. This is no lambda, because a lambda cannot be pickled."""
    return encoder
