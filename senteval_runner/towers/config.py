"""How encoders are read; imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge

from corpora.support.config import Count, CountOrNone, configuration

Pooling = Literal["mean", "cls", "max"]
"""How word-piece vectors become one vector."""
Pieces = Annotated[int, Ge(4)]
"""Length of a text in word pieces: two special ones and two of the text at least."""


@configuration
class BackboneConfig:
    """How an encoder's layers are read."""

    special_tokens: bool = True
    """Whether mean and max count [CLS], [SEP] and their like; padding never counts."""
    max_length: Pieces = 256
    """Word pieces per sentence, special ones included; longer sentences are cut and counted."""
    heights: tuple[CountOrNone, ...] = (0, 1, 2, 3, 4, 6, 8)
    """Tree encoders: heights that are layers of their own (words without dependents have 0)."""
    batch_size: Count = 32
    """Sentences encoded at a time."""
    trees: Path | None = None
    """Tree encoders: tree cache of the sentences (parsing.run senteval); none: they are parsed here."""
    device: str | None = None
    """Where backbones compute, e.g. cpu or cuda; None is a GPU if there is one."""
