r"""Score similarity beyond sentences: words, phrases, and sentence pairs with and without a trained head.

    python -m studies.similarity MODEL [A+B ...] --words FOLDER --data SENTEVAL
    python -m studies.similarity MODEL --phrases ppdb-2.0-s-phrasal.gz --held-out 0.03 \
        --semeval2013 FOLDER --fine-tune

Word sets (BURT, Table 3) are scored by Spearman's correlation, times 100, of cosines with gold scores. Phrase
pairs are scored in the same way against PPDB's score of equivalence, on a held-out fraction. STS-B and SICK-R
(BURT, Table 2) are scored with a regression head that is trained on frozen vectors of the training part, and
by cosine alone. For SemEval-2013 5(a) a classifier is trained on its training pairs. Pairs with words that an
encoder does not know are scored too.
"""

import sys

from studies.runner import command, run_study
from studies.similarity.config import SimilarityConfig


def main(config: SimilarityConfig) -> int:
    """Run the study, which is imported here so that ``--help`` is fast."""
    from studies.similarity.run import score

    return run_study(config, score, inputs=config.models)


cli = command(SimilarityConfig, main, "studies.similarity", __doc__)


if __name__ == "__main__":
    sys.exit(cli())
