"""What the machine around a process can do: its standard streams, its cores, its processes."""

from __future__ import annotations

import contextlib
import io
import math
import multiprocessing
import os
import sys
from collections.abc import Iterator
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")
"""Where Linux shows the limits of containers and services."""
MEMBERSHIPS = Path("/proc/self/cgroup")
"""The control groups of this process, one a line."""


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


def processes_share_locks() -> bool:
    """Whether locks can be made that several processes hold; Linux keeps them in /dev/shm."""
    try:
        multiprocessing.get_context("spawn").Value("i", 0)
    except (OSError, ImportError):
        return False
    return True


def _quotas() -> Iterator[float]:
    """The cores' worth of time that each control group above this process grants, where it has a limit."""
    try:
        memberships = MEMBERSHIPS.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return
    for membership in memberships:
        _, kinds, group = membership.split(":", 2)
        root = CONTROL_GROUPS / kinds  # "" in version 2
        if kinds and "cpu" not in kinds.split(","):
            continue
        place = root / group.lstrip("/")
        # A container may see its own group as the root, under another name than here.
        for folder in (place, *place.parents):
            if folder.is_relative_to(root):
                yield from _quota(folder)


def _quota(folder: Path) -> Iterator[float]:
    """The limit of one control group, of version 2 or 1."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):  # "max" and -1 are no limit
            numbers = " ".join((folder / name).read_text(encoding="ascii") for name in names).split()
            quota, period = map(int, numbers)
            if quota > 0:
                yield quota / period
