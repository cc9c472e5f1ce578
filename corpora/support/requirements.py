"""What a preset needs and does not find: all of it in one message, before any work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corpora.support.errors import UserError


@dataclass(frozen=True)
class Requirement:
    """One thing that a preset cannot do without."""

    option: str
    """How it is given, as it is typed: ``--vectors FILE``."""
    what: str
    """What it is, in the paper's terms."""
    source: str
    """Where it is published, or the command that makes it."""


def refuse_missing(preset: str, missing: Sequence[Requirement]) -> None:
    """Refuse to start while something is missing.

    Args:
        preset: its name.
        missing: in the order in which they are needed.

    Raises:
        UserError: a line for each of them.
    """
    if missing:
        lines = [f"  {one.option}: {one.what}; {one.source}" for one in missing]
        raise UserError("\n".join([f"--preset {preset} needs what is not here:", *lines]))
