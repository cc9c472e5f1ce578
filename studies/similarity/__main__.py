"""Similarity beyond sentences: words, phrases, and sentence pairs with and without a trained head.

    python -m studies.similarity MODEL [A+B ...] --words FOLDER --data SENTEVAL
    python -m studies.similarity MODEL --phrases ppdb-2.0-s-phrasal.gz --semeval2013 FOLDER

Word sets (BURT, Table 2): Spearman's and Pearson's correlation, times 100, between gold scores and cosines.
Phrase pairs: the same against PPDB's score of equivalence on a held-out fraction. STS-B and SICK-R (BURT,
Table 3): with a regression head trained on the training part (vectors frozen), and by cosine alone.
SemEval-2013 5(a): a classifier tuned on its training pairs. Pairs with words that an encoder does not know
count too, because dropping them would hide that.
"""

from __future__ import annotations

import sys

from studies.kit.runner import command
from studies.similarity.config import SimilarityConfig

cli = command(
    SimilarityConfig,
    "studies.similarity.run:score",
    "studies.similarity",
    (__doc__ or "").split("\n")[0],
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
