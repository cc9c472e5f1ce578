"""parsing.train, score and convert as a user calls them, in this process."""

from __future__ import annotations

from corpora.support.cli import Commands


def run(command: Commands, *args: object) -> int:
    """The exit code of the command with these words."""
    return command([str(arg) for arg in args])
