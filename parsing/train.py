r"""Train a parser from a treebank.

    python -m parsing.train dep --train ewt/train.conllu gum/train.conllu --dev gum/dev.conllu \
        --output runs/parsers/dep --loop.minutes 60

    python -m parsing.train const --train gum/train.ptb --extra gum/train.conllu ewt/train.conllu \
        --dev gum/dev.ptb --output runs/parsers/const --loop.minutes 60

    python -m parsing.train both --train-dep ewt/train.conllu gum/train.conllu --train-const gum/train.ptb \
        --dev-dep gum/dev.conllu --dev-const gum/dev.ptb --output runs/parsers/both --loop.minutes 90

In: CoNLL-U or bracket treebanks. Out: a model folder that ``--dep-model`` or ``--const-model`` takes (of
``both``, the folders ``dep`` and ``const``, which share a sentence encoder and parse together faster), with a
model card; the learning curve and the checkpoints are in its ``training/`` folder. The same command
resumes a killed run.
"""

from __future__ import annotations

import sys

from corpora.support.cli import Command, Commands
from parsing.networks.config import TrainConstituency, TrainDependency, TrainJoint


def train_dependency(config: TrainDependency) -> None:
    """Train a dependency parser and write its folder."""
    from parsing.dependency.train import train_dependency_parser

    train_dependency_parser(config)


def train_constituency(config: TrainConstituency) -> None:
    """Train a constituency parser and write its folder."""
    from parsing.constituency.train import train_constituency_parser

    train_constituency_parser(config)


def train_joint(config: TrainJoint) -> None:
    """Train both parsers over one encoder and write their folders."""
    from parsing.joint.train import train_joint_parsers

    train_joint_parsers(config)


cli = Commands(
    {
        "both": Command(
            TrainJoint,
            train_joint,
            "parsing.train both",
            "both parsers over one sentence encoder",
            owns=lambda config: config.output,
        ),
        "const": Command(
            TrainConstituency,
            train_constituency,
            "parsing.train const",
            "a constituency parser (spans) from brackets",
            owns=lambda config: config.output,
        ),
        "dep": Command(
            TrainDependency,
            train_dependency,
            "parsing.train dep",
            "a dependency parser (biaffine) from CoNLL-U",
            owns=lambda config: config.output,
        ),
    },
    "parsing.train",
    "Train a parser from a treebank.",
)


if __name__ == "__main__":
    sys.exit(cli())
