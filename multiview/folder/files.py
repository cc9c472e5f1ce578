"""A model on disk: config.json, model.safetensors, vocab.txt, README.md; vectors.npy with fixed words.

config.json records sizes and SHA-256 of the other files and has a seal of its own; all are checked when a
model is loaded. A folder may instead hold several models (``{"members": ["trained", "fixed"]}``) whose
vectors are concatenated, such as the paper's two configurations. modules.json tells sentence-transformers how
to load it. Nothing in a folder is executable or pickled, and no name in it leads out of it (SECURITY.md). A
model is replaced in one step (:mod:`runtime.folders`).
"""

import contextlib
import functools
import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Len
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from multiview.config import BUILTIN_FOLDER, MOST_VIEWS, EncoderConfig
from multiview.encoders.meaning import Readout, Scale
from multiview.encoders.registry import ViewStack, table_indices
from multiview.words.compact import FIXED, unpack
from multiview.words.table import FILES, Fixed, PackedVectors, WordsRecord, WordTable
from multiview.words.vectors import VECTORS, WordVectors
from runtime.cli import Count, Share, config_from_json, config_to_json, configuration
from runtime.device import build_in_float32, build_without_weights
from runtime.errors import UserError
from runtime.files import (
    atomic_path,
    check_file,
    file_record,
    path_of,
    read_json,
    read_record,
    sha256_file,
    write_json,
    write_record,
    write_text,
)
from runtime.folders import OWN_NAMES, current_folder, replace_folder

BUILTIN = "builtin"
FORMAT = 3
WEIGHTS = "model.safetensors"
TIME = "time.json"
"""Seconds of training: apart from config.json, which is a function of the run's options alone."""
KINDS = {"dep": "dependency", "const": "constituency"}
"""The parser of each annotation, as a tree cache names it."""
ADAPTER = {"idx": 0, "name": "0", "path": "", "type": "multiview.sentence_transformers.MultiViewModule"}
"""The one module in modules.json."""


def model_folder(name: Path | str) -> Path:
    """Return the folder of a model; that a model is in it is checked where it is read.

    ``name`` is a path or ``builtin``, the encoder of the installation; a folder called so is ``./builtin``.
    """
    path = path_of(name, "model")
    if str(name) != BUILTIN:
        near = "/" not in str(name) and get_close_matches(str(name).lower(), [BUILTIN], cutoff=0.8)
        if near and not path.exists():
            raise UserError(f"model {str(name)!r}: no such folder; did you mean {BUILTIN}?")
        return path
    if not (BUILTIN_FOLDER / "config.json").is_file():
        raise UserError(f"{BUILTIN}: this installation has no builtin encoder; give a model folder")
    return BUILTIN_FOLDER


def chosen_views(views: Sequence[Sequence[str]], wanted: Sequence[str] | None) -> list[list[int]]:
    """Return the places of the wanted views, ``dep`` or ``0-dep``, in each part of a model; None is all."""
    labels = [[{name, f"{place}-{name}"} for place, name in enumerate(names)] for names in views]
    known = {label for part in labels for both in part for label in both}
    if wanted is not None and not (
        isinstance(wanted, Collection) and all(isinstance(v, str) for v in wanted)
    ):
        raise UserError(f"views={wanted!r:.60}: are no names of views")
    chosen = known if wanted is None else set(wanted)
    if not chosen or not chosen <= known:
        what = f"view {min(chosen - known)!r}" if chosen else "views=[]"
        raise UserError(f"{what}: this model has {', '.join(sorted(known))}")
    return [[place for place, both in enumerate(part) if both & chosen] for part in labels]


@dataclass
class Member:
    """A network, and the parsers and tokenizer that its sentences need."""

    network: ViewStack
    parsers: dict[str, Any] = field(default_factory=dict)
    """Identity of the parser of each annotation (``dep``, ``const``), as the tree cache records it."""
    corpus: dict[str, Any] = field(default_factory=dict)
    """Identity of the training corpus, tokenizer included."""
    training: dict[str, Any] = field(default_factory=dict)
    """What ``multiview.train`` records of the training, its configuration among it."""
    structure: float = 0.0
    """λ, the share of structure in the cosine where a caller gives none."""
    structure_size: int = 1024
    """Numbers of a structure vector."""


@configuration
class FileRecord:
    """Records another file of the folder in config.json."""

    bytes: Annotated[int, Ge(0)]
    sha256: str


@configuration
class ReadoutRecord:
    """Records the read-out in config.json."""

    dim: Count
    """K."""
    origin: str
    """What it was fitted to."""


@configuration
class ScaleRecord:
    """Records the scale of features in config.json."""

    origin: str
    """The text it was measured on."""


@configuration
class ModelRecord:
    """Describes one model in config.json."""

    format: int
    views: Annotated[tuple[str, ...], Len(1, MOST_VIEWS)]
    encoder: EncoderConfig
    words: WordsRecord
    parsers: dict[str, dict[str, Any]]
    corpus: dict[str, Any]
    training: dict[str, Any]
    files: dict[str, FileRecord]
    """By name; only those that a model has."""
    storage: Literal["float32", "compact"] = "float32"
    """How the weights are stored; they are float32 in memory."""
    readout: ReadoutRecord | None = None
    scale: ScaleRecord | None = None
    structure: Share = 0.0
    """λ where a caller gives none."""
    structure_size: Literal[128, 256, 512, 1024] = 1024
    """Numbers of a structure vector."""


