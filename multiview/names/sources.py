"""What the name of an encoder means; every command that opens one takes these names.

| name | encoder |
|---|---|
| a folder written by ``multiview.train``, or ``builtin`` | :class:`multiview.model.MultiViewEncoder` |
| ``MODEL?views=dep`` | one or more of that model's views: ``encode(views=...)`` |
| ``MODEL?readout=features`` | its features in every task; or ``meaning``, its fitted read-out, or ``raw`` |
| a sentence-transformers folder, or any other name | ``SentenceTransformer`` |
| ``FILE.npz`` | precomputed: arrays ``sentences`` (tokens joined by one space) and ``vectors`` [n, d] |
| any other file | word vectors (GloVe or word2vec): the mean over a sentence's known words |
| ``cls:NAME``, ``mean:NAME``, ``max:NAME`` | a transformer's last layer, pooled so |
| ``random:dep,const@4800`` | untrained encoders of these views, 128 dimensions each by default |
| ``random:lstm@4096?vectors=FILE`` | an untrained LSTM, over word vectors instead of random ones |
| ``bag:WORDS``, ``sif:WORDS?corpus=CACHE`` | :mod:`multiview.names.bags` |
| ``start:MODEL?corpus=CACHE`` | that model before its first step, which the cache of its training decides |
| ``ANY?structure=0.15`` | any of these with that share of structure in the cosine (multiview.structure) |
| ``ANY?scale=CACHE`` | to classifiers each number at one scale over that text; ``none`` gives raw ones |
| ``A+B`` | the vectors of A and B side by side, of both their features |

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
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor

from corpora.characters import VERSION
from multiview.encoders.binding import WIDTH
from multiview.encoders.meaning import share_of
from multiview.encoders.registry import view_class
from multiview.encoders.scale import BLOCK, LENGTH, SAMPLE, Scale
from multiview.folder.files import (
    chosen_views,
    model_folder,
    model_records,
    model_sha256,
    training_hours,
)
from multiview.model import MultiViewEncoder
from multiview.names.bags import Bag, lookup_of, sample
from multiview.names.grammar import RAW, EncoderName, check_folder, parse_name
from multiview.names.networks import RandomLSTM, assemble, fixed_words, load_pretrained, load_start
from multiview.pretrained import Encode, Float, encoded, whole_model
from multiview.structure import WithStructure
from parsing.trees.cache import TreeCache
from runtime.device import pick_device
from runtime.errors import MissingExtraError, UserError
from runtime.files import json_digest, read_json, sha256_file
from runtime.folders import current

STRINGS = ("vectors", "sentence-transformers", "pooled")
"""Kinds of encoders that take strings, not token lists."""
OutputKind = Literal["meaning", "features", "raw"] | None
Parsers = Mapping[str, str]
"""Names of parsers by annotation, ``dep`` or ``const``."""
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
class Source:
    """An encoder by name, not yet loaded."""

    spec: str
    """Name as given by the user."""
    kind: str
    """``multiview``, ``start``, ``random``, ``bag``, ``words``, ``vectors``, ``sentence-transformers`` or
    ``pooled``."""
    key: str
    """Hex digest of everything that decides the vectors: files, or name with seed or library version."""
    base: str
    """The name between prefix and ``@`` or ``?``: a model, views, or words."""
    open: Callable[[str | None], Any] = field(repr=False)
    """Loads it on a device: a :class:`MultiViewEncoder`, or a function from sentences to vectors."""
    prefix: str = ""
    dim: int | None = None
    """The number after ``@``."""
    option: str = ""
    """How short names show ``?views=`` and ``?vectors=``."""
    views: tuple[str, ...] | None = None
    """What stands after ``?views=``; None is all."""
    structure: float | None = None
    """What stands after ``?structure=``, λ."""
    readout: OutputKind = None
    """What stands after ``?readout=``, or ``features`` (``raw`` without a scale) for classifiers."""
    scale: str = ""
    """What stands after ``?scale=``: a tree cache, or ``none``."""
    own_share: float | None = None
    """λ of a model that gives classifiers and cosines other vectors; None: of one that does not."""
    fitted: bool = False
    """Whether cosines are of a meaning, not of raw numbers."""

    @property
    def name(self) -> str:
        """Short name for tables: of a path its last part."""
        base = Path(self.base).absolute().name if Path(self.base).exists() else self.base
        prefix = f"{self.prefix}:" if self.prefix else ""
        size = f"@{self.dim}" if self.dim else ""
        readout = f"?readout={self.readout}" if self.readout else ""
        scale = f"?scale={Path(self.scale).name}" if self.scale else ""
        share = f"?structure={self.structure:g}" if self.structure is not None else ""
        return f"{prefix}{base}{size}{self.option}{readout}{scale}{share}"

    @property
    def record(self) -> dict[str, Any]:
        """Gives what results.json says about it."""
        return {name: value for name, value in vars(self).items() if name != "open"}

    @property
    def reading(self) -> str:
        """Which of a model's vectors these are, where it has several."""
        if self.own_share is None and not self.readout and not self.text:
            return ""
        default = 0.0 if self.readout in ("features", "raw") else self.own_share or 0.0
        share = default if self.structure is None else self.structure
        output = self.readout or ("meaning" if self.fitted else "raw")
        return f"{output}{f', structure {share:g}' if share else ''}"

    @property
    def text(self) -> Path | None:
        """The tree cache over which features have one scale, where a name gives it."""
        return Path(self.scale) if self.scale not in ("", RAW) else None

    @property
    def is_multiview(self) -> bool:
        """Tells whether :meth:`model` opens it; random views with structure have that of ``builtin``."""
        views = self.kind == "random" and self.base != "lstm" and not self.structure
        return self.kind in ("multiview", "start") or views

    @property
    def hours(self) -> float | None:
        """Hours of training, where they are recorded; of a view, those of its model."""
        return training_hours(model_folder(self.base)) if self.kind == "multiview" else None

    def for_classifiers(self) -> Source:
        """Return the model's features, where it has other vectors for cosines; what a name asks for stays."""
        if self.readout or (self.own_share is None and self.text is None):
            return self
        return self.read_as("raw" if self.scale == RAW else "features")

    def read_as(self, readout: OutputKind) -> Source:
        """Return the same model, of which one kind of vectors is asked for."""
        return replace(self, readout=readout, key=json_digest([self.key, readout, LENGTH], 16))

    def load(
        self, *, device: str | None = None, trees: TreesOf | None = None, parsers: Parsers | None = None
    ) -> Encode:
        """Load the model: a function from sentences (strings for :data:`STRINGS`) to vectors [n, d].

        Args:
            device: of the model; None is a GPU if there is one.
            trees: finds the trees of a multi-view encoder's sentences; the others are parsed.
            parsers: of a multi-view encoder, where they are not the builtin ones.

        Raises:
            UserError: a damaged model, or none under that name.
        """
        if self.is_multiview:
            model = self.model(device, parsers)
            views = None if self.views is None else list(self.views)
            options = {"views": views, "readout": self.readout, "structure": self.structure}
            return Reading(model, options, None if trees is None else trees(model))
        if self.structure:
            plain = replace(self, structure=None).load(device=device, trees=trees, parsers=parsers)
            return WithStructure(SimpleNamespace(encode=plain), self.structure).encode
        encode: Encode = self.open(device)
        if self.text is not None and self.readout == "features":
            sentences = sample(TreeCache.open(self.text), SAMPLE, BLOCK)
            return at_one_scale(encode, [*map(" ".join, sentences)] if self.kind in STRINGS else sentences)
        return encode

    def model(self, device: str | None, parsers: Parsers | None = None) -> MultiViewEncoder:
        """Return the whole multi-view encoder, also where the name chooses views; λ is the name's."""
        model: MultiViewEncoder = self.open(device)
        model.reader.specs |= parsers or {}
        if self.structure is not None:
            model.members[0].structure = self.structure
        if self.text is not None and self.readout == "features":
            model.measure(TreeCache.open(self.text))
        return model


