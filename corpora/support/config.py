"""Configurations: frozen dataclasses with ranges in their types, checked and read from JSON by pydantic.

A range is part of the type, and nothing else checks it::

    @configuration
    class LoopConfig:
        batch: Count = 400
        dropout: Fraction = 0.1

Imports nothing heavy: pydantic is imported when something is checked.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, dataclass_transform

from annotated_types import Ge, Gt, Lt

from corpora.support.errors import UserError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Config = TypeVar("Config")

Count = Annotated[int, Ge(1)]
"""A number of things, at least 1."""
CountOrNone = Annotated[int, Ge(0)]
"""A number of things; 0 means none, or no limit."""
Positive = Annotated[float, Gt(0)]
"""A number above 0."""
NotNegative = Annotated[float, Ge(0)]
"""A number that is 0 or above."""
Fraction = Annotated[float, Ge(0), Lt(1)]
"""From 0 up to, but not including, 1."""
PLAINER = {
    "Input should be ": "must be ",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
    "less than": "below",
}
"""pydantic's words, and those of our messages."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
def configuration(cls: type[Config]) -> type[Config]:
    """A frozen keyword-only dataclass that refuses unknown keys and numbers that are not finite."""
    cls.__pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(cls)


def check(config: Any) -> None:
    """Check every value of a configuration, and of those inside it, against its type.

    Args:
        config: a dataclass.

    Raises:
        UserError: the first value out of its range, by the name it has on the command line.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        TypeAdapter(type(config)).validate_python(dataclasses.asdict(config))
    except ValidationError as error:
        name, first = _first(error)
        raise UserError(f"--{name.replace('_', '-')} {first['input']}: {_requirement(first)}") from None


def config_to_json(config: Any) -> dict[str, Any]:
    """A dataclass as plain JSON values (paths as strings, tuples as lists)."""
    value: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config), default=str))
    return value


def config_from_json(config_type: type[Config], values: object, *, where: Path | str) -> Config:
    """Rebuild a configuration from :func:`config_to_json`'s output.

    Args:
        config_type: the dataclass.
        values: the parsed JSON.
        where: the file, for messages.

    Raises:
        UserError: an unknown or missing key, a value of another type or out of its range; the message names
            file, key and value.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(config_type).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        name, first = _first(error)
        if first["type"] == "unexpected_keyword_argument":
            raise UserError(f"{where}: unknown key {name!r}") from None
        value = "" if first["type"] == "missing" else f" {json.dumps(first['input'])[:60]}"
        raise UserError(f"{where}: {name or 'the whole'}{value}: {_requirement(first)}") from None


def _first(error: Any) -> tuple[str, ErrorDetails]:
    """The first of pydantic's complaints and the path to its value, in fields and places."""
    first: ErrorDetails = error.errors(include_url=False)[0]
    return ".".join(str(part) for part in first["loc"] if part != "constrained-int"), first


def _requirement(error: ErrorDetails) -> str:
    """What the value must be, as a clause."""
    text = error["msg"]
    for theirs, ours in PLAINER.items():
        text = text.replace(theirs, ours)
    return text
