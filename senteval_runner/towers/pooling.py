"""From the word-piece states of a layer to one vector per sentence, padding left out.

EMP's four poolings: the state of [CLS], the state of [SEP], mean and maximum over the sentence. Where those
two tokens stand depends on the tokenizer (XLNet puts both last) and where padding stands on its settings,
so places are counted from the first or the last real word piece of each sentence.

Legend of dimension suffixes: B sentences, T word pieces, N nodes, D hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

POOLINGS = ("cls", "sep", "mean", "max")


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What a tokenizer puts around a sentence."""

    prefix: int
    """Special tokens before the first word piece (BERT 1, XLNet 0)."""
    suffix: int
    """Special tokens after the last (BERT 1, XLNet 2)."""
    cls: int
    """Place of [CLS]: from the first real token when >= 0, from the last when negative (-1 is the last)."""
    sep: int
    """Place of [SEP], likewise."""
    notes: tuple[str, ...] = ()
    """Which of the two the tokenizer lacks, and what stands for it."""


def frame_of(tokenizer: Any) -> Frame:
    """The special tokens of a tokenizer, read off a sentence it encodes.

    A tokenizer without [CLS] (T5, GPT-2) has the first real token in its place, one without [SEP] the last.
    """
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids, special = encoded["input_ids"], encoded["special_tokens_mask"]
    prefix = next((i for i, flag in enumerate(special) if not flag), len(ids))
    suffix = next((i for i, flag in enumerate(reversed(special)) if not flag), 0)
    notes = []

    def place(token_id: int | None, name: str, otherwise: int) -> int:
        if token_id is not None and token_id in ids[len(ids) - suffix :]:
            last = len(ids) - 1 - ids[::-1].index(token_id)
            result: int = last - len(ids)
            return result
        if token_id is not None and token_id in ids[:prefix]:
            return int(ids.index(token_id))
        notes.append(f"no {name} token: the {'first' if otherwise == 0 else 'last'} token stands for it")
        return otherwise

    # BERT's [SEP] also ends the sentence; RoBERTa's <s> and </s> are its cls and sep tokens.
    cls = place(tokenizer.cls_token_id, "[CLS]", 0)
    sep = place(tokenizer.sep_token_id, "[SEP]", -1)
    return Frame(prefix=prefix, suffix=suffix, cls=cls, sep=sep, notes=tuple(notes))


def counted(mask_BT: Tensor, frame: Frame, *, special_tokens: bool) -> Tensor:
    """Positions that mean and maximum count: bool [B, T].

    These are all real ones, with or without special tokens. A sentence of special tokens alone keeps them.
    """
    real_BT = mask_BT.bool()
    if special_tokens:
        return real_BT
    rank_BT = real_BT.long().cumsum(1) - 1
    length_B1 = real_BT.sum(1, keepdim=True)
    inner_BT = real_BT & (rank_BT >= frame.prefix) & (rank_BT < length_B1 - frame.suffix)
    return torch.where(inner_BT.any(1, keepdim=True), inner_BT, real_BT)


def places(mask_BT: Tensor, place: int) -> Tensor:
    """Position of each sentence's real token number ``place`` (counted as in :class:`Frame`): int64 [B]."""
    real_BT = mask_BT.long()
    first_B = real_BT.argmax(1)
    last_B = mask_BT.shape[1] - 1 - real_BT.flip(1).argmax(1)
    # Real tokens are contiguous, whichever side the padding is on.
    return first_B + place if place >= 0 else last_B + 1 + place


def pool(hidden_BTD: Tensor, mask_BT: Tensor, frame: Frame, pooling: str, *, special_tokens: bool) -> Tensor:
    """One of :data:`POOLINGS` of one layer: [B, D]."""
    if pooling in ("cls", "sep"):
        rows_B = torch.arange(len(hidden_BTD), device=hidden_BTD.device)
        return hidden_BTD[rows_B, places(mask_BT, getattr(frame, pooling))]
    counted_BT = counted(mask_BT, frame, special_tokens=special_tokens)
    if pooling == "mean":
        weight_BT = counted_BT.to(hidden_BTD.dtype)
        return torch.einsum("btd,bt->bd", hidden_BTD, weight_BT) / weight_BT.sum(1, keepdim=True)
    return hidden_BTD.masked_fill(~counted_BT[:, :, None], float("-inf")).amax(1)


PADDED_FIRST = ("roberta", "xlm-roberta", "camembert", "mpnet")
"""Families whose positions begin after the padding's."""


def most_pieces(shape: Any, tokenizer: Any) -> int | None:
    """Word pieces of the longest text, special ones included; None where nothing limits it.

    Args:
        shape: the configuration of a Hugging Face encoder.
        tokenizer: its tokenizer; one without a limit names a number beyond a million.
    """
    limits = [int(tokenizer.model_max_length)]
    positions = int(getattr(shape, "max_position_embeddings", None) or 0)
    if positions > 0:  # relative positions: XLNet says -1, T5 nothing
        limits.append(positions - (int(shape.pad_token_id) + 1) * (shape.model_type in PADDED_FIRST))
    return min(limits) if min(limits) < 10**6 else None
