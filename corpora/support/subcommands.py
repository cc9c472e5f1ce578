"""Commands with a first word, as in ``python -m parsing.train dep ...``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corpora.support.cli import run_command, typed_name


@dataclass(frozen=True)
class Subcommand:
    """One of a command's variants."""

    config: type[Any]
    """Its options."""
    main: Callable[[Any], int | None]
    """What it does."""
    summary: str
    """What it does, in one line."""


def run_subcommand(
    commands: Mapping[str, Subcommand], *, prog: str, description: str, args: Sequence[str] | None = None
) -> int:
    """Run the variant that the first word names; returns the exit code."""
    words = list(sys.argv[1:] if args is None else args)
    if words and words[0] in commands:
        command = commands[words[0]]
        return run_command(
            command.config,
            command.main,
            prog=f"{prog} {words[0]}",
            description=f"{description} {command.summary}",
            args=words[1:],
        )
    asked = words[:1] in (["-h"], ["--help"])
    lines = [
        f"usage: {typed_name(prog)} {{{','.join(commands)}}} [OPTIONS]   (--help after the word shows them)"
    ]
    lines += ["", description, ""] if asked else []
    lines += [f"  {name:6}{command.summary}" for name, command in commands.items()] if asked else []
    print("\n".join(lines), file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2