def find_source(spec: str, *, seed: int = 0) -> Source:
    """Find out what a name means without loading it; folders and files are hashed.

    Args:
        spec: one model (:func:`multiview.names.grammar.split_parts` divides ``A+B``).
        seed: of random encoders.

    Raises:
        UserError: the name cannot mean any model.
    """
    if model_folder(spec).exists():
        return _on_disk(spec)
    name = parse_name(spec)
    source = CONSTRUCTORS[name.prefix](name, seed)
    if "scale" in name.options:
        source = _scaled(source, name)
    if "structure" in name.options:
        share = share_of(float(name.options["structure"]))
        source = replace(source, structure=share, key=json_digest([source.key, WIDTH, share], 16))
    return source


def _scaled(source: Source, name: EncoderName) -> Source:
    """Return an encoder with numbers at the scale of a text, or raw.

    Raises:
        UserError: the name asks for a meaning as well, which has length 1.
    """
    if source.readout == "meaning":
        reason = "a meaning has length 1 and no scale; leave out one of the two"
        raise UserError(f"model {name.spec!r}: {reason}")
    text = None if name.scale_file is None else [sha256_file(name.scale_file), SAMPLE, BLOCK]
    readout: OutputKind = "raw" if source.readout == "features" and text is None else source.readout
    key = json_digest([source.key, "scale", text], 16)
    return replace(source, scale=name.options["scale"], key=key, readout=readout)