@configuration
class MembersRecord:
    """Lists the models of a folder in config.json."""

    format: int
    members: Annotated[tuple[Annotated[str, Len(1, 60)], ...], Len(1, 32)]


def model_records(folder: Path) -> dict[str, ModelRecord]:
    """Return the config.json of a model, by the name ``""``, or of several models by their subfolders."""
    folder = current_folder(folder)
    outer = _read_record(folder)
    if isinstance(outer, ModelRecord):
        return {"": outer}
    records: dict[str, ModelRecord] = {}
    for name in outer.members:
        if name in records or not re.fullmatch(r"[\w-][\w.-]*", name, re.ASCII):
            raise UserError(f"{folder}/config.json: members {name!r}: must be a folder inside this one, once")
        inner = _read_record(folder / name)
        if isinstance(inner, MembersRecord):
            raise UserError(f"{folder / name / 'config.json'}: lists members; only the outer folder may")
        records[name] = inner
    return records


def _read_record(folder: Path) -> ModelRecord | MembersRecord:
    path = folder / "config.json"
    if not path.is_file():
        raise UserError(f"{folder}: no model here (no config.json); train one with python -m multiview.train")
    content = read_json(path)
    number = content.get("format") if isinstance(content, dict) else None
    if number != FORMAT:
        raise UserError(f"{path}: model format {number}, this program reads {FORMAT}; train the model again")
    values = read_record(path)
    if "members" in values:
        return config_from_json(MembersRecord, values, where=path)
    record = config_from_json(ModelRecord, values, where=path)
    if odd := sorted(record.files.keys() - {WEIGHTS, *FILES}):
        raise UserError(
            f"{path}: files {odd[0]!r}: no file of a model; these are {', '.join((WEIGHTS, *FILES))}"
        )
    return record


def parsers_of(identity: dict[str, Any]) -> dict[str, Any]:
    """Return the parser of each annotation, from a tree cache's identity."""
    return {need: identity[key] for need, key in KINDS.items() if identity.get(key)}


def model_sha256(folder: Path) -> str:
    """Hash a model's config.json, which has the hashes of its other files, or those of several models."""
    files = [current_folder(folder) / name / "config.json" for name in model_records(folder)]
    return hashlib.sha256("\n".join(map(sha256_file, files)).encode()).hexdigest()


def training_hours(folder: Path) -> float | None:
    """Say how long a model was trained, all its parts together; None where that is not recorded."""
    seconds = [_training_seconds(current_folder(folder) / name) for name in model_records(folder)]
    return None if None in seconds else sum(filter(None, seconds)) / 3600


def _training_seconds(folder: Path) -> float | None:
    path = folder / TIME
    if not path.is_file():
        return None
    content = read_json(path)
    seconds: Any = content.get("seconds") if isinstance(content, dict) else None
    if type(seconds) not in (int, float) or not 0 <= seconds < 1e9:
        raise UserError(f"{path}: seconds {seconds!r:.60}: must be a number, at least 0")
    return float(seconds)


def save_member(folder: Path, member: Member, *, card: str) -> None:
    """Write a model with its card in one step; the caller holds the lock."""
    with replace_folder(folder) as new:
        _write_member(new, member)
        write_card(new, card)


def _write_member(folder: Path, member: Member) -> None:
    network = member.network
    words = network.words.record()
    network.words.save(folder)
    with atomic_path(folder / WEIGHTS) as temporary:
        save_file(network.weights(), temporary)
    values = {
        "format": FORMAT,
        "views": network.views,
        "readout": network.readout and {"dim": network.readout.dim, "origin": network.readout.origin},
        "scale": network.scale and {"origin": network.scale.origin},
        "structure": member.structure,
        "structure_size": member.structure_size,
        "encoder": config_to_json(network.config),
        "words": config_to_json(words),
        "parsers": member.parsers,
        "corpus": member.corpus,
        "training": member.training,
        "storage": "float32",
        "files": {name: file_record(folder / name) for name in (WEIGHTS, *words.files)},
    }
    write_record(folder / "config.json", values)


def save_members(folder: Path, names: list[str], *, card: str) -> None:
    """Make a folder of models from finished subfolders ``names``, whose lock the caller holds."""
    with replace_folder(folder) as new:
        write_record(new / "config.json", {"format": FORMAT, "members": names})
        write_card(new, card)


def write_card(folder: Path, card: str) -> None:
    """Write README.md, and modules.json for sentence-transformers."""
    write_text(folder / "README.md", card)
    write_json(folder / "modules.json", [ADAPTER])


