"""Open transformers: layer by layer to score them, and as towers to train them.

The types of options are here, because this file imports nothing heavy.
"""

from typing import Literal

Pooling = Literal["mean", "cls", "max"]
"""How word-piece vectors become one vector."""
Concatenation = Literal["uv", "diff", "prod", "diff-prod", "uv-prod", "uv-diff", "uv-diff-prod"]
"""Features of a pair: uv is u;v, diff is |u-v|, prod is u*v."""
