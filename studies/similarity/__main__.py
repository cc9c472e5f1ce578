r"""Score similarity beyond sentences: words, phrases, and sentence pairs with and without a trained head.

    python -m studies.similarity MODEL [A+B ...] --words FOLDER --data SENTEVAL
    python -m studies.similarity MODEL --phrases ppdb-2.0-s-phrasal.gz --held-out 0.03 \
        --semeval2013 FOLDER --fine-tune

Word sets (BURT, Table 3): Spearman's correlation, times 100, between gold scores and cosines. Phrase pairs:
the same against PPDB's score of equivalence on a held-out fraction. STS-B and SICK-R (BURT, Table 2): with a
regression head trained on the training part (vectors frozen), and by cosine alone. SemEval-2013 5(a): a
classifier tuned on its training pairs. Pairs with words that an encoder does not know count too.
"""

import sys
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from runtime.cli import Fraction, Positive, Seed, configuration
from studies.kit import command


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


cli = command(SimilarityConfig, "studies.similarity.run:score", "studies.similarity", __doc__)


if __name__ == "__main__":
    sys.exit(cli())
