"""Which model a name on the command line means; nothing is loaded.

| name | encoder |
|---|---|
| a folder written by ``multiview.train``, or ``builtin`` | :class:`multiview.model.MultiViewEncoder` |
| ``MODEL?views=dep`` | one or more of that model's views: ``encode(views=...)`` |
| a sentence-transformers folder, or any other name | ``SentenceTransformer`` |
| ``FILE.npz`` | precomputed: arrays ``sentences`` (tokens joined by one space) and ``vectors`` [n, d] |
| any other file | word vectors (GloVe or word2vec): the mean over a sentence's known words |
| ``cls:NAME``, ``mean:NAME``, ``max:NAME`` | a transformer's last layer, pooled so |
| ``random:dep,const``, ``random:lstm@4096?vectors=FILE`` | :mod:`senteval_runner.vectors.random_encoders` |
| ``bag:random``, ``sif:FILE?corpus=CACHE``, … | :mod:`senteval_runner.vectors.bags` |
| ``start:MODEL?corpus=CACHE`` | that model before its first step: :mod:`senteval_runner.vectors.starts` |
| ``A+B`` | the vectors of A and B side by side |
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import read_json, sha256_file
from multiview.folder.files import TIME, member_names, member_record, training_hours
from multiview.folder.names import chosen_views, model_folder, near_model, refuse_misspelt
from senteval_runner.vectors.bags import RANDOM, BagSpec
from senteval_runner.vectors.random_encoders import LSTM, PREFIX, RandomSpec
from senteval_runner.vectors.starts import START, StartSpec

Kind = Literal[
    "multiview", "views", "start", "random", "lstm",
    "bag", "words", "vectors", "sentence-transformers", "pooled",
]  # fmt: skip
POOLINGS = ("cls", "mean", "max")
BAGS = ("bag:", "sif:")
VIEWS = "?views="
MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.npy", "*.bin", "*.model")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A model by name, not yet loaded."""

    spec: str
    """Name as given by the user."""
    kind: Kind
    key: str
    """Hex digest of the model's files; without files, of its name and the seed or library version."""
    seed: int
    """Seed of random encoders."""

    @property
    def name(self) -> str:
        """Short name for tables: a path's last part."""
        if self.kind in ("random", "lstm"):
            return RandomSpec.parse(self.spec).name
        if self.kind == "bag":
            return BagSpec.parse(self.spec).name
        if self.kind == "start":
            return StartSpec.parse(self.spec).name
        if self.kind == "views":
            model, views = split_views(self.spec)
            return f"{Path(model).absolute().name}{VIEWS}{','.join(views)}"
        prefix, _, rest = self.spec.rpartition(":") if self.kind == "pooled" else ("", "", self.spec)
        name = Path(rest).absolute().name if Path(rest).exists() else rest
        return f"{prefix}:{name}" if prefix else name

    @property
    def hours(self) -> float | None:
        """Hours of training, where they are recorded; of a view, those of its model."""
        trained = self.kind in ("multiview", "views")
        return training_hours(model_folder(split_views(self.spec)[0])) if trained else None


def split_parts(spec: str) -> list[str]:
    """Split ``A+B`` into its parts; an existing path is one part whatever its name."""
    parts = [spec] if Path(spec).exists() else spec.split("+")
    if not all(parts):
        raise UserError(f"model {spec!r}: an empty part; write A+B")
    return parts


def split_views(spec: str) -> tuple[str, list[str]]:
    """A model's name and the views that ``MODEL?views=dep,const`` chooses, none for another spec."""
    model, chooses, views = spec.partition(VIEWS)
    return (model, views.split(",")) if chooses and not Path(spec).exists() else (spec, [])


def distinct_names(names: Sequence[str], specs: Sequence[str]) -> list[str]:
    """Names of models; models of the same name are called by their specs instead."""
    return [spec if names.count(name) > 1 else name for name, spec in zip(names, specs, strict=True)]