def copy_card(source: Path | None, target: Path) -> None:
    """Write the card and the seconds of training of another model, if it has them, into a new folder.

    A README.md that is a link may be any file of this machine, so it is no card.
    """
    card = "# A model\n\nconfig.json says how it was trained, if it was.\n"
    readme = source and source / "README.md"
    if readme and readme.is_file() and not readme.is_symlink():
        with contextlib.suppress(UnicodeDecodeError):
            card = readme.read_bytes().decode("utf-8")
    write_card(target, card)
    if source is not None and (seconds := _training_seconds(source)) is not None:
        write_json(target / TIME, {"seconds": seconds})


def refuse_other_content(folder: Path) -> None:
    """Refuse to write a model into a folder that is not new, not empty and no model's."""
    if folder.is_dir() and {path.name for path in folder.iterdir()} <= OWN_NAMES:
        return
    if folder.exists():
        if not (current_folder(folder) / "config.json").is_file():
            raise UserError(f"{folder}: holds something other than a model; give another folder")
        model_records(folder)


def save_model(members: Sequence[Member], target: Path, source: Path | None) -> None:
    """Write networks as a model folder in one step: a plain one, or a folder of several models.

    The caller holds the lock of ``target``, where a model is replaced. ``source`` is the folder they were
    loaded from, whose names and cards are kept.
    """
    names = [""] if len(members) == 1 else [str(number) for number in range(len(members))]
    names = names if source is None else [*model_records(source)]
    with replace_folder(target) as new:
        for name, member in zip(names, members, strict=True):
            _write_member(new / name, member)
        if names != [""]:
            write_record(new / "config.json", {"format": FORMAT, "members": names})
        for name in {"", *names}:
            copy_card(source and current_folder(source) / name, new / name)


def load_members(folder: Path, device: torch.device | str = "cpu") -> list[Member]:
    """Load a model folder; a file that is missing, damaged or of another format is named in a UserError."""
    records, on = model_records(folder), torch.device(device)
    return [_load_member(current_folder(folder) / name, record, on) for name, record in records.items()]


def _load_member(folder: Path, record: ModelRecord, device: torch.device) -> Member:
    config, path = folder / "config.json", folder / WEIGHTS
    compact = record.storage == "compact"
    for name in (WEIGHTS, *(name for name in record.words.files if not (compact and name == VECTORS))):
        if name not in record.files:
            raise UserError(f"{config}: files: does not list {name}")
        check_file(folder / name, record.files[name].bytes, record.files[name].sha256)
    fixed: Fixed | None = None
    try:
        weights = unpack(load_file(path)) if compact else load_file(path)
        if compact and record.words.mode == "fixed":
            vectors = weights.pop(FIXED)
            if not isinstance(vectors, PackedVectors):
                raise UserError(f"{FIXED} is no pairs of 4 bits")
            fixed = vectors
    except (OSError, SafetensorError, UserError, KeyError) as error:
        raise UserError(f"{path}: cannot be loaded ({error})") from None
    with build_in_float32():
        network = _network(record, _check_sizes(folder, record, weights, fixed))
        network.load_state_dict(weights)
    if network.words.expansion is not None:
        network.words.expansion.check(path)
    about = ("parsers", "corpus", "training", "structure", "structure_size")
    return Member(network.to(device).eval(), **{name: getattr(record, name) for name in about})


def _network(record: ModelRecord, words: WordTable) -> ViewStack:
    """Return a model's network; the weights are still to be loaded."""
    network = ViewStack(record.views, words, record.encoder)
    if record.readout is not None:
        size, width = record.readout.dim, network.dim
        network.readout = Readout(torch.empty(size, width), torch.empty(size), record.readout.origin)
    if record.scale is not None:
        network.scale = Scale(torch.empty(network.dim), torch.empty(network.dim), record.scale.origin)
    return network


def _check_sizes(
    folder: Path, record: ModelRecord, weights: dict[str, Tensor], fixed: Fixed | None
) -> WordTable:
    """Return the model's words, after comparing all sizes: a config.json may ask for any amount of memory."""
    config, tables = folder / "config.json", 1 + max(table_indices(record.views))
    try:
        with build_without_weights():
            words = WordTable.load(folder, record.words, tables=tables, fixed=fixed)
            wanted = _network(record, words).state_dict()
    except (OverflowError, RuntimeError, TypeError) as error:
        raise UserError(f"{config}: sizes out of range ({str(error).splitlines()[0]})") from None
    for name in sorted(wanted.keys() | weights.keys()):
        shapes = [list(each[name].shape) if name in each else None for each in (wanted, weights)]
        if shapes[0] != shapes[1]:
            raise UserError(f"{config}: asks for {name} {shapes[0]}, model.safetensors has {shapes[1]}")
        if wanted[name].dtype != weights[name].dtype:
            raise UserError(f"{folder / WEIGHTS}: {name} is {weights[name].dtype}, not {wanted[name].dtype}")
    # Module.to_empty would import sympy.
    empty = functools.partial(torch.empty, device="cpu")
    words._apply(lambda weight: empty(weight.shape, dtype=weight.dtype))  # type: ignore[no-untyped-call]
    return words


def expand_model(folder: Path, vectors: WordVectors) -> None:
    """Give a model whose words are trained those of a file as well; the caller holds the folder's lock."""
    members = load_members(folder)
    for member in members:
        member.network.words.expand(vectors)
    save_model(members, folder, folder)
