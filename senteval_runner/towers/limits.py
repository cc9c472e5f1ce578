"""How many word pieces an encoder reads at once."""

from __future__ import annotations

from typing import Any

PADDED_FIRST = ("roberta", "xlm-roberta", "camembert", "mpnet")
"""Their positions begin after the padding's."""
NAMED = 10**6
"""A tokenizer without a limit names a far larger number."""


def most_pieces(shape: Any, tokenizer: Any) -> int | None:
    """Word pieces of the longest text, special ones included; None where nothing limits it.

    Args:
        shape: the configuration of a Hugging Face encoder.
        tokenizer: its tokenizer.
    """
    limits = [int(tokenizer.model_max_length)]
    positions = int(getattr(shape, "max_position_embeddings", None) or 0)
    if positions > 0:  # relative positions: XLNet says -1, T5 nothing
        limits.append(positions - (int(shape.pad_token_id) + 1) * (shape.model_type in PADDED_FIRST))
    return min(limits) if min(limits) < NAMED else None
