"""Open Hugging Face encoders layer by layer, or any encoder as a whole.

A backbone lists its columns, which are pairs of a layer and a pooling, and computes all of them in one pass
over the sentences. The poolings are the four of EMP (:mod:`studies.layers`): the state of [CLS], the state of
[SEP], and the mean and the maximum over all word pieces. As in bert-as-service the mean and the maximum
include special pieces, but not padding.

Legend of dimension suffixes: K columns, n sentences, B sentences of a batch, T word pieces, D vector size.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multiview.libraries.arrays import report_in_one_line
from multiview.libraries.pretrained import load_pretrained, silence_libraries
from multiview.names.constructors import encoder_of
from multiview.names.encoder import BaseEncoder, LazyEncoder, Method, read_texts, text_of
from multiview.names.opened import OpenedEncoder
from multiview.names.store import KeptEncoder
from runtime.device import pick_device
from runtime.errors import UserError
from runtime.files import json_digest, read_json
from senteval_runner.evaluation_trees import EvaluationTrees
from senteval_runner.protocol.features import Float
from senteval_runner.towers.transformer import max_pieces

BACKBONE_BATCH = 32
"""Number of sentences encoded at a time."""
POOLINGS = ("cls", "sep", "mean", "max")
WHOLE_ENCODER, OWN_POOLING = "whole", "own"
"""The layer and the pooling of an encoder that is not opened layer by layer."""


Representation = tuple[str, str]
"""Names of layers, and a pooling, that give one vector; the layers of ``-1,-12`` are concatenated."""


def transformer_layers(count: int) -> tuple[str, ...]:
    """Return the names of layers from the bottom up as EMP counts them: ``emb``, ``-12``, ... ``-1``."""
    return ("emb", *map(str, range(-count, 0)))


def select_layers(names: str, layers: Sequence[str], backbone: str) -> str:
    """Return the layers that ``names`` lists, with ``top`` and ``bottom`` replaced by ``-1`` and ``-12``.

    ``layers`` are those of the backbone. Raises UserError if a layer is not among them, or is named twice.
    """
    ends = {"top": "-1", "bottom": f"-{len(layers) - 1}"}
    selection = [ends.get(name.strip(), name.strip()) for name in names.split(",")]
    for name in selection:
        if name not in layers or selection.count(name) > 1:
            raise UserError(f"{backbone}: {names}: no layer {name!r}; it has {', '.join(layers)}, each once")
    return ",".join(selection)


def columns_of(choice: Representation) -> list[tuple[str, str]]:
    """Return the columns, pairs of a layer and a pooling, that are concatenated for a representation."""
    layers, pooling = choice
    return [(layer, pooling) for layer in layers.split(",")]


def special_positions(tokenizer: Any) -> tuple[dict[str, int], list[str]]:
    """Return the positions of [CLS] and [SEP] in a sentence, and notes for readers of the scores.

    A negative position is counted from the end, because XLNet puts both pieces last. In place of a missing
    [CLS] (T5, GPT-2) the first piece is taken, and in place of a missing [SEP] the last, with a note.
    """
    encoding = tokenizer("a", return_special_tokens_mask=True)
    ids, is_special = encoding["input_ids"], encoding["special_tokens_mask"]
    positions = {"cls": 0, "sep": -1}
    notes = []
    # RoBERTa's <s> and </s> are its cls and sep tokens.
    for name, token_id in (("cls", tokenizer.cls_token_id), ("sep", tokenizer.sep_token_id)):
        matches = [position for position, flag in enumerate(is_special) if flag and ids[position] == token_id]
        if matches:
            position = matches[-1]
            positions[name] = position if position < is_special.index(0) else position - len(ids)
        else:
            end = "last" if positions[name] else "first"
            notes.append(f"no [{name.upper()}] token: the {end} token stands for it")
    return positions, notes


def pool(hidden_BTD: Tensor, mask_BT: Tensor, positions: Mapping[str, int], pooling: str) -> Tensor:
    """Return the pooled states of one layer, [B, D].

    Args:
        hidden_BTD: the states of the layer.
        mask_BT: 1 at word pieces and 0 at padding, which is only before or behind them.
        positions: the positions of [CLS] and [SEP] (:func:`special_positions`).
        pooling: one of :data:`POOLINGS`.
    """
    real_BT = mask_BT.bool()
    if pooling == "mean":
        weight_BT = real_BT.to(hidden_BTD.dtype)
        return torch.einsum("btd,bt->bd", hidden_BTD, weight_BT) / weight_BT.sum(1, keepdim=True)
    if pooling == "max":
        return hidden_BTD.masked_fill(~real_BT[:, :, None], float("-inf")).amax(1)
    position = positions[pooling]
    first_B = mask_BT.long().argmax(1)
    origin_B = first_B + mask_BT.sum(1) if position < 0 else first_B
    return hidden_BTD[torch.arange(len(hidden_BTD), device=hidden_BTD.device), origin_B + position]


class Backbone(BaseEncoder):
    """Any encoder, as a single layer with a single pooling.

    EMP compares averaged GloVe, Universal Sentence Encoder and InferSent with the layers of BERT in this way.
    A backbone of several columns returns [K, n, D], one vector of each sentence for each column.
    """

    layers: tuple[str, ...] = (WHOLE_ENCODER,)
    """Names of the layers, from the bottom up."""
    poolings: tuple[str, ...] = (OWN_POOLING,)
    """Names of the poolings."""

    def __init__(self, encoder: LazyEncoder, method: Method = "encode") -> None:
        self.whole = replace(encoder, trees=EvaluationTrees().of)
        """The encoder whose vectors are computed, by ``method``, if it is not opened layer by layer."""
        self.name, self.method = encoder.name, method
        self.identity: list[Any] = [encoder.key(method), WHOLE_ENCODER]
        """All that the vectors depend on, except the columns."""
        self.columns = [(WHOLE_ENCODER, OWN_POOLING)]
        """Layer and pooling of each vector that :meth:`vectors` computes."""
        self.dtype = "float32"
        """The type of the numbers that are kept."""

    @property
    def members(self) -> list[LazyEncoder]:
        """The encoder alone."""
        return [self.whole]

    def key(self, method: Method = "encode") -> str:
        """Return a hex digest of everything that decides the columns."""
        return json_digest([*self.identity, self.dtype, self.columns], 16)

    def notes(self) -> list[str]:
        """Return notes for readers of the scores."""
        vectors = "mean over known words" if self.whole.family == "words" else "its own sentence vectors"
        return [f"{self.name}: {vectors}, one row"]

    def vectors(self, method: Method, sentences: Any, **options: Any) -> Float:
        """Return all columns of sentences; they do not depend on ``method``."""
        return self.whole.vectors(self.method, sentences, **options)

    def open(self, choices: Sequence[Representation], cache: Path | None, dtype: str = "float32") -> None:
        """Prepare the columns of some representations for :meth:`encoder`.

        Their vectors are kept in a subfolder of ``cache`` as numbers of type ``dtype`` or, if ``cache`` is
        None, in memory. Raises UserError if the backbone lacks a pooling.
        """
        columns: list[tuple[str, str]] = []
        for choice in choices:
            _, pooling = choice
            if pooling not in self.poolings:
                raise UserError(f"{self.name}: no pooling {pooling!r}; it has {', '.join(self.poolings)}")
            columns += columns_of(choice)
        self.choices, self.dtype = choices, dtype
        self.columns = list(dict.fromkeys(columns))
        self.kept = KeptEncoder(self, cache, len(self.columns), dtype)

    def encoder(self, choice: Representation) -> OpenedEncoder:
        """Return an encoder with the vectors of a representation that was opened, also for classifiers."""
        columns = self.kept.reading([self.columns.index(column) for column in columns_of(choice)])
        return OpenedEncoder(parts=[columns])


class TransformerBackbone(Backbone):
    """The pooled hidden states of every layer of a Hugging Face encoder.

    Its weights are loaded when a vector has to be computed. In a sentence-transformers folder the first
    module is the encoder. Sentences are cut to ``max_length`` word pieces, special ones included. Raises
    UserError if nothing that can be loaded has the name.
    """

    poolings = POOLINGS

    def __init__(self, encoder: LazyEncoder, max_length: int = 256, device: str | None = None) -> None:
        silence_libraries()
        from transformers import AutoConfig

        super().__init__(encoder)
        self.max_length, self.device = max_length, pick_device(device)
        self.path = transformer_folder(encoder.parsed.full_name)
        with report_in_one_line(
            f"backbone {encoder.parsed.full_name!r} cannot be loaded", "give the folder or name of an encoder"
        ):
            # With the default None transformers would ask whether to run code of the folder.
            self.config = AutoConfig.from_pretrained(self.path, trust_remote_code=False)
        self.layers = transformer_layers(int(self.config.num_hidden_layers))
        self.columns = [(layer, pooling) for layer in self.layers for pooling in POOLINGS]
        self.dim = int(self.config.hidden_size)
        self.identity = [encoder.key(), max_length, version("transformers")]

    @cached_property
    def model(self) -> Any:
        """The encoder in float32; it pads on the right, so that padding changes no position."""
        model = load_pretrained(self.path).to(self.device).float().eval()
        model.tokenizer.padding_side = "right"
        if model.tokenizer.pad_token is None:
            model.tokenizer.pad_token = model.tokenizer.eos_token or model.tokenizer.unk_token
        return model

    def notes(self) -> list[str]:
        """Return notes on replaced special tokens, and on the length to which sentences are cut."""
        _, notes = special_positions(self.model.tokenizer)
        return [f"{self.name}: {note}" for note in (*notes, f"cut at {self._limit()} pieces")]

    def _limit(self) -> int:
        """Return the largest number of word pieces: ``max_length``, or less if the model reads fewer."""
        return max(4, min(self.max_length, max_pieces(self.config, self.model.tokenizer) or self.max_length))

    @torch.inference_mode()
    def vectors(self, method: Method, sentences: Any, **options: Any) -> Float:
        """Return all columns, float32 [K, n, D]; sentences of about the same length are in one batch."""
        texts = list(map(text_of, read_texts(sentences)))
        tokenizer = self.model.tokenizer
        positions, _ = special_positions(tokenizer)
        settings = {"padding": True, "truncation": True, "max_length": self._limit(), "return_tensors": "pt"}
        pieces = tokenizer(texts, truncation=False, verbose=False)["input_ids"]
        order = sorted(range(len(texts)), key=lambda i: -len(pieces[i]))
        columns_KnD = np.empty((len(self.columns), len(texts), self.dim), dtype=np.float32)
        for first in range(0, len(order), BACKBONE_BATCH):
            rows = order[first : first + BACKBONE_BATCH]
            batch = tokenizer([texts[i] for i in rows], **settings).to(self.device)
            states = self.model.auto_model(**batch, output_hidden_states=True).hidden_states
            if len(states) != len(self.layers) or states[0].shape[2] != self.dim:
                raise UserError(
                    f"backbone {self.whole.parsed.full_name!r}: {len(states)} states of {states[0].shape[2]} "
                    f"dimensions, its configuration says {len(self.layers)} of {self.dim}: not supported"
                )
            vectors = [
                pool(states[self.layers.index(layer)], batch["attention_mask"], positions, pooling)
                for layer, pooling in self.columns
            ]
            columns_KnD[:, rows] = torch.stack(vectors).cpu().numpy()
        return columns_KnD


def transformer_folder(name: str) -> str:
    """Return the folder of the transformer if ``name`` is a sentence-transformers folder, else ``name``.

    Raises UserError if the folder does not begin with a transformer.
    """
    modules = Path(name) / "modules.json"
    if not modules.is_file():
        return name
    records = read_json(modules)
    has_records = isinstance(records, list) and records and isinstance(records[0], dict)
    first_module = records[0] if has_records else {}
    kind, folder = str(first_module.get("type")), str(first_module.get("path", ""))
    if not kind.endswith("Transformer") or not re.fullmatch(r"(\w[\w.-]*)?", folder):
        raise UserError(
            f"{modules}: the first module is {kind!r:.60} in {folder!r:.60}, not a transformer here"
        )
    return str(Path(name) / folder)


def open_backbone(name: str, *, max_length: int = 256, device: str | None = None) -> Backbone:
    """Return the backbone of the encoder ``name``; an encoder that is no transformer has one layer."""
    encoder = encoder_of(name)
    if encoder.family == "sentence-transformers":
        return TransformerBackbone(encoder, max_length, device)
    return Backbone(encoder)


def open_layers(
    name: str, layers: str, pooling: str, *, max_length: int, device: str | None, cache: Path | None
) -> OpenedEncoder:
    """Return an encoder whose vector of a sentence is the concatenation of some layers, with one pooling.

    Args:
        name: the name of the encoder.
        layers: names of the layers, separated by commas, such as ``top,bottom``.
        pooling: name of the pooling.
        max_length: word pieces to which a sentence is cut.
        device: where the model runs; None is a GPU if there is one.
        cache: folder in which vectors are stored, in a subfolder; None keeps them in memory.

    The weights are loaded when a vector is not stored yet. Raises UserError if the backbone lacks a layer or
    the pooling.
    """
    backbone = open_backbone(name, max_length=max_length, device=device)
    selection = select_layers(layers, backbone.layers, backbone.name)
    choice = (selection, pooling)
    backbone.open([choice], cache)
    suffix = f"{selection} {pooling}"
    return replace(backbone.encoder(choice), name=f"{backbone.name} {suffix}", full_name=f"{name} {suffix}")
