"""Configuration of parsers and of their training; imports nothing heavy, so that ``--help`` is fast."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge

from corpora.support.config import Count, CountOrNone, Fraction, NotNegative, Positive, configuration

Precision = Literal["fp32", "bf16"]
"""Arithmetic of a parser's sentence encoder; everything after it is always fp32."""


@configuration
class EncoderConfig:
    """Sizes and dropout rates of the sentence encoder."""

    word_dim: Count = 100
    """Width of the word embedding."""
    character_dim: Count = 32
    """Width of a character's embedding."""
    character_hidden: Annotated[int, Ge(2)] = 64
    """Width of a word's character representation (half from each direction)."""
    hidden: Count = 192
    """Width of one direction of an LSTM layer; the encoder's output is twice as wide."""
    layers: Count = 3
    """Number of bidirectional LSTM layers."""
    end_boundary: bool = False
    """Sentences end with a boundary position too (constituency)."""
    embedding_dropout: Fraction = 0.33
    """Probability of dropping a token's word, and independently its characters, as a whole."""
    word_dropout: Fraction = 0.0
    """Probability of reading a token's word as unknown."""
    dropout: Fraction = 0.33
    """Dropout of layer inputs and of the output, one mask per sentence (variational)."""


@configuration
class ScorerConfig:
    """Sizes and dropout of the biaffine scorers."""

    arc_dim: Count = 256
    """Width of the arc space."""
    relation_dim: Count = 64
    """Width of the relation space."""
    dropout: Fraction = 0.33
    """Dropout after each MLP, one mask per sentence."""


@configuration
class DependencyConfig:
    """The model to train."""

    encoder: EncoderConfig = field(
        default_factory=lambda: EncoderConfig(
            word_dim=80, hidden=200, layers=2, embedding_dropout=0.25, dropout=0.25
        )
    )
    """Sentence encoder."""
    scorer: ScorerConfig = field(
        default_factory=lambda: ScorerConfig(arc_dim=200, relation_dim=50, dropout=0.25)
    )
    """Biaffine scorers."""
    min_count: Count = 2
    """Words rarer than this in the training data are unknown words."""


@configuration
class ConstituencyConfig:
    """The constituency model to train."""

    encoder: EncoderConfig = field(
        default_factory=lambda: EncoderConfig(
            character_hidden=100, layers=2, end_boundary=True, embedding_dropout=0.33, dropout=0.4
        )
    )
    """Sentence encoder."""
    state_dim: Count = 256
    """With a transformer: width of the states that its vectors are projected to."""
    label_hidden: Count = 192
    """Hidden width of the span classifier."""
    tag_hidden: Count = 128
    """Hidden width of the tag classifier."""
    force_root: bool = True
    """The whole sentence always gets a label (benepar's ``force_root_constituent``)."""
    min_count: Count = 2
    """Words rarer than this in the training data are unknown words."""


@configuration
class JointConfig:
    """Both parsers over one sentence encoder."""

    encoder: EncoderConfig = field(
        default_factory=lambda: EncoderConfig(
            word_dim=80, hidden=200, layers=2, end_boundary=True, embedding_dropout=0.25, dropout=0.25
        )
    )
    """Sentence encoder."""
    scorer: ScorerConfig = field(
        default_factory=lambda: ScorerConfig(arc_dim=200, relation_dim=50, dropout=0.25)
    )
    """Biaffine scorers."""
    label_hidden: Count = 192
    """Hidden width of the span classifier."""
    tag_hidden: Count = 128
    """Hidden width of the tag classifier."""
    force_root: bool = True
    """The whole sentence always gets a label."""
    min_count: Count = 2
    """Words rarer than this in the training data are unknown words."""


