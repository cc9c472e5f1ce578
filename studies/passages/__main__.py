"""Passage ranking with frozen vectors, BM25 and fine-tuned cross-encoders (EMP Table 3).

    python -m studies.passages wikiqa trecqa --models all-MiniLM-L6-v2 runs/models/mine
    python -m studies.passages wikiqa --margin 1 --runs 5 --models glove.txt --cross.backbones bert
    python -m studies.passages wikiqa --frozen.backbones BERT --frozen.layers top top,bottom
    python -m studies.passages wikipassageqa insuranceqa quasar-t searchqa --preset paper

Input: folders of data sets (see corpora.ranking.sets) and models
named as in senteval_runner.run. Output: ``results.json``, ``tables.md``, ``report.html`` in ``--output``.
Vectors are kept in ``--cache``, every finished (set, method, seed) in ``parts/``, so the same command resumes
a stopped run. Unusable sets or models are reported, the others finish, and the exit code is 2.
"""

from __future__ import annotations

import sys

from corpora.support.cli import Command
from corpora.support.presets import preset_defaults
from studies.passages.config import PassagesConfig
from studies.passages.paper import PRESETS


def main(config: PassagesConfig) -> int:
    """Rank and report."""
    from studies.passages.run import run

    return run(config)


cli = Command(
    PassagesConfig,
    main,
    "studies.passages",
    (__doc__ or "").split("\n")[0],
    defaults=preset_defaults(PassagesConfig, PRESETS),
    owns=lambda config: config.output,
    kept="finished cells, encoded texts and saved training states are kept; the same command resumes",
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
