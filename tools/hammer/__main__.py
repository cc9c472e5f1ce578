"""The command line of the hammer (see the package)."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from annotated_types import Ge

from corpora.support.cli import Command
from corpora.support.config import CountOrNone, Positive, configuration
from corpora.support.errors import UserError
from tools.hammer.campaign import Campaign, Target, once
from tools.hammer.processes import preload
from tools.hammer.world import World


@configuration
class HammerConfig:
    """Options of ``python -m tools.hammer``."""

    minutes: Positive = 10.0
    """How long; every target gets the same time."""
    attempts: CountOrNone = 0
    """Instead: this many attempts of every target."""
    seed: Annotated[int, Ge(0)] = 0
    """Another seed makes other inputs."""
    targets: tuple[str, ...] = ()
    """Targets, or beginnings of their names: kill. damage.shard; all by default. A full name means itself."""
    replay: str = ""
    """TARGET:SEED of a fault: try that once more, with its traceback."""
    inputs: Path | None = None
    """Keep the made inputs in this folder; by default they are made anew."""
    table: Path | None = None
    """Write the table of counts to this Markdown file, too."""
    list: bool = False
    """Print the names of the targets."""


def all_targets() -> list[Target]:
    """Every target of every kind."""
    from tools.hammer import commands, files, hostile, injection

    return [*files.targets(), *commands.targets(), *hostile.targets(), *injection.targets()]


def chosen(config: HammerConfig) -> list[Target]:
    """The targets that the options name.

    Raises:
        UserError: a name that is none's beginning.
    """
    targets = all_targets()
    for name in config.targets:
        if not any(target.name.startswith(name) for target in targets):
            raise UserError(f"--targets {name}: no such target; --list shows them")
    names = {target.name for target in targets}
    beginnings = tuple(name for name in config.targets if name not in names) or ("",) * (not config.targets)
    return [
        target for target in targets if target.name in config.targets or target.name.startswith(beginnings)
    ]


@contextlib.contextmanager
def _world(folder: Path | None) -> Iterator[World]:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield World(folder.resolve())
        return
    with tempfile.TemporaryDirectory(prefix="hammer-") as name:
        yield World(Path(name).resolve())


def replay(config: HammerConfig) -> int:
    """Try one target with one seed in this process; a fault keeps its traceback."""
    name, _, seed = config.replay.rpartition(":")
    found = [target for target in all_targets() if target.name == name]
    if not found or not seed.isdecimal():
        raise UserError(f"--replay {config.replay}: expected TARGET:SEED as a fault prints it")
    preload(found[0].modules)
    with _world(config.inputs) as world:
        try:
            print(once(found[0], int(seed), world))
        except Exception:
            traceback.print_exc()
            return 1
    return 0


def main(config: HammerConfig) -> int:
    """Run a campaign, or repeat one attempt."""
    if config.replay:
        return replay(config)
    targets = chosen(config)
    if config.list:
        print("\n".join(target.name for target in targets))
        return 0
    preload(sorted({name for target in targets for name in target.modules}))
    with _world(config.inputs) as world:
        campaign = Campaign(targets, world, config.seed)
        try:
            campaign.run(minutes=config.minutes, attempts=config.attempts)
        finally:
            print(campaign.table())
            print("\n".join(["", *campaign.fault_lines(), f"{campaign.faults} faults"]))
        if config.table is not None:
            config.table.write_text(campaign.table() + "\n", encoding="utf-8")
    return 1 if campaign.faults else 0


cli = Command(HammerConfig, main, "tools.hammer", "Kill, damage, fill up and deceive every command.")

if __name__ == "__main__":
    sys.exit(cli())
