"""Fine-tune one encoder on several tasks, one after the other (SEQ-MT: Yao 2023).

    python -m studies.multitask --output runs/multitask/bert --backbone bert-base-uncased
    python -m studies.multitask --output runs/multitask/grid --preset grid --backbone tiny
    python -m studies.multitask --output runs/multitask/paper --preset paper --quora ... --nli ...

Every finished stage is a model folder from which the next stage starts. The folder is named by all stages up
to this one, so that configurations with the same first stages train these once.
"""

import sys

from studies.multitask.config import MultitaskConfig
from studies.runner import command, run_study


def main(config: MultitaskConfig) -> int:
    """Run the study, which is imported here so that ``--help`` is fast."""
    from studies.multitask.run import train_all

    return run_study(config, train_all)


cli = command(MultitaskConfig, main, "studies.multitask", __doc__)


if __name__ == "__main__":
    sys.exit(cli())
