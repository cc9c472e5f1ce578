"""Options of ``python -m studies.multitask``; imports nothing heavy."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Literal

from corpora.support.config import Count, CountOrNone, Fraction, configuration
from senteval_runner.towers.config import Pieces
from studies.finetune.config import LoopConfig, TinyConfig


@configuration
class SplitFiles:
    """Files of a task; None uses the data folder's."""

    train: Path | None = None
    """Training pairs."""
    dev: Path | None = None
    """Pairs that choose the best epoch; None holds out some of the training pairs (see --splits)."""
    test: Path | None = None
    """Pairs for the scores of the best configurations; None holds out others."""


def _seq_mt_loop() -> LoopConfig:
    return LoopConfig(
        learning_rate=1e-5, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=0.01, warmup=0.0, decay=False
    )


@configuration
class MultitaskConfig:
    """Fine-tune one encoder on several tasks, one after the other, and score all tasks after every stage."""

    output: Path
    """Result: results.json, and per stage an ordinary sentence-transformers folder under stages/."""
    preset: Literal["paper"] | None = None
    """paper: SEQ-MT's thirteen configurations, backbone, data splits and settings."""
    stages: str = "SA-P-STS(M)"
    """Tasks in order under SEQ-MT's names, by default its best row: SA (sentiment), P (paraphrase), STS, NLI.
    P, STS, NLI read a pair jointly (BERT), P(C), P(M), P(X) separately with [CLS], mean or max pooling
    (SBERT); P(M)* adds u*v to u, v, |u-v|; P[sub] and P[sub](M) train on a fresh tenth each epoch."""
    grid: str | None = None
    """Instead of --stages: paper (the thirteen rows of Table 1), or a file, one configuration per line."""
    backbone: str | None = None
    """Hugging Face name, local folder (sentence-transformers, multi-view too), or tiny (from scratch)."""
    data: Path | None = None
    """Data folder with senteval/downstream (SST-5, STS-B), nli and paraphrase; None takes $MULTIVIEW_DATA."""
    quora: SplitFiles = field(default_factory=SplitFiles)
    """Paraphrase pairs: the published Quora .tsv, or .tsv(.gz) with columns label, sentence1, sentence2."""
    nli: SplitFiles = field(default_factory=SplitFiles)
    """NLI pairs: published SNLI/MultiNLI .jsonl, or .tsv with columns label, sentence1, sentence2."""
    splits: Literal["published", "paper"] = "published"
    """Where files of dev and test are not given. published: STS-B's own parts; a tenth each of the Quora and
    NLI pairs, by a hash of the first text. paper: STS-B's parts together, and Quora's one file, are split at
    random in SEQ-MT's proportions (STS-B's test pairs are then trained on)."""
    limit: CountOrNone = 0
    """Most training examples per task (a fixed random choice); 0 takes all."""
    dev_rows: CountOrNone = 1500
    """Most dev examples per task (a fixed random choice); 0 takes all."""
    test_rows: CountOrNone = 0
    """Most test examples per task (a fixed random choice); 0 takes all."""
    epochs: Count = 5
    """Passes per stage (SEQ-MT: 5); the one with the best overall dev score is kept."""
    batch_size: Count = 32
    """Examples per step (SEQ-MT: 32)."""
    max_length: Pieces = 128
    """Longest text in word pieces; longer ones are cut (not stated in SEQ-MT)."""
    dropout: Fraction | None = None
    """Probability in every dropout layer; None keeps the backbone's."""
    loop: LoopConfig = field(default_factory=_seq_mt_loop)
    """Optimiser (SEQ-MT: AdamW with a constant 1e-5; its other values are not stated, ours are PyTorch's)."""
    tiny: TinyConfig = field(default_factory=TinyConfig)
    """The tiny backbone."""
    save_every: Count = 200
    """Steps between saved states within a stage."""
    seed: int = 1
    """Of new weights, batch order, sampling and dropout."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train."""
