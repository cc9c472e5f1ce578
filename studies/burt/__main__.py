"""``python -m studies.burt``: train the BURT baseline (see :mod:`studies.burt.train`)."""

from __future__ import annotations

import sys

from corpora.support.cli import Command
from studies.burt.config import BurtConfig


def main(config: BurtConfig) -> None:
    """Train and print the scores before and after."""
    from studies.burt.train import describe, dry_run, train

    if config.dry_run:
        print(dry_run(config))
        return
    print(describe(config, train(config)))


cli = Command(
    BurtConfig,
    main,
    "studies.burt",
    "Train a Siamese encoder for words, phrases and sentences on NLI and PPDB (BURT).",
    owns=lambda config: config.output,
    kept="the last saved state is kept; the same command resumes",
)


if __name__ == "__main__":
    sys.exit(cli())
