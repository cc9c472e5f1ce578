"""Configuration shared by the fine-tuning commands; imports nothing heavy, so that --help is quick."""

from __future__ import annotations

from typing import Literal

from corpora.support.config import configuration

Concatenation = Literal["uv", "diff", "prod", "diff-prod", "uv-prod", "uv-diff", "uv-diff-prod"]
"""Features of a pair: uv = u;v, diff = |u-v|, prod = u*v."""


@configuration
class LoopConfig:
    """How the weights move."""

    learning_rate: float = 2e-5
    """Peak learning rate (UNI: 2e-5; SEQ-MT: 1e-5)."""
    betas: tuple[float, float] = (0.9, 0.98)
    """Adam's decay rates (BURT: 0.9, 0.98)."""
    epsilon: float = 1e-9
    """Adam's epsilon (BURT: 1e-9)."""
    weight_decay: float = 0.0
    """Decoupled weight decay per step (BURT: plain Adam, 0)."""
    warmup: float = 0.1
    """Share of all steps in which the rate rises linearly (BURT: 0.1)."""
    decay: bool = True
    """Let the rate fall linearly to 0 at the last step (BURT); otherwise constant after the warm-up."""
    clip_norm: float = 1.0
    """Largest L2 norm of the gradient of all parameters."""


@configuration
class TinyConfig:
    """The small BERT and its pre-training."""

    layers: int = 2
    """Transformer layers."""
    hidden: int = 128
    """Width; the feed-forward layer has four times that, attention one head per 64."""
    vocabulary: int = 8192
    """Word pieces, special ones included."""
    max_length: int = 128
    """Word pieces per text."""
    mlm_steps: int = 0
    """Masked-language-model steps before fine-tuning; 0 leaves the weights random."""
    mlm_batch: int = 32
    """Texts per masked-language-model step."""
    mlm_learning_rate: float = 1e-3
    """Peak rate of the pre-training (10 % warm-up, linear decay)."""
