"""Encoders with layers (Hugging Face), and encoders taken whole.

A backbone lists its columns (layer, pooling) and computes all of them in one pass over the sentences.

Legend of dimension suffixes: K columns, n sentences, B of a batch, T word pieces, D vector size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import json_digest, read_json
from multiview.pretrained import one_line
from parsing.networks.device import pick_device
from senteval_runner.protocol.features import Float
from senteval_runner.towers.pooling import POOLINGS, Frame, frame_of, most_pieces, pool
from senteval_runner.towers.units import OWN, WHOLE, Unit, chosen, transformer_layers
from senteval_runner.vectors.embed import Part, StoredEncoder, text_of
from senteval_runner.vectors.encoders import STRINGS, load_source
from senteval_runner.vectors.pretrained import load_pretrained
from senteval_runner.vectors.sources import Source, find_source
from senteval_runner.vectors.store import VectorStore

BATCH = 32
"""Sentences encoded at a time."""


class Backbone(ABC):
    """An encoder with layers; its weights load when the first sentence is encoded."""

    source: Source
    name: str
    layers: tuple[str, ...]
    """From the bottom up."""
    compared: tuple[str, ...] = ()
    """The layers a comparison of poolings averages over."""
    poolings: tuple[str, ...]
    columns: list[tuple[str, str]]
    """Layer and pooling of the vectors that ``encode`` returns, in order; remove those not needed."""
    identity: list[Any]
    """Everything that determines the vectors, except the columns."""

    @abstractmethod
    def encode(self, sentences: Sequence[list[str]]) -> Float:
        """All columns of token lists, float32 [K, n, D]."""

    @abstractmethod
    def notes(self) -> list[str]:
        """Remarks for readers of the scores."""

    def part(self, cache: Path | None, dtype: str = "float32") -> Part:
        """The columns with a store of their vectors, a subfolder of ``cache``; None keeps them in memory."""
        folder = cache and cache / json_digest([*self.identity, dtype, self.columns], 16)
        store = VectorStore(folder, len(self.columns), dtype)
        return Part(lambda: self.encode, tokens=True, name=self.name, store=store, source=self.source)


class TransformerBackbone(Backbone):
    """A Hugging Face encoder: hidden states of every layer, pooled.

    Args:
        source: a name or a folder; the first module of a sentence-transformers folder is used.
        max_length: word pieces per sentence, special ones included; longer sentences are cut.
        device: where to compute; None is a GPU if there is one.

    Raises:
        MissingExtraError: transformers is not installed.
        UserError: nothing loadable is found under that name.
    """

    poolings = POOLINGS

    def __init__(self, source: Source, max_length: int = 256, device: str | None = None) -> None:
        try:
            from transformers import AutoConfig
        except ImportError:
            raise MissingExtraError("transformers", "burt") from None
        self.source, self.max_length, self.device = source, max_length, pick_device(device)
        self.name, self.path = source.name, transformer_folder(source.spec)
        with one_line(f"backbone {source.spec!r} cannot be loaded", "give the folder or name of an encoder"):
            # False, not the default None, which asks at the terminal and runs the folder's code after "y".
            self.shape = AutoConfig.from_pretrained(self.path, trust_remote_code=False)
        self.layers = transformer_layers(int(self.shape.num_hidden_layers))
        self.compared = self.layers[1:]
        self.columns = [(layer, pooling) for layer in self.layers for pooling in POOLINGS]
        self.dim = int(self.shape.hidden_size)
        self.identity = [source.key, max_length, version("transformers")]

    @cached_property
    def model(self) -> Any:
        """The encoder in float32, padding on the right: absolute positions do not depend on the batch."""
        model = load_pretrained(self.path).to(self.device).float().eval()
        model.tokenizer.padding_side = "right"
        if model.tokenizer.pad_token is None:
            model.tokenizer.pad_token = model.tokenizer.eos_token or model.tokenizer.unk_token
        return model

    @cached_property
    def frame(self) -> Frame:
        """Places of the special tokens."""
        return frame_of(self.model.tokenizer)

    def notes(self) -> list[str]:
        """Stand-ins for missing tokens, and where sentences are cut."""
        return [f"{self.name}: {note}" for note in (*self.frame.notes, f"cut at {self._limit()} pieces")]

    def _limit(self) -> int:
        """Word pieces per sentence: the option, or less where the model has fewer positions."""
        return max(4, min(self.max_length, most_pieces(self.shape, self.model.tokenizer) or self.max_length))

    def encode(self, sentences: Sequence[list[str]]) -> Float:
        """All columns, float32 [K, n, D], computed in order of length."""
        texts = [text_of(tokens) for tokens in sentences]
        pieces = self.model.tokenizer(texts, truncation=False, verbose=False)["input_ids"]
        order = sorted(range(len(texts)), key=lambda i: -len(pieces[i]))
        out_KnD = np.empty((len(self.columns), len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            out_KnD[:, rows] = self._encode_batch([texts[i] for i in rows])
        return out_KnD

    @torch.inference_mode()
    def _encode_batch(self, texts: list[str]) -> Float:
        options = {"padding": True, "truncation": True, "max_length": self._limit(), "return_tensors": "pt"}
        batch = self.model.tokenizer(texts, **options).to(self.device)
        states = self.model.auto_model(**batch, output_hidden_states=True).hidden_states
        if len(states) != len(self.layers) or states[0].shape[2] != self.dim:
            raise UserError(
                f"backbone {self.source.spec!r} gives {len(states)} states of {states[0].shape[2]} "
                f"dimensions, its configuration says {len(self.layers)} of {self.dim}: not supported"
            )
        stacked_KBD = torch.stack(
            [
                pool(states[self.layers.index(layer)], batch["attention_mask"], self.frame, name)
                for layer, name in self.columns
            ]
        )
        vectors: Float = stacked_KBD.cpu().numpy()
        return vectors


class WholeBackbone(Backbone):
    """Word vectors, precomputed vectors or any sentence encoder, as a backbone with one layer.

    EMP compares the layers of BERT with averaged GloVe, Universal Sentence Encoder and InferSent in this way.

    Args:
        source: any encoder of ``senteval_runner.run``.
        trees: of tree encoders: the tree cache of the sentences; None parses them on the fly.
        device: where to compute.
    """

    layers = (WHOLE,)
    poolings = (OWN,)

    def __init__(self, source: Source, trees: Path | None = None, device: str | None = None) -> None:
        self.source, self.name, self.trees, self.device = source, source.name, trees, device
        self.columns, self.identity = [(WHOLE, OWN)], [source.key, WHOLE]

    @cached_property
    def _encoder(self) -> Part:
        encode = load_source(self.source, device=self.device, trees=self.trees)
        return Part(lambda: encode, tokens=self.source.kind not in STRINGS, name=self.name)

    def notes(self) -> list[str]:
        """What its row contains."""
        vectors = "mean over known words" if self.source.kind == "words" else "its own sentence vectors"
        return [f"{self.name}: {vectors}, one row"]

    def encode(self, sentences: Sequence[list[str]]) -> Float:
        """The vectors of token lists, float32 [1, n, D]."""
        return StoredEncoder(self._encoder)(sentences)[None]


def transformer_folder(spec: str) -> str:
    """Folder of the transformer inside a sentence-transformers folder; other names are returned unchanged.

    Raises:
        UserError: its first module is no transformer.
    """
    modules = Path(spec) / "modules.json"
    if not modules.is_file():
        return spec
    first = read_json(modules)[0]
    if not str(first.get("type", "")).endswith("Transformer"):
        raise UserError(f"{modules}: the first module is {first.get('type')}, not a transformer")
    return str(Path(spec) / first.get("path", ""))


def open_backbone(
    spec: str, *, max_length: int = 256, trees: Path | None = None, device: str | None = None
) -> Backbone:
    """The backbone a name means; what is no transformer has one layer.

    Raises:
        UserError: no such file or folder.
    """
    source = find_source(spec)
    if source.kind == "sentence-transformers":
        return TransformerBackbone(source, max_length, device)
    return WholeBackbone(source, trees, device)


def open_layers(
    spec: str, layers: str, pooling: str, *, max_length: int, device: str | None, cache: Path | None
) -> StoredEncoder:
    """One choice of layers and pooling as an encoder; weights load when a vector is missing.

    Args:
        spec: see :func:`open_backbone`.
        layers: one layer, or several separated by commas whose vectors are put side by side: ``top,bottom``.
        pooling: one of the backbone's.
        max_length: word pieces per sentence.
        device: where to compute.
        cache: folder of stores, one subfolder per choice; None keeps vectors in memory.

    Raises:
        UserError: no such encoder, layer or pooling.
    """
    backbone = open_backbone(spec, max_length=max_length, device=device)
    unit = Unit(chosen(layers, backbone.layers, backbone.name), pooling)
    if pooling not in backbone.poolings:
        raise UserError(f"{backbone.name}: no pooling {pooling!r}; it has {', '.join(backbone.poolings)}")
    backbone.columns = unit.columns()
    return StoredEncoder(
        backbone.part(cache), name=f"{backbone.name} {unit.name}", spec=f"{spec} {unit.name}",
        identity=[*backbone.identity, unit.row, unit.pooling],
    )  # fmt: skip
