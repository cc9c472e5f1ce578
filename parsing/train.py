r"""Train a parser from a treebank.

    python -m parsing.train dep --train ewt/train.conllu gum/train.conllu --dev gum/dev.conllu \
        --output runs/parsers/dep --loop.minutes 60

    python -m parsing.train const --train gum/train.ptb --extra gum/train.conllu ewt/train.conllu \
        --dev gum/dev.ptb --output runs/parsers/const --loop.minutes 60

In: CoNLL-U or bracket treebanks. Out: a model folder that ``--dep-model`` or ``--const-model`` takes, with
a model card; the learning curve and the checkpoints are in its ``training/`` folder. The same command
resumes a killed run.
"""

from __future__ import annotations

import sys

from corpora.support.cli import Command, Commands, command_line
from parsing.networks.config import TrainConstituency, TrainDependency


def train_dependency(config: TrainDependency) -> None:
    """Train a dependency parser and write its folder."""
    from parsing.dependency.train import train_dependency_parser

    train_dependency_parser(config)


def train_constituency(config: TrainConstituency) -> None:
    """Train a constituency parser and write its folder."""
    from parsing.constituency.train import train_constituency_parser

    train_constituency_parser(config)


cli = Commands(
    {
        "const": Command(
            TrainConstituency,
            train_constituency,
            "parsing.train const",
            "a constituency parser (spans) from brackets",
            then=lambda config: command_line("parsing.run", "CORPUS", "--const-model", config.output),
            owns=lambda config: config.output,
        ),
        "dep": Command(
            TrainDependency,
            train_dependency,
            "parsing.train dep",
            "a dependency parser (biaffine) from CoNLL-U",
            then=lambda config: command_line("parsing.run", "CORPUS", "--dep-model", config.output),
            owns=lambda config: config.output,
        ),
    },
    "parsing.train",
    "Train a parser from a treebank.",
)


if __name__ == "__main__":
    sys.exit(cli())
