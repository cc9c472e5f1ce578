"""Numbers of a configuration that make no sense are refused before anything is read or written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from corpora.support.errors import UserError

Rule = tuple[Callable[[Any], bool], str]
"""Whether a value can be, and what it has to be in words."""

POSITIVE: Rule = (lambda value: value > 0, "above 0")
COUNT: Rule = (lambda value: value >= 1, "at least 1")
COUNT_OR_NONE: Rule = (lambda value: value >= 0, "at least 0")
SHARE: Rule = (lambda value: value is None or 0 <= value < 1, "at least 0 and below 1")


def check_numbers(config: Any, rules: Mapping[str, Rule], prefix: str = "--") -> None:
    """Check every number of a configuration and of those inside it.

    Args:
        config: a dataclass.
        rules: by the name of the option.
        prefix: what the options' names begin with on the command line.

    Raises:
        UserError: the first that is out of its range, by the name it has on the command line.
    """
    for entry in fields(config):
        value, name = getattr(config, entry.name), prefix + entry.name.replace("_", "-")
        if is_dataclass(value):
            check_numbers(value, rules, name + ".")
        elif entry.name in rules:
            holds, told = rules[entry.name]
            if not holds(value):
                raise UserError(f"{name} is {told}, not {value}")


def check_counts(counts: Mapping[str, int | None]) -> None:
    """Refuse a count below 1; None stands for a default.

    Args:
        counts: by the option as it is typed.

    Raises:
        UserError: the first that is too small.
    """
    for option, value in counts.items():
        if value is not None and value < 1:
            raise UserError(f"{option} {value}: at least 1")
