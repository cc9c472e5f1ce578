"""Makes the encoder that a name means; every command that opens one takes these names (docs/senteval.md).

:data:`CONSTRUCTORS` has a function for each prefix. What it returns is not yet loaded: the content of files
and the options decide the key of its vectors, the first sentence loads it.

An encoder gives two kinds of vectors: ``encode`` what one compares with, ``features`` what classifiers get.
Of most encoders they are the same. Models with a read-out, a share of structure or a scale of their own have
*features*, their numbers at one scale, and compare by their meaning, or by their views if no read-out was
fitted. A name with ``?readout=`` gives one of them to all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from corpora.characters import VERSION
from corpora.inputs import input_hash, list_files
from corpora.sentences import read_sentences
from multiview.encoders.batch_encoder import view_positions
from multiview.encoders.meaning import (
    BLOCK_SENTENCES,
    FEATURE_LENGTH,
    SAMPLE_SENTENCES,
    Scale,
    sample_ranges,
)
from multiview.encoders.registry import view_class
from multiview.folder.files import model_folder, model_record, model_sha256, training_seconds
from multiview.folder.reading import SentenceReader, TextSource
from multiview.model import MultiViewEncoder
from multiview.names.baselines import Bag, RandomLSTM, load_start, lookup_of
from multiview.names.functions import Function, precomputed
from multiview.names.grammar import MANIFEST, RAW, Name, parse_name, wrong_form
from multiview.names.store import CHUNK, chunks, text_of
from multiview.pretrained import Float, assemble, check_vectors, encode_texts, load_pretrained
from multiview.structure.binding import WIDTH
from multiview.structure.joining import check_share, put_beside
from multiview.words.sources import MODEL_SUFFIXES
from multiview.words.table import Vocabulary, WordTable
from multiview.words.vectors import load_word_vectors
from parsing.names import absolute_name
from parsing.trees.cache import TreeCache
from runtime.device import ProductKind, pick_device, products_in
from runtime.errors import UserError, extra
from runtime.files import json_digest, read_json, sha256_file
from runtime.folders import current_folder
from runtime.process import cached_property

TreesOf = Callable[[MultiViewEncoder], TreeCache | None]
"""Returns the stored trees of a loaded model's sentences."""
Output = Literal["encode", "features"]
"""The kind of vectors: what one compares with, or what classifiers get."""
BATCH = 128
"""Sentences encoded at a time."""
VIEW_DIM = 128
"""Dimensions of one untrained view."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where an encoder is loaded, and where the trees of its sentences are from."""

    device: str | None = None
    """The device; None takes a GPU if there is one."""
    trees: TreesOf | None = None
    """Finds the stored trees of a multi-view encoder's sentences."""
    parsers: Mapping[str, str] = field(default_factory=dict)
    """Parsers of the other sentences, by annotation, where they are not the builtin ones."""
    products: ProductKind | None = None
    """How a CPU multiplies by the weights; None is as :meth:`MultiViewEncoder.load` does."""

    def __post_init__(self) -> None:
        """Keep the parsers' names for any working folder."""
        parsers = {kind: absolute_name(parser) for kind, parser in self.parsers.items()}
        object.__setattr__(self, "parsers", parsers)


