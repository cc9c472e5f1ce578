"""A campaign: many attempts of many targets, counted; every fault with the line that repeats it."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.hammer.processes import Sandbox
from tools.hammer.world import World

SEEDS = 1_000_000
"""Attempt i of a campaign with seed s has the seed s * SEEDS + i."""


class Fault(Exception):
    """The program did what it must never do."""


@dataclass(frozen=True)
class Target:
    """One thing to try."""

    name: str
    """``kind.what``; the part before the dot groups the table."""
    attempt: Callable[[random.Random, Path, World], dict[str, int]]
    """Tries it once in an empty folder and counts what it saw, ``{"kills": 3}``, or raises Fault."""
    sandboxed: bool = True
    """Runs in a child process with a limit on time and memory. Otherwise it forks its commands itself."""
    modules: Sequence[str] = ()
    """Imported once before the first fork, so that a command starts in milliseconds."""


@dataclass
class Tally:
    """What the attempts of one target came to."""

    attempts: int = 0
    seconds: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)
    faults: dict[int, str] = field(default_factory=dict)
    """Seed -> what happened."""


def once(target: Target, seed: int, world: World) -> dict[str, int]:
    """Try ``target`` with ``seed`` in a fresh folder.

    Raises:
        Fault: what must not happen happened.
    """
    folder = world.root / "attempt" / f"{target.name}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        return target.attempt(random.Random(f"{target.name}:{seed}"), folder, world)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Campaign:
    """Runs targets until the time or the attempts are used up.

    Args:
        targets: what to try.
        world: the inputs.
        seed: of the campaign.
    """

    def __init__(self, targets: Sequence[Target], world: World, seed: int) -> None:
        self.targets = {target.name: target for target in targets}
        self.world, self.seed = world, seed
        self.tallies = {name: Tally() for name in self.targets}
        self.sandbox = Sandbox(self._serve)

    def run(self, *, minutes: float = 0.0, attempts: int = 0) -> None:
        """Give every target the same time (``minutes`` in all), or the same number of attempts."""
        until = time.monotonic() + minutes * 60
        for name in self._turns(attempts):
            if not attempts and time.monotonic() > until:
                break
            tally = self.tallies[name]
            self.attempt(name, self.seed * SEEDS + tally.attempts)
        self.sandbox.close()

    def attempt(self, name: str, seed: int) -> str | None:
        """Try one target once; return the fault, if there was one."""
        target, tally, fault = self.targets[name], self.tallies[name], None
        began = time.monotonic()
        answer = self.sandbox.ask(name, seed) if target.sandboxed else self._serve(name, seed)
        if isinstance(answer, str):
            fault = tally.faults[seed] = answer
            print(f"{name}:{seed}  {answer}", flush=True)
        else:
            tally.seen.update(answer)
        tally.attempts += 1
        tally.seconds += time.monotonic() - began
        return fault

    def _turns(self, attempts: int) -> Iterator[str]:
        """Whose turn it is: that of the target that has had the least time."""
        if attempts:
            for name in self.targets:
                yield from [name] * attempts
            return
        while True:
            yield min(self.tallies, key=lambda name: self.tallies[name].seconds)

    def _serve(self, name: str, seed: int) -> dict[str, int] | str:
        """Counts of one attempt, or its fault as text."""
        try:
            return once(self.targets[name], seed, self.world)
        except Fault as fault:
            return str(fault)
        except Exception as error:
            return f"traceback {type(error).__name__}: {error}"[:300]

    @property
    def faults(self) -> int:
        """How many attempts found one."""
        return sum(len(tally.faults) for tally in self.tallies.values())

    def table(self) -> str:
        """Counts by target, as Markdown."""
        lines = ["| target | attempts | seen | faults | seconds |", "|---|---|---|---|---|"]
        total: Counter[str] = Counter()
        for name, tally in sorted(self.tallies.items()):
            seen = ", ".join(f"{what} {count:,}" for what, count in sorted(tally.seen.items()))
            lines.append(
                f"| `{name}` | {tally.attempts:,} | {seen} | {len(tally.faults)} | {tally.seconds:.0f} |"
            )
            total.update(tally.seen)
        attempts = sum(tally.attempts for tally in self.tallies.values())
        seen = ", ".join(f"{what} {count:,}" for what, count in sorted(total.items()))
        seconds = sum(tally.seconds for tally in self.tallies.values())
        return "\n".join([*lines, f"| all | {attempts:,} | {seen} | {self.faults} | {seconds:.0f} |"])

    def fault_lines(self) -> list[str]:
        """Each kind of fault once: how often, what, and the line that repeats the first."""
        lines = []
        for name, tally in sorted(self.tallies.items()):
            kinds: dict[str, list[int]] = {}
            for seed, what in tally.faults.items():
                kinds.setdefault(_kind(what), []).append(seed)
            for seeds in kinds.values():
                what = tally.faults[seeds[0]].replace(str(self.world.root), "")
                lines.append(f"{len(seeds)}x {what}\n    python -m tools.hammer --replay {name}:{seeds[0]}")
        return lines


def _kind(what: str) -> str:
    """The fault without its numbers and names of files, so that like ones are counted together."""
    words = [word for word in what.split() if "/" not in word and not any(map(str.isdigit, word))]
    return " ".join(words[:7])
