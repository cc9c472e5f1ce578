"""The base of both parsers: model folders, batches on a device, and one encoder pass for two parsers.

A model folder holds ``config.json``, ``vocab.json``, ``model.safetensors`` and a model card ``README.md``;
nothing in it is executable. ``config.json`` names the kind of parser and the format version, and has the
hashes of the two other files, so that a folder whose files are damaged or do not belong together is refused.
The folder's identity (name, version, one SHA-256 over all three) becomes part of a tree cache's identity.

Legend of dimension suffixes: B sentences, T positions (boundaries included), D states.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import re
from abc import abstractmethod
from collections import deque
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
from parsing.networks.features import ParserVocabulary
from parsing.networks.sentence_encoder import SentenceEncoder, TypeVectors
from parsing.trees.batch import DeviceLost
from runtime.cli import LOGGER, Config, config_from_json, config_to_json, configuration
from runtime.device import build_without_weights, with_torch_defaults
from runtime.errors import UserError, out_of_memory
from runtime.files import read_json, read_record, write_record
from runtime.folders import current_folder, refuse_others, replace_folder
from runtime.process import cached_property, state_without
from runtime.products import chosen_products, products_in

CPU_POSITIONS, GPU_POSITIONS = 2_000, 32_768
"""Padded positions in a batch: few on a CPU, to stay in a core's cache, many on a GPU, to fill it."""
CONFIG, VOCABULARY, WEIGHTS, CARD = "config.json", "vocab.json", "model.safetensors", "README.md"

Model = TypeVar("Model", bound="ParserModel")
Parse = TypeVar("Parse")
Result = TypeVar("Result")
Stages = Generator[None, None, Sequence[Parse]]
"""The work on a batch as a generator, which yields before each wait for work that the device has queued."""
log = logging.getLogger(LOGGER)


@configuration
class FolderConfig:
    """The content of ``config.json``; ``kind`` is dependency or constituency."""

    format: Literal[1] = 1
    kind: str
    name: str
    version: str
    model: dict[str, Any]
    files: dict[str, Any]  # size and SHA-256 of the two other files


@dataclass(frozen=True)
class ModelFolder:
    """The content of a model folder, after checks of its hashes and types."""

    path: Path
    files: dict[str, Any]  # JSON values by file: the model's configuration and its vocabulary
    tensors: dict[str, Tensor]  # float32 weights by parameter name
    identity: dict[str, str]

    def section(self, config_type: type[Config], file: str = CONFIG, key: str = "") -> Config:
        """Read a file, or the mapping under ``key`` in it, as a configuration; its unknown keys are ignored.

        Raises UserError if there is no such mapping, or if a value is wrong.
        """
        values = self.files[file].get(key) if key else self.files[file]
        if not isinstance(values, dict):
            raise UserError(f"{self.path / file}: {key!r} is missing or no mapping")
        fields = {field.name for field in dataclasses.fields(config_type)}  # type: ignore[arg-type]
        values = {name: value for name, value in values.items() if name in fields}
        return config_from_json(config_type, values, where=self.path / file)

    def names(self, key: str) -> tuple[str, ...]:
        """Return a list of the vocabulary file, such as ``relations``. Raises UserError if it is missing."""
        value = self.files[VOCABULARY].get(key)
        if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
            raise UserError(f"{self.path / VOCABULARY}: {key!r} is missing or no list of names")
        return tuple(value)

    def build(self, make: Callable[[], Model]) -> Model:
        """Return the model that ``make`` makes, with the folder's weights, in eval mode.

        Raises UserError if the weights do not have the model's sizes.
        """
        try:
            with build_without_weights():
                model = make()
            model.load_state_dict(self.tensors, assign=True)
        except (OverflowError, RuntimeError, TypeError) as error:
            if out_of_memory(error):
                raise
            reason = str(error).splitlines()[:2][-1].strip()  # torch's first line has no reason
            raise UserError(f"{self.path / CONFIG}: does not fit {WEIGHTS} ({reason})") from None
        model.identity = self.identity
        return model.eval()