def _without_prefix(name: EncoderName, seed: int) -> Source:
    """Give a file, a folder, or a name that sentence-transformers may know; with options, a model of ours."""
    source = _on_disk(name.base) if model_folder(name.base).exists() else _of_other_library(name.base)
    if name.options.keys() & {"views", "readout"} and source.kind != "multiview":
        raise name.wrong_form()
    if "views" in name.options:
        views = name.options["views"].split(",")
        records = model_records(model_folder(name.base)).values()
        key = json_digest([source.key, chosen_views([record.views for record in records], views)], 16)
        own_share = None if source.own_share is None else 0.0  # a view has features where its model has
        option = f"?views={name.options['views']}"
        source = replace(
            source, key=key, option=option, views=tuple(views), own_share=own_share, fitted=False
        )
    if "readout" in name.options:
        source = source.read_as(cast(OutputKind, name.options["readout"]))
    return replace(source, spec=name.spec)


def _pooled(name: EncoderName, seed: int) -> Source:
    def load(device: str | None) -> Encode:
        model = assemble(load_pretrained(name.base), name.prefix).to(pick_device(device))
        return functools.partial(encoded, model, name.base, batch_size=BATCH)

    return _source(name, "pooled", _inner(name, "sentence-transformers").key, open=load)


def _random(name: EncoderName, seed: int) -> Source:
    """Return the untrained views, or ``lstm``, which is no view and stands alone.

    Raises:
        UserError: an unknown view, or a size that cannot be divided among the views.
    """
    views, vectors = name.base.split(","), name.options.get("vectors", "")
    for view in views if views != ["lstm"] else ():
        view_class(view)
    dim, left = divmod(name.dim or VIEW_DIM * len(views), len(views))
    if left or ({"lstm", "seq"} & set(views) and dim % 2):
        raise UserError(
            f"model {name.spec!r}: {name.dim} dimensions cannot be divided by {len(views)} views, or not "
            "halved for the two directions of seq and lstm"
        )

    def load(device: str | None) -> Encode | MultiViewEncoder:
        words = fixed_words(vectors)
        if views == ["lstm"]:
            return RandomLSTM(dim, words, seed, device).encode
        return MultiViewEncoder.untrained(views, dim=dim, words=words, seed=seed, device=device)

    option = f" over {Path(vectors).stem}" if vectors else ""
    return _source(name, "random", name.base, seed, open=load, option=option)


def _bag(name: EncoderName, seed: int) -> Source:
    decided = (name.base, seed) if name.is_drawn else (_inner(name, "multiview", "words").key,)
    corpus = Path(name.options["corpus"]) if "corpus" in name.options else None

    def load(device: str | None) -> Encode:
        return Bag(lookup_of(name.base, name.dim, seed=seed), corpus).encode

    return _source(name, "bag", *decided, open=load)