@dataclass(frozen=True, eq=False, kw_only=True)
class NamedEncoder:
    """The encoder that a name means, loaded when it is first needed."""

    name: Name
    kind: str
    """The prefix of its constructor, ``multiview`` for a model, or ``object``, which has no name."""
    content: Sequence[object]
    """JSON values that decide the vectors."""
    load: Callable[[str | None], Any] = field(repr=False)
    """Loads on a device: a :class:`MultiViewEncoder`, or another object with ``encode(sentences)``."""
    takes_tokens: bool = True
    """Whether the loaded encoder takes token lists; else it takes strings."""
    has_own_features: bool = False
    """Whether the model gives classifiers other vectors than cosines."""
    default_share: float = 0.0
    """λ, how much structure the vectors for cosines have where the name does not say."""
    has_meaning: bool = False
    """Whether cosines are of a meaning, not of raw numbers."""
    places: Places = Places()

    @property
    def label(self) -> str:
        """Its name in tables."""
        return self.name.label

    @property
    def has_features(self) -> bool:
        """Whether classifiers get other vectors than cosines."""
        return not self.name.readout and bool(self.has_own_features or self.name.scale_trees)

    def readout_of(self, output: Output) -> str | None:
        """Return which of a model's vectors an output has; None is the model's default."""
        readout = "features" if output == "features" and self.has_features else self.name.readout
        return "raw" if readout == "features" and self.name.scale == RAW else readout

    def key(self, output: Output = "encode") -> str:
        """Return a hex digest of everything that decides the vectors."""
        parts: list[object] = [self.content, self.readout_of(output), FEATURE_LENGTH]
        if self.places.products == "int8":
            parts.append("int8")
        if self.places.parsers:
            parts.append(dict(self.places.parsers))
        return json_digest(parts, 16)

    def label_of(self, output: Output) -> str:
        """Return which of a model's vectors these are (``meaning, structure 0.15``), where it has several."""
        if not (self.has_own_features or self.name.readout or self.name.scale_trees):
            return ""
        readout, share = self.readout_of(output), self.name.structure
        if share is None:
            share = 0.0 if readout in ("features", "raw") else self.default_share
        label = readout or ("meaning" if self.has_meaning else "raw")
        return f"{label}, structure {share:g}" if share else label

    @property
    def is_multiview(self) -> bool:
        """Whether it is a :class:`MultiViewEncoder`."""
        return self.kind in ("multiview", "start") or (self.kind == "random" and self.name.base != "lstm")

    @property
    def has_own_structure(self) -> bool:
        """Whether it knows who did what to whom; all others get that of ``builtin``, random views too."""
        return self.kind in ("multiview", "start")

    @property
    def has_trained_words(self) -> bool:
        """Whether it is a model that has word vectors of its own."""
        return self.kind == "multiview" and model_record(model_folder(self.name.base)).words.mode == "trained"

    @property
    def hours(self) -> float | None:
        """Hours of training, where they are recorded; of a view, those of its model."""
        is_on_disk = self.kind == "multiview" and self.name.spec
        seconds = training_seconds(model_folder(self.name.base)) if is_on_disk else None
        return None if seconds is None else seconds / 3600

    @cached_property
    def _loaded_or_error(self) -> Any:
        try:
            return self._load()
        except UserError as error:
            return error  # which took over a minute if a name was looked up without a network

    @property
    def loaded(self) -> Any:
        """The loaded encoder; reading it raises the UserError of loading, which is tried once."""
        if isinstance(self._loaded_or_error, UserError):
            raise self._loaded_or_error
        return self._loaded_or_error

    def _load(self) -> Any:
        name = self.name
        with products_in(self.places.products):
            encoder = self.load(self.places.device)
        if isinstance(encoder, MultiViewEncoder):
            encoder.reader.specs |= self.places.parsers
            if name.expand is not None:
                encoder.expand_vocabulary(name.expand)
            if self.has_own_structure:
                encoder = encoder.with_options(structure=name.structure)
        return encoder

    @cached_property
    def trees(self) -> TreeCache | None:
        """The stored trees of a multi-view encoder's sentences, where the places have them."""
        if self.places.trees is None or not self.is_multiview:
            return None
        return self.places.trees(self.loaded)

    @cached_property
    def scale(self) -> Scale | None:
        """The scale of a name's text, where it has one; a multi-view encoder takes it itself."""
        if self.name.scale_trees is None:
            return None
        trees = TreeCache.open(self.name.scale_trees)
        if self.is_multiview:
            self.loaded.measure(trees)
            return None
        sentences = [*trees.words(sample_ranges([(0, len(trees))]))]
        starts = range(0, len(sentences), CHUNK)
        return Scale.measure(
            torch.from_numpy(self._plain("encode", sentences[start : start + CHUNK], False))
            for start in starts
        )

    @cached_property
    def reader(self) -> SentenceReader:
        """Tokenises text for encoders that take tokens."""
        return SentenceReader({})

    @cached_property
    def source(self) -> TextSource:
        """Gives the structure of vectors that have none of their own."""
        return TextSource.of(self.loaded if self.has_own_structure else None)

    def encode(self, sentences: Sequence[str | Sequence[str]] | None, **options: Any) -> Float:
        """Return the vectors [n, D] of raw text or of tokens, to compare with.

        ``sentences`` None are all those of ``trees``. Options are ``trees``, whose sentences are not parsed
        again, ``batch_size`` and ``show_progress_bar``. Another shape than [n, D], or values that are not
        finite, are a UserError.
        """
        return self._vectors("encode", sentences, **options)

    def features(self, sentences: Sequence[str | Sequence[str]] | None, **options: Any) -> Float:
        """Return the vectors [n, F] that classifiers get; see :meth:`encode`."""
        return self._vectors("features", sentences, **options)

    def _vectors(
        self,
        output: Output,
        sentences: Sequence[str | Sequence[str]] | None,
        *,
        trees: TreeCache | None = None,
        batch_size: int = BATCH,
        show_progress_bar: bool | None = False,
    ) -> Float:
        name, readout = self.name, self.readout_of(output)
        scale = self.scale if readout == "features" else None
        if sentences is None and not self.is_multiview:
            sentences = [] if trees is None else list(trees.words())
        if sentences is not None:
            texts = read_sentences(sentences, "encode", spaces=True)
            if not texts:
                return self._vectors(output, ["."])[:0]
            sentences = [text if "".join(text).strip() else "." for text in texts]
        if self.is_multiview:
            options = {"batch_size": batch_size, "show_progress_bar": show_progress_bar}
            vectors = self._of_model(sentences, readout, trees=trees or self.trees, **options)
        else:
            vectors = self._plain(output, sentences or (), show_progress_bar)
        if scale is not None:
            vectors = scale(torch.from_numpy(vectors)).numpy()
        has_structure = self.has_own_structure and readout in (None, "meaning") and not name.views
        if name.structure and not has_structure:
            if sentences is None:
                sentences = [] if trees is None else list(trees.words())
            vectors = put_beside(torch.from_numpy(vectors), self.source, sentences, name.structure).numpy()
        return vectors

    def _of_model(self, sentences: Any, readout: str | None, **options: Any) -> Float:
        """Return a multi-view encoder's vectors of the kind that a name says."""
        model: MultiViewEncoder = self.loaded
        if readout == "features":
            return model.features(sentences, views=self.name.views, **options)
        if readout == "raw" or (self.name.views and not readout):
            return model.view_vectors(sentences, self.name.views, **options)
        if readout == "meaning" and (model.readout is None or self.name.views):
            reason = "reads all views, not some" if model.readout else "was never fitted (multiview.readout)"
            raise UserError(f"model {self.name.spec!r}: readout=meaning: that of {model.name} {reason}")
        return model.encode(sentences, **options)

    def _plain(self, output: Output, sentences: Sequence[str | Sequence[str]], show: bool | None) -> Float:
        """Return the vectors of an encoder that is not multi-view, as they are."""
        encode, name = getattr(self.loaded, output if self.has_own_features else "encode"), self.name.label
        inputs = [self._input(sentence) for sentence in sentences]
        parts = chunks(inputs, f"encode {name}", show)
        return np.concatenate([check_vectors(encode(part), part, name)[0] for part in parts])

    def _input(self, sentence: str | Sequence[str]) -> Any:
        """Return a sentence as the loaded encoder takes it."""
        if not self.takes_tokens:
            return text_of(sentence)
        return self.reader.tokens(sentence) if isinstance(sentence, str) else list(sentence)


