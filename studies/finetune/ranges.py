"""Numbers of the fine-tuning commands that make no sense are refused before anything is read or written."""

from __future__ import annotations

from typing import Any

from corpora.support.ranges import COUNT, COUNT_OR_NONE, POSITIVE, SHARE, Rule, check_numbers

PIECES: Rule = (lambda value: value >= 4, "at least 4 word pieces")

RULES: dict[str, Rule] = {
    "batch": COUNT,
    "epochs": POSITIVE,
    "evaluate_every": COUNT,
    "save_every": COUNT,
    "negatives": COUNT_OR_NONE,
    "max_words": COUNT,
    "max_length": PIECES,
    "limit": COUNT_OR_NONE,
    "dev_rows": COUNT_OR_NONE,
    "test_rows": COUNT_OR_NONE,
    "corpus_lines": COUNT,
    "held_out": SHARE,
    "dropout": SHARE,
    "learning_rate": POSITIVE,
    "betas": (lambda pair: all(0 <= beta < 1 for beta in pair), "two numbers, at least 0 and below 1"),
    "epsilon": POSITIVE,
    "weight_decay": COUNT_OR_NONE,
    "warmup": SHARE,
    "clip_norm": POSITIVE,
    "layers": COUNT,
    "hidden": (
        lambda width: width >= 1 and width % max(1, width // 64) == 0,
        "at least 1 and a multiple of its heads, one per 64",
    ),
    "vocabulary": (lambda size: size >= 10, "at least 10"),
    "mlm_steps": COUNT_OR_NONE,
    "mlm_batch": COUNT,
    "mlm_learning_rate": POSITIVE,
}
"""By the name of the option, whichever command has it."""


def refuse_bad_numbers(config: Any) -> None:
    """Check every number of a configuration and of those inside it.

    Raises:
        UserError: the first that is out of its range, by the name it has on the command line.
    """
    check_numbers(config, RULES)
