"""Finds out what an encoder's name means; every command that opens one takes these names (docs/senteval.md).

Some models give classifiers other vectors than cosines: classifiers get the model's *features*, its numbers
at one scale, all else gets its meaning, or its views as they are if no read-out was fitted. These are models
with a fitted read-out, a share of structure or a scale of their own. A name with ``?readout=`` gives one of
them to all.
"""

from __future__ import annotations

import functools
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from corpora.characters import VERSION
from corpora.inputs import input_hash, list_files
from multiview.encoders.meaning import (
    BLOCK_SENTENCES,
    FEATURE_LENGTH,
    SAMPLE_SENTENCES,
    Scale,
    sample_spans,
)
from multiview.encoders.outputs import view_positions
from multiview.encoders.registry import view_class
from multiview.folder.files import model_folder, model_record, model_sha256, training_seconds
from multiview.model import MultiViewEncoder
from multiview.names.baselines import Bag, RandomLSTM, load_start, lookup_of
from multiview.names.grammar import MANIFEST, RAW, EncoderName, parse_name, wrong_form
from multiview.pretrained import Encode, Float, assemble, encode_texts, load_pretrained
from multiview.structure.beside import WithStructure
from multiview.structure.binding import WIDTH
from multiview.structure.joining import check_share
from multiview.words.sources import MODEL_SUFFIXES
from multiview.words.table import Vocabulary, WordTable
from multiview.words.vectors import load_word_vectors
from parsing.trees.cache import TreeCache
from runtime.device import pick_device
from runtime.errors import MissingExtraError, UserError
from runtime.files import json_digest, read_json, sha256_file
from runtime.folders import current_folder

TreesOf = Callable[[MultiViewEncoder], TreeCache | None]
"""Returns the stored trees of a loaded model's sentences."""
Load = Callable[[str | None], Any]
"""Loads on a device: a :class:`MultiViewEncoder`, or a function from sentences to vectors."""
BATCH, CHUNK = 128, 1024
"""Sentences encoded at a time, and those given to an encoder at a time where a text is measured."""
VIEW_DIM = 128
"""Dimensions of one untrained view."""


@dataclass(frozen=True)
class BoundModel:
    """A multi-view encoder with the options of one name: a function from sentences to vectors."""

    model: MultiViewEncoder
    options: Mapping[str, Any]
    """Arguments of ``encode``: which views, which of its vectors, how much structure."""
    trees: TreeCache | None = None
    """Sentences found here are not parsed again."""

    def __call__(self, sentences: Sequence[Any]) -> Float:
        """Return vectors [n, D]."""
        return self.model.encode(
            sentences, batch_size=BATCH, trees=self.trees, show_progress_bar=False, **self.options
        )


@dataclass(frozen=True, kw_only=True)
class Source:
    """An encoder that a name means and that is not yet loaded."""

    name: EncoderName
    kind: str
    """``multiview``, ``start``, ``random``, ``bag``, ``words``, ``vectors``, ``sentence-transformers`` or
    ``pooled``."""
    content: Sequence[object]
    """JSON values that, with ``readout``, decide the vectors: hashes of files, names, seeds, versions."""
    load: Load = field(repr=False)
    readout: str | None
    """Which of a model's vectors to take: what the name says, or ``features`` for classifiers."""
    has_features: bool = False
    """Whether the model gives classifiers other vectors than cosines."""
    default_share: float = 0.0
    """λ, how much structure the vectors for cosines have where the name does not say."""
    has_meaning: bool = False
    """Whether cosines are of a meaning, not of raw numbers."""

    @property
    def key(self) -> str:
        """Hex digest of everything that decides the vectors."""
        return json_digest([self.content, self.readout, FEATURE_LENGTH], 16)

    @property
    def vector_label(self) -> str:
        """Which of a model's vectors these are, such as ``meaning, structure 0.15``, where it has several."""
        if not (self.has_features or self.readout or self.name.scale_trees):
            return ""
        share = self.name.structure
        if share is None:
            share = 0.0 if self.readout in ("features", "raw") else self.default_share
        output = self.readout or ("meaning" if self.has_meaning else "raw")
        return f"{output}, structure {share:g}" if share else output

    @property
    def takes_tokens(self) -> bool:
        """Whether the encoder takes token lists; else it takes strings."""
        return self.kind not in ("vectors", "sentence-transformers", "pooled")

    @property
    def is_multiview(self) -> bool:
        """Whether :meth:`model` opens it; random views with structure have that of ``builtin``."""
        is_random_view = self.kind == "random" and self.name.base != "lstm"
        return (is_random_view and not self.name.structure) or self.kind in ("multiview", "start")

    @property
    def has_trained_words(self) -> bool:
        """Whether it is a model that has word vectors of its own."""
        return self.kind == "multiview" and model_record(model_folder(self.name.base)).words.mode == "trained"

    @property
    def hours(self) -> float | None:
        """Hours of training, where they are recorded; of a view, those of its model."""
        seconds = training_seconds(model_folder(self.name.base)) if self.kind == "multiview" else None
        return None if seconds is None else seconds / 3600

    @property
    def for_classifiers(self) -> Source:
        """The same encoder for classifiers: itself if the name gives all one kind or there is no other."""
        if self.readout or not (self.has_features or self.name.scale_trees):
            return self
        return replace(self, readout="raw" if self.name.scale == RAW else "features")

    def open(
        self,
        *,
        device: str | None = None,
        trees: TreesOf | None = None,
        parsers: Mapping[str, str] | None = None,
    ) -> Encode:
        """Load the encoder: a function from sentences, token lists or strings, to vectors [n, d].

        A multi-view encoder parses the sentences that ``trees`` does not find, with the ``parsers`` that are
        named by annotation. A damaged model, or none under that name, is a UserError.
        """
        name = self.name
        if self.is_multiview:
            model = self.model(device, parsers)
            options = {"views": name.views, "readout": self.readout, "structure": name.structure}
            return BoundModel(model, options, None if trees is None else trees(model))
        if name.structure:
            without_structure = replace(self, name=replace(name, structure=None))
            encode: Encode = without_structure.open(device=device, trees=trees, parsers=parsers)
            return WithStructure(SimpleNamespace(encode=encode), name.structure).encode
        encode = self.load(device)
        if name.scale_trees is None or self.readout != "features":
            return encode
        return _at_scale_of(TreeCache.open(name.scale_trees), encode, self.takes_tokens)

    def model(self, device: str | None, parsers: Mapping[str, str] | None = None) -> MultiViewEncoder:
        """Return the whole multi-view encoder, also where the name chooses views; λ is the name's."""
        model: MultiViewEncoder = self.load(device)
        model.reader.specs |= parsers or {}
        if self.name.expand is not None:
            model.expand_vocabulary(self.name.expand)
        if self.name.structure is not None:
            model.structure = self.name.structure
        if self.name.scale_trees is not None and self.readout == "features":
            model.measure(TreeCache.open(self.name.scale_trees))
        return model


