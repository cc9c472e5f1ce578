"""Analogies of words, phrases and sentences in one vector space (UNI: Li & Zhao 2021).

    python -m studies.analogies build --google questions-words.txt --cache runs/trees/wikipedia \
        --vectors glove.txt --output runs/analogies/data
    python -m studies.analogies run MODEL [A+B ...] --questions runs/analogies/data/questions.tsv
    python -m studies.analogies run --preset paper

``build`` makes the questions (UNI Table 3): ``questions.tsv``, ``build.json``. ``run`` scores models on them
(UNI Tables 4 and 6). Models are named as in ``senteval_runner.run``.
"""

from __future__ import annotations

import sys

from runtime.cli import Command, Commands
from studies.analogies.config import BuildConfig, ScoreConfig
from studies.kit import command


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
            "studies.analogies.score:score",
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