def named(name: Name | str, seed: int = 0, places: Places = Places()) -> NamedEncoder:
    """Return the encoder that a name means, without loading it; ``seed`` is that of random encoders."""
    name = (parse_name(name) if isinstance(name, str) else name).staying()
    return replace(CONSTRUCTORS[name.prefix](name, seed), places=places)


def given(encoder: Any, device: str | None) -> Any:
    """Return an encoder that is loaded already; it has a name because a lambda cannot be pickled."""
    return encoder


def of_model(model: MultiViewEncoder, name: Name) -> NamedEncoder:
    """Return the encoder of a model that is loaded already."""
    has_meaning = bool(model.readout or model.structure)
    return replace(
        _named(name, "multiview", functools.partial(given, model)),
        has_own_features=has_meaning or model.has_scale,
        default_share=model.structure,
        has_meaning=has_meaning,
    )


def _named(
    name: Name, kind: str, load: Callable[[str | None], Any], *content: object, **facts: Any
) -> NamedEncoder:
    """Return the encoder of a name, whose vectors ``content`` and the name's own options decide."""
    options: dict[str, object] = {"dim": name.dim, "scale": name.scale, "characters": VERSION}
    if name.option_file is not None:
        options["file"] = sha256_file(name.option_file)
    if name.scale_trees is not None:
        options["scale"] = [sha256_file(name.scale_trees / MANIFEST), SAMPLE_SENTENCES, BLOCK_SENTENCES]
    if name.structure is not None:
        options["structure"] = [check_share(name.structure), WIDTH]
    return NamedEncoder(name=name, kind=kind, load=load, content=[name.prefix, *content, options], **facts)


def _inner(name: Name, *kinds: str) -> NamedEncoder:
    """Return the encoder behind a prefix, which must be of one of these kinds."""
    assert name.inner is not None
    encoder = named(name.inner)
    if encoder.kind not in kinds:
        raise wrong_form(name.spec, name.prefix)
    return encoder


