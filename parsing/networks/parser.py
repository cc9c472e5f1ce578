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
import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from corpora.sentences import read_sentences
from parsing.networks.config import EncoderSizes
from parsing.networks.features import ParserVocabulary, TypeTable
from parsing.networks.sentence_encoder import SentenceEncoder, TypeVectors
from parsing.trees.batch import DeviceLost
from runtime.cli import LOGGER, Config, config_from_json, config_to_json, configuration
from runtime.device import build_without_weights, with_torch_defaults
from runtime.errors import UserError, out_of_memory
from runtime.files import read_json, sha256_file, write_json
from runtime.folders import current_folder, refuse_others, replace_folder
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
    """``config.json``: ``kind`` is dependency or constituency, ``sha256`` has the hashes of two files."""

    format: Literal[1] = 1
    kind: str
    name: str
    version: str
    model: dict[str, Any]
    sha256: dict[str, str]


@dataclass(frozen=True)
class ModelFolder:
    """What a model folder holds: JSON values by file (the model's configuration, its vocabulary), weights."""

    path: Path
    files: dict[str, Any]
    tensors: dict[str, Tensor]
    """By parameter name, as float32."""
    identity: dict[str, str]

    def part(self, config_type: type[Config], file: str = CONFIG, key: str = "") -> Config:
        """Read a file, or one mapping in it, as a configuration; keys that it does not have are left out."""
        values = self.files[file].get(key) if key else self.files[file]
        if not isinstance(values, dict):
            raise UserError(f"{self.path / file}: {key!r} is missing or no mapping")
        known = {field.name for field in dataclasses.fields(config_type)}  # type: ignore[arg-type]
        values = {name: value for name, value in values.items() if name in known}
        return config_from_json(config_type, values, where=self.path / file)

    def names(self, key: str) -> tuple[str, ...]:
        """Return one list of the vocabulary (relations, labels or tags), which must be there."""
        value = self.files[VOCABULARY].get(key)
        if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
            raise UserError(f"{self.path / VOCABULARY}: {key!r} is missing or no list of names")
        return tuple(value)

    def build(self, make: Callable[[], Module]) -> Module:
        """Build a module with the folder's weights, which must have its sizes, in eval mode."""
        try:
            with build_without_weights():
                module = make()
            module.load_state_dict(self.tensors, assign=True)
        except (OverflowError, RuntimeError, TypeError) as error:
            if out_of_memory(error):
                raise
            reason = str(error).splitlines()[:2][-1].strip()  # torch's first line says that there are errors
            raise UserError(f"{self.path / CONFIG}: does not fit {WEIGHTS} ({reason})") from None
        return module.eval()


def _identity(config: Mapping[str, Any]) -> dict[str, str]:
    """Return name, version and SHA-256 of a folder, from ``config.json``, which hashes the other files."""
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
    return {"name": config["name"], "version": config["version"], "sha256": digest}


def load_model_folder(path: Path, kind: str) -> ModelFolder:
    """Read a model folder of a kind; refuse what is none, has another kind or format, or is damaged."""
    path = current_folder(path)
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
        self._module, self._weights = module.eval(), identity
        self.to(next(module.parameters()).device)

    def to(self, device: torch.device) -> None:
        """Encode and score on a device from now on; trees are still decoded on the host."""
        self._module.to(device)
        self.device, self.on_gpu = device, device.type != "cpu"
        self.positions = DEVICE_POSITIONS if self.on_gpu else CPU_POSITIONS
        self.identity = {**self._weights, "device": device.type} if self.on_gpu else self._weights

    @with_torch_defaults()
    def run_batches(self, sizes: Sequence[int], start: Callable[[list[int]], Stages[Result]]) -> list[Result]:
        """Work through all sentences in batches, and return a result for each, in order.

        ``start`` begins the work on a batch, given as indices. DeviceLost is raised if the GPU fails.
        """
        results: dict[int, Result] = {}
        while len(results) < len(sizes):
            try:
                for members, parses in self._finished(self._batches(sizes, results), start):
                    results.update(zip(members, parses, strict=True))
            except Exception as error:
                if self.on_gpu and out_of_memory(error) and self.positions > max(sizes):
                    self.positions //= 2
                    torch.cuda.empty_cache()
                    log.warning("%s: too little memory; batches of %d words now", self.device, self.positions)
                    continue
                if not (self.on_gpu and re.search("^AcceleratorError|CUDA error", repr(error))):
                    raise
                reason = str(error).strip().splitlines()[0]
                remedy = "the same command goes on from what is done"
                raise DeviceLost(f"{self.device} was lost ({reason}); {remedy}") from None
        return [results[i] for i in range(len(sizes))]

    def _batches(self, sizes: Sequence[int], done: Collection[int]) -> list[list[int]]:
        """Put the sentences that are not done into batches, by length; a very long one has its own."""
        batches: list[list[int]] = []
        for i in np.argsort(sizes, kind="stable").tolist():
            if i in done:
                continue
            if not batches or (len(batches[-1]) + 1) * sizes[i] > self.positions:
                batches.append([])
            batches[-1].append(i)
        return batches

    def _finished(
        self, batches: list[list[int]], start: Callable[[list[int]], Stages[Result]]
    ) -> Iterator[tuple[list[int], Sequence[Result]]]:
        """Yield members and results of each batch, as they are done."""
        waiting = batches[::-1]
        running: list[tuple[list[int], Stages[Result]]] = []
        while waiting or running:
            older, running = running, []
            newest = []
            if waiting and (self.on_gpu or not older):
                members = waiting.pop()
                newest = [(members, start(members))]
                next(newest[0][1])
            # The device has the new batch; meanwhile each older one goes on by a stage.
            for members, stages in older:
                try:
                    next(stages)
                    running.append((members, stages))
                except StopIteration as end:
                    yield members, end.value
            running += newest


