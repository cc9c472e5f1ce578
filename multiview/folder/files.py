"""Saves and loads model folders: config.json, model.safetensors, vocab.txt, README.md, perhaps vectors.npy.

vectors.npy has the vectors of fixed or added words. config.json records the sizes and the SHA-256 of the
other files and has a seal of its own; all of this is checked when a model is loaded. modules.json tells
sentence-transformers how to load the model. No file is executable or pickled, and no file name in config.json
leads out of the folder (SECURITY.md). A folder is replaced in one step (:mod:`runtime.folders`).
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from annotated_types import Len
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from multiview.encoders.meaning import Readout, Scale
from multiview.encoders.registry import ViewStack, table_indices
from multiview.model_config import BUILTIN, BUILTIN_FOLDER, MAX_VIEWS, EncoderConfig
from multiview.words.compact import FIXED_VECTORS, packed_tensors, unpack
from multiview.words.table import PackedVectors, WordTable
from multiview.words.vocabulary import VOCABULARY, WordsRecord
from parsing.trees.batch import ANNOTATIONS
from runtime.cli import Count, Share, config_from_json, config_to_json, configuration
from runtime.device import build_without_weights
from runtime.errors import UserError
from runtime.files import (
    atomic_path,
    check_files,
    path_of,
    read_json,
    sha256_file,
    unsealed,
    write_json,
    write_record,
    write_text,
)
from runtime.folders import OWN_NAMES, current_folder, readme_text, replace_folder

FORMAT = 4
WEIGHTS = "model.safetensors"
FileName = Literal["model.safetensors", "vocab.txt", "vectors.npy"]
"""The files whose hashes a config.json may record."""
TIME = "time.json"
"""The file of the seconds of training. They are not in config.json, which depends on the options alone."""
NO_CARD = readme_text("A model", "config.json says how it was trained, if it was.")


def model_folder(name: Path | str) -> Path:
    """Return the folder of a model; whether it holds a model is checked when the folder is read.

    ``name`` is a path, or ``builtin`` for the encoder in the package. The path ``./builtin`` is a folder.
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
class Model:
    """A network, and the records of its parsers, its corpus and its training."""

    network: ViewStack
    parsers: dict[str, Any] = field(default_factory=dict)
    """The identity of the parser of each annotation (``dep``, ``const``), as the tree cache records it."""
    corpus: dict[str, Any] = field(default_factory=dict)
    """The identity of the training corpus, with that of its tokenizer."""
    training: dict[str, Any] = field(default_factory=dict)
    """What ``multiview.train`` recorded of the training, with its configuration."""


@configuration
class ReadoutRecord:
    """The record of the read-out in config.json."""

    dim: Count
    origin: str
    """The vectors or neighbours that it was fitted to."""


@configuration
class ScaleRecord:
    """The record of the scale of features in config.json."""

    origin: str
    """The text that it was measured on."""


@configuration
class ModelRecord:
    """The record of a model: the content of config.json."""

    format: int
    views: Annotated[tuple[str, ...], Len(1, MAX_VIEWS)]
    encoder: EncoderConfig
    words: WordsRecord
    parsers: dict[str, dict[str, Any]]
    corpus: dict[str, Any]
    training: dict[str, Any]
    files: dict[FileName, dict[str, Any]]
    """The size and SHA-256 of each other file that the model has, by name."""
    storage: Literal["float32", "compact"] = "float32"
    """How the weights are stored; in memory they are float32."""
    readout: ReadoutRecord | None = None
    scale: ScaleRecord | None = None
    structure: Share = 0.0
    """The default of λ, the share of structure in a cosine."""
    structure_size: Literal[128, 256, 512, 1024] = 1024
    """The default size of a structure vector."""


def model_record(folder: Path) -> ModelRecord:
    """Return a model folder's record. Raises UserError if it is no model, damaged or of another format."""
    folder = current_folder(folder)
    path = folder / "config.json"
    if not path.is_file():
        raise UserError(f"{folder}: no model here (no config.json); train one with python -m multiview.train")
    content = read_json(path)
    number = content.get("format") if isinstance(content, dict) else None
    if number != FORMAT:
        raise UserError(f"{path}: model format {number}, this program reads {FORMAT}; train the model again")
    return config_from_json(ModelRecord, unsealed(content, path), where=path)


def parsers_of(identity: dict[str, Any]) -> dict[str, Any]:
    """Return the identity of the parser of each annotation, from the identity of a tree cache."""
    return {kind: identity[each.parser] for kind, each in ANNOTATIONS.items() if identity.get(each.parser)}


def model_sha256(folder: Path) -> str:
    """Return the SHA-256 of a model's config.json, which has the hashes of all its other files."""
    model_record(folder)  # a UserError if this is no model
    return sha256_file(current_folder(folder) / "config.json")


def training_seconds(folder: Path) -> float | None:
    """Return how long a model was trained, in seconds; None if that is not recorded."""
    path = current_folder(folder) / TIME
    if not path.is_file():
        return None
    content = read_json(path)
    seconds: Any = content.get("seconds") if isinstance(content, dict) else None
    if seconds is None:
        return None
    if type(seconds) not in (int, float) or not 0 <= seconds < 1e9:
        raise UserError(f"{path}: seconds {seconds!r:.60}: must be a number, at least 0")
    return float(seconds)


