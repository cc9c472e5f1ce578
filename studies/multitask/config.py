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
    """Pairs that choose the best epoch; None holds out a tenth of the training pairs, by first text."""
    test: Path | None = None
    """Pairs for the reported scores; None holds out another tenth."""


def _seq_mt_loop() -> LoopConfig:
    return LoopConfig(
        learning_rate=1e-5, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=0.01, warmup=0.0, decay=False
    )


@configuration
class MultitaskConfig:
    """Fine-tune one encoder on several tasks, one after the other, and score all tasks after every stage."""

    output: Path
    """Result: results.json, and per stage an ordinary sentence-transformers folder under stages/."""
    stages: str = "sst,quora:mean,sts:mean,nli:mean"
    """Stages in order: TASK[:cls|mean|max][*][[sub]] with TASK one of sst, quora, sts, nli. Without a pooling
    the pair is read jointly (BERT), with one separately (SBERT); * adds u*v to u,v,|u-v|; [sub] trains on a
    fresh tenth each epoch."""
    grid: str | None = None
    """Instead of --stages: paper (thirteen configurations), or a file with one --stages value per line."""
    backbone: str = "tiny"
    """Hugging Face name, local folder (sentence-transformers, multi-view too), or tiny (from scratch)."""
    data: Path | None = None
    """Data folder with senteval/downstream (SST-5, STS-B), nli and paraphrase; None takes $MULTIVIEW_DATA."""
    quora: SplitFiles = field(default_factory=SplitFiles)
    """Paraphrase pairs: the published Quora .tsv, or .tsv(.gz) with columns label, sentence1, sentence2."""
    nli: SplitFiles = field(default_factory=SplitFiles)
    """NLI pairs: published SNLI/MultiNLI .jsonl, or .tsv with columns label, sentence1, sentence2."""
    limit: CountOrNone = 0
    """Most training examples per task (a fixed random choice); 0 takes all."""
    dev_rows: CountOrNone = 1500
    """Most dev examples per task (a fixed random choice)."""
    test_rows: CountOrNone = 0
    """Most test examples per task (a fixed random choice); 0 takes all."""
    epochs: Count = 5
    """Passes per stage (SEQ-MT: 5); the best on dev is kept."""
    batch: Count = 32
    """Examples per step (SEQ-MT: 32)."""
    max_length: Pieces = 128
    """Longest text in word pieces; longer ones are cut."""
    dropout: Fraction | None = None
    """Probability in every dropout layer; None keeps the backbone's."""
    loop: LoopConfig = field(default_factory=_seq_mt_loop)
    """Optimiser (SEQ-MT: AdamW 1e-5)."""
    tiny: TinyConfig = field(default_factory=TinyConfig)
    """The tiny backbone."""
    save_every: Count = 200
    """Steps between saved states within a stage."""
    seed: int = 1
    """Of new weights, batch order, sampling and dropout."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train."""
    dry_run: bool = False
    """Print the configuration, sizes and an estimate of time and memory from a few steps; write nothing."""
