"""The process and the machine around it: standard streams, cores, memory, locks, the search for garbage."""

import atexit
import contextlib
import gc
import io
import itertools
import math
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

CONTROL_GROUPS = Path("/sys/fs/cgroup")
"""Where Linux shows the limits of containers and services."""
MEMBERSHIPS = Path("/proc/self/cgroup")
"""The control groups of this process, one a line."""
LIMITS = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
"""Where a group has its time and the period, in version 2 and 1."""
Lock = TypeVar("Lock", bound=Any)

# When Python ends, it searches for garbage several times, for a second: all goes with the process anyway.
atexit.register(gc.freeze)


@contextlib.contextmanager
def pause_collector() -> Iterator[None]:
    """Keep Python from searching for garbage now, and afterwards from searching what was made now.

    Imports and weights make a million objects that all stay.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():  # else what the caller froze would melt
                gc.freeze()
                gc.unfreeze()  # into the oldest generation, unread
            gc.enable()


def state_without(thing: object, *names: str) -> dict[str, object]:
    """Return the attributes that a copy takes along: all but these, which it fills again when it is used."""
    return {name: value for name, value in vars(thing).items() if name not in names}


def shared_lock() -> threading.RLock:
    """Make one lock for all objects of a module: an object with a lock of its own cannot be copied."""
    return hold_during_forks(threading.RLock())


def hold_during_forks(lock: Lock) -> Lock:
    """Let a fork wait for a lock, so that the child, which has no other thread, finds it free."""
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


def open_streams() -> None:
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


def flush_streams() -> None:
    """Drop what a full or closed stream did not take, for which Python would change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError), open(os.devnull, "w", encoding="utf-8") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())


def peak_memory() -> int:
    """Return the peak main memory of this process, in bytes."""
    import resource  # Windows has none

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB


def available_cores() -> int:
    """Count the cores this process may run on, at most what its control groups grant, rounded up."""
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(mine, *(max(1, math.ceil(quota)) for quota in _quotas()), mine)


def _quotas() -> Iterator[float]:
    """Yield the cores' worth of time of each control group above this process that has a limit."""
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
