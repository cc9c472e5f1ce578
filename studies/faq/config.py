"""Options of FAQ retrieval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from annotated_types import Gt, Lt

from corpora.support.config import Count, CountOrNone, Fraction, Positive, configuration
from senteval_runner.towers.config import Pieces

Sampling = Literal["retrieved", "random"]
"""How the wrong entries of a training query are chosen."""
Side = Literal["question", "answer"]
"""Which text of an entry queries are compared with."""


@configuration
class TuningConfig:
    """How the Siamese map is trained."""

    epochs: CountOrNone = 20
    """Passes over the training queries."""
    batch_size: Count = 32
    """Queries per step."""
    negatives: Count = 4
    """Wrong entries per query (UNI: 4)."""
    rank: Count = 64
    """Rank of the map."""
    learning_rate: Positive = 1e-3
    """Of Adam."""
    temperature: Positive = 0.05
    """Of the softmax over cosines."""


@configuration
class EncoderConfig:
    """How a whole encoder is tuned.

    UNI gives no values for FAQ: rate, batch, dropout and epochs are those of its multi-task training.
    """

    objective: Literal["pair", "contrast"] = "pair"
    """pair: a softmax layer over [u; v; |u-v|] tells right entries from wrong ones (UNI); contrast: a softmax
    over the cosines of the right entry and the wrong ones."""
    epochs: Count = 2
    """Passes over the training queries (UNI: 2)."""
    batch_size: Count = 16
    """Pairs per step, or queries with all their entries for contrast (UNI: 16)."""
    negatives: Count = 4
    """Wrong entries per query (UNI: 4)."""
    queries: CountOrNone = 0
    """Most training queries per seed; 0 takes all."""
    learning_rate: Positive = 2e-5
    """Peak learning rate of Adam (UNI: 2e-5); 10 % warm-up, then linear decay to 0."""
    dropout: Fraction = 0.1
    """Probability in every dropout layer (UNI: 0.1)."""
    temperature: Positive = 0.05
    """Temperature of the contrast's softmax."""
    max_length: Pieces = 128
    """Longest text in word pieces; longer ones are cut."""
    save_every: Count = 50
    """Steps between saved states."""


@configuration
class FaqConfig:
    """Options of ``studies.faq``."""

    sets: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER...")] = ()
    """FAQ sets to evaluate on."""
    preset: Literal["paper"] | None = None
    """``paper``: the models of UNI's Table 8 that need no NLI training, negatives retrieved by BERT."""
    models: tuple[str, ...] = ()
    """Encoders, named as in senteval_runner.run; A+B puts vectors side by side."""
    output: Path = Path("runs/faq")
    """Folder for results.json, tables.md and report.html."""
    runs: Count = 5
    """Trainings per model (UNI: 5)."""
    split: Literal["files", "random"] = "files"
    """Training and test queries: the two files of a set (UNI), or a random split for every seed."""
    train_fraction: Annotated[float, Gt(0), Lt(1)] = 0.5
    """Fraction of the queries used for training with --split random, between 0 and 1."""
    sides: tuple[Side, ...] = ("question",)
    """Which text of an entry queries are compared with (UNI: the question)."""
    tune: Literal["encoder", "map"] = "encoder"
    """What is trained: all weights of a transformer or multi-view model (UNI; a stopped run is resumed), or a
    small map on frozen vectors (any model, seconds)."""
    sampling: tuple[Sampling, ...] = ("retrieved",)
    """Wrong entries of the training queries: those ranked highest by the retriever (UNI), or random ones."""
    retriever: str | None = None
    """Frozen encoder that retrieves the wrong entries for all models (UNI: BERT); None: each model itself."""
    tuning: TuningConfig = field(default_factory=TuningConfig)
    """The Siamese map."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """The whole encoder."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where whole encoders are trained."""


BERT = "google-bert/bert-base-chinese"
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        # UNI's set is Chinese; it names BERT-base, XLNet-base and XLNet-mid, a size that HFL alone has.
        "models": (BERT, "hfl/chinese-xlnet-base", "hfl/chinese-xlnet-mid"),
        "retriever": BERT,
    }
}
