"""Sizes of the parsers' networks and options of their training; imports little, for a fast ``--help``."""

from dataclasses import field
from pathlib import Path
from typing import Annotated

import tyro
from annotated_types import Ge

from runtime.cli import Count, Epochs, Fraction, NotNegative, Positive, Seed, configuration


@configuration
class EncoderSizes:
    """Sizes of the sentence encoder."""

    word_dim: Count = 80
    """Width of the word embedding."""
    character_dim: Count = 32
    """Width of a character's embedding."""
    character_hidden: Annotated[Count, Ge(2)] = 64
    """Width of a word's character representation (half from each direction)."""
    hidden: Count = 200
    """Width of one direction of an LSTM layer; the encoder's output is twice as wide."""
    layers: Count = 2
    """Number of bidirectional LSTM layers."""
    end_boundary: Annotated[bool, tyro.conf.Suppress] = True
    """Sentences end with a boundary position too; supar's do not."""


@configuration
class ScorerSizes:
    """Sizes of the biaffine scorers."""

    arc_dim: Count = 200
    """Width of the arc space."""
    relation_dim: Count = 50
    """Width of the relation space."""


@configuration
class SpanSizes:
    """Sizes of the span and tag classifiers."""

    label_hidden: Count = 192
    """Hidden width of the span classifier."""
    tag_hidden: Count = 128
    """Hidden width of the tag classifier."""


@configuration
class ModelConfig:
    """Both parsers, over one sentence encoder."""

    encoder: EncoderSizes = field(default_factory=EncoderSizes)
    """Sentence encoder."""
    arcs: ScorerSizes = field(default_factory=ScorerSizes)
    """The dependency parser's biaffine scorers."""
    spans: SpanSizes = field(default_factory=SpanSizes)
    """The constituency parser's classifiers."""
    min_count: Count = 2
    """Words rarer than this in the training data are unknown words."""


@configuration
class ParserLoopConfig:
    """Optimisation and budget."""

    epochs: Epochs = 30
    """Passes over the training data."""
    max_minutes: NotNegative = 0.0
    """End after this time at the latest, with the learning rate at 0; 0 sets no limit."""
    batch_tokens: Count = 800
    """Approximate number of words per batch."""
    learning_rate: Positive = 2.5e-3
    """Peak learning rate of Adam."""
    dropout: Fraction = 0.25
    """Dropout of a token's word and of its characters, each as a whole, of the layers' inputs, of the output
    and after the scorers' MLPs, there one mask per sentence (variational)."""
    seed: Seed = 1
    """Seed of initial weights, batch order and dropout."""


@configuration
class ParserTrainConfig:
    """Options of ``parsing.train``."""

    output: Path
    """Folder to write: the model folders dep and const in it, and training; its name begins theirs."""
    train_dep: tuple[Path, ...] = ()
    """CoNLL-U files to learn arcs from, and tags (in XPOS) if constituency trees are learned too."""
    dev_dep: tuple[Path, ...] = ()
    """CoNLL-U files to choose the best weights on; the card quotes their scores."""
    train_const: tuple[Path, ...] = ()
    """Bracket files to learn trees and tags from; sentences with the same words as one of train_dep are one
    sentence with both."""
    dev_const: tuple[Path, ...] = ()
    """Bracket files to choose the best weights on."""
    device: str = "auto"
    """Where to train: cpu, cuda, cuda:1, ...; auto takes a GPU if there is one. A run goes on where it
    began: on a GPU or on a CPU."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The parsers."""
    loop: ParserLoopConfig = field(default_factory=ParserLoopConfig)
    """Optimisation and budget."""
