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
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from corpora.characters import VERSION
from multiview.encoders.binding import WIDTH
from multiview.encoders.readout import share_of
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
from multiview.names.grammar import RAW, SCALE, STRUCTURE, form_of, scale_file, wrong_form
from multiview.names.networks import RandomLSTM, assemble, fixed_words, load_pretrained, load_start
from multiview.pretrained import Encode, Float, encoded, whole_model
from multiview.structure import WithStructure
from parsing.trees.cache import TreeCache
from runtime.device import pick_device
from runtime.errors import MissingExtraError, UserError
from runtime.files import json_digest, read_json, sha256_file
from runtime.folders import current

Kind = Literal[
    "multiview", "start", "random", "bag", "words", "vectors", "sentence-transformers", "pooled"
]  # fmt: skip
STRINGS = ("vectors", "sentence-transformers", "pooled")
"""Kinds of encoders that take strings, not token lists."""
Readout = Literal["meaning", "features", "raw"] | None
FindTrees = Callable[[MultiViewEncoder], TreeCache | None]
"""The stored trees of a model's sentences, asked for when the model is loaded."""
BATCH, CHUNK = 128, 1024
"""Sentences encoded at a time, and those asked for at a time where a text is measured."""
VIEW_DIM = 128
"""Dimensions of one untrained view."""
INSIDE = {"": ("multiview",), "start": ("multiview",), "bag": ("multiview", "words")}
"""Kinds of encoders that a name may be made of, by prefix."""
MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.npy", "*.bin", "*.model")


@dataclass(frozen=True, kw_only=True)
class Source:
    """An encoder by name, not yet loaded."""

    spec: str
    """Name as given by the user."""
    kind: Kind
    key: str
    """Hex digest of everything that decides the vectors: files, or name with seed or library version."""
    base: str
    """The name between prefix and ``@`` or ``?``: a model, views, or words."""
    prefix: str = ""
    dim: int | None = None
    """The number after ``@``."""
    option: str = ""
    """What stands after ``?views=``, ``?vectors=`` or ``?corpus=``."""
    seed: int = 0
    """Of random encoders."""
    structure: float | None = None
    """What stands after ``?structure=``, λ."""
    readout: Readout = None
    """What stands after ``?readout=``, or ``features`` (``raw`` without a scale) for classifiers."""
    scale: str = ""
    """What stands after ``?scale=``: a tree cache, or ``none``."""
    own: float | None = None
    """λ of a model that gives classifiers and cosines other vectors; None: of one that does not."""
    fitted: bool = False
    """Whether cosines are of a meaning, not of raw numbers."""

    @property
    def name(self) -> str:
        """Short name for tables: of a path its last part."""
        name = Path(self.base).absolute().name if Path(self.base).exists() else self.base
        size = f"@{self.dim}" if self.dim else ""
        said = {"multiview": f"?views={self.option}", "random": f" over {Path(self.option).stem}"}
        share = f"?structure={self.structure:g}" if self.structure is not None else ""
        option = said.get(self.kind, "") if self.option else ""
        readout = f"?readout={self.readout}" if self.readout else ""
        scale = f"?scale={Path(self.scale).name}" if self.scale else ""
        return f"{self.prefix}{':' * bool(self.prefix)}{name}{size}{option}{readout}{scale}{share}"

    @property
    def reading(self) -> str:
        """Which of a model's vectors these are, where it has several."""
        if self.own is None and not self.readout and not self.text:
            return ""
        default = 0.0 if self.readout in ("features", "raw") else self.own or 0.0
        share = default if self.structure is None else self.structure
        read = self.readout or ("meaning" if self.fitted else "raw")
        return f"{read}{f', structure {share:g}' if share else ''}"

    @property
    def text(self) -> Path | None:
        """The tree cache over which features have one scale, where a name gives it."""
        return Path(self.scale) if self.scale not in ("", RAW) else None

    def for_classifiers(self) -> Source:
        """The model's features, where it has other vectors for cosines; what a name asks for stays."""
        if self.readout or (self.own is None and self.text is None):
            return self
        return self.read_as("raw" if self.scale == RAW else "features")

    def read_as(self, readout: Readout) -> Source:
        """The same model, of which one kind of vectors is asked for."""
        return replace(self, readout=readout, key=json_digest([self.key, readout, LENGTH], 16))

    @property
    def is_multiview(self) -> bool:
        """Whether :func:`load_multiview` opens it; random views with structure have that of ``builtin``."""
        views = self.kind == "random" and self.base != "lstm" and not self.structure
        return self.kind in ("multiview", "start") or views

    @property
    def options(self) -> dict[str, Any]:
        """What the name asks of a multi-view encoder's ``encode``."""
        views = self.option.split(",") if self.kind == "multiview" and self.option else None
        return {"views": views, "readout": self.readout, "structure": self.structure}

    @property
    def hours(self) -> float | None:
        """Hours of training, where they are recorded; of a view, those of its model."""
        return training_hours(model_folder(self.base)) if self.kind == "multiview" else None

    def load(self, *, device: str | None = None, trees: FindTrees | None = None) -> Encode:
        """Load the model: a function from sentences (strings for :data:`STRINGS`) to vectors [n, d].

        Raises:
            UserError: a damaged model, or none under that name.
        """
        if self.is_multiview:
            ours = load_multiview(self, device)
            return tree_reading(ours, None if trees is None else trees(ours), **self.options)
        if self.structure:
            other = replace(self, structure=None).load(device=device, trees=trees)
            return WithStructure(SimpleNamespace(encode=other), self.structure).encode
        if self.text is not None and self.readout == "features":
            sentences = sample(TreeCache.open(self.text), SAMPLE, BLOCK)
            plain = replace(self, scale="").load(device=device, trees=trees)
            return at_one_scale(plain, [*map(" ".join, sentences)] if self.kind in STRINGS else sentences)
        if self.kind == "vectors":
            return precomputed(Path(self.base))
        if self.kind in ("words", "bag"):
            lookup = lookup_of(self.base, self.dim, seed=self.seed)
            return Bag(lookup, Path(self.option) if self.option else None).encode
        if self.kind in ("sentence-transformers", "pooled"):
            if self.kind == "pooled":
                model = assemble(load_pretrained(self.base), self.prefix).to(pick_device(device))
            else:
                model = whole_model(self.base, str(pick_device(device)))
            return functools.partial(encoded, model, self.base, batch_size=BATCH)
        return RandomLSTM(self.dim or VIEW_DIM, fixed_words(self.option), self.seed, device).encode


