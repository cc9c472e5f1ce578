"""Step 2 of 4 from a name to vectors: what a parsed name means, before anything of it is loaded.

:func:`recipe_of` looks up the name's prefix in :data:`multiview.names.grammar.PREFIXES` and calls the
function that the table gives: :func:`without_prefix`, :func:`pooled`, :func:`untrained`, :func:`bag` or
:func:`before_training`. Each takes a :class:`Name` and the seed of random encoders, and returns an
:class:`EncoderRecipe`: how the encoder is loaded, which kinds of vectors it has, and what decides them.
Step 3 loads it (:mod:`multiview.names.vectors`).

An encoder returns two kinds of vectors: ``encode`` returns those that are compared by cosine, ``features``
those that classifiers are trained on. For most encoders they are the same. A model with a read-out, a share
of structure or a scale has *features*, which are standardised numbers; by cosine its meanings are compared,
or the vectors of its views if no read-out was fitted. With ``?kind=`` in a name, both methods return the
same kind.
"""

import functools
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal

import numpy as np

from corpora.characters import VERSION
from corpora.inputs import input_hash, list_files
from multiview.baselines import Bag, RandomLSTM, load_start, lookup_of
from multiview.encoders.batch_encoder import view_positions
from multiview.encoders.meaning import FEATURE_LENGTH, SAMPLE_BLOCK_SENTENCES, SAMPLE_SENTENCES
from multiview.encoders.registry import view_class
from multiview.folder.files import model_folder, model_record, model_sha256
from multiview.libraries.pretrained import Encode, assemble, encode_texts, load_pretrained
from multiview.model import MultiViewEncoder
from multiview.model_config import VectorKind
from multiview.names.grammar import NO_SCALE, PREFIXES, Name, parse_name, wrong_form
from multiview.structure.binding import WIDTH
from multiview.structure.joining import check_share
from multiview.words.sources import MODEL_SUFFIXES
from multiview.words.table import WordTable
from multiview.words.vectors import load_word_vectors
from multiview.words.vocabulary import Vocabulary
from parsing.names import MANIFEST
from runtime.device import pick_device
from runtime.errors import UserError, extra
from runtime.files import json_digest, read_json, sha256_file
from runtime.folders import current_folder

TRANSFORMER_BATCH = 128
"""Sentences that a transformer encodes at a time."""
VIEW_DIM = 128
"""Dimensions of one untrained view."""
Method = Literal["encode", "features"]
"""The two methods of an encoder that return vectors."""


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderRecipe:
    """How the encoder of a name is loaded, which kinds of vectors it returns, and what decides them."""

    name: Name
    family: str
    """The family of encoders: ``multiview``, ``words``, ``bag`` and so on; ``object`` has no name."""
    load: Callable[[str | None], Any] = field(repr=False)
    """Loads the encoder on a device: it returns a :class:`MultiViewEncoder`, another object with
    ``encode(sentences)``, or a function of sentences."""
    identity: Sequence[object] = ()
    """JSON values that decide the vectors; :func:`recipe_of` adds the name's prefix and options."""
    reads: Literal["trees", "tokens", "text"] = "tokens"
    """What it encodes: sentences with trees (a :class:`MultiViewEncoder`), token lists or strings."""
    has_features: bool = False
    """Whether ``features`` returns other vectors than ``encode``."""
    has_meaning: bool = False
    """Whether ``encode`` returns meanings, not raw numbers."""
    share: float = 0.0
    """λ, the share of structure in what ``encode`` returns if the name does not give one."""

    @property
    def has_structure(self) -> bool:
        """Whether the encoder computes structure by itself; for all others ``builtin`` computes it."""
        return self.reads == "trees" and self.family != "random"

    @property
    def has_trained_words(self) -> bool:
        """Whether it is a multi-view model that trained its word vectors."""
        folder = model_folder(self.name.base)
        return self.family == "multiview" and model_record(folder).words.mode == "trained"

    def vector_kind(self, method: Method) -> VectorKind | None:
        """Return the kind of vectors that a method returns; None is the default of the encoder."""
        name = self.name
        has_features = not name.kind and (self.has_features or name.scale_trees)
        kind: VectorKind | None = "features" if method == "features" and has_features else name.kind
        return "raw" if kind == "features" and name.scale == NO_SCALE else kind

    def label_of(self, method: Method) -> str:
        """Return a label such as ``meaning, structure 0.15``; "" if the encoder has one kind of vectors."""
        name, kind = self.name, self.vector_kind(method)
        if not (self.has_features or name.kind or name.scale_trees):
            return ""
        share = name.structure
        if share is None:
            share = 0.0 if kind in ("features", "raw") else self.share
        label = kind or ("meaning" if self.has_meaning else "raw")
        return f"{label}, structure {share:g}" if share else label

    def key(self, method: Method = "encode", *more: object) -> str:
        """Return a hex digest of everything that decides the vectors of a method, and of ``more`` values."""
        return json_digest([self.identity, self.vector_kind(method), FEATURE_LENGTH, *more], 16)


