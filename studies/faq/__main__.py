"""FAQ retrieval: TF-IDF, BM25 and encoders, frozen and tuned on retrieved negatives (UNI Table 8).

    python -m studies.faq insurance --preset paper
    python -m studies.faq insurance --models all-MiniLM-L6-v2 runs/models/demo

A set is a folder with ``faq.tsv``, ``queries-train.tsv``, ``queries-test.tsv`` and ``qrels.tsv`` (see
:mod:`studies.faq.data`).
"""

from __future__ import annotations

import sys

from studies.faq.config import FaqConfig
from studies.kit import command

cli = command(FaqConfig, "studies.faq.evaluate:evaluate", "studies.faq", "FAQ retrieval.", plugins=True)


if __name__ == "__main__":
    sys.exit(cli())
