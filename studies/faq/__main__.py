"""FAQ retrieval: TF-IDF, BM25 and encoders, frozen and tuned on retrieved negatives (UNI Table 8).

    python -m studies.faq insurance --preset paper
    python -m studies.faq stackfaq covidfaq --split random --models all-MiniLM-L6-v2 runs/models/demo
    python -m studies.faq --chat faq.tsv --models all-MiniLM-L6-v2

A set is a folder with ``faq.tsv``, ``qrels.tsv`` and the queries (see :mod:`corpora.ranking.faq`).
Output: ``results.json``, ``tables.md``, ``report.html``. ``--chat`` reads questions from the keyboard
and prints the best entry of a table, by the first model, or by BM25 without one.
"""

from __future__ import annotations

import sys

from corpora.support.cli import Command, command_line
from corpora.support.presets import preset_defaults
from studies.faq.config import PRESETS, FaqConfig


def main(config: FaqConfig) -> None:
    """Chat, or evaluate and report."""
    if config.chat is not None:
        from studies.faq.chat import answer_questions

        answer_questions(config.chat, config.models[:1], sys.stdin)
        return
    from studies.faq.run import run

    run(config)


cli = Command(
    FaqConfig,
    main,
    "studies.faq",
    "FAQ retrieval.",
    owns=lambda config: config.output if config.chat is None else None,
    defaults=preset_defaults(FaqConfig, PRESETS),
    plugins=True,
    then=lambda config: (
        f"open {config.output / 'report.html'} in a browser"
        if config.chat is None
        else command_line("studies.faq", "--models", *config.models)
    ),
)


if __name__ == "__main__":
    sys.exit(cli())