def _identity(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the name, version and SHA-256 of a model folder, given its ``config.json``."""
    content = {key: value for key, value in record.items() if key != "files"}
    content["sha256"] = {name: file["sha256"] for name, file in record["files"].items()}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
    return {"name": record["name"], "version": record["version"], "sha256": digest}


def load_model_folder(path: Path, kind: str) -> ModelFolder:
    """Read a model folder. Raises UserError if it is damaged, or not a model folder of this kind."""
    path = current_folder(path)
    if not (path / CONFIG).is_file():
        advice = " or ".join(f"give {file.parent}" for file in sorted(path.glob(f"*/{CONFIG}")))
        advice = advice or "write one with python -m parsing.train"
        raise UserError(f"{path}: not a model folder (no {CONFIG}); {advice}")
    values = read_record(path / CONFIG, (VOCABULARY, WEIGHTS))
    config = config_from_json(FolderConfig, values, where=path / CONFIG)
    if config.kind != kind:
        raise UserError(f"{path / CONFIG}: a {config.kind} model where a {kind} model is needed")
    try:
        tensors = load_file(path / WEIGHTS)
    except SafetensorError as error:
        raise UserError(f"{path / WEIGHTS}: not a safetensors file ({error})") from None
    for name, tensor in tensors.items():
        if not (tensor.is_floating_point() and tensor.float().isfinite().all()):
            raise UserError(f"{path / WEIGHTS}: {name} is {tensor.dtype}, or not all of it is finite")
        tensors[name] = tensor.to(torch.float32, copy=True)
    files = {CONFIG: config.model, VOCABULARY: read_json(path / VOCABULARY)}
    return ModelFolder(path, files, tensors, _identity(values))


class DeviceParser:
    """A parser whose batches run on a device: that of its network, until :meth:`to` moves both.

    A batch has at most ``positions`` positions, padding included. On a CPU each batch is finished before the
    next one begins. On a GPU several batches are in progress: each round begins a new batch, then continues
    the older ones up to their next stage (:data:`Stages`), so that the host seldom waits for the device. For
    dependency trees, with the work of the device in brackets::

        round      1         2               3               4
        batch 1    [arcs]    heads [labels]  trees
        batch 2              [arcs]          heads [labels]  trees
        batch 3                              [arcs]          heads [labels]

    If the GPU's memory is too small, batches are halved for good.

    The parser's identity is its name, its version and the sha256 of its weights. On a GPU the type of the
    device is added, and on a CPU with products in int8 the kind of products, because both round differently,
    which may change a tree.
    """

    def __init__(self, module: nn.Module, identity: dict[str, str]) -> None:
        self._module, self._weights = module.eval(), identity
        self.products = chosen_products()
        """The kind of products on a CPU."""
        self.to(next(module.parameters()).device)

    def to(self, device: torch.device) -> None:
        """Move the encoder and the scorers to a device; trees are still decoded on the host."""
        self._module.to(device)
        self.device, self.on_gpu = device, device.type != "cpu"
        self.positions = GPU_POSITIONS if self.on_gpu else CPU_POSITIONS
        if self.on_gpu:
            self.identity = {**self._weights, "device": device.type}
        elif self.products == "int8":
            self.identity = {**self._weights, "products": "int8"}
        else:
            self.identity = self._weights

    @with_torch_defaults()
    def run_batches(self, sizes: Sequence[int], begin: Callable[[list[int]], Stages[Result]]) -> list[Result]:
        """Process sentences in batches, and return the result of each sentence, in order.

        ``sizes`` are the numbers of positions of the sentences; ``begin`` begins the work on a batch, given
        the indices of its sentences. Raises DeviceLost if the GPU fails.
        """
        results: dict[int, Result] = {}

        def work(indices: list[int]) -> Iterator[None]:
            parses = yield from begin(indices)
            results.update(zip(indices, parses, strict=True))

        while len(results) < len(sizes):
            try:
                with products_in(self.products):
                    self._finish(deque(map(work, self._batches(sizes, results))))
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

    def _batches(self, sizes: Sequence[int], results: Collection[int]) -> list[list[int]]:
        """Put the sentences without a result into batches, by length; a very long one is a batch alone."""
        batches: list[list[int]] = []
        remaining = (i for i in np.argsort(sizes, kind="stable").tolist() if i not in results)
        for i in remaining:
            if not batches or (len(batches[-1]) + 1) * sizes[i] > self.positions:
                batches.append([])
            batches[-1].append(i)
        return batches

    def _finish(self, waiting: deque[Iterator[None]]) -> None:
        """Finish all batches, in rounds."""
        running: list[Iterator[None]] = []
        while waiting or running:
            newest = [waiting.popleft()] if waiting and (self.on_gpu or not running) else []
            for batch in newest:
                next(batch)
            running = [batch for batch in running if _advance(batch)] + newest


def _advance(batch: Iterator[None]) -> bool:
    """Continue a batch up to its next stage; return False if the batch is finished."""
    return next(batch, "finished") is None


class ParserModel(nn.Module):
    """The network of a parser: the sentence encoder, and in subclasses the scorers over it.

    Args:
        vocabulary: the words and characters that the encoder knows.
        encoder: the sizes of the encoder.
        sizes: the sizes of the scorers, as they are written to ``config.json``.
        inventories: the names of relations, labels or tags, as they are written to ``vocab.json``.
    """

    kind: ClassVar[str]
    identity: dict[str, str]
    """The identity of the model folder; empty for a model that was not loaded."""

    def __init__(
        self,
        vocabulary: ParserVocabulary,
        encoder: EncoderSizes,
        sizes: dict[str, Any],
        **inventories: Sequence[str],
    ) -> None:
        super().__init__()
        self.vocabulary, self.sizes, self.identity = vocabulary, sizes, {}
        self.inventories = {key: list(names) for key, names in inventories.items()}
        self.encoder = SentenceEncoder(len(vocabulary.words), len(vocabulary.characters), encoder)

    def save(self, path: Path, *, name: str, version: str, half: bool = True) -> dict[str, str]:
        """Write a model folder and return its identity; the caller holds the folder's lock.

        Args:
            path: the folder, which is replaced.
            name: the name of the model, part of its identity.
            version: the version of the model, part of its identity.
            half: whether weights are written in float16 rather than float32.
        """
        dtype = torch.float16 if half else torch.float32
        refuse_others(path, "kind")
        with replace_folder(path) as new:
            # Not by save_file, which leaves a file that only its owner can read.
            state = self.state_dict().items()
            tensors = {name: value.detach().to("cpu", dtype).contiguous() for name, value in state}
            (new / WEIGHTS).write_bytes(save(tensors))
            # Compact, because an indented list has a line for each of 10,000 words.
            names = {**config_to_json(self.vocabulary), **self.inventories}
            text = json.dumps(names, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
            (new / VOCABULARY).write_text(text + "\n", encoding="utf-8")
            model = {"encoder": config_to_json(self.encoder.config), **self.sizes}
            record = {"format": 1, "kind": self.kind, "name": name, "version": version, "model": model}
            write_record(new / CONFIG, record, (VOCABULARY, WEIGHTS))
        return _identity(read_record(path / CONFIG))


class EncodedParser(DeviceParser, Generic[Parse]):
    """Parses tokenised sentences with an :class:`ParserModel`."""

    def __init__(self, model: ParserModel) -> None:
        self.vectors = TypeVectors(model.vocabulary, model.encoder)
        super().__init__(model, model.identity)

    def __getstate__(self) -> dict[str, object]:
        return state_without(self, "encoder_sha256")

    @abstractmethod
    def parse_states(self, states_BTD: Tensor, positions_B: Tensor) -> Stages[Parse]:
        """Find the trees of a batch, given the encoder's states and the positions [B] of its sentences."""

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """Return one parse per sentence, in order; every sentence has at least one token."""
        return self.run(sentences, self.parse_states)

    def run(
        self, sentences: Sequence[Sequence[str]], work: Callable[[Tensor, Tensor], Stages[Result]]
    ) -> list[Result]:
        """Encode sentences in batches, and return the results of ``work`` on them, one per sentence.

        ``work`` gets the states [B, T, D] and the numbers of positions [B] of each batch.
        """
        sentences = read_sentences(sentences, "parse", strings=False, spaces=True)
        boundaries = 1 + int(self.vectors.encoder.config.end_boundary)

        @torch.inference_mode()
        def begin(indices: list[int]) -> Stages[Result]:
            return (yield from work(*self.vectors.states([sentences[i] for i in indices])))

        return self.run_batches([len(tokens) + boundaries for tokens in sentences], begin)

    @cached_property
    def encoder_sha256(self) -> str:
        """The SHA-256 of the encoder's sizes, vocabulary and weights; equal encoders have equal states."""
        encoder = self.vectors.encoder
        digest = hashlib.sha256(repr((encoder.config, self.vectors.vocabulary)).encode())
        for parameter in encoder.parameters():
            digest.update(parameter.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def to(self, device: torch.device) -> None:
        """Move to a device, as :meth:`DeviceParser.to`, and discard the word vectors on the old one."""
        super().to(device)
        self.vectors.clear()

    def knows(self, word: str) -> bool:
        """Tell whether a word is in the encoder's vocabulary."""
        return self.vectors.knows(word)

    def shares_encoder(self, partner: object) -> bool:
        """Tell whether another parser has an equal encoder on the same device."""
        if not isinstance(partner, EncodedParser):
            return False
        return (self.encoder_sha256, self.device) == (partner.encoder_sha256, partner.device)

    def parse_with(
        self, partner: EncodedParser[Result], sentences: Sequence[Sequence[str]]
    ) -> list[tuple[Parse, Result]]:
        """Parse with this parser and one that shares its encoder; each sentence is encoded once."""

        def work(states_BTD: Tensor, positions_B: Tensor) -> Stages[tuple[Parse, Result]]:
            our_parses = yield from self.parse_states(states_BTD, positions_B)
            their_parses = yield from partner.parse_states(states_BTD, positions_B)
            return list(zip(our_parses, their_parses, strict=True))

        return self.run(sentences, work)
