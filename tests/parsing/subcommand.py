"""parsing.train, score and convert as a user calls them, in this process."""

from __future__ import annotations

from collections.abc import Mapping

from corpora.support.subcommands import Subcommand, run_subcommand


def run(commands: Mapping[str, Subcommand], name: str, *args: object) -> int:
    """The exit code of ``python -m parsing.NAME ARGS``."""
    return run_subcommand(
        commands, prog=f"python -m parsing.{name}", description="", args=list(map(str, args))
    )
