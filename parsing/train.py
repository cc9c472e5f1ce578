r"""Train a parser from a treebank.

    python -m parsing.train dep --train ewt/train.conllu gum/train.conllu --dev gum/dev.conllu \
        --output runs/parsers/dep --minutes 60

    python -m parsing.train const --train gum/train.ptb --extra gum/train.conllu ewt/train.conllu \
        --dev gum/dev.ptb --output runs/parsers/const --minutes 60

In: CoNLL-U or bracket treebanks. Out: a model folder that ``--dep-model`` or ``--const-model`` takes, with
a model card; the learning curve and the checkpoints lie in its ``training/`` folder. A killed run goes on
with the same command.
"""

from __future__ import annotations

import sys

from corpora.support.cli import Command, Commands
from parsing.networks.config import TrainConstituency, TrainDependency, check_training


def train_dependency(config: TrainDependency) -> None:
    """Train a dependency parser and write its folder."""
    from parsing.dependency.train import prepare_dependency_training, train_dependency_parser

    check_training(config)
    if config.dry_run:
        print(prepare_dependency_training(config)[0].dry_run(config))
    else:
        train_dependency_parser(config)


def train_constituency(config: TrainConstituency) -> None:
    """Train a constituency parser and write its folder."""
    from parsing.constituency.train import prepare_constituency_training, train_constituency_parser

    check_training(config)
    if config.dry_run:
        print(prepare_constituency_training(config)[0].dry_run(config))
    else:
        train_constituency_parser(config)


cli = Commands(
    {
        "const": Command(
            TrainConstituency,
            train_constituency,
            "parsing.train const",
            "a constituency parser (spans) from brackets",
        ),
        "dep": Command(
            TrainDependency,
            train_dependency,
            "parsing.train dep",
            "a dependency parser (biaffine) from CoNLL-U",
        ),
    },
    "parsing.train",
    "Train a parser from a treebank.",
)


if __name__ == "__main__":
    sys.exit(cli())
