"""Sizes of the parsers' networks and options of their training; imports nothing heavy, for a fast help."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from annotated_types import Ge

from corpora.support.cli import Count, CountOrNone, Fraction, NotNegative, Positive, configuration

Precision = Literal["fp32", "bf16"]
"""Arithmetic of a parser's sentence encoder; everything after it is always fp32."""


@configuration
class EncoderConfig:
    """Sizes and dropout rates of the sentence encoder."""

    word_dim: Count = 80
    """Width of the word embedding."""
    character_dim: Count = 32
    """Width of a character's embedding."""
    character_hidden: Annotated[int, Ge(2)] = 64
    """Width of a word's character representation (half from each direction)."""
    hidden: Count = 200
    """Width of one direction of an LSTM layer; the encoder's output is twice as wide."""
    layers: Count = 2
    """Number of bidirectional LSTM layers."""
    embedding_dropout: Fraction = 0.25
    """Probability of dropping a token's word, and independently its characters, as a whole."""
    dropout: Fraction = 0.25
    """Dropout of layer inputs and of the output, one mask per sentence (variational)."""
    end_boundary: Annotated[bool, tyro.conf.Suppress] = True
    """Sentences end with a boundary position too; supar's do not."""


@configuration
class ScorerConfig:
    """Sizes and dropout of the biaffine scorers."""

    arc_dim: Count = 200
    """Width of the arc space."""
    relation_dim: Count = 50
    """Width of the relation space."""
    dropout: Fraction = 0.25
    """Dropout after each MLP, one mask per sentence."""


@configuration
class SpanConfig:
    """Sizes of the span and tag classifiers."""

    label_hidden: Count = 192
    """Hidden width of the span classifier."""
    tag_hidden: Count = 128
    """Hidden width of the tag classifier."""
    force_root: Annotated[bool, tyro.conf.Suppress] = True
    """The whole sentence always gets a label (benepar's ``force_root_constituent``)."""


@configuration
class ModelConfig:
    """Both parsers, over one sentence encoder."""

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """Sentence encoder."""
    arcs: ScorerConfig = field(default_factory=ScorerConfig)
    """The dependency parser's biaffine scorers."""
    spans: SpanConfig = field(default_factory=SpanConfig)
    """The constituency parser's classifiers."""
    min_count: Count = 2
    """Words rarer than this in the training data are unknown words."""


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