def load_multiview(
    source: Source, device: str | None, parsers: Mapping[str, str] | None = None
) -> MultiViewEncoder:
    """A model folder of ``multiview.train``, the same before its first step, or untrained encoders.

    The whole model, also where the source chooses views.

    Args:
        source: one that :attr:`Source.is_multiview`.
        device: of the model; None is a GPU if there is one.
        parsers: by annotation (``dep``, ``const``), where the model's are not the builtin ones.
    """
    if source.kind == "start":
        model = load_start(source.base, Path(source.option), device)
    elif source.kind == "random":
        dim = source.dim // len(source.base.split(",")) if source.dim else VIEW_DIM
        words = fixed_words(source.option)
        model = MultiViewEncoder.untrained(source.base, dim=dim, words=words, seed=source.seed, device=device)
    else:
        model = MultiViewEncoder.load(source.base, device)
    model.reader.specs |= parsers or {}
    if source.text is not None and source.readout == "features":
        model.measure(TreeCache.open(source.text))
    return model


def tree_reading(
    model: MultiViewEncoder,
    trees: TreeCache | None = None,
    *,
    views: Sequence[str] | None = None,
    readout: Readout = None,
    structure: float | None = None,
) -> Encode:
    """A multi-view encoder with stored trees; sentences without one are parsed on the fly.

    Args:
        model: the encoder.
        trees: of its parsers; None parses every sentence.
        views: only these; None is all.
        readout: ``meaning`` or ``features``; None is the model's default.
        structure: λ; None is the model's.
    """
    return functools.partial(
        model.encode,
        batch_size=BATCH,
        trees=trees,
        show_progress_bar=False,
        views=views,
        readout=readout,
        structure=structure,
    )


def at_one_scale(encode: Encode, sentences: Sequence[Any]) -> Encode:
    """An encoder with each of its numbers at one scale over the sentences of a text."""

    def tensor(wanted: Sequence[Any]) -> Tensor:
        return torch.as_tensor(encode(wanted)).detach().cpu().float()

    starts = range(0, len(sentences), CHUNK)
    scale = Scale.measured(tensor(sentences[start : start + CHUNK]) for start in starts)
    return lambda wanted: scale(tensor(wanted)).numpy()


