"""Which model a name on the command line means; nothing is loaded.

| name | encoder |
|---|---|
| a folder written by ``multiview.train``, or ``builtin`` | :class:`multiview.model.MultiViewEncoder` |
| ``MODEL?views=dep`` | one or more of that model's views: ``encode(views=...)`` |
| a sentence-transformers folder, or any other name | ``SentenceTransformer`` |
| ``FILE.npz`` | precomputed: arrays ``sentences`` (tokens joined by one space) and ``vectors`` [n, d] |
| any other file | word vectors (GloVe or word2vec): the mean over a sentence's known words |
| ``cls:NAME``, ``mean:NAME``, ``max:NAME`` | a transformer's last layer, pooled so |
| ``random:dep,const@4800`` | untrained encoders of these views, 128 dimensions each by default |
| ``random:lstm@4096?vectors=FILE`` | an untrained LSTM, over word vectors instead of random ones |
| ``bag:WORDS``, ``sif:WORDS?corpus=CACHE`` | :mod:`senteval_runner.vectors.bags` |
| ``start:MODEL?corpus=CACHE`` | that model before its first step, which the cache of its training decides |
| ``A+B`` | the vectors of A and B side by side |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import json_digest, read_json, sha256_file
from multiview.encoders.registry import view_class
from multiview.folder.files import TIME, chosen_views, model_folder, model_records, training_hours

Kind = Literal[
    "multiview", "views", "start", "random", "lstm",
    "bag", "words", "vectors", "sentence-transformers", "pooled",
]  # fmt: skip
CORPUS = "?corpus=runs/trees/NAME, a tree cache of training text"
FORMS = {
    "": "MODEL or MODEL?views=VIEWS",
    **dict.fromkeys(("cls", "mean", "max"), "cls:MODEL, mean:MODEL or max:MODEL"),
    "random": "random:VIEWS, random:VIEWS@DIM or random:VIEWS@DIM?vectors=FILE",
    "bag": "bag:WORDS: random@DIM, ngrams@DIM, a file of word vectors or a model",
    "sif": f"sif:WORDS{CORPUS}",
    "start": f"start:MODEL{CORPUS}: the one that the model was trained on",
}
OPTIONS = {"": (None, "views"), "random": (None, "vectors"), "sif": ("corpus",), "start": ("corpus",)}
PATTERN = re.compile(
    rf"(?:(?P<prefix>{'|'.join(filter(None, FORMS))}):)?(?P<base>[^?]+?)"
    r"(?:@(?P<dim>[1-9]\d{0,5}))?(?:\?(?P<option>views|vectors|corpus)=(?P<value>.+))?"
)
MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.npy", "*.bin", "*.model")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A model by name, not yet loaded."""

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

    @property
    def name(self) -> str:
        """Short name for tables: of a path its last part."""
        name = Path(self.base).absolute().name if Path(self.base).exists() else self.base
        size = f"@{self.dim}" if self.dim else ""
        chosen = f"?views={self.option}" if self.kind == "views" else ""
        over = f" over {Path(self.option).stem}" if self.kind in ("random", "lstm") and self.option else ""
        return f"{self.prefix}{':' if self.prefix else ''}{name}{size}{chosen}{over}"

    @property
    def hours(self) -> float | None:
        """Hours of training, where they are recorded; of a view, those of its model."""
        return training_hours(model_folder(self.base)) if self.kind in ("multiview", "views") else None


def split_parts(spec: str) -> list[str]:
    """Split ``A+B`` into its parts; an existing path is one part whatever its name."""
    parts = [spec] if Path(spec).exists() else spec.split("+")
    if not all(parts):
        raise UserError(f"model {spec!r}: an empty part; write A+B")
    return parts


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
    found = PATTERN.fullmatch(spec)
    head = spec.partition(":")[0]
    prefix = head if ":" in spec and head in FORMS else ""
    fits = found is not None and (found["prefix"] or "") == prefix
    if found is None or not fits or found["option"] not in OPTIONS.get(prefix, (None,)):
        raise UserError(f"model {spec!r}: expected {FORMS[prefix]}")
    base, dim, option = found["base"], int(found["dim"]) if found["dim"] else None, found["value"] or ""
    if not prefix and not option:
        return _by_name(spec)
    decided: list[object] = [prefix, dim]
    if found["option"] in ("vectors", "corpus"):
        file = Path(option) / "manifest.json" if found["option"] == "corpus" else Path(option)
        if not file.is_file():
            what = "no tree cache" if found["option"] == "corpus" else "no such file"
            raise UserError(f"model {spec!r}: {option}: {what}")
        decided.append(sha256_file(file))
    if prefix == "random":
        kind = _untrained(spec, base, dim)
        decided += [base, seed]
    elif prefix in ("bag", "sif") and base in ("random", "ngrams"):
        kind = "bag"
        decided += [base, seed]
    else:
        inner, kind = _inside(spec, prefix, base)
        decided.append(inner.key)
        if kind == "views":
            decided.append(_chosen(spec, inner, option.split(",")))
    return Source(
        spec=spec, kind=kind, key=json_digest(decided, 16), base=base, prefix=prefix, dim=dim, option=option,
        seed=seed,
    )  # fmt: skip


