"""What the name of an encoder means; every command that opens one takes these names (docs/senteval.md).

A model with a fitted read-out, a share of structure or a scale of its own gives classifiers its features and
all else its meaning with that share, or its views; a name with ``?readout=`` gives one of them to all.
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
from multiview.encoders.binding import WIDTH
from multiview.encoders.meaning import (
    BLOCK_SENTENCES,
    FEATURE_LENGTH,
    SAMPLE_SENTENCES,
    Scale,
    check_share,
    sample_spans,
)
from multiview.encoders.registry import view_class
from multiview.folder.files import chosen_views, model_folder, model_records, model_sha256, training_hours
from multiview.model import MultiViewEncoder
from multiview.names.baselines import Bag, RandomLSTM, load_start, lookup_of
from multiview.names.grammar import MANIFEST, RAW, EncoderName, parse_name
from multiview.pretrained import Encode, Float, assemble, encode_texts, load_pretrained
from multiview.structure import WithStructure
from multiview.words.table import Vocabulary, WordTable
from multiview.words.vectors import load_word_vectors
from parsing.trees.cache import TreeCache
from runtime.device import pick_device
from runtime.errors import MissingExtraError, UserError
from runtime.files import json_digest, read_json, sha256_file
from runtime.folders import current_folder

STRINGS = ("vectors", "sentence-transformers", "pooled")
"""Kinds of encoders that take strings, not token lists."""
TreesOf = Callable[[MultiViewEncoder], TreeCache | None]
"""Gives the stored trees of a model's sentences, when the model is loaded."""
BATCH, CHUNK = 128, 1024
"""Sentences encoded at a time, and those asked for at a time where a text is measured."""
VIEW_DIM = 128
"""Dimensions of one untrained view."""
MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.npy", "*.bin", "*.model")


@dataclass(frozen=True)
class Reading:
    """A multi-view encoder as one name reads it: a function from sentences to vectors."""

    model: MultiViewEncoder
    options: Mapping[str, Any]
    """Arguments of ``encode``: which views, which of its vectors, how much structure."""
    trees: TreeCache | None = None
    """Sentences found here are not parsed again."""

    def __call__(self, sentences: Sequence[Any]) -> Float:
        """Give vectors [n, D]."""
        return self.model.encode(
            sentences, batch_size=BATCH, trees=self.trees, show_progress_bar=False, **self.options
        )


@dataclass(frozen=True, kw_only=True)
class Source(EncoderName):
    """An encoder by name, not yet loaded."""

    kind: str
    """``multiview``, ``start``, ``random``, ``bag``, ``words``, ``vectors``, ``sentence-transformers`` or
    ``pooled``."""
    key: str
    """Hex digest of everything that decides the vectors: files, or name with seed or library version."""
    open: Callable[[str | None], Any] = field(repr=False)
    """Loads it on a device: a :class:`MultiViewEncoder`, or a function from sentences to vectors."""
    has_features: bool = False
    """Whether the model gives classifiers other vectors than cosines."""
    default_share: float = 0.0
    """λ, how much structure the vectors for cosines have where the name asks for none."""
    fitted: bool = False
    """Whether cosines are of a meaning, not of raw numbers."""

    @property
    def record(self) -> dict[str, Any]:
        """Gives what results.json says about it."""
        values = {name: value for name, value in vars(self).items() if name != "open"}
        return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}

    @property
    def reading(self) -> str:
        """Says which of a model's vectors these are, where it has several."""
        if not (self.has_features or self.readout or self.text):
            return ""
        default = 0.0 if self.readout in ("features", "raw") else self.default_share
        share = default if self.structure is None else self.structure
        output = self.readout or ("meaning" if self.fitted else "raw")
        return f"{output}{f', structure {share:g}' if share else ''}"

    @property
    def is_multiview(self) -> bool:
        """Tells whether :meth:`model` opens it; random views with structure have that of ``builtin``."""
        views = self.kind == "random" and self.base != "lstm" and not self.structure
        return self.kind in ("multiview", "start") or views

    @property
    def has_trained_words(self) -> bool:
        """Tells whether it is a model, or joins several, of which one has word vectors of its own."""
        records = model_records(model_folder(self.base)) if self.kind == "multiview" else {}
        return any(record.words.mode == "trained" for record in records.values())

    @property
    def hours(self) -> float | None:
        """Gives the hours of training, where they are recorded; of a view, those of its model."""
        return training_hours(model_folder(self.base)) if self.kind == "multiview" else None

    def for_classifiers(self) -> Source:
        """Return the model's features, where it has other vectors for cosines; what a name asks for stays."""
        if self.readout or not (self.has_features or self.text):
            return self
        return self.read_as("raw" if self.scale == RAW else "features")

    def read_as(self, readout: str) -> Source:
        """Return the same model, of which one kind of vectors is asked for."""
        return self.changed(readout, FEATURE_LENGTH, readout=readout)

    def changed(self, *decided: object, **changes: Any) -> Source:
        """Return the source with other fields; ``decided`` decide its vectors besides what does already."""
        return replace(self, key=json_digest([self.key, *decided], 16), **changes)

    def load(
        self,
        *,
        device: str | None = None,
        trees: TreesOf | None = None,
        parsers: Mapping[str, str] | None = None,
    ) -> Encode:
        """Load the model: a function from sentences (strings for :data:`STRINGS`) to vectors [n, d].

        A multi-view encoder parses the sentences that ``trees`` does not find, with the ``parsers`` that are
        named by annotation. A damaged model, or none under that name, is a UserError.
        """
        if self.is_multiview:
            model = self.model(device, parsers)
            options = {"views": self.views, "readout": self.readout, "structure": self.structure}
            return Reading(model, options, None if trees is None else trees(model))
        if self.structure:
            plain = replace(self, structure=None).load(device=device, trees=trees, parsers=parsers)
            return WithStructure(SimpleNamespace(encode=plain), self.structure).encode
        encode: Encode = self.open(device)
        if self.text is None or self.readout != "features":
            return encode
        trees_of_text = TreeCache.open(self.text)
        text = trees_of_text.words(sample_spans([(0, len(trees_of_text))]))
        sentences = [*map(" ".join, text)] if self.kind in STRINGS else [*text]

        def tensor(batch: Sequence[Any]) -> Tensor:
            return torch.as_tensor(encode(batch)).detach().cpu().float()

        starts = range(0, len(sentences), CHUNK)
        scale = Scale.measure(tensor(sentences[start : start + CHUNK]) for start in starts)
        return lambda batch: scale(tensor(batch)).numpy()

    def model(self, device: str | None, parsers: Mapping[str, str] | None = None) -> MultiViewEncoder:
        """Return the whole multi-view encoder, also where the name chooses views; λ is the name's."""
        model: MultiViewEncoder = self.open(device)
        model.reader.specs |= parsers or {}
        if self.expand is not None:
            model.expand_vocabulary(self.expand)
        if self.structure is not None:
            model.members[0].structure = self.structure
        if self.text is not None and self.readout == "features":
            model.measure(TreeCache.open(self.text))
        return model


