"""Options of FAQ retrieval."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from corpora.support.config import configuration


@configuration
class TuningConfig:
    """How the Siamese map is trained."""

    epochs: int = 20
    """Passes over the training queries."""
    batch_size: int = 32
    """Queries per step."""
    negatives: int = 4
    """Wrong entries per query (UNI: the top 4)."""
    rank: int = 64
    """Rank of the map."""
    learning_rate: float = 1e-3
    """Of Adam."""
    temperature: float = 0.05
    """Of the softmax over cosines."""


@configuration
class EncoderConfig:
    """How a whole encoder is tuned."""

    epochs: int = 3
    """Passes over the training queries."""
    batch_size: int = 16
    """Queries per step."""
    negatives: int = 4
    """Wrong entries per query (UNI: the top 4)."""
    queries: int = 0
    """Most training queries per seed; 0 takes all."""
    learning_rate: float = 2e-5
    """Peak rate of Adam; 10 % warm-up, then linearly to 0."""
    temperature: float = 0.05
    """Of the softmax over cosines."""
    max_length: int = 128
    """Longest text in word pieces; longer ones are cut."""
    save_every: int = 50
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
    seeds: int = 5
    """Splits of the queries, and trainings."""
    train_share: float = 0.5
    """Share of the queries used for training, between 0 and 1."""
    sides: tuple[Literal["question", "answer"], ...] = ("question", "answer")
    """Which text of an entry queries are compared with."""
    tune: Literal["map", "encoder"] = "map"
    """What is trained: a small map on frozen vectors (any model, seconds), or a transformer or multi-view
    model whole. A stopped run of the latter is continued."""
    tuning: TuningConfig = field(default_factory=TuningConfig)
    """The Siamese map."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """The whole encoder."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where whole encoders are trained."""
    dry_run: bool = False
    """Print the configuration and an estimate of the encoding's time from some texts; write nothing."""