def _inside(spec: str, prefix: str, base: str) -> tuple[Source, Kind]:
    """The model that a name is made of, and the kind of both together."""
    inner = find_source(base)
    kinds: dict[str, tuple[Kind, tuple[Kind, ...], str]] = {
        "": ("views", ("multiview",), "only models of multiview.train have views to choose"),
        "start": ("start", ("multiview",), "no model of multiview.train"),
        "bag": ("bag", ("multiview", "words"), "no file of word vectors, model, random@DIM or ngrams@DIM"),
    }
    other: tuple[Kind, tuple[Kind, ...], str] = ("pooled", ("sentence-transformers",), "no transformer")
    kind, wanted, why = kinds.get("bag" if prefix == "sif" else prefix, other)
    if inner.kind not in wanted:
        raise UserError(f"model {spec!r}: {base}: {why}")
    return inner, kind


def _chosen(spec: str, model: Source, wanted: Sequence[str]) -> list[list[int]]:
    """Positions of a model's views."""
    folder = model_folder(model.spec)
    try:
        return chosen_views([record.views for record in model_records(folder).values()], wanted)
    except UserError as error:
        raise UserError(f"model {spec!r}: {error}") from None


def _untrained(spec: str, base: str, dim: int | None) -> Kind:
    """Check the views and the size of untrained encoders."""
    views = base.split(",")
    if "lstm" in views and len(views) > 1:
        raise UserError(f"model {spec!r}: lstm is no view and stands alone")
    for view in views:
        if view != "lstm":
            view_class(view)
    each, left = divmod(dim or 128, len(views)) if dim else (128, 0)
    if left or ({"lstm", "seq"} & set(views) and each % 2):
        raise UserError(
            f"model {spec!r}: {dim} dimensions cannot be divided by {len(views)} views, or not halved for "
            "the two directions of seq and lstm"
        )
    return "lstm" if views == ["lstm"] else "random"


def _on_disk(spec: str) -> Source:
    path = model_folder(spec)
    if path.is_file():
        kind: Kind = "vectors" if path.suffix == ".npz" else "words"
        return Source(spec=spec, kind=kind, key=sha256_file(path)[:16], base=spec)
    if not (path / "config.json").exists() and not (path / "modules.json").exists():
        raise UserError(f"{path}: no model here (neither config.json nor modules.json)")
    kind = "multiview" if is_multiview(path) else "sentence-transformers"
    return Source(spec=spec, kind=kind, key=_folder_digest(path), base=spec)


def _by_name(spec: str) -> Source:
    """A name that sentence-transformers may know; none that was meant as a path."""
    path = Path(spec)
    if path.suffix in (".npz", ".txt", ".vec", ".gz", ".bin") or spec.startswith((".", "/", "runs/")):
        raise UserError(f"model {spec!r}: no such file or folder")
    try:
        key = json_digest([spec, version("sentence-transformers")], 16)
    except ModuleNotFoundError:
        raise MissingExtraError("sentence-transformers", "burt") from None
    return Source(spec=spec, kind="sentence-transformers", key=key, base=spec)


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


def _folder_digest(folder: Path) -> str:
    """Digest of the names and contents of a model folder's files, without its log and checkpoints."""
    files = sorted({path for pattern in MODEL_FILES for path in folder.rglob(pattern) if path.is_file()})
    kept = [f for f in files if not {"checkpoints", "log.txt", TIME} & set(f.relative_to(folder).parts)]
    return json_digest([[str(f.relative_to(folder)), sha256_file(f)] for f in kept], 16)
