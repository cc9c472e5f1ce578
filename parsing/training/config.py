"""Options of ``python -m parsing.train``; imports nothing heavy, so that ``--help`` is fast."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from corpora.support.config import Count, CountOrNone, NotNegative, Positive, configuration
from parsing.networks.config import ModelConfig


@configuration
class LoopConfig:
    """Optimisation and budget."""

    epochs: Count = 30
    """Passes over the training data."""
    max_minutes: NotNegative = 0.0
    """End after this time at the latest, with the learning rate at 0; 0 sets no limit."""
    batch_tokens: Count = 800
    """Approximate number of words per batch."""
    learning_rate: Positive = 2.5e-3
    """Peak learning rate of Adam."""
    checkpoint_s: NotNegative = 60.0
    """Seconds between checkpoints."""
    seed: CountOrNone = 1
    """Seed of initial weights, batch order and dropout."""


@configuration
class TrainConfig:
    """Options of ``parsing.train``."""

    output: Path
    """Folder to write: the model folders dep and const in it, and training."""
    train_dep: tuple[Path, ...] = ()
    """CoNLL-U files to learn arcs from, and tags (in XPOS) if constituency trees are learned too."""
    dev_dep: tuple[Path, ...] = ()
    """CoNLL-U files to choose the best weights on; the card quotes their scores."""
    train_const: tuple[Path, ...] = ()
    """Bracket files to learn trees and tags from; sentences with the same words as one of train_dep are one
    sentence with both."""
    dev_const: tuple[Path, ...] = ()
    """Bracket files to choose the best weights on."""
    name: str = ""
    """Beginning of the models' names, part of their identity; the output folder's name by default."""
    version: str = "1"
    """Version of the models, part of their identity."""
    device: str = "auto"
    """Where to train: cpu, cuda, cuda:1, ...; auto takes a GPU if there is one. A run goes on where it
    began: on a GPU or on a CPU."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The parsers."""
    loop: LoopConfig = field(default_factory=LoopConfig)
    """Optimisation and budget."""
