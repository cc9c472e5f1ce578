"""Retrieve answers of an FAQ by TF-IDF, BM25 and encoders, frozen and tuned (UNI Table 8).

    python -m studies.faq insurance --preset paper
    python -m studies.faq insurance --models all-MiniLM-L6-v2 runs/models/demo

A set is a folder with ``faq.tsv``, ``queries-train.tsv``, ``queries-test.tsv`` and ``qrels.tsv`` (see
:mod:`studies.faq.evaluate`). UNI does not say how its encoders were trained for FAQ retrieval; learning rate
and epochs are those of its multi-task training.
"""

import sys

from studies.faq.config import FaqConfig
from studies.runner import command, run_study


def main(config: FaqConfig) -> int:
    """Run the study, which is imported here so that ``--help`` is fast."""
    from studies.faq.evaluate import evaluate

    return run_study(config, evaluate, inputs=[*config.sets, *config.models])


cli = command(FaqConfig, main, "studies.faq", __doc__)


if __name__ == "__main__":
    sys.exit(cli())
