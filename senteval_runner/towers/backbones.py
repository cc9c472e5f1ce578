"""Encoders with layers (Hugging Face, tree encoders of ``multiview.train``), and encoders taken whole.

A backbone lists its columns (layer, pooling) and computes all of them in one pass over the sentences.

Legend of dimension suffixes: K columns, n sentences, B sentences of a batch, T word pieces, D vector size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import json_digest, read_json
from multiview.pretrained import one_line, quiet
from senteval_runner.protocol.features import Float
from senteval_runner.towers.config import BackboneConfig
from senteval_runner.towers.limits import most_pieces
from senteval_runner.towers.pooling import POOLINGS, Frame, frame_of, pool
from senteval_runner.towers.units import Column, transformer_layers
from senteval_runner.towers.whole import WholeBackbone
from senteval_runner.vectors.embed import text_of
from senteval_runner.vectors.sources import Source, find_source


class Backbone(Protocol):
    """An encoder with layers."""

    name: str
    """Name in tables."""
    source: Source
    layers: tuple[str, ...]
    """From the bottom up."""
    compared: tuple[str, ...]
    """The layers a comparison of poolings averages over."""
    poolings: tuple[str, ...]
    columns: list[Column]
    """The vectors that ``encode`` returns, in order; remove those that are not needed."""

    def identity(self) -> list[Any]:
        """Everything that determines the vectors, except the columns."""
        ...

    def notes(self, cut: int) -> list[str]:
        """Remarks for readers of the scores; ``cut`` sentences were shortened."""
        ...

    def encode(self, sentences: Sequence[list[str]]) -> tuple[Float, NDArray[np.bool_]]:
        """All columns of token lists, float32 [K, n, D], and which sentences were shortened [n]."""
        ...


class TransformerBackbone:
    """A Hugging Face encoder: hidden states of every layer, pooled.

    Args:
        source: a name or a folder; the first module of a sentence-transformers folder is used.
        config: length, special tokens, device, batch size.

    Raises:
        MissingExtraError: transformers is not installed.
        UserError: nothing loadable is found under that name.
    """

    poolings: tuple[str, ...] = POOLINGS

    def __init__(self, source: Source, config: BackboneConfig) -> None:
        try:
            from transformers import AutoConfig
        except ImportError:
            raise MissingExtraError("transformers", "burt") from None
        self.source, self.config, self.name = source, config, _short_name(source.spec)
        self.path = transformer_folder(source.spec)
        self.shape = self._load(AutoConfig.from_pretrained)
        self.layers = transformer_layers(int(self.shape.num_hidden_layers))
        self.compared: tuple[str, ...] = self.layers[1:]
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

    @cached_property
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

    def notes(self, cut: int) -> list[str]:
        """Stand-ins for missing tokens, cut sentences."""
        found = [f"{self.name}: {note}" for note in self.frame.notes]
        return found + ([f"{self.name}: {cut:,} sentences cut at {self._limit()} pieces"] if cut else [])

    def _limit(self) -> int:
        """Word pieces per sentence: the option, or less where the model has fewer positions."""
        wanted = self.config.max_length
        return max(4, min(wanted, most_pieces(self.shape, self.tokenizer) or wanted))

    def encode(self, sentences: Sequence[list[str]]) -> tuple[Float, NDArray[np.bool_]]:
        """All columns, float32 [K, n, D], computed in order of length; and which sentences were cut [n]."""
        texts = [text_of(tokens) for tokens in sentences]
        limit = self._limit()
        pieces = self.tokenizer(texts, truncation=False, verbose=False)["input_ids"]
        cut_n = np.array([len(ids) > limit for ids in pieces])
        order = sorted(range(len(texts)), key=lambda i: -len(pieces[i]))
        out_KND = np.empty((len(self.columns), len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(order), self.config.batch_size):
            rows = order[start : start + self.config.batch_size]
            out_KND[:, rows] = self._encode_batch([texts[i] for i in rows], limit)
        return out_KND, cut_n

    @torch.inference_mode()
    def _encode_batch(self, texts: list[str], limit: int) -> Float:
        batch = self.tokenizer(texts, padding=True, truncation=True, max_length=limit, return_tensors="pt")
        batch = batch.to(self.device)
        states = self.model(**batch, output_hidden_states=True).hidden_states
        if len(states) != len(self.layers) or states[0].shape[2] != self.dim:
            raise UserError(
                f"backbone {self.source.spec!r} gives {len(states)} states of {states[0].shape[2]} "
                f"dimensions, its configuration says {len(self.layers)} of {self.dim}: not supported"
            )
        by_layer = dict(zip(self.layers, states, strict=True))
        pooled: dict[Column, torch.Tensor] = {}
        for layer in dict.fromkeys(layer for layer, _ in self.columns):
            names = [pooling for one, pooling in self.columns if one == layer]
            vectors = pool(
                by_layer[layer],
                batch["attention_mask"],
                self.frame,
                names,
                special_tokens=self.config.special_tokens,
            )
            pooled |= {(layer, name): one for name, one in zip(names, vectors, strict=True)}
        stacked: Float = torch.stack([pooled[column] for column in self.columns]).float().cpu().numpy()
        return stacked


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
    """The backbone a name means; weights load when the first sentence is encoded.

    Word vectors, precomputed vectors and single views have no layers: they are one.

    Raises:
        UserError: no such file or folder.
    """
    source = find_source(spec)
    if source.kind in ("vectors", "words", "bag", "views"):
        return WholeBackbone(source, config)
    if source.kind == "sentence-transformers":
        return TransformerBackbone(source, config)
    from senteval_runner.towers.node_states import TreeBackbone

    return TreeBackbone(source, config)


def store_name(backbone: Backbone, storage: str) -> str:
    """Folder name of a backbone's vectors: a digest of everything that determines them."""
    return json_digest([*backbone.identity(), storage, backbone.columns], 16)