def recipe_of(name: Name | str, seed: int = 0) -> EncoderRecipe:
    """Return the recipe of a name; ``seed`` is the seed of random encoders."""
    name = parse_name(name) if isinstance(name, str) else name
    recipe: EncoderRecipe = resolve_name(PREFIXES[name.prefix].constructor)(name, seed)
    options: dict[str, object] = {"dim": name.dim, "scale": name.scale, "characters": VERSION}
    if name.option_file is not None:
        options["file"] = sha256_file(name.option_file)
    if name.scale_trees is not None:
        options["scale"] = [
            sha256_file(name.scale_trees / MANIFEST),
            SAMPLE_SENTENCES,
            SAMPLE_BLOCK_SENTENCES,
        ]
    if name.structure is not None:
        options["structure"] = [check_share(name.structure), WIDTH]
    identity = [name.prefix, *recipe.identity, options]
    if name.views:
        identity.append(view_positions(model_record(model_folder(name.base)).views, name.views))
    return replace(recipe, identity=identity)


def without_prefix(name: Name, seed: int) -> EncoderRecipe:
    """Return the recipe of a file, a folder, or a model that sentence-transformers finds by its name."""
    folder = model_folder(name.base)
    recipe = _on_disk(name, current_folder(folder)) if folder.exists() else _of_library(name)
    if (name.views or name.kind or name.expand) and recipe.family != "multiview":
        raise wrong_form(name.full_name, name.prefix)
    if name.expand and not recipe.has_trained_words:
        raise UserError(f"model {name.full_name!r}: has fixed word vectors only, no vocabulary to expand")
    return recipe


def _on_disk(name: Name, path: Path) -> EncoderRecipe:
    """Return the recipe of a file or folder; a folder is a multi-view model if its config.json says so."""
    if path.is_file():
        identity = [sha256_file(path)]
        if path.suffix == ".npz":
            load = functools.partial(precomputed, path)
            return EncoderRecipe(name=name, family="vectors", load=load, identity=identity, reads="text")
        return EncoderRecipe(
            name=name, family="words", load=lambda _: Bag(lookup_of(name.base)), identity=identity
        )
    config = path / "config.json"
    values = read_json(config) if config.is_file() else None
    is_ours = isinstance(values, dict) and "format" in values and "views" in values
    if not is_ours:
        return _of_library(name, input_hash(path, list_files(path, MODEL_SUFFIXES)))
    record = model_record(path)
    return EncoderRecipe(
        name=name,
        family="multiview",
        load=functools.partial(MultiViewEncoder.load, name.base),
        identity=[model_sha256(path)],
        reads="trees",
        has_features=bool(record.readout or record.structure) or record.scale is not None,
        # If the name chooses views, there is no meaning and no structure, because all views make them.
        has_meaning=bool(record.readout) and not name.views,
        share=0.0 if name.views else record.structure,
    )


def _of_library(name: Name, folder_hash: str | None = None) -> EncoderRecipe:
    """Return the recipe of a sentence-transformers model: a folder, whose hash is given, or a name."""
    with extra("burt", "sentence-transformers"):
        key = folder_hash or [name.base, version("sentence-transformers")]

    def load(device: str | None) -> Encode:
        model = load_pretrained(name.base, all_modules=True, device=str(pick_device(device)))
        return functools.partial(encode_texts, model, name.base, batch_size=TRANSFORMER_BATCH)

    return EncoderRecipe(name=name, family="sentence-transformers", load=load, identity=[key], reads="text")


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


def pooled(name: Name, seed: int) -> EncoderRecipe:
    """Return the recipe of a transformer whose last layer is pooled by ``cls``, ``mean`` or ``max``."""

    def load(device: str | None) -> Encode:
        model = assemble(load_pretrained(name.base), name.prefix).to(pick_device(device))
        return functools.partial(encode_texts, model, name.base, batch_size=TRANSFORMER_BATCH)

    identity = [_inner(name, "sentence-transformers").key()]
    return EncoderRecipe(name=name, family="pooled", load=load, identity=identity, reads="text")


def untrained(name: Name, seed: int) -> EncoderRecipe:
    """Return the recipe of views with random weights, or of ``lstm``, which cannot be joined with views."""
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

    reads: Literal["tokens", "trees"] = "tokens" if is_lstm else "trees"
    return EncoderRecipe(name=name, family="random", load=load, identity=[name.base, seed], reads=reads)


def bag(name: Name, seed: int) -> EncoderRecipe:
    """Return the recipe of a mean of word vectors, weighted by SIF if the name has a corpus."""

    def load(device: str | None) -> Bag:
        return Bag(lookup_of(name.base, name.dim, seed=seed), name.corpus)

    identity = [name.base, seed] if name.has_own_base else [_inner(name, "multiview", "words").key()]
    return EncoderRecipe(name=name, family="bag", load=load, identity=identity)


def before_training(name: Name, seed: int) -> EncoderRecipe:
    """Return the recipe of a model before its first step; it has features if the model has them."""
    model = _inner(name, "multiview")
    assert name.corpus is not None
    went_on_from_model = "start" in model_record(model_folder(name.base)).training
    return EncoderRecipe(
        name=name,
        family="start",
        load=functools.partial(load_start, name.base, name.corpus),
        identity=[model.key()],
        reads="trees",
        has_features=model.has_features,
        has_meaning=model.has_meaning and went_on_from_model,
        share=model.share,
    )


def _inner(name: Name, *families: str) -> EncoderRecipe:
    """Return the recipe of the encoder behind a prefix. Raises UserError if it is of no such family."""
    assert name.inner is not None
    recipe = recipe_of(name.inner)
    if recipe.family not in families:
        raise wrong_form(name.full_name, name.prefix)
    return recipe
