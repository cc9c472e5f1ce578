"""Rank passages with frozen vectors, BM25 and fine-tuned cross-encoders (EMP Table 3).

    python -m studies.passages wikiqa trecqa --models all-MiniLM-L6-v2 runs/models/mine
    python -m studies.passages wikiqa --backbones BERT --layers top top,bottom --cross BERT --margin 1
    python -m studies.passages wikipassageqa insuranceqa quasar-t searchqa --preset paper

Input: folders of data sets (see :mod:`corpora.ranking.sets`), and models named as in ``senteval_runner.run``.
Unusable sets or models are reported, the others finish, and the exit code is 2.
"""

import sys

from studies.passages.config import PassagesConfig
from studies.runner import command, run_study


def main(config: PassagesConfig) -> int:
    """Run the study, which is imported here so that ``--help`` is fast."""
    from studies.passages.methods import rank

    inputs = [*config.sets, *config.models, *config.backbones, *config.cross]
    return run_study(config, rank, inputs)


cli = command(PassagesConfig, main, "studies.passages", __doc__)


if __name__ == "__main__":
    sys.exit(cli())
