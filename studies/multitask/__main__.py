"""Fine-tune one encoder on several tasks, one after the other (SEQ-MT: Yao 2023).

    python -m studies.multitask --output runs/multitask/bert --backbone bert-base-uncased
    python -m studies.multitask --output runs/multitask/grid --preset grid --backbone tiny
    python -m studies.multitask --output runs/multitask/paper --preset paper --quora ... --nli ...

Every finished stage is a model folder that later ones start from. It is named after all stages up to it, so
configurations that begin alike share their first stages.
"""

from __future__ import annotations

import sys

from studies.kit import command, run_study
from studies.multitask.config import MultitaskConfig


def main(config: MultitaskConfig) -> int:
    """Train every configuration, and score the best."""
    from studies.multitask.run import train_all

    return run_study(config, train_all)


cli = command(
    MultitaskConfig,
    main,
    "studies.multitask",
    "Fine-tune one encoder on sentiment, paraphrase, similarity, NLI in turn (SEQ-MT).",
)


if __name__ == "__main__":
    sys.exit(cli())
