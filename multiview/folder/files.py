"""A model on disk: config.json, model.safetensors, vocab.txt, vectors.npy with fixed words, README.md.

A folder may instead hold several models (``{"members": ["trained", "fixed"]}``) whose vectors are
concatenated, e.g. the paper's two configurations. Nothing in it is executable and nothing is pickled.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from corpora.support.errors import UserError
from corpora.support.files import atomic_path, read_json, write_json, write_text
from multiview.training.network import MultiViewNetwork, Shape
from multiview.words.table import Words, save_vectors
from multiview.words.vectors import WordVectors, expand_table
from multiview.words.vocabulary import Vocabulary

FORMAT = 1
KINDS = {"dep": "dependency", "const": "constituency"}
"""How a tree cache calls the parser of each annotation."""


@dataclass
class Member:
    """One trained network with its words and what it needs to read a sentence."""

    network: MultiViewNetwork
    words: Words
    parsers: dict[str, Any] = field(default_factory=dict)
    """Identity of the parser per annotation (``dep``, ``const``) as the tree cache records it."""
    corpus: dict[str, Any] = field(default_factory=dict)
    """Identity of the training corpus, tokenizer included."""

    def expand(self, vectors: WordVectors, limit: int) -> int:
        """Add words from pre-trained vectors: rows between the words and the hash buckets of each table.

        Args:
            vectors: see :func:`multiview.words.vectors.expand_table`.
            limit: words to add at most.

        Returns:
            Number of words added.
        """
        old = self.words.vocabulary
        known = {word: row for row, word in enumerate(old.words, start=1)}
        words: list[str] = []
        for table in self.network.tables:
            values = table.detach().cpu().numpy()
            words, rows = expand_table(known, values, vectors, limit)
            cut = 1 + len(old)
            grown = np.concatenate([values[:cut], rows, values[cut:]])
            table.data = torch.from_numpy(grown).to(table.device)
        self.words = Words(Vocabulary([*old.words, *words], buckets=old.buckets, case=old.case))
        self.network.shape = dataclasses.replace(self.network.shape, table_rows=self.words.vocabulary.rows)
        return len(words)


def parsers_of(identity: dict[str, Any]) -> dict[str, Any]:
    """Parser identities per annotation out of a tree cache's identity."""
    return {need: identity[key] for need, key in KINDS.items() if identity.get(key)}


def save_member(folder: Path, member: Member, *, card: str, training: dict[str, Any]) -> None:
    """Write a model; each file replaces its predecessor atomically, config.json last.

    Args:
        folder: the model folder.
        member: network (without its objective's weights), words, identities.
        card: README.md.
        training: configuration and figures, kept in config.json for the record.
    """
    vocabulary = member.words.vocabulary
    tensors = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in member.network.state_dict().items()
        if not name.startswith("objective.")
    }
    with atomic_path(folder / "model.safetensors") as temporary:
        save_file(tensors, temporary)
    vocabulary.save(folder / "vocab.txt")
    if member.words.fixed is not None:
        save_vectors(folder / "vectors.npy", member.words.fixed)
    write_text(folder / "README.md", card)
    config = {
        "format": FORMAT,
        "shape": dataclasses.asdict(member.network.shape),
        "words": {"buckets": vocabulary.buckets, "case": vocabulary.case, "fixed": member.words.is_fixed},
        "parsers": member.parsers,
        "corpus": member.corpus,
        "training": training,
    }
    write_json(folder / "config.json", config)


def save_members(folder: Path, names: list[str], *, card: str) -> None:
    """Make a folder of models out of finished subfolders ``names``."""
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


def _load_member(folder: Path, config: dict[str, Any], device: torch.device) -> Member:
    shape = Shape(**{**config["shape"], "views": tuple(config["shape"]["views"])})
    network = MultiViewNetwork(shape)
    path = folder / "model.safetensors"
    try:
        network.load_state_dict(load_file(path))
    except (FileNotFoundError, SafetensorError, RuntimeError) as error:
        raise UserError(f"{path}: cannot be loaded ({str(error).splitlines()[0]})") from None
    network.to(device).eval()
    words = config["words"]
    vocabulary = Vocabulary.load(folder / "vocab.txt", buckets=words["buckets"], case=words["case"])
    if not words["fixed"]:
        if vocabulary.rows != shape.table_rows:
            raise UserError(
                f"{folder / 'vocab.txt'}: {vocabulary.rows} rows, the tables have {shape.table_rows}"
            )
        return Member(network, Words(vocabulary), config["parsers"], config["corpus"])
    path = folder / "vectors.npy"
    try:
        vectors = np.load(path, mmap_mode="r")
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be loaded ({error})") from None
    if vectors.shape != (len(vocabulary), shape.word_dim):
        raise UserError(
            f"{path}: {vectors.shape} numbers for {len(vocabulary)} words of size {shape.word_dim}"
        )
    return Member(network, Words.with_fixed(vocabulary, vectors), config["parsers"], config["corpus"])
