r"""Train a parser, or both over one sentence encoder, from treebanks.

    python -m parsing.train --train-dep ewt/train.conllu gum/train.conllu --dev-dep gum/dev.conllu \
        --train-const gum/train.ptb --dev-const gum/dev.ptb --output runs/parsers/mine

In: CoNLL-U files (``--train-dep``), bracket files (``--train-const``), or both. Out: the model folders
``dep`` and ``const``, which ``--dep-model`` and ``--const-model`` take; two that were trained together share
a sentence encoder and parse together faster. Each has a model card; learning curve and checkpoints are in
``training/``. The same command resumes a killed run.
"""

from __future__ import annotations

import sys
from dataclasses import field
from pathlib import Path

from corpora.support.cli import Command
from corpora.support.config import configuration
from parsing.networks.config import LoopConfig, ModelConfig


@configuration
class TrainConfig:
    """Options of ``parsing.train``."""

    output: Path
    """Folder to write: the model folders dep and const in it, and training."""
    train_dep: tuple[Path, ...] = ()
    """CoNLL-U files to learn arcs from, and tags (in XPOS) if constituency trees are learned too."""
    dev_dep: tuple[Path, ...] = ()
    """CoNLL-U files to choose the best weights on; the card quotes their scores."""
    train_const: tuple[Path, ...] = ()
    """Bracket files to learn trees and tags from; sentences with the same words as one of train_dep are one
    sentence with both."""
    dev_const: tuple[Path, ...] = ()
    """Bracket files to choose the best weights on."""
    name: str = ""
    """Beginning of the models' names, part of their identity; the output folder's name by default."""
    version: str = "1"
    """Version of the models, part of their identity."""
    device: str = "auto"
    """Where to train: cpu, cuda, cuda:1, ...; auto takes a GPU if there is one. A run goes on where it
    began: on a GPU or on a CPU."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The parsers."""
    loop: LoopConfig = field(default_factory=LoopConfig)
    """Optimisation and budget."""


def main(config: TrainConfig) -> int:
    """Train and write the folders."""
    from parsing.training.run import train_parsers

    return train_parsers(config)


cli = Command(
    TrainConfig,
    main,
    "parsing.train",
    "Train a dependency parser, a constituency parser, or both over one sentence encoder.",
    owns=lambda config: config.output,
)


if __name__ == "__main__":
    sys.exit(cli())