def _at_scale_of(trees: TreeCache, encode: Encode, takes_tokens: bool) -> Encode:
    """Return an encoder whose numbers are centred and have one deviation over a sample of a text."""
    sentences: list[Any] = [*trees.words(sample_spans([(0, len(trees))]))]
    if not takes_tokens:
        sentences = [" ".join(words) for words in sentences]

    def tensor(batch: Sequence[Any]) -> Tensor:
        return torch.as_tensor(encode(batch)).detach().cpu().float()

    starts = range(0, len(sentences), CHUNK)
    scale = Scale.measure(tensor(sentences[start : start + CHUNK]) for start in starts)
    return lambda batch: scale(tensor(batch)).numpy()


def find_source(spec: str, *, seed: int = 0) -> Source:
    """Find out what an encoder's name means, without loading it; ``seed`` is that of random encoders."""
    name = parse_name(spec)
    source = FINDERS[name.prefix](name, seed)
    if name.scale and name.readout == "meaning":
        raise UserError(f"model {spec!r}: a meaning has length 1 and no scale; leave out one of the two")
    return source


def _loaded(model: MultiViewEncoder, device: str | None) -> MultiViewEncoder:
    return model  # a function with a name, because a lambda cannot be pickled


def source_of(model: MultiViewEncoder) -> Source:
    """Return the source of a model that is loaded already."""
    has_meaning = bool(model.readout or model.structure)
    return replace(
        _source(EncoderName(base="encoder"), "multiview", functools.partial(_loaded, model)),
        has_features=has_meaning or model.has_scale,
        default_share=model.structure,
        has_meaning=has_meaning,
    )


def _source(name: EncoderName, kind: str, load: Load, *content: object) -> Source:
    """Return the source of a name, whose vectors ``content`` and the name's own options decide."""
    options: dict[str, object] = {"dim": name.dim, "scale": name.scale, "characters": VERSION}
    if name.option_file is not None:
        options["file"] = sha256_file(name.option_file)
    if name.scale_trees is not None:
        options["scale"] = [sha256_file(name.scale_trees / MANIFEST), SAMPLE_SENTENCES, BLOCK_SENTENCES]
    if name.structure is not None:
        options["structure"] = [check_share(name.structure), WIDTH]
    readout = "raw" if name.scale == RAW and name.readout == "features" else name.readout
    return Source(name=name, kind=kind, load=load, content=[name.prefix, *content, options], readout=readout)


def _inner_source(name: EncoderName, *kinds: str) -> Source:
    """Return the source of the name behind a prefix, which must be of one of these kinds."""
    source = find_source(name.base)
    if source.kind not in kinds:
        raise wrong_form(name.spec, name.prefix)
    return source


def _without_prefix(name: EncoderName, seed: int) -> Source:
    """Return a file, a folder, or a model by a name that sentence-transformers may know."""
    folder = model_folder(name.base)
    source = _on_disk(name, current_folder(folder)) if folder.exists() else _of_library(name)
    if (name.views or name.readout or name.expand) and source.kind != "multiview":
        raise wrong_form(name.spec, name.prefix)
    if name.expand and not source.has_trained_words:
        raise UserError(f"model {name.spec!r}: has fixed word vectors only, no vocabulary to expand")
    if name.views:
        positions = view_positions(model_record(folder).views, name.views)
        # A view has features where its model has them, but neither its share of structure nor its read-out.
        content = [*source.content, positions]
        source = replace(source, content=content, default_share=0.0, has_meaning=False)
    return source


