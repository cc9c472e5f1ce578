"""Makes the recipes of names: a function for each prefix of :data:`multiview.names.grammar.PREFIXES`.

Each takes a name and the seed of random encoders. Its ``identity`` are the JSON values, beside the name's
prefix and options, that decide the vectors.
"""

import functools
import zipfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from corpora.inputs import input_hash, list_files
from multiview.encoders.registry import view_class
from multiview.folder.files import model_folder, model_record, model_sha256
from multiview.libraries.pretrained import Encode, assemble, encode_texts, load_pretrained
from multiview.model import MultiViewEncoder
from multiview.names.baselines import Bag, RandomLSTM, load_start, lookup_of
from multiview.names.grammar import Name, wrong_form
from multiview.names.recipe import EncoderRecipe, recipe_of
from multiview.words.sources import MODEL_SUFFIXES
from multiview.words.table import Vocabulary, WordTable
from multiview.words.vectors import load_word_vectors
from runtime.device import pick_device
from runtime.errors import UserError, extra
from runtime.files import read_json, sha256_file
from runtime.folders import current_folder

BATCH = 128
"""Sentences that a transformer encodes at a time."""
VIEW_DIM = 128
"""Dimensions of one untrained view."""


def without_prefix(name: Name, seed: int) -> EncoderRecipe:
    """Return the recipe of a file, a folder, or a model by a name that sentence-transformers may know."""
    folder = model_folder(name.base)
    recipe = _on_disk(name, current_folder(folder)) if folder.exists() else _of_library(name)
    if (name.views or name.readout or name.expand) and recipe.kind != "multiview":
        raise wrong_form(name.spec, name.prefix)
    if name.expand and not recipe.has_trained_words:
        raise UserError(f"model {name.spec!r}: has fixed word vectors only, no vocabulary to expand")
    return recipe


def _on_disk(name: Name, path: Path) -> EncoderRecipe:
    """Return the recipe of a file or folder: a format in config.json tells ours from a transformer."""
    if path.is_file():
        identity = [sha256_file(path)]
        if path.suffix == ".npz":
            load = functools.partial(precomputed, path)
            return EncoderRecipe(name=name, kind="vectors", load=load, identity=identity, reads="text")
        return EncoderRecipe(
            name=name, kind="words", load=lambda _: Bag(lookup_of(name.base)), identity=identity
        )
    config = path / "config.json"
    values = read_json(config) if config.is_file() else None
    is_ours = isinstance(values, dict) and "format" in values and "views" in values
    if not is_ours:
        return _of_library(name, input_hash(path, list_files(path, MODEL_SUFFIXES)))
    record = model_record(path)
    has_meaning = bool(record.readout or record.structure)
    return EncoderRecipe(
        name=name,
        kind="multiview",
        load=functools.partial(MultiViewEncoder.load, name.base),
        identity=[model_sha256(path)],
        reads="trees",
        has_features=has_meaning or record.scale is not None,
        # A view has features where its model has them, but neither its share of structure nor its read-out.
        has_meaning=has_meaning and not name.views,
        share=0.0 if name.views else record.structure,
    )


def _of_library(name: Name, folder_hash: str | None = None) -> EncoderRecipe:
    """Return the recipe of a sentence-transformers folder with this hash, or of a model's name."""
    with extra("burt", "sentence-transformers"):
        content = folder_hash or [name.base, version("sentence-transformers")]

    def load(device: str | None) -> Encode:
        model = load_pretrained(name.base, all_modules=True, device=str(pick_device(device)))
        return functools.partial(encode_texts, model, name.base, batch_size=BATCH)

    return EncoderRecipe(name=name, kind="sentence-transformers", load=load, identity=[content], reads="text")


def precomputed(path: Path, device: str | None = None) -> Encode:
    """Return a function that looks up vectors computed elsewhere; a sentence without one is a UserError."""
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


def pooled(name: Name, seed: int) -> EncoderRecipe:
    """Return the recipe of a transformer whose last layer is pooled as the prefix says."""

    def load(device: str | None) -> Encode:
        model = assemble(load_pretrained(name.base), name.prefix).to(pick_device(device))
        return functools.partial(encode_texts, model, name.base, batch_size=BATCH)

    identity = [_inner(name, "sentence-transformers").key()]
    return EncoderRecipe(name=name, kind="pooled", load=load, identity=identity, reads="text")


def untrained(name: Name, seed: int) -> EncoderRecipe:
    """Return the recipe of untrained views, or of ``lstm``, which is no view and stands alone."""
    views = name.base.split(",")
    is_lstm = views == ["lstm"]
    for view in () if is_lstm else views:
        view_class(view)
    dim, remainder = divmod(name.dim or VIEW_DIM * len(views), len(views))
    has_two_directions = is_lstm or "seq" in views
    if remainder or (has_two_directions and dim % 2):
        raise UserError(
            f"model {name.spec!r}: {name.dim} dimensions cannot be divided by {len(views)} views, or not "
            "halved for the two directions of seq and lstm"
        )

    def load(device: str | None) -> RandomLSTM | MultiViewEncoder:
        table = None
        if name.vectors is not None:
            word_vectors = load_word_vectors(name.vectors)
            table = WordTable.with_fixed(Vocabulary(word_vectors.words), word_vectors.vectors)
        if is_lstm:
            return RandomLSTM(dim, table, seed, device)
        return MultiViewEncoder.untrained(views, dim=dim, words=table, seed=seed, device=device)

    reads: Literal["tokens", "trees"] = "tokens" if is_lstm else "trees"
    return EncoderRecipe(name=name, kind="random", load=load, identity=[name.base, seed], reads=reads)


def bag(name: Name, seed: int) -> EncoderRecipe:
    """Return the recipe of a mean of the vectors of a sentence's words, of SIF with a corpus."""

    def load(device: str | None) -> Bag:
        return Bag(lookup_of(name.base, name.dim, seed=seed), name.corpus)

    identity = [name.base, seed] if name.has_own_base else [_inner(name, "multiview", "words").key()]
    return EncoderRecipe(name=name, kind="bag", load=load, identity=identity)


def before_training(name: Name, seed: int) -> EncoderRecipe:
    """Return the recipe of a model before its first step, which has features where the model has."""
    model = _inner(name, "multiview")
    assert name.corpus is not None
    return EncoderRecipe(
        name=name,
        kind="start",
        load=functools.partial(load_start, name.base, name.corpus),
        identity=[model.key()],
        reads="trees",
        has_features=model.has_features,
    )


def _inner(name: Name, *kinds: str) -> EncoderRecipe:
    """Return the recipe of the encoder behind a prefix, which must be of one of these kinds."""
    assert name.inner is not None
    recipe = recipe_of(name.inner)
    if recipe.kind not in kinds:
        raise wrong_form(name.spec, name.prefix)
    return recipe
