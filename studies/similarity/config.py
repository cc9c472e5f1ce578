"""Options of ``python -m studies.similarity``; imports nothing heavy."""

from __future__ import annotations

from pathlib import Path

from tyro.conf import Positional

from corpora.support.config import CountOrNone, Fraction, configuration


@configuration
class SimilarityConfig:
    """Options of ``studies.similarity``."""

    models: Positional[tuple[str, ...]]
    """Model folders, word-vector files, sentence-transformers names, random:dep,const, or A+B of several."""
    words: Path | None = None
    """Folder that holds the word sets (searched recursively)."""
    data: Path | None = None
    """SentEval data folder, for STS-B and SICK-R with and without a trained head."""
    phrases: Path | None = None
    """PPDB 2.0 file of phrase pairs with the feature Equivalence."""
    held_out: Fraction = 0.0
    """Score only the fraction of --phrases that studies.burt --held-out does not train on; 0 scores all."""
    semeval2013: Path | None = None
    """Folder of SemEval-2013 task 5(a): a classifier of word and phrase pairs is tuned on its train part."""
    nhid: CountOrNone = 0
    """Hidden units of that classifier; 0 is logistic regression."""
    output: Path = Path("runs/reports/similarity")
    """Folder for results.json and results.md."""
    seed: int = 1111
    """Seed of random encoders and of the trained heads."""
