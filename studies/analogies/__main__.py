"""Analogies of words, phrases and sentences.

    python -m studies.analogies build --google questions-words.txt --cache runs/trees/wikipedia \
        --vectors glove.txt --output runs/analogies/data
    python -m studies.analogies run MODEL [A+B ...] --questions runs/analogies/data/questions.tsv

``build`` makes the questions (UNI Table 3): ``questions.tsv``, ``build.json``. ``run`` scores models on them
(UNI Tables 4 and 6). Models are named as in ``senteval_runner.run``.
"""

from __future__ import annotations

import sys

from corpora.support.cli import Command, Commands
from studies.analogies.config import BuildConfig, ScoreConfig
from studies.kit.runner import command


def build(config: BuildConfig) -> None:
    """Write the questions."""
    from studies.analogies.build import build

    build(config)


cli = Commands(
    {
        "build": Command(
            BuildConfig,
            build,
            "studies.analogies build",
            "build the questions from facts and a tree cache.",
            owns=lambda config: config.output,
        ),
        "run": command(
            ScoreConfig,
            "studies.analogies.report:score",
            "studies.analogies run",
            "score models.",
            plugins=True,
        ),
    },
    "studies.analogies",
    "Analogies of words, phrases and sentences:",
)


if __name__ == "__main__":
    sys.exit(cli())
