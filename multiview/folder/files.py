"""A model on disk: config.json, model.safetensors, vocab.txt, README.md; vectors.npy with fixed words.

A compact model (:mod:`multiview.folder.storage`) has all its vectors in model.safetensors. config.json
records sizes and SHA-256 of the other files and has a seal of its own; all are checked when a model is
loaded. A folder may instead hold several models (``{"members": ["trained", "fixed"]}``) whose vectors are
concatenated, such as the paper's two configurations. Nothing in a folder is executable or pickled.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from corpora.support.config import CountOrNone, config_from_json, config_to_json, configuration
from corpora.support.errors import UserError
from corpora.support.files import (
    atomic_path,
    check_file,
    file_record,
    read_json,
    read_record,
    sha256_file,
    write_record,
    write_text,
)
from multiview.config import Bits, EncoderConfig
from multiview.encoders.registry import trained_views
from multiview.encoders.stack import Reading, ViewStack
from multiview.folder.names import near_model
from multiview.folder.storage import Storage, pack, unpack
from multiview.words.table import VECTORS, WordsRecord, WordTable
from multiview.words.vectors import Float

FORMAT = 3
WEIGHTS = "model.safetensors"
TIME = "time.json"
"""Seconds of training: apart from config.json, which is a function of the run's options alone."""
KINDS = {"dep": "dependency", "const": "constituency"}
"""The parser of each annotation, as a tree cache names it."""


@dataclass
class Member:
    """A network, and the parsers and tokenizer that its sentences need."""

    network: ViewStack
    parsers: dict[str, Any] = field(default_factory=dict)
    """Identity of the parser of each annotation (``dep``, ``const``), as the tree cache records it."""
    corpus: dict[str, Any] = field(default_factory=dict)
    """Identity of the training corpus, tokenizer included."""
    reading: Reading | None = None
    """How the folder's sentences are read, if not as the network's: training may read them in its own way."""


@configuration
class FileRecord:
    """What config.json says about another file of the folder."""

    bytes: CountOrNone
    sha256: str


@configuration
class ModelRecord:
    """The config.json of one model."""

    format: int
    views: tuple[str, ...]
    encoder: EncoderConfig
    words: WordsRecord
    parsers: dict[str, dict[str, Any]]
    corpus: dict[str, Any]
    training: dict[str, Any]
    files: dict[str, FileRecord]
    storage: Storage = "float32"
    """How the weights are stored; they are float32 in memory."""
    scales: tuple[float, ...] = ()
    """Factor on each view's vectors; empty: 1."""


@configuration
class MembersRecord:
    """The config.json of a folder of models."""

    format: int
    members: tuple[str, ...]
    normalize_parts: bool = False
    """Whether the vectors of each member are scaled to length 1 before they are joined."""


def read_model_record(folder: Path) -> ModelRecord | MembersRecord:
    """The config.json of a model folder, checked against its seal.

    Raises:
        UserError: it is missing, damaged, of another format, or holds values of other types.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise UserError(
            f"{folder}: no model here (no config.json); {near_model(folder)}train one with "
            "python -m multiview.train"
        )
    found = read_json(path)
    number = found.get("format") if isinstance(found, dict) else None
    if number != FORMAT:
        raise UserError(f"{path}: model format {number}, this program reads {FORMAT}; train the model again")
    values = read_record(path)
    if "members" not in values:
        return config_from_json(ModelRecord, values, where=path)
    members = config_from_json(MembersRecord, values, where=path)
    for name in members.members:
        if name in ("", ".", "..") or Path(name).name != name:
            raise UserError(f"{path}: members {name!r}: must be the name of a folder inside this one")
    return members


def parsers_of(identity: dict[str, Any]) -> dict[str, Any]:
    """The parser of each annotation, from a tree cache's identity."""
    return {need: identity[key] for need, key in KINDS.items() if identity.get(key)}


def save_member(
    folder: Path,
    member: Member,
    *,
    card: str,
    training: dict[str, Any],
    storage: Storage = "float32",
    bits: Bits = 8,
) -> None:
    """Write a model. All files are complete before the first one is replaced; config.json comes last.

    Args:
        folder: the model folder.
        member: network and identities.
        card: text of README.md.
        training: configuration and metrics, recorded in config.json.
        storage: how to store the weights.
        bits: of a number of a word vector in compact storage.

    Raises:
        UserError: weights that compact storage cannot hold.
    """
    network = member.network
    stored = network.weights()
    if storage == "compact":
        if network.words.expanded:
            raise UserError("compact storage does not hold an expanded vocabulary; take the model without it")
        stored = pack(stored, network.words.fixed, bits)
    network.words.save(folder, vectors=storage == "float32")
    write_text(folder / "README.md", card)
    with atomic_path(folder / "config.json") as last, atomic_path(folder / WEIGHTS) as weights:
        save_file(stored, weights)
        files = _files(network.words.record(), storage)
        written = {name: folder / name for name in files} | {WEIGHTS: weights}
        write_record(last, _config(member, training, storage, written))


