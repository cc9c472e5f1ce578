"""Parsers: folders of their models, their batches on a device, and two that share one pass of the encoder.

A model folder holds ``config.json``, ``vocab.json``, ``model.safetensors`` and a card ``README.md``; nothing
in it is executable. ``config.json`` names the kind of parser, the format version and the SHA-256 of the two
other files, so damaged or mixed folders are refused; the folder's identity (name, version, one SHA-256 over
all three) becomes part of a tree cache's identity.

Shape suffixes: B sentences, T positions (boundaries included), D states.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import logging
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from corpora.sentences import read_sentences
from parsing.networks.config import EncoderConfig
from parsing.networks.features import ParserVocabulary, TypeTable, length_batches
from parsing.networks.sentence_encoder import SentenceEncoder, TypeVectors
from parsing.trees.batch import ConstituencyParse, DependencyParse, DeviceLost
from runtime.cli import LOGGER, Config, config_from_json, config_to_json, configuration
from runtime.device import plain_torch, shapes_alone
from runtime.errors import UserError, out_of_memory
from runtime.files import read_json, sha256_file, write_json
from runtime.folders import current, refuse_others, replaced
from runtime.surroundings import state_without

CPU_POSITIONS, DEVICE_POSITIONS = 2_000, 32_768
"""Padded positions run at once: few that stay in a core's cache, or many that fill a GPU."""
CONFIG, VOCABULARY, WEIGHTS, CARD = "config.json", "vocab.json", "model.safetensors", "README.md"

Module = TypeVar("Module", bound=nn.Module)
Parse = TypeVar("Parse")
Result = TypeVar("Result")
Stages = Generator[None, None, Sequence[Parse]]
"""The work on a batch, which yields whenever it has queued work on the device and is about to wait."""
log = logging.getLogger(LOGGER)


@configuration
class FolderConfig:
    """``config.json``."""

    format: Literal[1] = 1
    kind: str
    """``dependency`` or ``constituency``."""
    name: str
    """Short name, part of the identity."""
    version: str
    """Version of the model, part of the identity."""
    model: dict[str, Any]
    """The model's configuration, JSON values."""
    sha256: dict[str, str]
    """The hashes of the two other files."""


