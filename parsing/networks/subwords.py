"""Word vectors from a pretrained transformer, pooled over sub-words, as supar 1.1.4 computes them.

    e_t = P pool_k [ γ Σ_l softmax(w)_l h_l(k) ]        k: pieces of word t, l: the last L layers

Words are cut into pieces one by one (so a word type is tokenised once), position 0 is the begin piece;
span parsers have an end piece too, as benepar's. Sentences over the model's length are read in windows that
overlap.

Shape suffixes: B sentences, P pieces, T positions (words and the begin position), H hidden, N words and
begin positions of a batch without padding, S pieces without padding.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from corpora.inputs import encodable
from corpora.support.config import configuration
from corpora.support.errors import UserError
from corpora.support.files import sha256_file
from parsing.networks.device import pick

MAX_TYPES = 200_000
"""Word types whose pieces are kept."""


@configuration
class SubwordConfig:
    """How words become pieces and pieces vectors; ids are the tokenizer's."""

    pad: int
    unknown: int
    begin: int
    layers: int = 4
    """How many of the last layers are mixed."""
    pooling: Literal["first", "last", "mean"] = "mean"
    """The vector of a word: of its first or last piece, or their mean."""
    max_pieces: int = 20
    """Further pieces of a word are ignored."""
    stride: int = 256
    """Distance between windows over a sentence that is too long for the model."""
    prefix: str = ""
    """Added in front of a word before it is cut (GPT-2's tokenizers want a space)."""
    projection: int = 0
    """Width of the projection P; 0 for none."""
    end: int | None = None
    """The piece after the last word; None for none."""


@dataclass(frozen=True, slots=True)
class SubwordBatch:
    """Pieces of B sentences, padded, and which of them each word owns."""

    ids_BP: Tensor
    mask_BP: Tensor
    """True at pieces that are not padding."""
    first_N: Tensor
    """Among the pieces that are not padding, the first of each word (boundary positions included)."""
    count_N: Tensor
    """Pieces of each word, at least 1."""
    lengths_B: Tensor
    """Positions of each sentence: its words and the boundaries."""

    def mask_BT(self) -> Tensor:
        """True at positions that are not padding."""
        return torch.arange(int(self.lengths_B.max())) < self.lengths_B[:, None]


class SubwordTable:
    """Pieces of word types, each cut once.

    Args:
        tokenizer: ``tokenizer.json`` as a string.
        config: ids and limits.
    """

    def __init__(self, tokenizer: str, config: SubwordConfig) -> None:
        self._tokenizer = Tokenizer.from_str(tokenizer)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._ids = self._tokenizer.get_vocab(with_added_tokens=True)
        self._config = config
        self._pieces: dict[str, tuple[int, ...]] = {}

    def pieces(self, tokens: Sequence[str]) -> list[tuple[int, ...]]:
        """Ids of the pieces of each word; a word without pieces is one unknown piece."""
        if len(self._pieces) > MAX_TYPES:
            self._pieces.clear()
        known = self._pieces
        return [known[token] if token in known else self._cut(token) for token in tokens]

    def _cut(self, token: str) -> tuple[int, ...]:
        config = self._config
        cut = self._tokenizer.encode(config.prefix + encodable(token), add_special_tokens=False).tokens
        ids = [self._ids.get(piece, config.unknown) for piece in cut]
        # Padding is recognised by its id: a word that spells it (it makes supar fail) is unknown.
        kept = [i if i != config.pad else config.unknown for i in ids[: config.max_pieces]]
        self._pieces[token] = pieces = tuple(kept or [config.unknown])
        return pieces

    def batch(self, sentences: Sequence[Sequence[tuple[int, ...]]]) -> SubwordBatch:
        """Pad sentences given as pieces of their words."""
        begin = (self._config.begin,)
        end = () if self._config.end is None else ((self._config.end,),)
        words = [(begin, *sentence, *end) for sentence in sentences]
        counts = np.array([len(pieces) for sentence in words for pieces in sentence], np.int64)
        flat = np.array([i for sentence in words for pieces in sentence for i in pieces], np.int64)
        lengths_B = np.array([len(sentence) for sentence in words], np.int64)
        ends = np.cumsum(counts)
        last = ends[np.cumsum(lengths_B) - 1]
        pieces_B = np.diff(last, prepend=0)
        mask_BP = np.arange(int(pieces_B.max())) < pieces_B[:, None]
        ids_BP = np.full(mask_BP.shape, self._config.pad, np.int64)
        ids_BP[mask_BP] = flat
        return SubwordBatch(
            ids_BP=torch.from_numpy(ids_BP),
            mask_BP=torch.from_numpy(mask_BP),
            first_N=torch.from_numpy(ends - counts),
            count_N=torch.from_numpy(counts),
            lengths_B=torch.from_numpy(lengths_B),
        )


