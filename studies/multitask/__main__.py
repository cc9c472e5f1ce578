"""``python -m studies.multitask``: sequential multitask fine-tuning (:mod:`studies.multitask.run`)."""

from __future__ import annotations

import sys

from corpora.support.cli import Command
from studies.multitask.config import MultitaskConfig


def main(config: MultitaskConfig) -> None:
    """Run the stages and print the tables."""
    from studies.multitask.run import dry_run, report, run

    if config.dry_run:
        print(dry_run(config))
        return
    print(report(run(config)).markdown())


cli = Command(
    MultitaskConfig,
    main,
    "studies.multitask",
    "Fine-tune one encoder on sentiment, paraphrase, similarity, NLI in turn (SEQ-MT).",
    owns=lambda config: config.output,
    kept="finished stages and the last saved state are kept; the same command resumes",
)


if __name__ == "__main__":
    sys.exit(cli())
