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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from parsing.configs import ConstituencyConfig, DependencyConfig, TrainingConfig
from parsing.subcommands import Subcommand, run_subcommand


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Options of both parsers."""

    output: Path
    """Model folder to write."""
    name: str = ""
    """Name of the model, part of its identity; the output folder's name by default."""
    version: str = "1"
    """Version of the model, part of its identity."""
    half: bool = True
    """Store weights as float16: half the size (the card's scores are those of the stored weights)."""
    dry_run: bool = False
    """Print the configuration, sizes and an estimate of time and memory from a few steps; write nothing."""

    def identity(self) -> dict[str, Any]:
        """How the model is stored and called."""
        name = self.name or self.output.resolve().name
        return {"name": name, "version": self.version, "half": self.half}


@dataclass(frozen=True, kw_only=True)
class TrainDependency(TrainOptions):
    """Options of ``dep``."""

    train: tuple[Path, ...]
    """CoNLL-U files to learn from."""
    dev: tuple[Path, ...]
    """CoNLL-U files to choose the best weights on; the card quotes their scores."""
    exclude_documents: tuple[str, ...] = ()
    """Leave training documents out whose id starts with one of these."""
    model: DependencyConfig = field(default_factory=DependencyConfig)
    """The model."""
    training: Annotated[TrainingConfig, tyro.conf.arg(name="")] = field(
        default_factory=lambda: TrainingConfig(learning_rate=3e-3)
    )
    """Optimisation and budget."""


def train_dependency(config: TrainDependency) -> None:
    """Train a dependency parser and write its folder."""
    from parsing.dep_train import prepare_dependency_training, train_dependency_parser

    options: dict[str, Any] = {
        "train": config.train,
        "dev": config.dev,
        "output": config.output,
        "exclude_documents": config.exclude_documents,
        "model": config.model,
        "training": config.training,
    }
    if config.dry_run:
        print(prepare_dependency_training(**options)[0].dry_run(config))
        return
    train_dependency_parser(**options, **config.identity())


@dataclass(frozen=True, kw_only=True)
class TrainConstituency(TrainOptions):
    """Options of ``const``."""

    train: tuple[Path, ...]
    """Bracket files to learn trees and tags from."""
    dev: tuple[Path, ...]
    """Bracket files to choose the best weights on; the card quotes their scores."""
    extra: tuple[Path, ...] = ()
    """CoNLL-U files whose tags and arcs are learned along; sentences that are in train count once."""
    start_from: Path | None = None
    """Model folder to go on from: its weights, words, labels and tags."""
    exclude_documents: tuple[str, ...] = ()
    """Leave documents of train and extra out whose id starts with one of these. Brackets name no
    documents: the .conllu file beside a .ptb file does."""
    model: ConstituencyConfig = field(default_factory=ConstituencyConfig)
    """The model."""
    training: Annotated[TrainingConfig, tyro.conf.arg(name="")] = field(
        default_factory=lambda: TrainingConfig(
            learning_rate=2.5e-3, beta2=0.98, batch_tokens=800, average=0.998
        )
    )
    """Optimisation and budget."""


def train_constituency(config: TrainConstituency) -> None:
    """Train a constituency parser and write its folder."""
    from parsing.const_train import prepare_constituency_training, train_constituency_parser

    options: dict[str, Any] = {
        "train": config.train,
        "dev": config.dev,
        "extra": config.extra,
        "start_from": config.start_from,
        "output": config.output,
        "exclude_documents": config.exclude_documents,
        "model": config.model,
        "training": config.training,
    }
    if config.dry_run:
        print(prepare_constituency_training(**options)[0].dry_run(config))
        return
    train_constituency_parser(**options, **config.identity())


COMMANDS = {
    "const": Subcommand(TrainConstituency, train_constituency, "a constituency parser (spans) from brackets"),
    "dep": Subcommand(TrainDependency, train_dependency, "a dependency parser (biaffine) from CoNLL-U"),
}


def cli(args: list[str] | None = None) -> int:
    """Entry point."""
    return run_subcommand(COMMANDS, prog="python -m parsing.train", description="Train a parser:", args=args)


if __name__ == "__main__":
    sys.exit(cli())
