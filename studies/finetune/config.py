"""Configuration shared by the fine-tuning commands; imports nothing heavy, so that --help is fast."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge

from corpora.support.config import Count, CountOrNone, Fraction, NotNegative, Positive, configuration

Concatenation = Literal["uv", "diff", "prod", "diff-prod", "uv-prod", "uv-diff", "uv-diff-prod"]
"""Features of a pair: uv = u;v, diff = |u-v|, prod = u*v."""


@configuration
class LoopConfig:
    """How the weights are trained."""

    learning_rate: Positive = 2e-5
    """Peak learning rate (UNI: 2e-5; SEQ-MT: 1e-5)."""
    betas: tuple[Fraction, Fraction] = (0.9, 0.98)
    """Adam's decay rates (BURT: 0.9, 0.98)."""
    epsilon: Positive = 1e-9
    """Adam's epsilon (BURT: 1e-9)."""
    weight_decay: NotNegative = 0.0
    """Decoupled weight decay per step (BURT: plain Adam, 0)."""
    warmup: Fraction = 0.1
    """Fraction of all steps in which the rate rises linearly (BURT: 0.1)."""
    decay: bool = True
    """Decay the rate linearly to 0 at the last step (BURT); otherwise it is constant after the warm-up."""
    clip_norm: NotNegative = 0.0
    """Largest L2 norm of the gradient of all parameters; 0 clips nothing (no paper here names one)."""


@configuration
class TinyConfig:
    """The small BERT and its pre-training."""

    layers: Count = 2
    """Transformer layers."""
    hidden: Count = 128
    """Width; the feed-forward layer has four times that, attention one head per 64."""
    vocabulary: Annotated[int, Ge(10)] = 8192
    """Word pieces, special ones included."""
    mlm_steps: CountOrNone = 0
    """Masked-language-model steps before fine-tuning; 0 leaves the weights random."""
