"""``python -m studies.multitask``: sequential multitask fine-tuning (:mod:`studies.multitask.run`)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from studies.kit.runner import Run, command
from studies.multitask.config import MultitaskConfig

if TYPE_CHECKING:
    from senteval_runner.report.page import Page


def study(config: MultitaskConfig, run: Run) -> Page:
    """Train the stages of every configuration."""
    from studies.multitask.run import train_all

    return train_all(config, run)


cli = command(
    MultitaskConfig,
    study,
    "studies.multitask",
    "Fine-tune one encoder on sentiment, paraphrase, similarity, NLI in turn (SEQ-MT).",
)


if __name__ == "__main__":
    sys.exit(cli())
