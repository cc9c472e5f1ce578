"""What the machine around a process can do: its standard streams, its cores."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")
"""Where Linux shows the limits of containers and services."""
MEMBERSHIPS = Path("/proc/self/cgroup")
"""The control groups of this process, one a line."""
LIMITS = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
"""Where a group has its time and the period, in version 2 and 1."""


def usable_streams() -> None:
    """Open what is closed of the standard streams, and let standard output take every character.

    The next file that is opened would get a closed stream's number, and with it what libraries print. A
    terminal whose encoding lacks a character shows ``?``.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    while nowhere <= 2:
        nowhere = os.open(os.devnull, os.O_RDWR)
    os.close(nowhere)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # to the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def settle_streams() -> None:
    """Drop what a full or closed stream did not take: at its end Python would change the exit code for it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)


def available_cores() -> int:
    """Cores this process may use: those it may run on, and what its control groups grant, rounded up."""
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(mine, *(max(1, math.ceil(quota)) for quota in _quotas()), mine)


def _quotas() -> Iterator[float]:
    """The cores' worth of time that each control group above this process grants, where it has a limit."""
    memberships = MEMBERSHIPS.read_text(encoding="utf-8") if MEMBERSHIPS.exists() else ""
    for membership in memberships.splitlines():
        _, kinds, group = membership.split(":", 2)
        place = CONTROL_GROUPS / kinds / group.lstrip("/")
        # A container may see its own group as the root, under another name than here.
        for folder, names in itertools.product((place, *place.parents), LIMITS):
            with contextlib.suppress(OSError, ValueError, ZeroDivisionError):  # "max" and -1 are no limit
                texts = ((folder / name).read_text(encoding="ascii") for name in names)
                quota, period = map(int, " ".join(texts).split())
                if quota > 0:
                    yield quota / period
