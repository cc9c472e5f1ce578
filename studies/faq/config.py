"""Options of FAQ retrieval."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from annotated_types import Gt, Lt

from corpora.support.config import Count, CountOrNone, Positive, configuration
from senteval_runner.towers.config import Pieces


@configuration
class TuningConfig:
    """How the Siamese map is trained."""

    epochs: CountOrNone = 20
    """Passes over the training queries."""
    batch_size: Count = 32
    """Queries per step."""
    negatives: Count = 4
    """Wrong entries per query (UNI: the top 4)."""
    rank: Count = 64
    """Rank of the map."""
    learning_rate: Positive = 1e-3
    """Of Adam."""
    temperature: Positive = 0.05
    """Of the softmax over cosines."""


@configuration
class EncoderConfig:
    """How a whole encoder is tuned."""

    epochs: Count = 3
    """Passes over the training queries."""
    batch_size: Count = 16
    """Queries per step."""
    negatives: Count = 4
    """Wrong entries per query (UNI: the top 4)."""
    queries: CountOrNone = 0
    """Most training queries per seed; 0 takes all."""
    learning_rate: Positive = 2e-5
    """Peak rate of Adam; 10 % warm-up, then linearly to 0."""
    temperature: Positive = 0.05
    """Of the softmax over cosines."""
    max_length: Pieces = 128
    """Longest text in word pieces; longer ones are cut."""
    save_every: Count = 50
    """Steps between saved states."""


@configuration
class FaqConfig:
    """Options of ``studies.faq``."""

    sets: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER...")] = ()
    """FAQ sets to evaluate on."""
    models: tuple[str, ...] = ()
    """Encoders, named as in senteval_runner.run; A+B puts vectors side by side."""
    chat: Path | None = None
    """FAQ table to answer typed questions from, instead of an evaluation."""
    output: Path = Path("runs/faq")
    """Folder for results.json, tables.md and report.html."""
    seeds: Count = 5
    """Number of random splits of the queries; every model is tuned once per split."""
    train_fraction: Annotated[float, Gt(0), Lt(1)] = 0.5
    """Fraction of the queries used for training, between 0 and 1."""
    sides: tuple[Literal["question", "answer"], ...] = ("question", "answer")
    """Which text of an entry queries are compared with."""
    tune: Literal["map", "encoder"] = "map"
    """What is trained: a small map on frozen vectors (any model, seconds), or all weights of a transformer or
    multi-view model. A stopped run of the latter is resumed."""
    tuning: TuningConfig = field(default_factory=TuningConfig)
    """The Siamese map."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """The whole encoder."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where whole encoders are trained."""
    dry_run: bool = False
    """Print the configuration and an estimate of the encoding's time from some texts; write nothing."""