def precomputed(path: Path) -> Encode:
    """Vectors computed elsewhere, by sentence.

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

    def encode(wanted: Sequence[str]) -> Float:
        missing = [sentence for sentence in wanted if sentence not in rows]
        if missing:
            raise UserError(
                f"{path}: no vector for {len(missing)} of {len(wanted)} sentences, first {missing[0]!r}"
            )
        found: Float = vectors[[rows[sentence] for sentence in wanted]]
        return found

    return encode


def distinct_names(names: Sequence[str], specs: Sequence[str]) -> list[str]:
    """Names of models; models of the same name are called by their specs instead."""
    return [spec if names.count(name) > 1 else name for name, spec in zip(names, specs, strict=True)]


def find_source(spec: str, *, seed: int = 0) -> Source:
    """Find out what a name means without loading it; folders and files are hashed.

    Args:
        spec: one model (:func:`split_parts` divides ``A+B``).
        seed: of random encoders.

    Raises:
        UserError: the name cannot mean any model.
    """
    if model_folder(spec).exists():
        return _on_disk(spec)
    if structured := STRUCTURE.fullmatch(spec):
        source, share = find_source(structured["base"], seed=seed), share_of(float(structured["share"]))
        return replace(source, spec=spec, key=json_digest([source.key, WIDTH, share], 16), structure=share)
    if scaled := SCALE.fullmatch(spec):
        return _scaled(find_source(scaled["base"], seed=seed), spec, scaled["scale"])
    form = form_of(spec)
    prefix, base, dim, option = form.prefix, form.base, form.dim, form.value
    if not prefix and not option:
        return _by_name(spec)
    decided: list[object] = [VERSION, prefix, dim]
    own: float | None = None
    if form.file is not None:
        decided.append(sha256_file(form.file))
    kind: Kind = "random" if prefix == "random" else "bag"
    if prefix == "random":
        _check_untrained(spec, base.split(","), dim)
    if form.drawn:
        decided += [base, seed]
    else:
        inner = find_source(base)
        group = "bag" if prefix == "sif" else prefix
        if inner.kind not in INSIDE.get(group, ("sentence-transformers",)):
            raise wrong_form(spec, prefix)
        kind = {"": "multiview", "start": "start", "bag": "bag"}.get(group, "pooled")  # type: ignore[assignment]
        decided.append(inner.key)
        if kind in ("multiview", "start") and inner.own is not None:
            own = 0.0  # a view has features, and a start is measured as its model was
        if form.option == "readout":
            if option not in ("meaning", "features", "raw"):
                raise wrong_form(spec, prefix)
            return replace(inner.read_as(option), spec=spec)  # type: ignore[arg-type]
        if not prefix:
            views = [record.views for record in model_records(model_folder(base)).values()]
            decided.append(chosen_views(views, option.split(",")))
    return Source(
        spec=spec, kind=kind, key=json_digest(decided, 16), base=base, prefix=prefix, dim=dim, option=option,
        seed=seed, own=own,
    )  # fmt: skip


def _scaled(source: Source, spec: str, scale: str) -> Source:
    """An encoder with numbers at the scale of a text, or raw.

    Raises:
        UserError: no tree cache is there, or the name asks for a meaning, which has length 1.
    """
    file = scale_file(spec, scale)
    if source.readout == "meaning":
        raise UserError(f"model {spec!r}: a meaning has length 1 and no scale; leave out one of the two")
    text = None if file is None else [sha256_file(file), SAMPLE, BLOCK]
    readout: Readout = "raw" if source.readout == "features" and file is None else source.readout
    key = json_digest([source.key, "scale", text], 16)
    return replace(source, spec=spec, scale=scale, key=key, readout=readout)


def _check_untrained(spec: str, views: Sequence[str], dim: int | None) -> None:
    """Check the views and the size of untrained encoders; ``lstm`` is no view and stands alone."""
    for view in views if views != ["lstm"] else ():
        view_class(view)
    each, left = divmod(dim or VIEW_DIM * len(views), len(views))
    if left or ({"lstm", "seq"} & set(views) and each % 2):
        raise UserError(
            f"model {spec!r}: {dim} dimensions cannot be divided by {len(views)} views, or not halved for "
            "the two directions of seq and lstm"
        )


def _on_disk(spec: str) -> Source:
    """A file, or a model folder: a format number in config.json tells ours from a transformer."""
    path = current(model_folder(spec))
    if path.is_file():
        kind: Kind = "vectors" if path.suffix == ".npz" else "words"
        return Source(spec=spec, kind=kind, key=json_digest([VERSION, sha256_file(path)], 16), base=spec)
    config = path / "config.json"
    if not config.exists() and not (path / "modules.json").exists():
        raise UserError(f"{path}: no model here (neither config.json nor modules.json)")
    found = read_json(config) if config.is_file() else None
    values = found if isinstance(found, dict) else {}
    if "format" in values and ("views" in values or "members" in values):
        by_part = model_records(path)
        records, alone = by_part.values(), by_part.get("")
        several = any(record.readout or record.structure or record.scale for record in records)
        return Source(
            spec=spec,
            kind="multiview",
            key=json_digest([VERSION, model_sha256(path)], 16),
            base=spec,
            own=max(record.structure for record in records) if several else None,
            fitted=alone is not None and bool(alone.readout or alone.structure),
        )
    files = sorted({file for pattern in MODEL_FILES for file in path.rglob(pattern) if not file.is_dir()})
    hashes = [[str(file.relative_to(path)), sha256_file(file)] for file in files]
    return Source(spec=spec, kind="sentence-transformers", key=json_digest([VERSION, hashes], 16), base=spec)


def _by_name(spec: str) -> Source:
    """A name that sentence-transformers may know."""
    try:
        key = json_digest([spec, version("sentence-transformers")], 16)
    except ModuleNotFoundError:
        raise MissingExtraError("sentence-transformers", "burt") from None
    return Source(spec=spec, kind="sentence-transformers", key=key, base=spec)
