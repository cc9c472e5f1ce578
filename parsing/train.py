r"""Train a parser from a treebank.

    python -m parsing.train dep --train ewt/train.conllu gum/train.conllu --dev gum/dev.conllu \
        --output runs/parsers/dep --minutes 60

In: CoNLL-U treebanks. Out: a model folder that ``--dep-model`` takes, with a model card; the learning
curve and the checkpoints lie in its ``training/`` folder. A killed run goes on with the same command.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from parsing.configs import DependencyConfig, TrainingConfig
from parsing.subcommands import Subcommand, run_subcommand


@dataclass(frozen=True, kw_only=True)
class TrainDependency:
    """Options of ``dep``."""

    train: tuple[Path, ...]
    """CoNLL-U files to learn from."""
    dev: tuple[Path, ...]
    """CoNLL-U files to choose the best weights on; the card quotes their scores."""
    output: Path
    """Model folder to write."""
    exclude_documents: tuple[str, ...] = ()
    """Leave training documents out whose id starts with one of these."""
    name: str = ""
    """Name of the model, part of its identity; the output folder's name by default."""
    version: str = "1"
    """Version of the model, part of its identity."""
    half: bool = True
    """Store weights as float16: half the size (the card's scores are those of the stored weights)."""
    model: DependencyConfig = field(default_factory=DependencyConfig)
    """The model."""
    training: Annotated[TrainingConfig, tyro.conf.arg(name="")] = field(
        default_factory=lambda: TrainingConfig(learning_rate=3e-3)
    )
    """Optimisation and budget."""


def train_dependency(config: TrainDependency) -> None:
    """Train a dependency parser and write its folder."""
    from parsing.dep_train import train_dependency_parser

    train_dependency_parser(
        train=config.train,
        dev=config.dev,
        output=config.output,
        exclude_documents=config.exclude_documents,
        name=config.name or config.output.resolve().name,
        version=config.version,
        half=config.half,
        model=config.model,
        training=config.training,
    )


COMMANDS = {
    "dep": Subcommand(TrainDependency, train_dependency, "a dependency parser (biaffine) from CoNLL-U"),
}

if __name__ == "__main__":
    sys.exit(run_subcommand(COMMANDS, prog="python -m parsing.train", description="Train a parser:"))