def find_source(spec: str, *, seed: int = 0) -> Source:
    """Find out what a name means without loading it; folders and files are hashed.

    Raises:
        UserError: the name cannot mean any model.
    """
    path = model_folder(spec)
    model_spec, views = split_views(spec)
    if views:
        return _views(spec, find_source(model_spec), views)
    if spec.startswith(PREFIX):
        random = RandomSpec.parse(spec)
        over = sha256_file(random.vectors) if random.vectors else ""
        key = _digest(f"{PREFIX}{random.views}@{random.dim} {over} {seed}")
        return Source(spec=spec, kind="lstm" if random.views == LSTM else "random", key=key, seed=seed)
    if not path.exists() and spec.startswith(BAGS):
        bag = BagSpec.parse(spec)
        over = f"{bag.words} {seed}" if RANDOM.fullmatch(bag.words) else find_source(bag.words).key
        return Source(spec=spec, kind="bag", key=bag.key(over), seed=seed)
    if not path.exists() and spec.startswith(START):
        start = StartSpec.parse(spec)
        model = find_source(start.model)
        if model.kind != "multiview":
            raise UserError(f"model {spec!r}: {start.model}: no model of multiview.train")
        key = _digest(f"{START} {model.key} {start.identity}")
        return Source(spec=spec, kind="start", key=key, seed=seed)
    pooling, colon, rest = spec.partition(":")
    if colon and pooling in POOLINGS:
        model = find_source(rest, seed=seed)
        if model.kind != "sentence-transformers":
            raise UserError(f"model {spec!r}: {pooling}: wants a transformer, {rest} is none")
        return Source(spec=spec, kind="pooled", key=_digest(f"{pooling} {model.key}"), seed=seed)
    if path.is_file():
        kind: Kind = "vectors" if path.suffix == ".npz" else "words"
        return Source(spec=spec, kind=kind, key=sha256_file(path)[:16], seed=seed)
    if path.is_dir():
        if not (path / "config.json").exists() and not (path / "modules.json").exists():
            raise UserError(f"{path}: no model here (neither config.json nor modules.json)")
        kind = "multiview" if is_multiview(path) else "sentence-transformers"
        return Source(spec=spec, kind=kind, key=_folder_digest(path), seed=seed)
    if path.suffix in (".npz", ".txt", ".vec", ".gz", ".bin") or spec.startswith((".", "/", "runs/")):
        near = near_model(path).rstrip()
        raise UserError(f"model {spec!r}: no such file or folder{near and f'; {near}'}")
    refuse_misspelt(spec)
    try:
        key = _digest(f"{spec} {version('sentence-transformers')}")
    except ModuleNotFoundError:
        raise MissingExtraError("sentence-transformers", "burt") from None
    return Source(spec=spec, kind="sentence-transformers", key=key, seed=seed)


def _views(spec: str, model: Source, wanted: Sequence[str]) -> Source:
    """Some views of a model.

    Raises:
        UserError: the model is none of ``multiview.train``, or has no such view.
    """
    if model.kind != "multiview":
        raise UserError(f"model {spec!r}: {model.spec}: only models of multiview.train have views to choose")
    folder = model_folder(model.spec)
    try:
        chosen = chosen_views([member_record(folder / name).views for name in member_names(folder)], wanted)
    except UserError as error:
        raise UserError(f"model {spec!r}: {error}") from None
    return Source(spec=spec, kind="views", key=_digest(f"{VIEWS} {model.key} {chosen}"), seed=model.seed)


def is_multiview(folder: Path) -> bool:
    """Whether ``multiview.train`` wrote it: its config.json has a format number, unlike a transformer's.

    Args:
        folder: of a model, or ``builtin``.

    Raises:
        UserError: config.json is no JSON, or there is no builtin encoder.
    """
    config = model_folder(folder) / "config.json"
    values = read_json(config) if config.is_file() else None
    return isinstance(values, dict) and "format" in values and ("views" in values or "members" in values)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _folder_digest(folder: Path) -> str:
    """Digest of the names and contents of a model folder's files, without its log and checkpoints."""
    files = sorted({path for pattern in MODEL_FILES for path in folder.rglob(pattern) if path.is_file()})
    kept = [f for f in files if not {"checkpoints", "log.txt", TIME} & set(f.relative_to(folder).parts)]
    return _digest("\n".join(f"{f.relative_to(folder)} {sha256_file(f)}" for f in kept))
