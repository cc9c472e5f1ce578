"""Encoders with layers (Hugging Face), and encoders taken whole.

A backbone lists its columns (layer, pooling) and computes all of them in one pass over the sentences.

Legend of dimension suffixes: K columns, n sentences, B of a batch, T word pieces, N nodes, D vector size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import json_digest, read_json
from multiview.pretrained import one_line, quiet
from senteval_runner.protocol.features import Float
from senteval_runner.towers.config import BackboneConfig
from senteval_runner.towers.pooling import POOLINGS, Frame, frame_of, most_pieces, pool
from senteval_runner.towers.units import OWN, WHOLE, Column, chosen_unit, transformer_layers
from senteval_runner.vectors.embed import Part, StoredEncoder, text_of
from senteval_runner.vectors.encoders import STRINGS, load_source
from senteval_runner.vectors.sources import Source, find_source
from senteval_runner.vectors.store import VectorStore

if TYPE_CHECKING:
    pass

BATCH = 32
"""Sentences encoded at a time."""


class Backbone(ABC):
    """An encoder with layers; its weights load when the first sentence is encoded.

    Args:
        source: what the encoder was named as.
        config: how it is read.
    """

    layers: tuple[str, ...]
    """From the bottom up."""
    compared: tuple[str, ...] = ()
    """The layers a comparison of poolings averages over."""
    poolings: tuple[str, ...]
    columns: list[Column]
    """The vectors that ``encode`` returns, in order; remove those that are not needed."""

    def __init__(self, source: Source, config: BackboneConfig) -> None:
        self.source, self.config, self.name = source, config, source.name

    @abstractmethod
    def encode(self, sentences: Sequence[list[str]]) -> Float:
        """All columns of token lists, float32 [K, n, D]."""

    def identity(self) -> list[Any]:
        """Everything that determines the vectors, except the columns."""
        return [self.source.key]

    def notes(self) -> list[str]:
        """Remarks for readers of the scores."""
        return []

    def part(self, cache: Path | None, dtype: str = "float32") -> Part:
        """The columns with a store of their vectors, a subfolder of ``cache``; None keeps them in memory."""
        folder = cache and cache / json_digest([*self.identity(), dtype, self.columns], 16)
        store = VectorStore(folder, len(self.columns), dtype)
        return Part(lambda: self.encode, tokens=True, name=self.name, store=store, source=self.source)


class TransformerBackbone(Backbone):
    """A Hugging Face encoder: hidden states of every layer, pooled.

    Args:
        source: a name or a folder; the first module of a sentence-transformers folder is used.
        config: length, special tokens, device.

    Raises:
        MissingExtraError: transformers is not installed.
        UserError: nothing loadable is found under that name.
    """

    poolings = POOLINGS

    def __init__(self, source: Source, config: BackboneConfig) -> None:
        super().__init__(source, config)
        try:
            from transformers import AutoConfig
        except ImportError:
            raise MissingExtraError("transformers", "burt") from None
        self.name = _short_name(source.spec)
        self.path = transformer_folder(source.spec)
        self.shape = self._load(AutoConfig.from_pretrained)
        self.layers = transformer_layers(int(self.shape.num_hidden_layers))
        self.compared = self.layers[1:]
        self.columns = [(layer, pooling) for layer in self.layers for pooling in POOLINGS]
        self.dim = int(self.shape.hidden_size)

    def _load(self, load: Any, **options: Any) -> Any:
        """Call a library's loader and report its errors in one line."""
        advice = (
            "give the folder of an encoder with safetensors weights, or a Hugging Face name when the machine "
            "is online"
        )
        with one_line(f"backbone {self.source.spec!r} cannot be loaded", advice):
            # False, not the default None, which asks at the terminal and runs the folder's code after "y".
            return load(self.path, trust_remote_code=False, **options)

    @cached_property
    def tokenizer(self) -> Any:
        """Padding on the right, so that absolute positions do not depend on the batch."""
        from transformers import AutoTokenizer

        tokenizer = self._load(AutoTokenizer.from_pretrained)
        tokenizer.padding_side = "right"
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
        return tokenizer

    @cached_property
    def model(self) -> Any:
        """The model on its device, in float32; only the encoder of an encoder-decoder."""
        from transformers import AutoModel

        quiet()
        # Safetensors only: the older .bin weights are pickle. Some files have half precision.
        with torch.random.fork_rng(devices=[]):  # missing weights (a pooler) are drawn but never used
            model = self._load(AutoModel.from_pretrained, use_safetensors=True, dtype=torch.float32)
        if getattr(self.shape, "is_encoder_decoder", False):
            model = model.get_encoder()
        return model.to(self.device).eval()

    @property
    def device(self) -> str:
        """A GPU if there is one."""
        return self.config.device or ("cuda" if torch.cuda.is_available() else "cpu")

    @cached_property
    def frame(self) -> Frame:
        """Special tokens around a sentence."""
        return frame_of(self.tokenizer)

    def identity(self) -> list[Any]:
        """Weights, options, library."""
        options = [self.config.max_length, self.config.special_tokens]
        return [self.source.key, *options, version("transformers")]

    def notes(self) -> list[str]:
        """Stand-ins for missing tokens, and where sentences are cut."""
        return [f"{self.name}: {note}" for note in (*self.frame.notes, f"cut at {self._limit()} pieces")]

    def _limit(self) -> int:
        """Word pieces per sentence: the option, or less where the model has fewer positions."""
        wanted = self.config.max_length
        return max(4, min(wanted, most_pieces(self.shape, self.tokenizer) or wanted))

    def encode(self, sentences: Sequence[list[str]]) -> Float:
        """All columns, float32 [K, n, D], computed in order of length."""
        texts = [text_of(tokens) for tokens in sentences]
        pieces = self.tokenizer(texts, truncation=False, verbose=False)["input_ids"]
        order = sorted(range(len(texts)), key=lambda i: -len(pieces[i]))
        out_KnD = np.empty((len(self.columns), len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            out_KnD[:, rows] = self._encode_batch([texts[i] for i in rows])
        return out_KnD

    @torch.inference_mode()
    def _encode_batch(self, texts: list[str]) -> Float:
        options = {"padding": True, "truncation": True, "max_length": self._limit(), "return_tensors": "pt"}
        batch = self.tokenizer(texts, **options).to(self.device)
        states = self.model(**batch, output_hidden_states=True).hidden_states
        if len(states) != len(self.layers) or states[0].shape[2] != self.dim:
            raise UserError(
                f"backbone {self.source.spec!r} gives {len(states)} states of {states[0].shape[2]} "
                f"dimensions, its configuration says {len(self.layers)} of {self.dim}: not supported"
            )
        mask_BT, special = batch["attention_mask"], self.config.special_tokens
        stacked_KBD = torch.stack(
            [
                pool(states[self.layers.index(layer)], mask_BT, self.frame, name, special_tokens=special)
                for layer, name in self.columns
            ]
        )
        vectors: Float = stacked_KBD.float().cpu().numpy()
        return vectors


class WholeBackbone(Backbone):
    """Word vectors, precomputed vectors or any sentence encoder, as a backbone with one layer.

    EMP compares the layers of BERT with averaged GloVe, Universal Sentence Encoder and InferSent in this way.
    """

    layers = (WHOLE,)
    poolings = (OWN,)

    def __init__(self, source: Source, config: BackboneConfig) -> None:
        super().__init__(source, config)
        self.columns = [(WHOLE, OWN)]

    @cached_property
    def _encoder(self) -> Part:
        config, strings = self.config, self.source.kind in STRINGS
        encode = load_source(self.source, device=config.device, trees=config.trees)
        return Part(lambda: encode, tokens=not strings, name=self.name)

    def identity(self) -> list[Any]:
        """The model's files."""
        return [self.source.key, WHOLE]

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


def _short_name(spec: str) -> str:
    """Last meaningful part of a folder, or the name on the hub."""
    if not Path(spec).exists():
        return spec
    parts = Path(spec).absolute().parts
    return "/".join(parts[-2:]) if parts[-1] in ("model", "backbone", "last", "best") else parts[-1]


def open_backbone(spec: str, config: BackboneConfig) -> Backbone:
    """The backbone a name means; what is no transformer has one layer.

    Raises:
        UserError: no such file or folder.
    """
    source = find_source(spec)
    if source.kind == "sentence-transformers":
        return TransformerBackbone(source, config)
    return WholeBackbone(source, config)


def open_layers(
    spec: str, layers: str, pooling: str, config: BackboneConfig, *, cache: Path | None
) -> StoredEncoder:
    """One choice of layers and pooling as an encoder; weights load when a vector is missing.

    Args:
        spec: see :func:`open_backbone`.
        layers: one layer, or several separated by commas whose vectors are put side by side: ``top,bottom``.
        pooling: one of the backbone's.
        config: how the encoder is read.
        cache: folder of stores, one subfolder per choice; None keeps vectors in memory.

    Raises:
        UserError: no such encoder, layer or pooling.
    """
    backbone = open_backbone(spec, config)
    unit = chosen_unit(layers, pooling, backbone.name, backbone.layers, backbone.columns)
    backbone.columns = unit.columns()
    name = f"{backbone.name} {unit.name}"
    return StoredEncoder(
        backbone.part(cache), name=name, spec=f"{spec} {unit.name}",
        identity=[*backbone.identity(), unit.row, unit.pooling],
    )  # fmt: skip
