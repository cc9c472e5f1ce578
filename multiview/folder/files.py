"""Saves and loads models: config.json, model.safetensors, vocab.txt, README.md; vectors.npy with fixed words.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from annotated_types import Len
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from multiview.config import BUILTIN as BUILTIN
from multiview.config import BUILTIN_FOLDER, MOST_VIEWS, EncoderConfig
from multiview.encoders.meaning import Readout, Scale
from multiview.encoders.registry import ViewStack, table_indices
from multiview.words.compact import FIXED_VECTORS, packed_tensors, unpack
from multiview.words.table import VOCABULARY, PackedVectors, WordsRecord, WordTable
from runtime.cli import Count, Share, config_from_json, config_to_json, configuration
from runtime.device import build_in_float32, build_without_weights
from runtime.errors import UserError
from runtime.files import (
    atomic_path,
    check_files,
    path_of,
    read_json,
    read_record,
    sha256_file,
    write_json,
    write_record,
    write_text,
)
from runtime.folders import OWN_NAMES, current_folder, model_card, replace_folder

FORMAT = 3
WEIGHTS = "model.safetensors"
FileName = Literal["model.safetensors", "vocab.txt", "vectors.npy"]
"""The files whose hashes a config.json may record."""
TIME = "time.json"
"""Seconds of training: apart from config.json, which is a function of the run's options alone."""
NO_CARD = model_card("A model", "config.json says how it was trained, if it was.")
PARSER_KINDS = {"dep": "dependency", "const": "constituency"}
"""The parser of each annotation, as a tree cache names it."""


def model_folder(name: Path | str) -> Path:
    """Return the folder of a model; that a model is in it is checked where it is read.

    ``name`` is a path or ``builtin``, the encoder of the installation; a folder called so is ``./builtin``.
    """
    path = path_of(name, "model")
    if str(name) == BUILTIN:
        if not (BUILTIN_FOLDER / "config.json").is_file():
            raise UserError(f"{BUILTIN}: this installation has no builtin encoder; give a model folder")
        return BUILTIN_FOLDER
    is_misspelt = "/" not in str(name) and get_close_matches(str(name).lower(), [BUILTIN], cutoff=0.8)
    if is_misspelt and not path.exists():
        raise UserError(f"model {str(name)!r}: no such folder; did you mean {BUILTIN}?")
    return path


@dataclass
class Member:
    """A network, and the parsers and tokenizer that its sentences need."""

    network: ViewStack
    parsers: dict[str, Any] = field(default_factory=dict)
    """Identity of the parser of each annotation (``dep``, ``const``), as the tree cache records it."""
    corpus: dict[str, Any] = field(default_factory=dict)
    """Identity of the training corpus, tokenizer included."""
    training: dict[str, Any] = field(default_factory=dict)
    """The training as ``multiview.train`` records it, with its configuration."""


@configuration
class ReadoutRecord:
    """The read-out, as config.json records it."""

    dim: Count
    origin: str
    """The vectors or neighbours that it was fitted to."""


@configuration
class ScaleRecord:
    """The scale of features, as config.json records it."""

    origin: str
    """The text it was measured on."""


@configuration
class ModelRecord:
    """One model, as config.json records it."""

    format: int
    views: Annotated[tuple[str, ...], Len(1, MOST_VIEWS)]
    encoder: EncoderConfig
    words: WordsRecord
    parsers: dict[str, dict[str, Any]]
    corpus: dict[str, Any]
    training: dict[str, Any]
    files: dict[FileName, dict[str, Any]]
    """Size and SHA-256 of the other files, by name; only those that a model has."""
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
    """The models of a folder, as config.json lists them."""

    format: int
    members: Annotated[tuple[Annotated[str, Len(1, 60)], ...], Len(1, 32)]


def model_records(folder: Path) -> dict[str, ModelRecord]:
    """Return the config.json of a model, by the name ``""``, or of several models by their subfolders."""
    folder = current_folder(folder)
    folder_record = _read_record(folder)
    if isinstance(folder_record, ModelRecord):
        return {"": folder_record}
    records: dict[str, ModelRecord] = {}
    for name in folder_record.members:
        if name in records or not re.fullmatch(r"[\w-][\w.-]*", name, re.ASCII):
            raise UserError(f"{folder}/config.json: members {name!r}: must be a folder inside this one, once")
        record = _read_record(folder / name)
        if isinstance(record, MembersRecord):
            raise UserError(f"{folder / name / 'config.json'}: lists members; only the outer folder may")
        records[name] = record
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
    return config_from_json(ModelRecord, values, where=path)


