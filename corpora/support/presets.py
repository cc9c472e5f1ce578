"""``--preset NAME``: a named set of values for a command's options, and the inputs it cannot do without."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from corpora.support.errors import UserError

Config = TypeVar("Config")
Presets = Mapping[str, Mapping[str, Any]]
"""By name of the preset: its values by field, where they differ from the field's own default."""


def preset_defaults(config: type[Config], presets: Presets) -> Callable[[Sequence[str]], Config]:
    """What :class:`corpora.support.cli.Command` takes as ``defaults``.

    Args:
        config: a configuration with a field ``preset``; options given beside ``--preset`` win over it.
        presets: an unknown name changes nothing here, so that the field's own type refuses it.
    """

    def defaults(args: Sequence[str]) -> Config:
        import tyro

        required: dict[str, Any] = {
            field.name: tyro.MISSING
            for field in dataclasses.fields(config)  # type: ignore[arg-type]
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }
        return config(**{**required, **presets.get(given_option(args, "--preset"), {})})

    return defaults


def given_option(args: Sequence[str], option: str) -> str:
    """The value of one option on a command line; empty without it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(option, dest="value", nargs="?", default="")
    return parser.parse_known_args(args)[0].value or ""


@dataclass(frozen=True)
class Need:
    """One input of a preset."""

    option: str
    """As it is typed, with what follows it: ``--ppdb FILE``."""
    what: str
    """Name, part and size of the input."""
    where: str
    """Where it is published."""
    here: bool = False
    """Whether it was given and is there."""


def refuse_missing(preset: str, needs: Sequence[Need]) -> None:
    """Refuse a preset whose inputs are not all here.

    Raises:
        UserError: names every missing input, its option and where it is published.
    """
    missing = [f"{need.option}: {need.what} ({need.where})" for need in needs if not need.here]
    if missing:
        raise UserError(f"--preset {preset} needs what is not here: {'; '.join(missing)}")
