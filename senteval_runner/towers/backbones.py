"""Encoders with layers (Hugging Face), and encoders taken whole.

A backbone lists its columns (layer, pooling) and computes all of them in one pass over the sentences. The
poolings are EMP's four: the state of [CLS], the state of [SEP], mean and maximum over all word pieces; as in
bert-as-service the special ones count and padding does not.

Legend of dimension suffixes: K columns, n sentences, B of a batch, T word pieces, D vector size.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from multiview.names.networks import load_pretrained
from multiview.names.opened import OpenedEncoder, SingleEncoder, text_of
from multiview.names.sources import STRINGS, Source, find_source
from multiview.names.store import VectorStore
from multiview.pretrained import one_line, quiet
from runtime.device import pick_device
from runtime.errors import UserError
from runtime.files import json_digest, read_json
from senteval_runner.protocol.features import Float
from senteval_runner.towers.transformer import most_pieces
from senteval_runner.vectors.evaluation_trees import EvaluationTrees

BATCH = 32
"""Sentences encoded at a time."""
POOLINGS = ("cls", "sep", "mean", "max")
WHOLE, OWN = "whole", "own"
"""The layer and the pooling of an encoder that is not opened up."""


class Unit(NamedTuple):
    """One row of a table under one pooling."""

    layers: tuple[str, ...]
    """One layer, or several whose vectors are put side by side."""
    pooling: str

    @property
    def row(self) -> str:
        """Names the layers: ``-1``, or ``-1,-12``."""
        return ",".join(self.layers)

    @property
    def name(self) -> str:
        """Names layers and pooling: ``-1 mean``."""
        return f"{self.row} {self.pooling}"

    def columns(self) -> list[tuple[str, str]]:
        """Return the layer and pooling of the stored vectors it is made of."""
        return [(layer, self.pooling) for layer in self.layers]


def transformer_layers(count: int) -> tuple[str, ...]:
    """Name ``emb``, then the layers from the bottom up as EMP counts them: ``-12`` ... ``-1``."""
    return ("emb", *(str(number) for number in range(-count, 0)))


def chosen(names: str, layers: Sequence[str], backbone: str) -> tuple[str, ...]:
    """Return the layers by name, ``top`` and ``bottom`` among them, in the given order.

    Raises:
        UserError: the backbone has no such layer, or one is named twice.
    """
    ends = {"top": "-1", "bottom": f"-{len(layers) - 1}"}
    selected = [ends.get(name.strip(), name.strip()) for name in names.split(",")]
    for name in selected:
        if name not in layers or selected.count(name) > 1:
            raise UserError(f"{backbone}: {names}: no layer {name!r}; it has {', '.join(layers)}, each once")
    return tuple(selected)


def chosen_joins(texts: Sequence[str], layers: Sequence[str], backbone: str) -> list[tuple[str, ...]]:
    """Read ``--concatenate`` as layers to be put side by side, each choice once.

    ``top,bottom`` says nothing to a backbone with one layer.

    Raises:
        UserError: fewer than two layers, one of them twice, or one that the backbone lacks.
    """
    for text in texts:
        if "," not in text:
            raise UserError(f"--concatenate {text!r}: expected two or more layers, as in -1,-12")
    wanted = [text for text in texts if text != "top,bottom" or len(layers) > 2]
    return list(dict.fromkeys(chosen(text, layers, backbone) for text in wanted))


class Frame(NamedTuple):
    """Tells where [CLS] and [SEP] are: from the first real token when >= 0, else from the end."""

    cls: int
    sep: int
    notes: tuple[str, ...] = ()
    """Which of the two the tokenizer lacks, and what stands for it."""


def frame_of(tokenizer: Any) -> Frame:
    """Return the places in a sentence that the tokenizer encodes (XLNet puts both last).

    A tokenizer without [CLS] (T5, GPT-2) has the first real token in its place, one without [SEP] the last.
    """
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids, special = encoded["input_ids"], encoded["special_tokens_mask"]
    notes = []

    def place(token_id: int | None, name: str, otherwise: int) -> int:
        places = [i for i, flag in enumerate(special) if flag and ids[i] == token_id]
        if places:
            return places[-1] if places[-1] < special.index(0) else places[-1] - len(ids)
        notes.append(f"no {name} token: the {'last' if otherwise else 'first'} token stands for it")
        return otherwise

    # RoBERTa's <s> and </s> are its cls and sep tokens.
    cls, sep = place(tokenizer.cls_token_id, "[CLS]", 0), place(tokenizer.sep_token_id, "[SEP]", -1)
    return Frame(cls, sep, tuple(notes))


def pool(hidden_BTD: Tensor, mask_BT: Tensor, frame: Frame, pooling: str) -> Tensor:
    """Pool one layer by one of :data:`POOLINGS`: [B, D]; the mask is 1 at real tokens, in one stretch."""
    real_BT = mask_BT.bool()
    if pooling == "mean":
        weight_BT = real_BT.to(hidden_BTD.dtype)
        return torch.einsum("btd,bt->bd", hidden_BTD, weight_BT) / weight_BT.sum(1, keepdim=True)
    if pooling == "max":
        return hidden_BTD.masked_fill(~real_BT[:, :, None], float("-inf")).amax(1)
    place: int = getattr(frame, pooling)
    first_B = mask_BT.long().argmax(1) + (mask_BT.sum(1) if place < 0 else 0)
    return hidden_BTD[torch.arange(len(hidden_BTD), device=hidden_BTD.device), first_B + place]


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
        """Return all columns of token lists, float32 [K, n, D]."""

    @abstractmethod
    def notes(self) -> list[str]:
        """Return the remarks for readers of the scores."""

    def part(self, cache: Path | None, dtype: str = "float32") -> SingleEncoder:
        """Open the columns with a store, a subfolder of ``cache``; None keeps vectors in memory."""
        folder = cache and cache / json_digest([*self.identity, dtype, self.columns], 16)
        store = VectorStore(folder, len(self.columns), dtype)
        return SingleEncoder(
            lambda: self.encode, tokens=True, name=self.name, store=store, source=self.source
        )


class TransformerBackbone(Backbone):
    """A Hugging Face encoder: hidden states of every layer, pooled.

    Args:
        source: a name or a folder; the first module of a sentence-transformers folder is used.
        max_length: word pieces per sentence, special ones included; longer sentences are cut.
        device: where to compute; None is a GPU if there is one.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        UserError: nothing loadable is found under that name.
    """

    poolings = POOLINGS

    def __init__(self, source: Source, max_length: int = 256, device: str | None = None) -> None:
        quiet()
        from transformers import AutoConfig

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
        """Return the stand-ins for missing tokens, and where sentences are cut."""
        return [f"{self.name}: {note}" for note in (*self.frame.notes, f"cut at {self._limit()} pieces")]

    def _limit(self) -> int:
        """Return the word pieces per sentence: the option, or less where the model has fewer positions."""
        return max(4, min(self.max_length, most_pieces(self.shape, self.model.tokenizer) or self.max_length))

    def encode(self, sentences: Sequence[list[str]]) -> Float:
        """Return all columns, float32 [K, n, D], computed in order of length."""
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
        mask_BT = batch["attention_mask"]
        pooled = [pool(states[self.layers.index(at)], mask_BT, self.frame, how) for at, how in self.columns]
        vectors: Float = torch.stack(pooled).cpu().numpy()
        return vectors


class WholeBackbone(Backbone):
    """Word vectors, precomputed vectors or any sentence encoder, as a backbone with one layer.

    EMP compares the layers of BERT with averaged GloVe, Universal Sentence Encoder and InferSent in this way.

    Args:
        source: any encoder of ``senteval_runner.run``.
        trees: of tree encoders: the tree cache of the sentences; None reads those in
            ``runs/trees``.
        device: where to compute.
    """

    layers = (WHOLE,)
    poolings = (OWN,)

    def __init__(self, source: Source, trees: Path | None = None, device: str | None = None) -> None:
        self.source, self.name, self.trees, self.device = source, source.name, trees, device
        self.columns, self.identity = [(WHOLE, OWN)], [source.key, WHOLE]

    @cached_property
    def _encoder(self) -> OpenedEncoder:
        trees = EvaluationTrees(folder=self.trees) if self.trees else EvaluationTrees()
        encode = self.source.load(device=self.device, trees=trees.of)
        return OpenedEncoder(
            SingleEncoder(lambda: encode, tokens=self.source.kind not in STRINGS, name=self.name)
        )

    def notes(self) -> list[str]:
        """Say what its row contains."""
        vectors = "mean over known words" if self.source.kind == "words" else "its own sentence vectors"
        return [f"{self.name}: {vectors}, one row"]

    def encode(self, sentences: Sequence[list[str]]) -> Float:
        """Return the vectors of token lists, float32 [1, n, D]."""
        return self._encoder(sentences)[None]


def transformer_folder(spec: str) -> str:
    """Find the transformer inside a sentence-transformers folder; other names are returned unchanged.

    Raises:
        UserError: its first module is no transformer inside the folder.
    """
    modules = Path(spec) / "modules.json"
    if not modules.is_file():
        return spec
    listed = read_json(modules)
    first = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], dict) else {}
    kind, place = first.get("type"), first.get("path", "")
    if not str(kind).endswith("Transformer") or not re.fullmatch(r"(\w[\w.-]*)?", str(place)):
        raise UserError(
            f"{modules}: the first module is {kind!r:.60} in {place!r:.60}, not a transformer here"
        )
    return str(Path(spec) / place)


def open_backbone(
    spec: str, *, max_length: int = 256, trees: Path | None = None, device: str | None = None
) -> Backbone:
    """Return the backbone a name means; what is no transformer has one layer.

    Raises:
        UserError: no such file or folder.
    """
    source = find_source(spec)
    if source.kind == "sentence-transformers":
        return TransformerBackbone(source, max_length, device)
    return WholeBackbone(source, trees, device)


def open_layers(
    spec: str, layers: str, pooling: str, *, max_length: int, device: str | None, cache: Path | None
) -> OpenedEncoder:
    """Return one choice of layers and pooling as an encoder; weights load when a vector is missing.

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
    return OpenedEncoder(
        backbone.part(cache), name=f"{backbone.name} {unit.name}", spec=f"{spec} {unit.name}",
        identity=[*backbone.identity, unit.row, unit.pooling],
    )  # fmt: skip