def _on_disk(name: EncoderName, path: Path) -> Source:
    """Return the encoder of a file or folder: a format in config.json tells ours from a transformer."""
    if path.suffix == ".npz" and path.is_file():
        return _source(name, "vectors", lambda device: precomputed(path), sha256_file(path))
    if path.is_file():
        return _source(name, "words", lambda device: Bag(lookup_of(name.base)).encode, sha256_file(path))
    config = path / "config.json"
    values = read_json(config) if config.is_file() else None
    is_ours = isinstance(values, dict) and "format" in values and "views" in values
    if not is_ours:
        return _of_library(name, input_hash(path, list_files(path, MODEL_SUFFIXES)))
    record = model_record(path)
    load = functools.partial(MultiViewEncoder.load, name.base)
    return replace(
        _source(name, "multiview", load, model_sha256(path)),
        has_features=bool(record.readout or record.structure or record.scale),
        default_share=record.structure,
        has_meaning=bool(record.readout or record.structure),
    )


def _of_library(name: EncoderName, folder_hash: str | None = None) -> Source:
    """Return the sentence-transformers model of a folder, whose content has this hash, or of a name."""
    try:
        content = folder_hash or [name.base, version("sentence-transformers")]
    except ModuleNotFoundError:
        raise MissingExtraError("sentence-transformers", "burt") from None

    def load(device: str | None) -> Encode:
        model = load_pretrained(name.base, all_modules=True, device=str(pick_device(device)))
        return functools.partial(encode_texts, model, name.base, batch_size=BATCH)

    return _source(name, "sentence-transformers", load, content)


def _pooled(name: EncoderName, seed: int) -> Source:
    """Return a transformer whose last layer is pooled as the prefix says."""

    def load(device: str | None) -> Encode:
        model = assemble(load_pretrained(name.base), name.prefix).to(pick_device(device))
        return functools.partial(encode_texts, model, name.base, batch_size=BATCH)

    return _source(name, "pooled", load, _inner_source(name, "sentence-transformers").key)


def _random(name: EncoderName, seed: int) -> Source:
    """Return the untrained views, or ``lstm``, which is no view and stands alone."""
    views = name.base.split(",")
    for view in views if views != ["lstm"] else ():
        view_class(view)
    dim, remainder = divmod(name.dim or VIEW_DIM * len(views), len(views))
    has_two_directions = "lstm" in views or "seq" in views
    if remainder or (has_two_directions and dim % 2):
        raise UserError(
            f"model {name.spec!r}: {name.dim} dimensions cannot be divided by {len(views)} views, or not "
            "halved for the two directions of seq and lstm"
        )

    def load(device: str | None) -> Encode | MultiViewEncoder:
        table = None
        if name.vectors is not None:
            word_vectors = load_word_vectors(name.vectors)
            table = WordTable.with_fixed(Vocabulary(word_vectors.words), word_vectors.vectors)
        if views == ["lstm"]:
            return RandomLSTM(dim, table, seed, device).encode
        return MultiViewEncoder.untrained(views, dim=dim, words=table, seed=seed, device=device)

    return _source(name, "random", load, name.base, seed)


def _bag(name: EncoderName, seed: int) -> Source:
    """Return the mean of the vectors of a sentence's words, of SIF with a corpus."""

    def load(device: str | None) -> Encode:
        return Bag(lookup_of(name.base, name.dim, seed=seed), name.corpus).encode

    if name.is_random:
        return _source(name, "bag", load, name.base, seed)
    return _source(name, "bag", load, _inner_source(name, "multiview", "words").key)


def _start(name: EncoderName, seed: int) -> Source:
    """Return a model before its first step, which has features where the model has."""
    model = _inner_source(name, "multiview")
    assert name.corpus is not None
    load = functools.partial(load_start, name.base, name.corpus)
    return replace(_source(name, "start", load, model.key), has_features=model.has_features)


FINDERS: dict[str, Callable[[EncoderName, int], Source]] = {
    "": _without_prefix,
    **dict.fromkeys(("cls", "mean", "max"), _pooled),
    "random": _random,
    **dict.fromkeys(("bag", "sif"), _bag),
    "start": _start,
}
"""Functions that find the source of a name by its prefix; their second argument is the seed."""


def precomputed(path: Path) -> Encode:
    """Return the vectors computed elsewhere, by sentence; one without a vector is a UserError."""
    try:
        # Opened here because numpy does not close a damaged archive.
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            sentences, vectors = arrays["sentences"], arrays["vectors"]
        if vectors.ndim != 2 or len(sentences) != len(vectors):
            raise ValueError(f"{len(sentences)} sentences, vectors {list(vectors.shape)}")
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path}: expected arrays 'sentences' (strings) and 'vectors' [n, d] ({error})"
        ) from None
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
