"""Options for reading an encoder's layers; imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge

from corpora.support.config import configuration

Pooling = Literal["mean", "cls", "max"]
"""How word-piece vectors become one vector."""
Pieces = Annotated[int, Ge(4)]
"""Length of a text in word pieces: two special ones and two of the text at least."""


@configuration
class BackboneConfig:
    """Options for reading an encoder's layers."""

    special_tokens: bool = True
    """Whether mean and max count [CLS], [SEP] and their like; padding never counts."""
    max_length: Pieces = 256
    """Word pieces per sentence, special ones included; longer sentences are cut."""
    trees: Path | None = None
    """Tree encoders: tree cache of the sentences; None parses them on the fly."""
    device: str | None = None
    """Device of the backbones, e.g. cpu or cuda; None is a GPU if there is one."""