class SubwordEncoder(nn.Module):
    """The transformer, the mixture of its layers, the pooling and the projection.

    Args:
        config: see :class:`SubwordConfig`.
        backbone: the transformer's configuration, with ``model_type``; no weights are loaded.
    """

    def __init__(self, config: SubwordConfig, backbone: dict[str, object]) -> None:
        super().__init__()
        self.config, self.backbone = config, backbone
        values = {k: v for k, v in backbone.items() if k != "model_type"}
        settings = AutoConfig.for_model(
            str(backbone["model_type"]), **{**values, "output_hidden_states": True}
        )
        self.model = AutoModel.from_config(settings)
        if getattr(self.model, "pooler", None) is not None:
            self.model.pooler = None  # a vector of the whole sentence, not used here
        hidden = settings.hidden_size
        # As in supar: two positions are kept free; a model without positions takes any length.
        self.max_pieces = int(max(0, settings.max_position_embeddings) or 1e12) - 2
        self.stride = min(config.stride, self.max_pieces)
        self.layer_weights = nn.Parameter(torch.zeros(config.layers))
        self.gamma = nn.Parameter(torch.ones(1))
        self.projection = nn.Linear(hidden, config.projection, bias=False) if config.projection else None
        self.output_dim = config.projection or hidden
        self.reduced = False
        """Run the transformer under bfloat16 autocast; the mixture and what follows stay fp32."""

    def forward(self, batch: SubwordBatch) -> Tensor:
        """Vectors of all positions of a batch on the host, [B, T, H] on the model's device, 0 in padding."""
        states_SH = pick(self._states(batch), batch.mask_BP)
        pooled_NH = self._pool(states_SH, batch.first_N, batch.count_N)
        if self.projection is not None:
            pooled_NH = self.projection(pooled_NH)
        mask_BT = batch.mask_BT()
        vectors_BTH = pooled_NH.new_zeros(*mask_BT.shape, pooled_NH.shape[1])
        sentence_N, position_N = (index.to(pooled_NH.device) for index in mask_BT.nonzero(as_tuple=True))
        vectors_BTH[sentence_N, position_N] = pooled_NH
        return vectors_BTH

    def _states(self, batch: SubwordBatch) -> Tensor:
        """Mixed states of all pieces, [B, P, H], window by window."""
        limit, stride = self.max_pieces, self.stride
        over = batch.ids_BP.shape[1] - limit
        parts = [self._mix(batch, 0)]
        for start in range(stride, (over + stride - 1) // stride * stride + 1, stride):
            parts.append(self._mix(batch, start)[:, limit - stride :])
        return torch.cat(parts, 1)

    def _mix(self, batch: SubwordBatch, start: int) -> Tensor:
        """γ Σ_l softmax(w)_l h_l over the last layers, for the window that begins at ``start``."""
        window = slice(start, start + self.max_pieces)
        device = self.gamma.device
        mask = batch.mask_BP[:, window].float().to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=self.reduced):
            layers = self.model(batch.ids_BP[:, window].to(device), attention_mask=mask).hidden_states
        weights = self.layer_weights.softmax(-1)
        chosen = [layer.float() for layer in layers[-self.config.layers :]]
        mixed: Tensor = self.gamma * sum(w * h for w, h in zip(weights, chosen, strict=True))
        return mixed

    def _pool(self, states_SH: Tensor, first_N: Tensor, count_N: Tensor) -> Tensor:
        device = states_SH.device
        if self.config.pooling == "first":
            return states_SH[first_N.to(device)]
        if self.config.pooling == "last":
            return states_SH[(first_N + count_N - 1).to(device)]
        word_S = torch.repeat_interleave(torch.arange(len(count_N)), count_N).to(device)
        sums_NH = states_SH.new_zeros(len(count_N), states_SH.shape[1]).index_add_(0, word_S, states_SH)
        return sums_NH / count_N[:, None].to(device)


def piece_counts(sentences: Sequence[Sequence[tuple[int, ...]]]) -> NDArray[np.int64]:
    """Pieces of each sentence, the begin piece included."""
    return np.array([1 + sum(map(len, sentence)) for sentence in sentences], np.int64)


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """A pretrained transformer on disk: what a parser that is trained over it starts from."""

    config: SubwordConfig
    """Ids of the special pieces; layers and pooling by default."""
    backbone: dict[str, object]
    tokenizer: dict[str, object]
    """``tokenizer.json`` as JSON values."""
    weights: dict[str, Tensor]
    """By the names of :class:`SubwordEncoder`'s ``model``."""
    sha256: str
    """Of the weights' file."""

    def start(self, encoder: SubwordEncoder) -> None:
        """Put the pretrained weights into an encoder that was made of this configuration."""
        encoder.model.load_state_dict(self.weights)


def read_transformer(folder: Path) -> Transformer:
    """A folder as Hugging Face's libraries save one; none of its code is run and no pickle is read.

    Raises:
        UserError: a file is missing, or it is not a transformer that the installed library knows.
    """
    weights = folder / "model.safetensors"
    for path in (folder / "config.json", folder / "tokenizer.json", weights):
        if not path.is_file():
            raise UserError(f"{path}: no such file; --transformer takes the folder of a pretrained model")
    disable_progress_bar()  # transformers' own, one more per file
    try:
        model = AutoModel.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
        names = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        reason = str(error).splitlines()[0] if str(error) else repr(error)
        raise UserError(f"{folder}: transformers cannot read it ({reason})") from None
    ids = {
        "pad": names.pad_token_id,
        "unknown": names.unk_token_id,
        "begin": names.cls_token_id if names.cls_token_id is not None else names.bos_token_id,
        "end": names.sep_token_id if names.sep_token_id is not None else names.eos_token_id,
    }
    for name, value in ids.items():
        if value is None:
            raise UserError(f"{folder / 'tokenizer.json'}: the tokenizer has no {name} piece")
    return Transformer(
        config=SubwordConfig(**ids),
        backbone=model.config.to_diff_dict() | {"model_type": model.config.model_type},
        tokenizer=tokenizer_json((folder / "tokenizer.json").read_text(encoding="utf-8")),
        weights={k: v for k, v in model.state_dict().items() if not k.startswith("pooler.")},
        sha256=sha256_file(weights),
    )


def tokenizer_json(text: str) -> dict[str, object]:
    """A tokenizer's JSON without truncation and padding, which batches set: equal tokenizers agree."""
    values: dict[str, object] = json.loads(text)
    return {**values, "truncation": None, "padding": None}
