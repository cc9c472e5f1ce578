"""``python -m studies.burt``: train the BURT baseline (see :mod:`studies.burt.train`)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from studies.burt.config import BurtConfig
from studies.kit.runner import Run, command

if TYPE_CHECKING:
    from senteval_runner.report.page import Page


def study(config: BurtConfig, run: Run) -> Page:
    """Train one model, or the rows of an ablation."""
    from studies.burt.train import train_all

    return train_all(config, run)


cli = command(
    BurtConfig,
    study,
    "studies.burt",
    "Train a Siamese encoder for words, phrases and sentences on NLI and PPDB (BURT).",
)


if __name__ == "__main__":
    sys.exit(cli())