def parsers_of(identity: dict[str, Any]) -> dict[str, Any]:
    """Return the parser of each annotation, from a tree cache's identity."""
    return {need: identity[kind] for need, kind in PARSER_KINDS.items() if identity.get(kind)}


def model_sha256(folder: Path) -> str:
    """Hash a model's config.json, which has the hashes of its other files, or those of several models."""
    files = [current_folder(folder) / name / "config.json" for name in model_records(folder)]
    return hashlib.sha256("\n".join(map(sha256_file, files)).encode()).hexdigest()


def training_hours(folder: Path) -> float | None:
    """Return how long a model was trained, all its parts together; None where that is not recorded."""
    parts = [_training_seconds(current_folder(folder) / name) for name in model_records(folder)]
    recorded_seconds = [seconds for seconds in parts if seconds is not None]
    return sum(recorded_seconds) / 3600 if len(recorded_seconds) == len(parts) else None


def _training_seconds(folder: Path) -> float | None:
    path = folder / TIME
    if not path.is_file():
        return None
    content = read_json(path)
    seconds: Any = content.get("seconds") if isinstance(content, dict) else None
    if type(seconds) not in (int, float) or not 0 <= seconds < 1e9:
        raise UserError(f"{path}: seconds {seconds!r:.60}: must be a number, at least 0")
    return float(seconds)


def _write_member(folder: Path, member: Member, structure: float, structure_size: int) -> None:
    network = member.network
    readout, scale, words = network.readout, network.scale, network.words.record()
    network.words.save(folder)
    weights, files = network.weights(), words.files
    packed_vectors = network.words.fixed_vectors
    is_packed = isinstance(packed_vectors, PackedVectors)
    if isinstance(packed_vectors, PackedVectors):
        weights |= packed_tensors(packed_vectors)
        files = [VOCABULARY]
    with atomic_path(folder / WEIGHTS) as temporary:
        save_file(weights, temporary)
    values = {
        "format": FORMAT,
        "views": network.views,
        "readout": None if readout is None else {"dim": readout.dim, "origin": readout.origin},
        "scale": None if scale is None else {"origin": scale.origin},
        "structure": structure,
        "structure_size": structure_size,
        "encoder": config_to_json(network.config),
        "words": config_to_json(words),
        "parsers": member.parsers,
        "corpus": member.corpus,
        "training": member.training,
        "storage": "compact" if is_packed else "float32",
    }
    write_record(folder / "config.json", values, (WEIGHTS, *files))


def save_members(folder: Path, names: list[str], *, card: str) -> None:
    """Make a folder of models from finished subfolders ``names``, whose lock the caller holds."""
    with replace_folder(folder) as new_folder:
        write_record(new_folder / "config.json", {"format": FORMAT, "members": names})
        write_card(new_folder, card)


def write_card(folder: Path, card: str) -> None:
    """Write README.md, and modules.json for sentence-transformers."""
    write_text(folder / "README.md", card)
    module = {"idx": 0, "name": "0", "path": "", "type": "multiview.sentence_transformers.MultiViewModule"}
    write_json(folder / "modules.json", [module])


def copy_card(source: Path, target: Path) -> None:
    """Write the card and the seconds of training of another model, if it has them, into a new folder."""
    card, readme = NO_CARD, source / "README.md"
    if readme.is_file() and not readme.is_symlink():  # a link may lead to any file of this machine
        with contextlib.suppress(UnicodeDecodeError):
            card = readme.read_bytes().decode("utf-8")
    seconds = _training_seconds(source)
    if seconds is not None:
        write_json(target / TIME, {"seconds": seconds})
    write_card(target, card)


def refuse_other_content(folder: Path) -> None:
    """Refuse to write a model into a folder that is not new, not empty and no model's."""
    if not folder.exists() or (folder.is_dir() and {path.name for path in folder.iterdir()} <= OWN_NAMES):
        return
    if not (current_folder(folder) / "config.json").is_file():
        raise UserError(f"{folder}: holds something other than a model; give another folder")
    model_records(folder)