def find_source(spec: str, *, seed: int = 0) -> Source:
    """Find out what the name of one encoder means without loading it; folders and files are hashed.

    ``seed`` is that of random encoders. A name that cannot mean any model is a UserError.
    """
    name = parse_name(spec)
    source = CONSTRUCTORS[name.prefix](name, seed)
    if name.scale:
        if name.readout == "meaning":
            reason = "a meaning has length 1 and no scale; leave out one of the two"
            raise UserError(f"model {spec!r}: {reason}")
        text = (
            None
            if name.text is None
            else [sha256_file(name.text / MANIFEST), SAMPLE_SENTENCES, BLOCK_SENTENCES]
        )
        readout = "raw" if name.readout == "features" and text is None else name.readout
        source = source.changed("scale", text, readout=readout)
    return source if name.structure is None else source.changed(WIDTH, check_share(name.structure))


def _without_prefix(name: EncoderName, seed: int) -> Source:
    """Give a file, a folder, or a name that sentence-transformers may know; with options, a model of ours."""
    folder = model_folder(name.base)
    source = _on_disk(name, current_folder(folder)) if folder.exists() else _of_library(name)
    if (name.views or name.readout or name.expand) and source.kind != "multiview":
        raise name.wrong_form()
    if name.expand:
        if not source.has_trained_words:
            raise UserError(f"model {name.spec!r}: has fixed word vectors only, no vocabulary to expand")
        source = source.changed(sha256_file(name.expand))
    if name.views:
        views = [record.views for record in model_records(folder).values()]
        # A view has features where its model has them, but neither its share of structure nor its read-out.
        source = source.changed(chosen_views(views, name.views), default_share=0.0, fitted=False)
    return source.read_as(name.readout) if name.readout else source


def _pooled(name: EncoderName, seed: int) -> Source:
    def load(device: str | None) -> Encode:
        model = assemble(load_pretrained(name.base), name.prefix).to(pick_device(device))
        return functools.partial(encode_texts, model, name.base, batch_size=BATCH)

    return _prefixed(name, "pooled", load, _inner(name, "sentence-transformers").key)


def _random(name: EncoderName, seed: int) -> Source:
    """Return the untrained views, or ``lstm``, which is no view and stands alone."""
    views = name.base.split(",")
    for view in views if views != ["lstm"] else ():
        view_class(view)
    dim, left = divmod(name.dim or VIEW_DIM * len(views), len(views))
    if left or ({"lstm", "seq"} & set(views) and dim % 2):
        raise UserError(
            f"model {name.spec!r}: {name.dim} dimensions cannot be divided by {len(views)} views, or not "
            "halved for the two directions of seq and lstm"
        )

    def load(device: str | None) -> Encode | MultiViewEncoder:
        words = None
        if name.vectors is not None:
            loaded = load_word_vectors(name.vectors)
            words = WordTable.with_fixed(Vocabulary(loaded.words), loaded.vectors)
        if views == ["lstm"]:
            return RandomLSTM(dim, words, seed, device).encode
        return MultiViewEncoder.untrained(views, dim=dim, words=words, seed=seed, device=device)

    return _prefixed(name, "random", load, name.base, seed)


