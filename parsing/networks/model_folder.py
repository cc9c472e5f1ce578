"""Model folders: ``config.json``, ``vocab.json``, ``model.safetensors`` and a card ``README.md``.

Nothing in them is executable. ``config.json`` names the kind of parser, the format version and the
SHA-256 of the two other files, so damaged or mixed folders are refused; the folder's
identity (name, version, one SHA-256 over all three) becomes part of a tree cache's identity.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from corpora.support.cli import Config, config_from_json, configuration
from corpora.support.errors import UserError, out_of_memory
from corpora.support.files import atomic_path, read_json, sha256_file, write_json
from parsing.networks.features import ParserVocabulary

Module = TypeVar("Module", bound=torch.nn.Module)
CONFIG, VOCABULARY, WEIGHTS, CARD = "config.json", "vocab.json", "model.safetensors", "README.md"


@configuration
class FolderConfig:
    """``config.json``."""

    format: Literal[1] = 1
    kind: str
    """``dependency``, ``constituency`` or ``benepar``."""
    name: str
    """Short name, part of the identity."""
    version: str
    """Version of the model, part of the identity."""
    model: dict[str, Any]
    """The model's configuration, JSON values."""
    sha256: dict[str, str]
    """Of the two other files."""


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """What a model folder holds."""

    path: Path
    kind: str
    config: dict[str, Any]
    """The model's configuration, JSON values."""
    vocabulary: dict[str, Any]
    """Words, characters, labels: JSON values."""
    tensors: dict[str, Tensor]
    """Weights by parameter name, as float32."""
    identity: dict[str, str]
    """``name``, ``version`` and ``sha256``."""

    def part(self, config_type: type[Config], key: str = "") -> Config:
        """The configuration, or one part of it; a UserError if it does not fit ``config_type``."""
        return self._read(config_type, self.mapping(CONFIG, key) if key else self.config, CONFIG)

    def parser_vocabulary(self) -> ParserVocabulary:
        """Words and characters; a UserError if there are none."""
        return self._read(ParserVocabulary, self.vocabulary, VOCABULARY)

    def _read(self, config_type: type[Config], values: Mapping[str, Any], file: str) -> Config:
        """Those of the values that the type has; older versions wrote more."""
        known = {field.name for field in dataclasses.fields(config_type)}  # type: ignore[arg-type]
        kept = {name: value for name, value in values.items() if name in known}
        return config_from_json(config_type, kept, where=self.path / file)

    def names(self, key: str) -> tuple[str, ...]:
        """One list of the vocabulary: relations, labels or tags; a UserError if there is none."""
        found = self.vocabulary.get(key)
        if not isinstance(found, list) or not found or not all(isinstance(name, str) for name in found):
            raise UserError(f"{self.path / VOCABULARY}: {key!r} is missing or no list of names")
        return tuple(found)

    def mapping(self, file: str, key: str) -> dict[str, Any]:
        """One mapping of ``config.json`` or ``vocab.json``; a UserError if there is none."""
        found = (self.config if file == CONFIG else self.vocabulary).get(key)
        if not isinstance(found, dict):
            raise UserError(f"{self.path / file}: {key!r} is missing or no mapping")
        return found

    def build(self, make: Callable[[], Module]) -> Module:
        """A module with the folder's weights, in eval mode.

        Raises:
            UserError: a size in the folder that no tensor can have, or weights of another configuration.
        """
        try:
            module = make()
        except (OverflowError, RuntimeError, TypeError) as error:
            if out_of_memory(error):
                raise
            reason = str(error).splitlines()[0]
            raise UserError(f"{self.path / CONFIG}: sizes out of range ({reason})") from None
        expected = {k: tuple(v.shape) for k, v in module.state_dict().items()}
        found = {k: tuple(v.shape) for k, v in self.tensors.items()}
        if expected != found:
            name = sorted(set(expected.items()) ^ set(found.items()))[0][0]
            raise UserError(
                f"{self.path / WEIGHTS}: {name} is {found.get(name)}, {CONFIG} implies {expected.get(name)}"
            )
        module.load_state_dict(self.tensors)
        return module.eval()


def save_model_folder(
    path: Path,
    *,
    kind: str,
    name: str,
    version: str,
    config: dict[str, Any],
    vocabulary: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    half: bool = True,
) -> dict[str, str]:
    """Write a model folder (fields as in :class:`ModelFolder`) and return its identity.

    Each file is atomic and ``config.json`` comes last. ``half`` stores float16: half the size, parsing still
    runs in float32.
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
    hashes = {file: sha256_file(path / file) for file in (VOCABULARY, WEIGHTS)}
    content = FolderConfig(kind=kind, name=name, version=version, model=config, sha256=hashes)
    write_json(path / CONFIG, vars(content))
    return _identity(read_json(path / CONFIG))


def _identity(config: Mapping[str, Any]) -> dict[str, str]:
    """Name, version and SHA-256 of a folder, from ``config.json``, which hashes the other files."""
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
    return {"name": config["name"], "version": config["version"], "sha256": digest}


def load_model_folder(path: Path, *kinds: str) -> ModelFolder:
    """Read and verify a model folder of one of these kinds.

    Raises:
        UserError: no model folder, another kind or format version, or a damaged file; one line.
    """
    if not (path / CONFIG).is_file():
        raise UserError(f"{path}: not a model folder (no {CONFIG}); write one with python -m parsing.train")
    values = read_json(path / CONFIG)
    config = config_from_json(FolderConfig, values, where=path / CONFIG)
    if config.kind not in kinds:
        raise UserError(f"{path / CONFIG}: a {config.kind} model where a {kinds[0]} model is needed")
    for file in (VOCABULARY, WEIGHTS):
        if not (path / file).is_file() or sha256_file(path / file) != config.sha256.get(file):
            raise UserError(f"{path / file}: does not match the SHA-256 in {CONFIG}; copy the folder again")
    try:
        tensors = load_file(path / WEIGHTS)
    except SafetensorError as error:
        raise UserError(f"{path / WEIGHTS}: not a safetensors file ({error})") from None
    return ModelFolder(
        path=path,
        kind=config.kind,
        config=config.model,
        vocabulary=read_json(path / VOCABULARY),
        tensors={k: v.float() for k, v in tensors.items()},
        identity=_identity(values),
    )
