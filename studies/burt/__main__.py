"""``python -m studies.burt``: train the BURT baseline (see :mod:`studies.burt.train`)."""

from __future__ import annotations

import sys

from corpora.support.cli import Command
from corpora.support.presets import preset_defaults
from studies.burt.config import BurtConfig
from studies.burt.paper import PRESETS, refuse_missing_inputs


def main(config: BurtConfig) -> None:
    """Train one model, or the rows of an ablation; print the scores."""
    from studies.burt.ablation import ablate
    from studies.burt.train import describe, train

    if config.preset is not None:
        refuse_missing_inputs(config)
    if config.ablation:
        print(ablate(config))
    else:
        print(describe(config, train(config)))


cli = Command(
    BurtConfig,
    main,
    "studies.burt",
    "Train a Siamese encoder for words, phrases and sentences on NLI and PPDB (BURT).",
    defaults=preset_defaults(BurtConfig, PRESETS),
    owns=lambda config: config.output,
    kept="the last saved state is kept; the same command resumes",
)


if __name__ == "__main__":
    sys.exit(cli())