class EncodedModel(nn.Module):
    """A network over the sentence encoder.

    ``sizes`` is its configuration besides the encoder's, JSON values; ``predicted`` are its names of ids, by
    what they name.
    """

    kind: ClassVar[str]

    def __init__(
        self,
        vocabulary: ParserVocabulary,
        encoder: EncoderSizes,
        sizes: dict[str, Any],
        **predicted: Sequence[str],
    ) -> None:
        super().__init__()
        self.vocabulary, self.sizes = vocabulary, sizes
        self.predicted = {what: list(names) for what, names in predicted.items()}
        self.encoder = SentenceEncoder(len(vocabulary.words), len(vocabulary.characters), encoder)

    def save(self, path: Path, *, name: str, version: str, half: bool = True) -> dict[str, str]:
        """Write a model folder in one step and return its identity; the caller holds the folder's lock.

        ``half`` stores float16: half the size, parsing still runs in float32.
        """
        dtype = torch.float16 if half else torch.float32
        refuse_others(path, "kind")
        with replace_folder(path) as new:
            # Not save_file: it leaves a file that only its owner can read.
            stored = {key: value.detach().to("cpu", dtype) for key, value in self.state_dict().items()}
            (new / WEIGHTS).write_bytes(save({key: value.contiguous() for key, value in stored.items()}))
            # Compact: an indented list of 10,000 words is a line per word.
            names = {**config_to_json(self.vocabulary), **self.predicted}
            text = json.dumps(names, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
            (new / VOCABULARY).write_text(text + "\n", encoding="utf-8")
            model = {"encoder": config_to_json(self.encoder.config), **self.sizes}
            hashes = {file: sha256_file(new / file) for file in (VOCABULARY, WEIGHTS)}
            config = FolderConfig(kind=self.kind, name=name, version=version, model=model, sha256=hashes)
            write_json(new / CONFIG, vars(config))
        return _identity(read_json(path / CONFIG))


class EncodedParser(DeviceParser, Generic[Parse]):
    """Parses tokenised sentences with an :class:`EncodedModel`.

    Sentences are sorted by length and cut into batches of a fixed number of positions, so batches
    depend only on the sentences.
    """

    def __init__(self, model: EncodedModel, identity: dict[str, str]) -> None:
        self.vectors = TypeVectors(model.encoder, TypeTable(model.vocabulary))
        super().__init__(model, identity)

    def __getstate__(self) -> dict[str, object]:
        return state_without(self, "encoder_sha256")

    @abstractmethod
    def parse_states(self, states_BTD: Tensor, positions_B: Tensor) -> Stages[Parse]:
        """Return trees from encoder states; the arguments are what :meth:`states` returns."""

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """Return one parse per sentence, in order; every sentence has at least one token."""
        return self.run(sentences, self.parse_states)

    def states(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Compute contextual states [B, T, D] of a batch; count positions of sentences, [B], on the host."""
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
        """Move to a device, as :meth:`DeviceParser.to`, and forget the words' vectors on the old one."""
        super().to(device)
        self.vectors.forget()

    def shares_encoder(self, other: object) -> bool:
        """Tell whether another parser has an equal encoder on the same device."""
        if not isinstance(other, EncodedParser):
            return False
        return (self.encoder_sha256, self.device) == (other.encoder_sha256, other.device)

    def parse_with(
        self, other: EncodedParser[Result], sentences: Sequence[Sequence[str]]
    ) -> list[tuple[Parse, Result]]:
        """Parse with this parser and one that shares its encoder; each sentence is encoded once."""

        def work(states_BTD: Tensor, positions_B: Tensor) -> Stages[tuple[Parse, Result]]:
            ours = yield from self.parse_states(states_BTD, positions_B)
            theirs = yield from other.parse_states(states_BTD, positions_B)
            return list(zip(ours, theirs, strict=True))

        return self.run(sentences, work)