def _config(
    member: Member, training: dict[str, Any], storage: Storage, written: dict[str, Path]
) -> dict[str, Any]:
    """What config.json says; ``written`` is where each file lies now."""
    network = member.network
    reading = member.reading or network.reading
    return {
        "format": FORMAT,
        "views": [*trained_views(network.views), *reading.added],
        "scales": reading.scales,
        "encoder": config_to_json(replace(network.config, pooling=reading.pooling)),
        "words": config_to_json(network.words.record()),
        "parsers": member.parsers,
        "corpus": member.corpus,
        "training": training,
        "storage": storage,
        "files": {name: file_record(path) for name, path in written.items()},
    }


def save_members(folder: Path, names: list[str], *, card: str, normalize_parts: bool = False) -> None:
    """Make a folder of models from finished subfolders ``names``."""
    write_text(folder / "README.md", card)
    values = {"format": FORMAT, "members": names, "normalize_parts": normalize_parts}
    write_record(folder / "config.json", values)


def load_members(folder: Path, device: torch.device | str = "cpu") -> list[Member]:
    """Load a model folder.

    Raises:
        UserError: a file is missing, damaged or of another format; it is named.
    """
    folder = Path(folder)
    parts = [folder / name for name in member_names(folder)]
    return [_load_member(part, member_record(part), torch.device(device)) for part in parts]


def member_names(folder: Path) -> list[str]:
    """Subfolders of a folder of several models; ``[""]`` where the folder is itself the model.

    Raises:
        UserError: no model there.
    """
    record = read_model_record(folder)
    return list(record.members) if isinstance(record, MembersRecord) else [""]


def normalizes_parts(folder: Path) -> bool:
    """Whether the vectors of the models in a folder are scaled to length 1 before they are joined."""
    record = read_model_record(folder)
    return isinstance(record, MembersRecord) and record.normalize_parts


def member_record(folder: Path) -> ModelRecord:
    """The config.json of one model, not of several.

    Raises:
        UserError: it is damaged, or lists members itself.
    """
    record = read_model_record(folder)
    if isinstance(record, MembersRecord):
        raise UserError(f"{folder / 'config.json'}: lists members; only the outer folder may")
    return record


def model_sha256(folder: Path) -> str:
    """One digest of a model's records and weights, or of all of several in a folder.

    Raises:
        UserError: no model there.
    """
    files = [folder / name / file for name in member_names(folder) for file in ("config.json", WEIGHTS)]
    return hashlib.sha256("\n".join(map(sha256_file, files)).encode()).hexdigest()


def training_hours(folder: Path) -> float | None:
    """How long a model was trained, all its parts together; None where that is not recorded."""
    records = [folder / name / TIME for name in member_names(folder)]
    if not all(record.is_file() for record in records):
        return None
    return sum(float(read_json(record)["seconds"]) for record in records) / 3600


def _load_member(folder: Path, record: ModelRecord, device: torch.device) -> Member:
    for name in _files(record.words, record.storage):
        if name not in record.files:
            raise UserError(f"{folder / 'config.json'}: files: does not list {name}")
        check_file(folder / name, record.files[name].bytes, record.files[name].sha256)
    path = folder / WEIGHTS
    try:
        weights = load_file(path)
        fixed = None
        if record.storage == "compact":
            weights, fixed = unpack(weights, fixed=record.words.mode == "fixed")
    except (OSError, SafetensorError, UserError) as error:
        raise UserError(f"{path}: cannot be loaded ({error})") from None
    words = _check_sizes(folder, record, weights, fixed)
    network = ViewStack(record.views, words, record.encoder)
    network.load_state_dict(weights)
    if record.scales:
        if len(record.scales) != len(record.views):
            raise UserError(
                f"{folder / 'config.json'}: scales: {len(record.scales)} for {len(record.views)} views"
            )
        network.scales = record.scales
    network.to(device).eval()
    return Member(network, dict(record.parsers), record.corpus)


def _check_sizes(
    folder: Path, record: ModelRecord, weights: dict[str, torch.Tensor], fixed: Float | None
) -> WordTable:
    """The model's words, after comparing all sizes: a config.json may ask for any amount of memory.

    Args:
        folder: the model folder.
        record: its config.json.
        weights: what model.safetensors holds.
        fixed: of a compact model, its fixed vectors float32 [W, E].

    Raises:
        UserError: config.json and the weights disagree.
    """
    config = folder / "config.json"
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            words = WordTable.load(folder, record.words, views=len(trained_views(record.views)), fixed=fixed)
            wanted = ViewStack(record.views, words, record.encoder).state_dict()
    except (OverflowError, RuntimeError, TypeError) as error:
        raise UserError(f"{config}: sizes out of range ({str(error).splitlines()[0]})") from None
    for name in sorted(wanted.keys() | weights.keys()):
        shapes = [list(found[name].shape) if name in found else None for found in (wanted, weights)]
        if shapes[0] != shapes[1]:
            raise UserError(f"{config}: asks for {name} {shapes[0]}, model.safetensors has {shapes[1]}")
    return words.empty_copy()


def _files(words: WordsRecord, storage: Storage) -> tuple[str, ...]:
    """The files that a model consists of, besides config.json."""
    return (WEIGHTS, *(name for name in words.files if storage == "float32" or name != VECTORS))
