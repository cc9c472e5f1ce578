"""Encoders opened up: transformer towers, their layers and poolings.

The types of options are here; this file imports nothing heavy.
"""

from typing import Literal

Pooling = Literal["mean", "cls", "max"]
"""How word-piece vectors become one vector."""
Concatenation = Literal["uv", "diff", "prod", "diff-prod", "uv-prod", "uv-diff", "uv-diff-prod"]
"""Features of a pair: uv = u;v, diff = |u-v|, prod = u*v."""
