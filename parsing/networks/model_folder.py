"""Model folders: ``config.json``, ``vocab.json``, ``model.safetensors`` and a card ``README.md``.

Nothing in them is executable. ``config.json`` names the kind of parser, the format version and the
SHA-256 of the two other files, so damaged or mixed folders are refused; the folder's
identity (name, version, one SHA-256 over all three) becomes part of a tree cache's identity.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from corpora.support.config import Config, config_from_json
from corpora.support.errors import UserError, out_of_memory
from corpora.support.files import atomic_path, read_json, sha256_file, write_json, write_text

FORMAT = 1
CONFIG, VOCABULARY, WEIGHTS, CARD = "config.json", "vocab.json", "model.safetensors", "README.md"


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """What a model folder holds."""

    path: Path
    kind: str
    """``dependency``, ``constituency`` or ``benepar``."""
    config: dict[str, object]
    """The model's configuration, JSON values."""
    vocabulary: dict[str, object]
    """Words, characters, labels: JSON values."""
    tensors: dict[str, Tensor]
    """Weights by parameter name, as float32."""
    identity: dict[str, str]
    """``name``, ``version`` and ``sha256``."""

    def part(self, config_type: type[Config], key: str) -> Config:
        """One part of the configuration; missing values take their defaults.

        Raises:
            UserError: it does not fit ``config_type``.
        """
        return config_from_json(config_type, self.config.get(key, {}), where=self.path / CONFIG)

    def names(self, key: str) -> tuple[str, ...]:
        """One list of the vocabulary: relations, labels or tags.

        Raises:
            UserError: it is missing, empty or not a list of strings.
        """
        found = self.vocabulary.get(key)
        if not isinstance(found, list) or not found or not all(isinstance(name, str) for name in found):
            raise UserError(f"{self.path / VOCABULARY}: {key!r} is missing or no list of names")
        return tuple(found)

    def mapping(self, file: str, key: str) -> dict[str, object]:
        """One mapping of ``config.json`` or ``vocab.json`` that belongs to another library.

        Raises:
            UserError: it is missing or not a mapping.
        """
        found = (self.config if file == CONFIG else self.vocabulary).get(key)
        if not isinstance(found, dict):
            raise UserError(f"{self.path / file}: {key!r} is missing or no mapping")
        return found


def save_model_folder(
    path: Path,
    *,
    kind: str,
    name: str,
    version: str,
    config: Mapping[str, object],
    vocabulary: Mapping[str, object],
    tensors: Mapping[str, Tensor],
    half: bool,
    card: str,
) -> dict[str, str]:
    """Write a model folder; each file is atomic and ``config.json`` comes last.

    Args:
        path: the folder, made if missing.
        kind: ``dependency``, ``constituency`` or ``benepar``.
        name: short name, part of the identity.
        version: version of the model, part of the identity.
        config: the model's configuration, JSON values.
        vocabulary: words, characters, labels, JSON values.
        tensors: weights by parameter name.
        half: store float16 (half the size; parsing still runs in float32).
        card: text of the model card.

    Returns:
        The folder's identity.
    """
    dtype = torch.float16 if half else torch.float32
    stored = {k: v.detach().to("cpu", dtype).contiguous() for k, v in tensors.items()}
    with atomic_path(path / WEIGHTS) as temporary:
        # Not save_file: it leaves a file that only its owner can read.
        temporary.write_bytes(save(stored))
    with atomic_path(path / VOCABULARY) as temporary:
        # Compact: an indented list of 10,000 words is a line per word.
        text = json.dumps(vocabulary, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        temporary.write_text(text + "\n", encoding="utf-8")
    write_text(path / CARD, card)
    content = {
        "format": FORMAT,
        "kind": kind,
        "name": name,
        "version": version,
        "model": config,
        "sha256": {file: sha256_file(path / file) for file in (VOCABULARY, WEIGHTS)},
    }
    write_json(path / CONFIG, content)
    return _identity(read_json(path / CONFIG))


def _identity(config: Mapping[str, object]) -> dict[str, str]:
    """Name, version and SHA-256 of a folder, from ``config.json``, which hashes the other files."""
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
    return {"name": str(config["name"]), "version": str(config["version"]), "sha256": digest}


def load_model_folder(path: Path, *, kind: str, other_kind: str | None = None) -> ModelFolder:
    """Read and verify a model folder.

    Args:
        path: the folder.
        kind: the kind of model wanted.
        other_kind: another kind that is accepted.

    Raises:
        UserError: no model folder, another kind or format version, or a damaged file; one line.
    """
    if not (path / CONFIG).is_file():
        raise UserError(f"{path}: not a model folder (no {CONFIG}); write one with python -m parsing.train")
    config = read_json(path / CONFIG)
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        found = config.get("format") if isinstance(config, dict) else None
        raise UserError(f"{path / CONFIG}: model format {found!r}, this version reads {FORMAT}")
    for key, form in (("kind", str), ("name", str), ("version", str), ("model", dict), ("sha256", dict)):
        if not isinstance(config.get(key), form):
            raise UserError(
                f"{path / CONFIG}: {key!r} is missing or no {form.__name__}; copy the folder again"
            )
        if key == "kind" and config["kind"] not in (kind, other_kind):
            raise UserError(f"{path / CONFIG}: a {config['kind']} model where a {kind} model is needed")
    for file in (VOCABULARY, WEIGHTS):
        if not (path / file).is_file():
            raise UserError(f"{path / file}: missing; the model folder is incomplete")
        if sha256_file(path / file) != config["sha256"].get(file):
            raise UserError(f"{path / file}: does not match the SHA-256 in {CONFIG}; copy the folder again")
    try:
        tensors = load_file(path / WEIGHTS)
    except SafetensorError as error:
        raise UserError(f"{path / WEIGHTS}: not a safetensors file ({error})") from None
    return ModelFolder(
        path=path,
        kind=config["kind"],
        config=config["model"],
        vocabulary=read_json(path / VOCABULARY),
        tensors={k: v.float() for k, v in tensors.items()},
        identity=_identity(config),
    )


@contextlib.contextmanager
def sizes_from(folder: ModelFolder) -> Iterator[None]:
    """While a module is made: a size in the folder that no tensor can have is reported in one line.

    Raises:
        UserError: instead of torch's error.
    """
    try:
        yield
    except (OverflowError, RuntimeError, TypeError) as error:
        if out_of_memory(error):
            raise
        reason = str(error).splitlines()[0]
        raise UserError(f"{folder.path / CONFIG}: sizes out of range ({reason})") from None


def load_weights(module: torch.nn.Module, folder: ModelFolder) -> None:
    """Put a folder's weights into a module.

    Raises:
        UserError: names or shapes differ (weights of another configuration).
    """
    expected = {k: tuple(v.shape) for k, v in module.state_dict().items()}
    found = {k: tuple(v.shape) for k, v in folder.tensors.items()}
    if expected != found:
        name = sorted(set(expected.items()) ^ set(found.items()))[0][0]
        raise UserError(
            f"{folder.path / WEIGHTS}: {name} is {found.get(name)}, {CONFIG} implies {expected.get(name)}"
        )
    module.load_state_dict(folder.tensors)
