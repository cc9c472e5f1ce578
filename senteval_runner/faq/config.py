"""Options of FAQ retrieval."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class FaqConfig:
    """Options of ``senteval_runner.faq``."""

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
    tuning: TuningConfig = field(default_factory=TuningConfig)
    """The Siamese map."""
    dry_run: bool = False
    """Print the configuration and an estimate of the encoding's time from some texts; write nothing."""
