"""Numbers of the fine-tuning commands that make no sense are refused before anything is read or written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from corpora.support.errors import UserError

Rule = tuple[Callable[[Any], bool], str]

POSITIVE: Rule = (lambda value: value > 0, "above 0")
COUNT: Rule = (lambda value: value >= 1, "at least 1")
COUNT_OR_NONE: Rule = (lambda value: value >= 0, "at least 0")
SHARE: Rule = (lambda value: value is None or 0 <= value < 1, "at least 0 and below 1")
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


def refuse_bad_numbers(config: Any, prefix: str = "--") -> None:
    """Check every number of a configuration and of those inside it.

    Raises:
        UserError: the first that is out of its range, by the name it has on the command line.
    """
    for entry in fields(config):
        value, name = getattr(config, entry.name), prefix + entry.name.replace("_", "-")
        if is_dataclass(value):
            refuse_bad_numbers(value, name + ".")
        elif entry.name in RULES:
            holds, told = RULES[entry.name]
            if not holds(value):
                raise UserError(f"{name} is {told}, not {value}")