@configuration
class LoopConfig:
    """Optimisation, budget and bookkeeping."""

    minutes: Positive | None = None
    """Time budget in minutes; the learning rate reaches 0 at its end. Overrides epochs."""
    epochs: Count = 30
    """Budget in passes over the training data, when minutes is not given."""
    batch_tokens: Count = 640
    """Approximate number of words per batch."""
    learning_rate: Positive = 2e-3
    """Peak learning rate of Adam."""
    pretrained_rate: NotNegative = 0.1
    """Learning rate of a transformer's pretrained weights as a multiple of learning_rate."""
    warmup: Fraction = 0.02
    """Fraction of the budget over which the learning rate rises to its peak."""
    beta1: Fraction = 0.9
    """Adam's decay of the mean."""
    beta2: Fraction = 0.9
    """Adam's decay of the squares (Dozat & Manning: 0.9, not 0.999)."""
    epsilon: Positive = 1e-8
    """Adam's epsilon (torch's default; Dozat & Manning: 1e-12)."""
    clip: Positive = 5.0
    """Largest norm of the gradient."""
    average: Fraction = 0.0
    """Decay per step of an exponential average of the weights; the averaged weights are evaluated and kept.
    0 turns it off."""
    checkpoint_s: NotNegative = 60.0
    """Seconds between checkpoints."""
    seed: CountOrNone = 1
    """Seed of initial weights, batch order and dropout."""
    threads: Count = 1
    """Threads of torch; part of what makes a run repeatable."""
    parallel: Count = 1
    """Parts of a batch that are learned from at the same time, each with its own threads: on several cores
    this helps where more threads do not. Part of what makes a run repeatable."""


@configuration
class TrainOptions:
    """Options of every training."""

    output: Path
    """Model folder to write."""
    name: str = ""
    """Name of the model, part of its identity; the output folder's name by default."""
    version: str = "1"
    """Version of the model, part of its identity."""
    half: bool = True
    """Store weights as float16: half the size (the card's scores are those of the stored weights)."""
    device: str = "auto"
    """Where to train: cpu, cuda, cuda:1, ...; auto takes a GPU if there is one. A run goes on where it
    began: on a GPU or on a CPU."""


@configuration
class TrainSingle(TrainOptions):
    """Options of one parser by itself."""

    transformer: Path | None = None
    """Folder of a pretrained transformer (config.json, tokenizer.json, model.safetensors) to train over,
    instead of the word and character BiLSTM."""


@configuration
class TrainDependency(TrainSingle):
    """Options of ``dep``."""

    train: tuple[Path, ...]
    """CoNLL-U files to learn from."""
    dev: tuple[Path, ...]
    """CoNLL-U files to choose the best weights on; the card quotes their scores."""
    exclude_documents: tuple[str, ...] = ()
    """Leave out training documents whose id starts with one of these."""
    model: DependencyConfig = field(default_factory=DependencyConfig)
    """The model."""
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(learning_rate=3e-3))
    """Optimisation and budget."""


@configuration
class TrainConstituency(TrainSingle):
    """Options of ``const``."""

    train: tuple[Path, ...]
    """Bracket files to learn trees and tags from."""
    dev: tuple[Path, ...]
    """Bracket files to choose the best weights on; the card quotes their scores."""
    extra: tuple[Path, ...] = ()
    """CoNLL-U files whose tags and arcs are learned as well; sentences that are also in train count once."""
    start_from: Path | None = None
    """Model folder to start from: its weights, words, labels and tags."""
    exclude_documents: tuple[str, ...] = ()
    """Leave out documents of train and extra whose id starts with one of these. Bracket files name no
    documents; the .conllu file next to a .ptb file does."""
    model: ConstituencyConfig = field(default_factory=ConstituencyConfig)
    """The model."""
    loop: LoopConfig = field(
        default_factory=lambda: LoopConfig(learning_rate=2.5e-3, beta2=0.98, batch_tokens=800, average=0.998)
    )
    """Optimisation and budget."""


@configuration
class TrainJoint(TrainOptions):
    """Options of ``both``."""

    train_dep: tuple[Path, ...]
    """CoNLL-U files to learn arcs and tags from (tags in XPOS)."""
    train_const: tuple[Path, ...]
    """Bracket files to learn trees and tags from; sentences with the same words as one of train_dep are one
    sentence with both."""
    dev_dep: tuple[Path, ...]
    """CoNLL-U files to choose the best weights on; the card quotes their scores."""
    dev_const: tuple[Path, ...]
    """Bracket files to choose the best weights on."""
    start_from: Path | None = None
    """Whose weights training starts with: a dependency model's folder, or the output of an earlier run of
    this command. Sizes, relations, labels and tags are the same; words may be others."""
    exclude_documents: tuple[str, ...] = ()
    """Leave out training documents whose id starts with one of these. Bracket files name no documents; the
    .conllu file next to a .ptb file does."""
    model: JointConfig = field(default_factory=JointConfig)
    """Both models."""
    loop: LoopConfig = field(
        default_factory=lambda: LoopConfig(learning_rate=2.5e-3, beta2=0.98, batch_tokens=800, average=0.999)
    )
    """Optimisation and budget."""