def _without_prefix(name: Name, seed: int) -> NamedEncoder:
    """Return a file, a folder, or a model by a name that sentence-transformers may know."""
    folder = model_folder(name.base)
    encoder = _on_disk(name, current_folder(folder)) if folder.exists() else _of_library(name)
    if (name.views or name.readout or name.expand) and encoder.kind != "multiview":
        raise wrong_form(name.spec, name.prefix)
    if name.expand and not encoder.has_trained_words:
        raise UserError(f"model {name.spec!r}: has fixed word vectors only, no vocabulary to expand")
    if name.views:
        content = [*encoder.content, view_positions(model_record(folder).views, name.views)]
        # A view has features where its model has them, but neither its share of structure nor its read-out.
        encoder = replace(encoder, content=content, default_share=0.0, has_meaning=False)
    return encoder


def _on_disk(name: Name, path: Path) -> NamedEncoder:
    """Return the encoder of a file or folder: a format in config.json tells ours from a transformer."""
    if path.suffix == ".npz" and path.is_file():
        load = functools.partial(precomputed, path)
        return _named(name, "vectors", load, sha256_file(path), takes_tokens=False)
    if path.is_file():
        return _named(name, "words", lambda device: Bag(lookup_of(name.base)), sha256_file(path))
    config = path / "config.json"
    values = read_json(config) if config.is_file() else None
    is_ours = isinstance(values, dict) and "format" in values and "views" in values
    if not is_ours:
        return _of_library(name, input_hash(path, list_files(path, MODEL_SUFFIXES)))
    record = model_record(path)
    return _named(
        name,
        "multiview",
        functools.partial(MultiViewEncoder.load, name.base),
        model_sha256(path),
        has_own_features=bool(record.readout or record.structure or record.scale),
        default_share=record.structure,
        has_meaning=bool(record.readout or record.structure),
    )


def _of_library(name: Name, folder_hash: str | None = None) -> NamedEncoder:
    """Return the sentence-transformers model of a folder, whose content has this hash, or of a name."""
    with extra("burt", "sentence-transformers"):
        content = folder_hash or [name.base, version("sentence-transformers")]

    def load(device: str | None) -> Function:
        model = load_pretrained(name.base, all_modules=True, device=str(pick_device(device)))
        return Function(functools.partial(encode_texts, model, name.base, batch_size=BATCH))

    return _named(name, "sentence-transformers", load, content, takes_tokens=False)


def _pooled(name: Name, seed: int) -> NamedEncoder:
    """Return a transformer whose last layer is pooled as the prefix says."""

    def load(device: str | None) -> Function:
        model = assemble(load_pretrained(name.base), name.prefix).to(pick_device(device))
        return Function(functools.partial(encode_texts, model, name.base, batch_size=BATCH))

    return _named(name, "pooled", load, _inner(name, "sentence-transformers").key(), takes_tokens=False)


def _random(name: Name, seed: int) -> NamedEncoder:
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

    def load(device: str | None) -> RandomLSTM | MultiViewEncoder:
        table = None
        if name.vectors is not None:
            word_vectors = load_word_vectors(name.vectors)
            table = WordTable.with_fixed(Vocabulary(word_vectors.words), word_vectors.vectors)
        if views == ["lstm"]:
            return RandomLSTM(dim, table, seed, device)
        return MultiViewEncoder.untrained(views, dim=dim, words=table, seed=seed, device=device)

    return _named(name, "random", load, name.base, seed)


def _bag(name: Name, seed: int) -> NamedEncoder:
    """Return the mean of the vectors of a sentence's words, of SIF with a corpus."""

    def load(device: str | None) -> Bag:
        return Bag(lookup_of(name.base, name.dim, seed=seed), name.corpus)

    content = [name.base, seed] if name.is_random else [_inner(name, "multiview", "words").key()]
    return _named(name, "bag", load, *content)


def _start(name: Name, seed: int) -> NamedEncoder:
    """Return a model before its first step, which has features where the model has."""
    model = _inner(name, "multiview")
    assert name.corpus is not None
    load = functools.partial(load_start, name.base, name.corpus)
    return _named(name, "start", load, model.key(), has_own_features=model.has_own_features)


CONSTRUCTORS: dict[str, Callable[[Name, int], NamedEncoder]] = {
    "": _without_prefix,
    **dict.fromkeys(("cls", "mean", "max"), _pooled),
    "random": _random,
    **dict.fromkeys(("bag", "sif"), _bag),
    "start": _start,
}
"""Functions that make the encoder of a name by its prefix; their second argument is the seed."""