def write_card(folder: Path, card: str) -> None:
    """Write README.md, which is the card, and modules.json for sentence-transformers."""
    write_text(folder / "README.md", card)
    module = {"idx": 0, "name": "0", "path": "", "type": "multiview.sentence_transformers.MultiViewModule"}
    write_json(folder / "modules.json", [module])


def copy_card(source: Path, target: Path) -> None:
    """Copy the card and the seconds of training of a model, if it has them, into a new folder."""
    card, readme = NO_CARD, source / "README.md"
    if readme.is_file() and not readme.is_symlink():  # a link could lead to any file of this machine
        with contextlib.suppress(UnicodeDecodeError):
            card = readme.read_bytes().decode("utf-8")
    write_json(target / TIME, {"seconds": training_seconds(source)})
    write_card(target, card)


def refuse_other_content(folder: Path) -> None:
    """Raise UserError if a folder holds something other than a model."""
    if not folder.exists() or (folder.is_dir() and {path.name for path in folder.iterdir()} <= OWN_NAMES):
        return
    if not (current_folder(folder) / "config.json").is_file():
        raise UserError(f"{folder}: holds something other than a model; give another folder")
    model_record(folder)


def save_model(
    model: Model,
    target: Path,
    source: Path | None = None,
    *,
    card: str = NO_CARD,
    structure: float = 0.0,
    structure_size: int = 1024,
) -> None:
    """Write a model folder in one step.

    Args:
        model: the model.
        target: the folder, whose lock the caller holds if it has a model already.
        source: the folder that the model was loaded from, whose card is copied.
        card: the README.md if there is no ``source``.
        structure: the default of λ, the share of structure in a cosine.
        structure_size: the default size of a structure vector.
    """
    network = model.network
    readout, scale, words = network.readout, network.scale, network.words.record()
    values = {
        "format": FORMAT,
        "views": network.views,
        "readout": None if readout is None else {"dim": readout.dim, "origin": readout.origin},
        "scale": None if scale is None else {"origin": scale.origin},
        "structure": structure,
        "structure_size": structure_size,
        "encoder": config_to_json(network.config),
        "words": config_to_json(words),
        "parsers": model.parsers,
        "corpus": model.corpus,
        "training": model.training,
        "storage": "float32",
    }
    weights, files, packed_vectors = network.weights(), words.files, network.words.fixed_vectors
    if isinstance(packed_vectors, PackedVectors):
        weights |= packed_tensors(packed_vectors)
        files, values["storage"] = [VOCABULARY], "compact"
    with replace_folder(target) as new_folder:
        network.words.save(new_folder)
        with atomic_path(new_folder / WEIGHTS) as temporary:
            save_file(weights, temporary)
        write_record(new_folder / "config.json", values, (WEIGHTS, *files))
        if source is None:
            write_card(new_folder, card)
        else:
            copy_card(current_folder(source), new_folder)


def load_model(folder: Path, device: torch.device | str = "cpu", record: ModelRecord | None = None) -> Model:
    """Return the model of a folder.

    ``record`` is the folder's, if the caller has read it already. Raises UserError if a file is missing,
    damaged or of another format.
    """
    record, folder = record or model_record(folder), current_folder(folder)
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
    network = _network_without_weights(folder, record, packed_vectors)
    _check_sizes(folder / "config.json", network.state_dict(), weights)
    # The tensors are copied, because they are mapped from the file, which may change.
    network.load_state_dict({name: tensor.clone() for name, tensor in weights.items()}, assign=True)
    network.words.restore_device_marker()
    if network.words.expansion is not None:
        network.words.expansion.check(path)
    return Model(network.to(device).eval(), record.parsers, record.corpus, record.training)


def _network_without_weights(
    folder: Path, record: ModelRecord, fixed_vectors: PackedVectors | None
) -> ViewStack:
    """Return the network that a record describes; its weights have sizes but no memory."""
    try:
        with build_without_weights():
            tables = 1 + max(table_indices(record.views))
            words = WordTable.load(folder, record.words, tables=tables, fixed_vectors=fixed_vectors)
            network = ViewStack(record.views, words, record.encoder)
            if record.readout is not None:
                weight_KD = torch.empty(record.readout.dim, network.dim)
                network.readout = Readout(weight_KD, torch.empty(record.readout.dim), record.readout.origin)
            if record.scale is not None:
                mean_D, deviation_D = torch.empty(2, network.dim)
                network.scale = Scale(mean_D, deviation_D, record.scale.origin)
            return network
    except (OverflowError, RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{folder / 'config.json'}: sizes out of range ({reason})") from None


def _check_sizes(path: Path, expected: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> None:
    """Raise UserError if the stored weights have other names, sizes or types than the network expects.

    They are compared before memory is allocated, because a damaged config.json may ask for any amount.
    """
    for name in sorted(expected.keys() | stored.keys()):
        expected_size, stored_size = (
            f"{list(weights[name].shape)} of {weights[name].dtype}" if name in weights else "nothing"
            for weights in (expected, stored)
        )
        if expected_size != stored_size:
            raise UserError(f"{path}: asks for {name} {expected_size}, {WEIGHTS} has {stored_size}")
