"""Hidden states of one layer to vectors of sentences: EMP's four poolings.

They are the state of [CLS], the state of [SEP], mean and maximum over all word pieces; as in bert-as-service
the special ones count and padding does not. Where [CLS] and [SEP] stand depends on the tokenizer (XLNet puts
both last), so places are counted from the first or the last real word piece of each sentence.

Legend of dimension suffixes: B sentences, T word pieces, D hidden size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

POOLINGS = ("cls", "sep", "mean", "max")


class Frame(NamedTuple):
    """Where a tokenizer puts [CLS] and [SEP]: from the first real token when >= 0, else from the end."""

    cls: int
    sep: int
    notes: tuple[str, ...] = ()
    """Which of the two the tokenizer lacks, and what stands for it."""


def frame_of(tokenizer: Any) -> Frame:
    """The places in a sentence that the tokenizer encodes.

    A tokenizer without [CLS] (T5, GPT-2) has the first real token in its place, one without [SEP] the last.
    """
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids, special = encoded["input_ids"], encoded["special_tokens_mask"]
    notes = []

    def place(token_id: int | None, name: str, otherwise: int) -> int:
        found = [i for i, flag in enumerate(special) if flag and ids[i] == token_id]
        if found:
            return found[-1] if found[-1] < special.index(0) else found[-1] - len(ids)
        notes.append(f"no {name} token: the {'last' if otherwise else 'first'} token stands for it")
        return otherwise

    # RoBERTa's <s> and </s> are its cls and sep tokens.
    cls, sep = place(tokenizer.cls_token_id, "[CLS]", 0), place(tokenizer.sep_token_id, "[SEP]", -1)
    return Frame(cls, sep, tuple(notes))


def pool(hidden_BTD: Tensor, mask_BT: Tensor, frame: Frame, pooling: str) -> Tensor:
    """One of :data:`POOLINGS` of one layer: [B, D]; the mask is 1 at real tokens, which are contiguous."""
    real_BT = mask_BT.bool()
    if pooling == "mean":
        weight_BT = real_BT.to(hidden_BTD.dtype)
        return torch.einsum("btd,bt->bd", hidden_BTD, weight_BT) / weight_BT.sum(1, keepdim=True)
    if pooling == "max":
        return hidden_BTD.masked_fill(~real_BT[:, :, None], float("-inf")).amax(1)
    place: int = getattr(frame, pooling)
    first_B = mask_BT.long().argmax(1) + (mask_BT.sum(1) if place < 0 else 0)
    return hidden_BTD[torch.arange(len(hidden_BTD), device=hidden_BTD.device), first_B + place]


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
