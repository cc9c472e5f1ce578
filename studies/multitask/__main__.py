"""``python -m studies.multitask``: sequential multitask fine-tuning (:mod:`studies.multitask.run`)."""

from __future__ import annotations

import sys

from corpora.support.cli import Command
from corpora.support.presets import preset_defaults
from studies.multitask.config import MultitaskConfig
from studies.multitask.paper import PRESETS


def main(config: MultitaskConfig) -> None:
    """Run the stages and print the tables."""
    from studies.multitask.preset import refuse_missing_inputs
    from studies.multitask.report import report
    from studies.multitask.run import run

    if config.preset is not None:
        refuse_missing_inputs(config)
    print(report(run(config)).markdown())


cli = Command(
    MultitaskConfig,
    main,
    "studies.multitask",
    "Fine-tune one encoder on sentiment, paraphrase, similarity, NLI in turn (SEQ-MT).",
    owns=lambda config: config.output,
    kept="finished stages and the last saved state are kept; the same command resumes",
    defaults=preset_defaults(MultitaskConfig, PRESETS),
)


if __name__ == "__main__":
    sys.exit(cli())
