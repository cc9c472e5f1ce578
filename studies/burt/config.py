"""Options of ``studies.burt``."""

from pathlib import Path
from typing import Literal

from runtime.cli import Count, CountOrNone, Fraction, Positive, Seed, configuration
from senteval_runner.towers import Concatenation, Pooling

Objective = Literal["nli", "identification", "classification"]
Ablation = Literal["objectives", "pooling", "concatenation", "negatives"]
"""The four blocks of BURT's Table 4."""


@configuration
class BurtConfig:
    """Train a Siamese encoder on NLI, paraphrase identification and pairwise text classification."""

    output: Path
    """Result: an ordinary sentence-transformers folder (--ablation: one per row, below it) and the report. A
    run that was stopped there is continued."""
    preset: Literal["paper", "uni", "uni-nli", "emp"] | None = None
    """paper: BURT on BERT-base with the paper's data; ALBURT with --backbone albert-base-v2. uni: UNI's
    ALBURT-xxlarge; uni-nli: its SALBERT, trained on NLI alone, and the "+ NLI" rows of its Table 8. emp:
    EMP's BERT-base, fine-tuned on the NLI of --nli alone."""
    ablation: Ablation | None = None
    """Train every row of a block of Table 4 in its own folder below --output."""
    backbone: str | None = None
    """Hugging Face name, local folder (sentence-transformers too), or tiny (from scratch)."""
    nli: tuple[Path, ...] = ()
    """NLI training files: published SNLI/MultiNLI .jsonl, or .tsv of label, sentence1, sentence2."""
    nli_dev: tuple[Path, ...] = ()
    """NLI files scored during training; without them a fraction of --nli is held out (see --held-out)."""
    ppdb: tuple[Path, ...] = ()
    """PPDB files as published (1.0 or 2.0, plain or .gz), or .tsv/.txt of two phrases per line."""
    objectives: tuple[Objective, ...] = ("nli", "identification", "classification")
    """Objectives to train. Missing data for one of them is an error."""
    pooling: Pooling = "mean"
    """How word-piece vectors become one vector (BURT: mean)."""
    concatenation: Concatenation = "uv-diff"
    """Features of a pair: uv = u;v, diff = |u-v|, prod = u*v (BURT: u;v;|u-v|)."""
    negatives: CountOrNone = 3
    """Sampled negatives per distinct target of PPDB, drawn afresh each pass (BURT and UNI: k = 3)."""
    per_class: Count = 354_000
    """Most PPDB pairs of each label before the split, drawn at random, all cut to the smallest (BURT: 354k;
    UNI: 343k, of which none is held out)."""
    held_out: Fraction = 0.02
    """Fraction of each training set held out for scores during training and as phrase test set, by a hash."""
    batch_size: Count = 16
    """Pairs per step (BURT: 16)."""
    epochs: Positive = 2.0
    """Passes over the NLI set (UNI: 2; BURT does not say); without NLI, the largest set. Others cycle."""
    learning_rate: Positive = 2e-5
    """Peak rate (UNI: 2e-5; BURT does not say)."""
    evaluate_every: Count = 1000
    """Steps between scores."""
    seed: Seed = 1
    """Seed of new weights, batch order, negatives and dropout."""
