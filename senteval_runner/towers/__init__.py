"""Open transformers, layer by layer for scoring, or as towers for fine-tuning.

The types of options are in this file, because it does not import torch.
"""

from typing import Literal

Pooling = Literal["mean", "cls", "max"]
"""How the vectors of word pieces become one vector."""
Concatenation = Literal["uv", "diff", "prod", "diff-prod", "uv-prod", "uv-diff", "uv-diff-prod"]
"""Which features of a pair are concatenated: uv is u and v, diff is |u-v|, prod is u*v."""
