"""Analogies of words, phrases and sentences.

    python -m studies.analogies build --google questions-words.txt --cache runs/trees/wikipedia \
        --vectors glove.txt --output runs/analogies/data
    python -m studies.analogies run MODEL [A+B ...] --questions runs/analogies/data/questions.tsv

``build`` makes the questions (UNI Table 3): ``questions.tsv``, ``build.json``. ``run`` scores models on them
(UNI Tables 4 and 6): ``results.json``, ``tables.md``, ``report.html``. Models are named as in
``senteval_runner.run``.
"""

from __future__ import annotations

import sys

from corpora.support.cli import Command, Commands
from studies.analogies.config import BuildConfig, ScoreConfig


def build(config: BuildConfig) -> None:
    """Write the questions."""
    from studies.analogies.build import build

    build(config)


def run(config: ScoreConfig) -> None:
    """Score the models and write the report."""
    from studies.analogies.report import run

    run(config)


cli = Commands(
    {
        "build": Command(
            BuildConfig,
            build,
            "studies.analogies build",
            "build the questions from facts and a tree cache.",
            owns=lambda config: config.output,
        ),
        "run": Command(
            ScoreConfig,
            run,
            "studies.analogies run",
            "score models.",
            owns=lambda config: config.output,
            plugins=True,
        ),
    },
    "studies.analogies",
    "Analogies of words, phrases and sentences:",
)


if __name__ == "__main__":
    sys.exit(cli())
