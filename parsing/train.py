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

from parsing.networks.config import TrainConfig
from runtime.cli import Command


def main(config: TrainConfig) -> int:
    """Train and write the folders."""
    from parsing.training.parsers import train_parsers

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
