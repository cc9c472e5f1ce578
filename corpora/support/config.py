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
import inspect
import json
from collections.abc import Iterable
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
        first = error.errors(include_url=False)[0]
        option = "--" + ".".join(_names(first)).replace("_", "-")
        raise UserError(f"{option} {first['input']}: {_requirement(first)}") from None


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
        first = error.errors(include_url=False)[0]
        key = ".".join(_names(first)) or "the whole"
        if first["type"] == "unexpected_keyword_argument":
            known = ", ".join(sorted(inspect.signature(config_type).parameters))
            raise UserError(f"{where}: unknown key {key!r} (known: {known})") from None
        value = "" if first["type"] == "missing" else f" {_short(first['input'])}"
        raise UserError(f"{where}: {key}{value}: {_requirement(first)}") from None


def _names(error: ErrorDetails) -> Iterable[str]:
    """Path to a value: names of fields and places in tuples."""
    return [str(part) for part in error["loc"] if part != "constrained-int"]


def _requirement(error: ErrorDetails) -> str:
    """What the value must be, as a clause."""
    limits = error.get("ctx", {})
    words = {
        "greater_than_equal": f"must be at least {limits.get('ge')}",
        "greater_than": f"must be above {limits.get('gt')}",
        "less_than": f"must be below {limits.get('lt')}",
        "less_than_equal": f"must be at most {limits.get('le')}",
        "finite_number": "must be a finite number",
    }
    return words.get(error["type"], error["msg"].replace("Input should be", "must be"))


def _short(value: object) -> str:
    """A value for a message, shortened if it is long."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
