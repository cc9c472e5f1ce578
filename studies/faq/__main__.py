"""FAQ retrieval: TF-IDF, BM25 and encoders, frozen and tuned on retrieved negatives (UNI Table 8).

    python -m studies.faq insurance --preset paper
    python -m studies.faq insurance --models all-MiniLM-L6-v2 runs/models/demo

A set is a folder with ``faq.tsv``, ``queries-train.tsv``, ``queries-test.tsv`` and ``qrels.tsv`` (see
:mod:`corpora.ranking.faq`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from studies.faq.config import FaqConfig
from studies.kit.runner import Run, command

if TYPE_CHECKING:
    from senteval_runner.report.page import Page


def study(config: FaqConfig, run: Run) -> Page:
    """Score every method on every set."""
    from studies.faq.evaluate import evaluate

    return evaluate(config, run)


cli = command(FaqConfig, study, "studies.faq", "FAQ retrieval.", plugins=True)


if __name__ == "__main__":
    sys.exit(cli())
