"""What the fine-tuning commands share; imports nothing heavy, so that --help is fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Concatenation = Literal["uv", "diff", "prod", "diff-prod", "uv-prod", "uv-diff", "uv-diff-prod"]
"""Features of a pair: uv = u;v, diff = |u-v|, prod = u*v."""


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """How the weights are trained."""

    learning_rate: float = 2e-5
    """Peak learning rate (UNI: 2e-5; SEQ-MT: 1e-5)."""
    betas: tuple[float, float] = (0.9, 0.98)
    """Adam's decay rates (BURT: 0.9, 0.98)."""
    epsilon: float = 1e-9
    """Adam's epsilon (BURT: 1e-9)."""
    weight_decay: float = 0.0
    """Decoupled weight decay per step (BURT: plain Adam, 0)."""
    warmup: float = 0.1
    """Fraction of all steps in which the rate rises linearly (BURT: 0.1)."""
    decay: bool = True
    """Decay the rate linearly to 0 at the last step (BURT); otherwise it is constant after the warm-up."""
