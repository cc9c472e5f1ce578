"""FAQ retrieval: TF-IDF, BM25 and encoders, frozen and tuned on retrieved negatives (UNI Table 8).

    python -m studies.faq insurance --preset paper
    python -m studies.faq stackfaq covidfaq --split random --models all-MiniLM-L6-v2 runs/models/demo

A set is a folder with ``faq.tsv``, ``qrels.tsv`` and the queries (see :mod:`corpora.ranking.faq`).
Output: ``results.json``, ``tables.md``, ``report.html``.
"""

from __future__ import annotations

import sys

from corpora.support.cli import Command
from corpora.support.presets import preset_defaults
from studies.faq.config import PRESETS, FaqConfig


def main(config: FaqConfig) -> None:
    """Evaluate and report."""
    from studies.faq.run import run

    run(config)


cli = Command(
    FaqConfig,
    main,
    "studies.faq",
    "FAQ retrieval.",
    owns=lambda config: config.output,
    defaults=preset_defaults(FaqConfig, PRESETS),
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