def _bag(name: EncoderName, seed: int) -> Source:
    decided = (name.base, seed) if name.is_drawn else (_inner(name, "multiview", "words").key,)

    def load(device: str | None) -> Encode:
        return Bag(lookup_of(name.base, name.dim, seed=seed), name.corpus).encode

    return _prefixed(name, "bag", load, *decided)


def _start(name: EncoderName, seed: int) -> Source:
    """Return a model before its first step, which has features where the model has."""
    model = _inner(name, "multiview")
    assert name.corpus is not None
    load = functools.partial(load_start, name.base, name.corpus)
    return replace(_prefixed(name, "start", load, model.key), has_features=model.has_features)


CONSTRUCTORS: dict[str, Callable[[EncoderName, int], Source]] = {
    "": _without_prefix,
    "cls": _pooled,
    "mean": _pooled,
    "max": _pooled,
    "random": _random,
    "bag": _bag,
    "sif": _bag,
    "start": _start,
}
"""By prefix, what makes an encoder of a name and a seed."""


def _prefixed(name: EncoderName, kind: str, load: Callable[[str | None], Any], *decided: object) -> Source:
    """Return an encoder with a prefix; ``decided`` and the file that the name names decide its vectors."""
    file = [] if name.file is None else [sha256_file(name.file)]
    return _source(name, kind, load, VERSION, name.prefix, name.dim, *file, *decided)


def _source(name: EncoderName, kind: str, load: Callable[[str | None], Any], *decided: object) -> Source:
    return Source(**vars(name), kind=kind, key=json_digest(decided, 16), open=load)


def _inner(name: EncoderName, *kinds: str) -> Source:
    """Return the encoder that one with a prefix is made of, which must be of one of these kinds."""
    source = find_source(name.base)
    if source.kind not in kinds:
        raise name.wrong_form()
    return source


def _on_disk(name: EncoderName, path: Path) -> Source:
    """Return the encoder of a file or folder: a format in config.json tells ours from a transformer."""
    if path.is_file():
        if path.suffix == ".npz":
            return _source(name, "vectors", lambda device: precomputed(path), VERSION, sha256_file(path))
        return _source(
            name, "words", lambda device: Bag(lookup_of(name.base)).encode, VERSION, sha256_file(path)
        )
    config = path / "config.json"
    values = read_json(config) if config.is_file() else None
    if not (isinstance(values, dict) and "format" in values and values.keys() & {"views", "members"}):
        return _of_library(name, path)
    records, load = model_records(path), functools.partial(MultiViewEncoder.load, name.base)
    return replace(
        _source(name, "multiview", load, VERSION, model_sha256(path)),
        has_features=any(one.readout or one.structure or one.scale for one in records.values()),
        default_share=max(record.structure for record in records.values()),
        fitted="" in records and bool(records[""].readout or records[""].structure),
    )


def _of_library(name: EncoderName, folder: Path | None = None) -> Source:
    """Return the sentence-transformers model of a folder, or of a name that the library may know."""
    if folder is None:
        try:
            decided: list[Any] = [name.base, version("sentence-transformers")]
        except ModuleNotFoundError:
            raise MissingExtraError("sentence-transformers", "burt") from None
    else:
        files = {path for pattern in MODEL_FILES for path in folder.rglob(pattern) if not path.is_dir()}
        decided = [VERSION, [[str(path.relative_to(folder)), sha256_file(path)] for path in sorted(files)]]

    def load(device: str | None) -> Encode:
        model = load_pretrained(name.base, all_modules=True, device=str(pick_device(device)))
        return functools.partial(encode_texts, model, name.base, batch_size=BATCH)

    return _source(name, "sentence-transformers", load, *decided)


def precomputed(path: Path) -> Encode:
    """Return the vectors computed elsewhere, by sentence; one without a vector is a UserError."""
    try:
        # Opened here because numpy does not close a damaged archive.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            sentences, vectors = arrays["sentences"], arrays["vectors"]
        if vectors.ndim != 2 or len(sentences) != len(vectors):
            raise ValueError(f"{len(sentences)} sentences, vectors {list(vectors.shape)}")
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path}: expected arrays 'sentences' (strings) and 'vectors' [n, d] ({error})"
        ) from None
    rows = {str(sentence): row for row, sentence in enumerate(sentences)}

    def encode(batch: Sequence[str]) -> Any:
        missing = [sentence for sentence in batch if sentence not in rows]
        if missing:
            raise UserError(
                f"{path}: no vector for {len(missing)} of {len(batch)} sentences, first {missing[0]!r}; "
                "python -m studies.sentences FILE --tasks NAMES lists all that an evaluation asks for"
            )
        return vectors[[rows[sentence] for sentence in batch]]

    return encode
