"""Options of ``python -m studies.similarity``; imports nothing heavy."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from corpora.support.config import Count, CountOrNone, Fraction, Positive, configuration
from senteval_runner.towers.config import Pieces, Pooling
from studies.finetune.config import LoopConfig


@configuration
class TuneConfig:
    """Fine-tuning on SemEval-2013 5(a); BURT gives no settings, these are the ones it pre-trains with."""

    epochs: Positive = 2.0
    """Passes over the training pairs."""
    batch_size: Count = 16
    """Pairs per step."""
    max_length: Pieces = 128
    """Longest text in word pieces."""
    loop: LoopConfig = field(default_factory=LoopConfig)
    """Optimiser."""


@configuration
class SimilarityConfig:
    """Options of ``studies.similarity``."""

    models: Positional[tuple[str, ...]]
    """Model folders, word-vector files, sentence-transformers names, random:dep,const, or A+B of several."""
    words: Path | None = None
    """Folder that holds the word sets (searched recursively)."""
    data: Path | None = None
    """SentEval data folder, for STS12-16, and for STS-B and SICK-R with and without a trained head."""
    phrases: Path | None = None
    """PPDB 2.0 file of phrase pairs with the feature Equivalence."""
    held_out: Fraction = 0.0
    """Score only the fraction of --phrases that studies.burt --held-out does not train on; 0 scores all."""
    semeval2013: Path | None = None
    """Folder of SemEval-2013 task 5(a): a classifier of word and phrase pairs is tuned on its train part."""
    fine_tune: bool = False
    """Tune transformers and multi-view models together with that classifier too, as BURT does."""
    tune: TuneConfig = field(default_factory=TuneConfig)
    """How --fine-tune trains."""
    poolings: tuple[Pooling, ...] = ()
    """Read every transformer with each of these poolings of its last layer instead of its own."""
    published: Literal["models", "ablation"] | None = None
    """Quote BURT's rows below ours: models are those of Tables 2 and 3, ablation those of Table 4."""
    nhid: CountOrNone = 0
    """Hidden units of that classifier; 0 is logistic regression."""
    output: Path = Path("runs/reports/similarity")
    """Folder for results.json and results.md."""
    seed: int = 1111
    """Seed of random encoders and of the trained heads."""
