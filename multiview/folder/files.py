"""A model on disk: config.json, model.safetensors, vocab.txt, README.md; vectors.npy with fixed words.

A folder may instead hold several models (``{"members": ["trained", "fixed"]}``) whose vectors are
concatenated, such as the paper's two configurations. Nothing in a folder is executable or pickled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from corpora.support.config import config_from_json, config_to_json
from corpora.support.errors import UserError
from corpora.support.files import atomic_path, read_json, write_json, write_text
from multiview.config import EncoderConfig
from multiview.encoders.stack import ViewStack
from multiview.words.table import WordTable

FORMAT = 2
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


def parsers_of(identity: dict[str, Any]) -> dict[str, Any]:
    """The parser of each annotation, from a tree cache's identity."""
    return {need: identity[key] for need, key in KINDS.items() if identity.get(key)}


def save_member(folder: Path, member: Member, *, card: str, training: dict[str, Any]) -> None:
    """Write a model. Each file is replaced atomically, config.json last.

    Args:
        folder: the model folder.
        member: network and identities.
        card: text of README.md.
        training: configuration and metrics, recorded in config.json.
    """
    network = member.network
    with atomic_path(folder / "model.safetensors") as temporary:
        save_file(network.weights(), temporary)
    network.words.save(folder)
    write_text(folder / "README.md", card)
    config = {
        "format": FORMAT,
        "views": network.views,
        "encoder": config_to_json(network.config),
        "words": config_to_json(network.words.record()),
        "parsers": member.parsers,
        "corpus": member.corpus,
        "training": training,
    }
    write_json(folder / "config.json", config)


def save_members(folder: Path, names: list[str], *, card: str) -> None:
    """Make a folder of models from finished subfolders ``names``."""
    write_text(folder / "README.md", card)
    write_json(folder / "config.json", {"format": FORMAT, "members": names})


def load_members(folder: Path, device: torch.device | str = "cpu") -> list[Member]:
    """Load a model folder.

    Raises:
        UserError: a file is missing, damaged or of another format; it is named.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder}: no model here (no config.json); train one with python -m multiview.train")
    config = read_json(folder / "config.json")
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        found = config.get("format") if isinstance(config, dict) else None
        raise UserError(f"{folder / 'config.json'}: model format {found}, this program reads {FORMAT}")
    if "members" in config:
        return [member for name in config["members"] for member in load_members(folder / name, device)]
    try:
        return [_load_member(folder, config, torch.device(device))]
    except (KeyError, TypeError) as error:
        raise UserError(f"{folder / 'config.json'}: damaged ({error})") from None


def member_names(folder: Path) -> list[str]:
    """Subfolders of a folder of several models; ``[""]`` where the folder is itself the model.

    Raises:
        UserError: no model there.
    """
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder}: no model here (no config.json); train one with python -m multiview.train")
    names: list[str] = read_json(folder / "config.json").get("members", [""])
    return names


def training_hours(folder: Path) -> float | None:
    """How long a model was trained, all its parts together; None where that is not recorded."""
    records = [folder / name / TIME for name in member_names(folder)]
    if not all(record.is_file() for record in records):
        return None
    return sum(float(read_json(record)["seconds"]) for record in records) / 3600


def _load_member(folder: Path, config: dict[str, Any], device: torch.device) -> Member:
    views = tuple(config["views"])
    words = WordTable.load(folder, config["words"], views=len(views))
    encoder = config_from_json(EncoderConfig, config["encoder"], where=folder / "config.json")
    network = ViewStack(views, words, encoder)
    path = folder / "model.safetensors"
    try:
        weights = load_file(path)
        wanted = words.trained_vocabulary.rows
        rows = len(weights.get("words.tables.0", ())) or wanted
        if rows != wanted:
            raise UserError(f"{folder / 'vocab.txt'}: {wanted} rows, the tables have {rows}")
        network.load_state_dict(weights)
    except (FileNotFoundError, SafetensorError, RuntimeError) as error:
        raise UserError(f"{path}: cannot be loaded ({str(error).splitlines()[0]})") from None
    network.to(device).eval()
    return Member(network, config["parsers"], config["corpus"])
