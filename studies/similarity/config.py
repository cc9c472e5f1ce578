"""Options of ``studies.similarity``."""

from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from runtime.cli import Fraction, Positive, Seed, configuration


@configuration
class SimilarityConfig:
    """Options of ``studies.similarity``."""

    models: Positional[tuple[str, ...]]
    """Model folders, word-vector files, sentence-transformers names, random:dep,const, or A+B of several;
    cls:NAME, max:NAME and mean:NAME pool a transformer's last layer so."""
    output: Path = Path("runs/reports/similarity")
    """Folder for the report and results.json."""
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
    """Tune transformers together with that classifier too, as BURT does."""
    learning_rate: Positive = 2e-5
    """Peak learning rate of --fine-tune (BURT does not state it)."""
    published: Literal["models", "ablation"] | None = None
    """Quote BURT's rows below ours: models are those of Tables 2 and 3, ablation those of Table 4."""
    seed: Seed = 1111
    """Seed of random encoders and of the trained heads."""
