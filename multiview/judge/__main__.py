"""Judges a pair of sentences, or a file of pairs.

    python -m multiview.judge "How do I enable 2FA?" "How do I disable 2FA?"
    python -m multiview.judge pairs.tsv

A file has two sentences a row, with a tab between them; for each row the command prints the probability,
both sentences and the reasons.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from corpora.inputs import read_rows
from multiview.judge.judge import Judge
from runtime.cli import Command, configuration
from runtime.errors import UserError


@configuration
class JudgeConfig:
    """Options of ``python -m multiview.judge``."""

    a: Annotated[Positional[str], arg(metavar="SENTENCE|FILE")]
    """A sentence; or, alone, a file with two sentences a row and a tab between them."""
    b: Annotated[Positional[str | None], arg(metavar="SENTENCE")] = None
    """Another sentence."""
    judge: str = "pairs"
    """pairs, pairs-without-mrpc, or the JSON file of a judge of your own."""


def main(config: JudgeConfig) -> None:
    """Print judgements."""
    judge = Judge.load(config.judge)
    if config.b is not None:
        print(judge(config.a, config.b))
        return
    if not os.path.exists(config.a):  # unlike Path.exists, false for a sentence longer than a name may be
        raise UserError(f"{config.a}: no such file; to judge two sentences, give both, each in quotes")
    rows = [row.cells for row in read_rows(Path(config.a), 2)]
    if not rows:
        raise UserError(f"{config.a}: holds no rows")
    for (a, b), judgement in zip(rows, judge.pairs(rows), strict=True):
        print(f"{judgement.probability:.4f}", a, b, "; ".join(map(str, judgement.reasons)), sep="\t")


cli = Command(
    JudgeConfig,
    main,
    "multiview.judge",
    "Do two sentences say the same? A probability, and reasons.",
    kept_work="nothing was written",
)


if __name__ == "__main__":
    sys.exit(cli())
