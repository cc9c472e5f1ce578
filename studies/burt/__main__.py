"""``python -m studies.burt``: train the BURT baseline (see :mod:`studies.burt.train`)."""

from __future__ import annotations

import sys

from studies.burt.config import BurtConfig
from studies.kit.runner import command

cli = command(
    BurtConfig,
    "studies.burt.train:train_all",
    "studies.burt",
    "Train a Siamese encoder for words, phrases and sentences on NLI and PPDB (BURT).",
)


if __name__ == "__main__":
    sys.exit(cli())