def save_model(
    members: Sequence[Member],
    target: Path,
    source: Path | None = None,
    *,
    card: str = NO_CARD,
    structure: float = 0.0,
    structure_size: int = 1024,
) -> None:
    """Write networks as a model folder in one step: a plain one, or a folder of several models.

    The caller holds the lock of ``target``, where a model is replaced. ``source`` is the folder they were
    loaded from, whose names and cards are kept; without it there is ``card``. λ and the size of a structure
    vector are those of the whole model.
    """
    names = [""] if len(members) == 1 else [str(number) for number in range(len(members))]
    if source is not None:
        names = [*model_records(source)]
    with replace_folder(target) as new_folder:
        for name, member in zip(names, members, strict=True):
            _write_member(new_folder / name, member, structure, structure_size)
        if names != [""]:
            write_record(new_folder / "config.json", {"format": FORMAT, "members": names})
        for name in {"", *names}:
            if source is None:
                write_card(new_folder / name, card)
            else:
                copy_card(current_folder(source) / name, new_folder / name)


def load_members(folder: Path, device: torch.device | str = "cpu") -> list[Member]:
    """Load a model folder; a file that is missing, damaged or of another format is named in a UserError."""
    records, target = model_records(folder), torch.device(device)
    return [_load_member(current_folder(folder) / name, record, target) for name, record in records.items()]


def _load_member(folder: Path, record: ModelRecord, device: torch.device) -> Member:
    path = folder / WEIGHTS
    is_compact = record.storage == "compact"
    files = [WEIGHTS, VOCABULARY] if is_compact else [WEIGHTS, *record.words.files]
    check_files(folder / "config.json", record.files, files)
    packed_vectors: PackedVectors | None = None
    try:
        weights: dict[str, Any] = load_file(path)
        if is_compact:
            weights = unpack(weights)
        if is_compact and record.words.mode == "fixed":
            packed_vectors = weights.pop(FIXED_VECTORS)
            if not isinstance(packed_vectors, PackedVectors):
                raise UserError(f"{FIXED_VECTORS} is no pairs of 4 bits")
    except (OSError, SafetensorError, UserError, KeyError) as error:
        raise UserError(f"{path}: cannot be loaded ({error})") from None
    with build_in_float32():
        words = _load_words(folder, record, weights, packed_vectors)
        network = _empty_network(record, words)
        network.load_state_dict(weights)
    if words.expansion is not None:
        words.expansion.check(path)
    return Member(network.to(device).eval(), record.parsers, record.corpus, record.training)


def _empty_network(record: ModelRecord, words: WordTable) -> ViewStack:
    network = ViewStack(record.views, words, record.encoder)
    if record.readout is not None:
        weight_KD = torch.empty(record.readout.dim, network.dim)
        network.readout = Readout(weight_KD, torch.empty(record.readout.dim), record.readout.origin)
    if record.scale is not None:
        network.scale = Scale(torch.empty(network.dim), torch.empty(network.dim), record.scale.origin)
    return network


def _load_words(
    folder: Path, record: ModelRecord, weights: dict[str, Tensor], fixed_vectors: PackedVectors | None
) -> WordTable:
    """Return the model's words, with room for their weights, of which ``weights`` has the sizes."""
    tables = 1 + max(table_indices(record.views))
    try:
        with build_without_weights():
            words = WordTable.load(folder, record.words, tables=tables, fixed_vectors=fixed_vectors)
            expected_weights = _empty_network(record, words).state_dict()
    except (OverflowError, RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{folder / 'config.json'}: sizes out of range ({reason})") from None
    _check_sizes(folder / "config.json", expected_weights, weights)
    # Module.to_empty would import sympy.
    empty = functools.partial(torch.empty, device="cpu")
    words._apply(lambda weight: empty(weight.shape, dtype=weight.dtype))  # type: ignore[no-untyped-call]
    return words


def _check_sizes(path: Path, expected: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> None:
    """Refuse a config.json, which may ask for any amount of memory, unless the weights are of its sizes."""
    for name in sorted(expected.keys() | stored.keys()):
        expected_size, stored_size = (
            f"{list(weights[name].shape)} of {weights[name].dtype}" if name in weights else "nothing"
            for weights in (expected, stored)
        )
        if expected_size != stored_size:
            raise UserError(f"{path}: asks for {name} {expected_size}, {WEIGHTS} has {stored_size}")
