"""``python -m studies.multitask``: sequential multitask fine-tuning (:mod:`studies.multitask.run`)."""

from __future__ import annotations

import sys

from studies.kit.runner import command
from studies.multitask.config import MultitaskConfig

cli = command(
    MultitaskConfig,
    "studies.multitask.run:train_all",
    "studies.multitask",
    "Fine-tune one encoder on sentiment, paraphrase, similarity, NLI in turn (SEQ-MT).",
)


if __name__ == "__main__":
    sys.exit(cli())