@dataclass(frozen=True)
class ModelFolder:
    """What a model folder holds."""

    path: Path
    files: dict[str, Any]
    """The model's configuration, and words, characters, labels: JSON values by file."""
    tensors: dict[str, Tensor]
    """Weights by parameter name, as float32."""
    identity: dict[str, str]
    """``name``, ``version`` and ``sha256``."""

    def mapping(self, file: str, key: str = "") -> dict[str, Any]:
        """A file, ``config.json`` or ``vocab.json``, or one mapping in it; a UserError if it is none."""
        value = self.files[file].get(key) if key else self.files[file]
        if not isinstance(value, dict):
            raise UserError(f"{self.path / file}: {key!r} is missing or no mapping")
        return value

    def part(self, config_type: type[Config], file: str = CONFIG, key: str = "") -> Config:
        """The same as a configuration, without what older versions wrote more; a UserError if it is none."""
        known = {field.name for field in dataclasses.fields(config_type)}  # type: ignore[arg-type]
        values = {name: value for name, value in self.mapping(file, key).items() if name in known}
        return config_from_json(config_type, values, where=self.path / file)

    def names(self, key: str) -> tuple[str, ...]:
        """Return one list of the vocabulary: relations, labels or tags; a UserError if there is none."""
        value = self.files[VOCABULARY].get(key)
        if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
            raise UserError(f"{self.path / VOCABULARY}: {key!r} is missing or no list of names")
        return tuple(value)

    def build(self, make: Callable[[], Module]) -> Module:
        """A module with the folder's weights, in eval mode; a UserError if they do not fit its sizes."""
        try:
            with shapes_alone():
                module = make()
            module.load_state_dict(self.tensors, assign=True)
        except (OverflowError, RuntimeError, TypeError) as error:
            if out_of_memory(error):
                raise
            reason = str(error).splitlines()[:2][-1].strip()  # torch's first line says that there are errors
            raise UserError(f"{self.path / CONFIG}: does not fit {WEIGHTS} ({reason})") from None
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
    """Write a model folder in one step and return its identity. Whoever calls this holds the folder's lock.

    ``half`` stores float16: half the size, parsing still runs in float32.
    """
    dtype = torch.float16 if half else torch.float32
    refuse_others(path, "kind")
    with replaced(path) as new:
        # Not save_file: it leaves a file that only its owner can read.
        stored = {name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in tensors.items()}
        (new / WEIGHTS).write_bytes(save(stored))
        # Compact: an indented list of 10,000 words is a line per word.
        text = json.dumps(vocabulary, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        (new / VOCABULARY).write_text(text + "\n", encoding="utf-8")
        hashes = {file: sha256_file(new / file) for file in (VOCABULARY, WEIGHTS)}
        content = FolderConfig(kind=kind, name=name, version=version, model=config, sha256=hashes)
        write_json(new / CONFIG, vars(content))
    return _identity(read_json(path / CONFIG))


def _identity(config: Mapping[str, Any]) -> dict[str, str]:
    """Name, version and SHA-256 of a folder, from ``config.json``, which hashes the other files."""
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
    return {"name": config["name"], "version": config["version"], "sha256": digest}


def load_model_folder(path: Path, kind: str) -> ModelFolder:
    """Read and verify a model folder of this kind.

    Raises:
        UserError: no model folder, another kind or format version, or a damaged file; one line.
    """
    path = current(path)
    if not (path / CONFIG).is_file():
        inside = [file.parent for file in sorted(path.glob(f"*/{CONFIG}"))]
        advice = " or ".join(f"give {one}" for one in inside) or "write one with python -m parsing.train"
        raise UserError(f"{path}: not a model folder (no {CONFIG}); {advice}")
    values = read_json(path / CONFIG)
    config = config_from_json(FolderConfig, values, where=path / CONFIG)
    if odd := sorted(config.sha256.keys() - {VOCABULARY, WEIGHTS}):
        raise UserError(f"{path / CONFIG}: sha256 {odd[0]!r}: no file of a parser")
    if config.kind != kind:
        raise UserError(f"{path / CONFIG}: a {config.kind} model where a {kind} model is needed")
    for file in (VOCABULARY, WEIGHTS):
        if not (path / file).is_file() or sha256_file(path / file) != config.sha256.get(file):
            raise UserError(f"{path / file}: does not match the SHA-256 in {CONFIG}; copy the folder again")
    try:
        stored = load_file(path / WEIGHTS)
    except SafetensorError as error:
        raise UserError(f"{path / WEIGHTS}: not a safetensors file ({error})") from None
    for name, tensor in stored.items():
        if not (tensor.is_floating_point() and tensor.float().isfinite().all()):
            raise UserError(f"{path / WEIGHTS}: {name} is {tensor.dtype}, or not all of it is finite")
    tensors = {name: tensor.to(torch.float32, copy=True) for name, tensor in stored.items()}
    files = {CONFIG: config.model, VOCABULARY: read_json(path / VOCABULARY)}
    return ModelFolder(path, files, tensors, _identity(values))


class DeviceParser:
    """A parser whose batches run on a device: that of its network until :meth:`to` moves it.

    A batch has at most ``positions`` sentences x the longest one's positions. On a CPU it is finished before
    the next one begins. On a GPU some are in flight: while the device scores one, the host decodes another.
    If the GPU's memory is too small, batches are halved, once and for all.

    Its identity is the name, version and sha256 of the weights, and the type of the device unless that is the
    CPU. The rule: whatever may change a tree is part of the identity. On a CPU the trees do not depend on the
    processor, the batches or the number of workers. A GPU adds in another order, so they may.
    """

    def __init__(self, module: nn.Module, identity: dict[str, str]) -> None:
        self._module, self.identity = module.eval(), identity
        self._place(next(module.parameters()).device)

    def _place(self, device: torch.device) -> None:
        self.device, self.on_gpu = device, device.type != "cpu"
        self.positions = DEVICE_POSITIONS if self.on_gpu else CPU_POSITIONS

    def to(self, device: torch.device) -> None:
        """Encode and score on a device from now on; trees are still decoded on the host."""
        self._module.to(device)
        self._place(device)
        others = {key: value for key, value in self.identity.items() if key != "device"}
        self.identity = {**others, "device": device.type} if self.on_gpu else others

    @plain_torch()
    def run_batches(
        self, sizes: Sequence[int] | NDArray[np.integer], start: Callable[[list[int]], Stages[Result]]
    ) -> list[Result]:
        """One result per sentence, in order; ``start`` maps the indices of a batch to the work on them.

        Raises:
            DeviceLost: the GPU failed.
        """
        results: dict[int, Result] = {}
        while left := [i for i in range(len(sizes)) if i not in results]:
            try:
                for members, parses in self._finished(left, [sizes[i] for i in left], start):
                    results.update(zip(members, parses, strict=True))
            except Exception as error:
                if self.on_gpu and out_of_memory(error) and self.positions > max(sizes):
                    self.positions //= 2
                    torch.cuda.empty_cache()
                    log.warning("%s: too little memory; batches of %d words now", self.device, self.positions)
                elif self.on_gpu and (
                    type(error).__name__ == "AcceleratorError" or "CUDA error" in str(error)
                ):
                    reason = str(error).strip().splitlines()[0]
                    raise DeviceLost(
                        f"{self.device} was lost ({reason}); the same command goes on from what is done"
                    ) from None
                else:
                    raise
        return [results[i] for i in range(len(sizes))]

    def _finished(
        self, names: list[int], sizes: Sequence[int], start: Callable[[list[int]], Stages[Result]]
    ) -> Iterator[tuple[list[int], Sequence[Result]]]:
        """Members and results of each batch, as they are done."""
        batches = iter(length_batches(sizes, self.positions))
        running: list[tuple[list[int], Stages[Result]]] = []
        batch = next(batches, None)
        while batch or running:
            newest = []
            if batch:
                members = [names[i] for i in batch]
                newest = [(members, start(members))]
                next(newest[0][1])
            # The device has the new batch; meanwhile each older one goes on by a stage.
            waiting = []
            for members, stages in running:
                try:
                    next(stages)
                    waiting.append((members, stages))
                except StopIteration as end:
                    yield members, end.value
            running = waiting + newest
            batch = next(batches, None) if self.on_gpu or not running else None


class EncodedModel(nn.Module):
    """A network over the sentence encoder.

    ``sizes``: its configuration besides the encoder's, JSON values; ``predicted``: its names of ids, by what
    they name.
    """

    kind: ClassVar[str]

    def __init__(
        self,
        vocabulary: ParserVocabulary,
        encoder: EncoderConfig,
        sizes: dict[str, Any],
        **predicted: Sequence[str],
    ) -> None:
        super().__init__()
        self.vocabulary, self.sizes = vocabulary, sizes
        self.predicted = {what: list(names) for what, names in predicted.items()}
        self.encoder = SentenceEncoder(len(vocabulary.words), len(vocabulary.characters), encoder)

    def content(self) -> dict[str, Any]:
        """What :func:`save_model_folder` writes."""
        return {
            "kind": self.kind,
            "config": {"encoder": config_to_json(self.encoder.config), **self.sizes},
            "vocabulary": {**config_to_json(self.vocabulary), **self.predicted},
            "tensors": self.state_dict(),
        }


class EncodedParser(DeviceParser, Generic[Parse]):
    """Parses tokenised sentences with an :class:`EncodedModel`.

    Sentences are sorted by length and cut into batches of a fixed number of positions, so batches
    depend only on the sentences.
    """

    def __init__(self, model: EncodedModel, identity: dict[str, str]) -> None:
        super().__init__(model, identity)
        self.vectors = TypeVectors(model.encoder, TypeTable(model.vocabulary))

    def __getstate__(self) -> dict[str, object]:
        return state_without(self, "encoder_sha256")

    @abstractmethod
    def parse_states(self, states_BTD: Tensor, positions_B: Tensor) -> Stages[Parse]:
        """Trees from encoder states; the arguments are what :meth:`states` returns."""

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """One parse per sentence, in order; every sentence has at least one token."""
        return self.run(sentences, self.parse_states)

    def states(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Compute contextual states [B, T, D] of a batch; positions of each sentence, [B], on the host."""
        batch, x_UE = self.vectors.read(sentences)
        return self.vectors.encoder(batch, x_UE), batch.lengths_B

    def run(
        self, sentences: Sequence[Sequence[str]], work: Callable[[Tensor, Tensor], Stages[Result]]
    ) -> list[Result]:
        """Encode sentences batch by batch and do the work on what :meth:`states` returns."""
        sentences = read_sentences(sentences, "parse", strings=False, spaces=True)
        boundaries = 1 + int(self.vectors.encoder.config.end_boundary)

        @torch.inference_mode()
        def start(members: list[int]) -> Stages[Result]:
            return (yield from work(*self.states([sentences[i] for i in members])))

        return self.run_batches([len(tokens) + boundaries for tokens in sentences], start)

    @functools.cached_property
    def encoder_sha256(self) -> str:
        """Hash the encoder's sizes, vocabulary and weights: equal ones give equal states."""
        encoder = self.vectors.encoder
        digest = hashlib.sha256(repr((encoder.config, self.vectors.table.vocabulary)).encode())
        for parameter in encoder.parameters():
            digest.update(parameter.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def to(self, device: torch.device) -> None:
        """See :meth:`DeviceParser.to`."""
        super().to(device)
        self.vectors.forget()


def parse_both(
    dependency: EncodedParser[DependencyParse],
    constituency: EncodedParser[ConstituencyParse],
    sentences: Sequence[Sequence[str]],
) -> list[tuple[DependencyParse, ConstituencyParse]]:
    """Return both parses of each sentence, in order, by parsers of equal encoders, with one pass of it.

    Each parser gives the same trees by itself.
    """

    def work(states_BTD: Tensor, positions_B: Tensor) -> Stages[tuple[DependencyParse, ConstituencyParse]]:
        arcs = yield from dependency.parse_states(states_BTD, positions_B)
        spans = yield from constituency.parse_states(states_BTD, positions_B)
        return list(zip(arcs, spans, strict=True))

    return constituency.run(sentences, work)