def _start(name: EncoderName, seed: int) -> Source:
    """Return a model before its first step, which has features where the model has."""
    model = _inner(name, "multiview")
    load = functools.partial(load_start, name.base, Path(name.options["corpus"]))
    own_share = None if model.own_share is None else 0.0
    return _source(name, "start", model.key, open=load, own_share=own_share)


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


def _source(name: EncoderName, kind: str, *decided: object, **fields: Any) -> Source:
    """Return an encoder with a prefix; ``decided`` and the file that the name names decide its vectors."""
    file = [] if name.file is None else [sha256_file(name.file)]
    key = json_digest([VERSION, name.prefix, name.dim, *file, *decided], 16)
    return Source(
        spec=name.spec, kind=kind, key=key, base=name.base, prefix=name.prefix, dim=name.dim, **fields
    )


def _inner(name: EncoderName, *kinds: str) -> Source:
    """Return the encoder that one with a prefix is made of, which must be of one of these kinds."""
    source = find_source(name.base)
    if source.kind not in kinds:
        raise name.wrong_form()
    return source


def _on_disk(spec: str) -> Source:
    """Return the encoder of a file or folder: a format in config.json tells ours from a transformer."""
    path = current(model_folder(spec))
    if path.is_file():
        key = json_digest([VERSION, sha256_file(path)], 16)
        if path.suffix == ".npz":
            return Source(
                spec=spec, kind="vectors", key=key, base=spec, open=lambda device: precomputed(path)
            )
        return Source(
            spec=spec, kind="words", key=key, base=spec, open=lambda device: Bag(lookup_of(spec)).encode
        )
    check_folder(path)
    config = path / "config.json"
    values = read_json(config) if config.is_file() else None
    if isinstance(values, dict) and "format" in values and ("views" in values or "members" in values):
        return _trained(spec, path)
    files = sorted({file for pattern in MODEL_FILES for file in path.rglob(pattern) if not file.is_dir()})
    hashes = [[str(file.relative_to(path)), sha256_file(file)] for file in files]
    return _whole(spec, json_digest([VERSION, hashes], 16))


def _trained(spec: str, folder: Path) -> Source:
    records = model_records(folder)
    single = records.get("")
    has_features = any(record.readout or record.structure or record.scale for record in records.values())
    return Source(
        spec=spec,
        kind="multiview",
        key=json_digest([VERSION, model_sha256(folder)], 16),
        base=spec,
        open=functools.partial(MultiViewEncoder.load, spec),
        own_share=max(record.structure for record in records.values()) if has_features else None,
        fitted=single is not None and bool(single.readout or single.structure),
    )


def _of_other_library(spec: str) -> Source:
    """Return the model of a name that sentence-transformers may know."""
    try:
        return _whole(spec, json_digest([spec, version("sentence-transformers")], 16))
    except ModuleNotFoundError:
        raise MissingExtraError("sentence-transformers", "burt") from None


def _whole(spec: str, key: str) -> Source:
    def load(device: str | None) -> Encode:
        model = whole_model(spec, str(pick_device(device)))
        return functools.partial(encoded, model, spec, batch_size=BATCH)

    return Source(spec=spec, kind="sentence-transformers", key=key, base=spec, open=load)


def at_one_scale(encode: Encode, sentences: Sequence[Any]) -> Encode:
    """Return an encoder with each of its numbers at one scale over the sentences of a text."""

    def tensor(batch: Sequence[Any]) -> Tensor:
        return torch.as_tensor(encode(batch)).detach().cpu().float()

    starts = range(0, len(sentences), CHUNK)
    scale = Scale.measured(tensor(sentences[start : start + CHUNK]) for start in starts)
    return lambda batch: scale(tensor(batch)).numpy()


def precomputed(path: Path) -> Encode:
    """Return the vectors computed elsewhere, by sentence.

    Raises:
        UserError: not a file of them; when called, a sentence without a vector.
    """
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
