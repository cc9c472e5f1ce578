"""Functions of the process: standard streams, cores, memory, locks and forks, garbage collection."""

import atexit
import contextlib
import functools
import gc
import io
import itertools
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Generic, TypeVar

CONTROL_GROUPS = Path("/sys/fs/cgroup")
"""The folder in which Linux shows the limits of containers and services."""
MEMBERSHIPS = Path("/proc/self/cgroup")
"""The file that lists the control groups of this process, one a line."""
LIMITS = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
"""The files with the time and the period that a control group may compute, in versions 2 and 1."""
Value = TypeVar("Value")
_held_during_forks: list[tuple[Callable[[], bool], Callable[[], object]]] = []

# Without this Python would collect garbage several times when it ends, which takes a second.
atexit.register(gc.freeze)


@contextlib.contextmanager
def pause_collector() -> Iterator[None]:
    """Pause garbage collection; objects made in the ``with`` block are seldom examined later, either.

    Imports and weights make a million objects, none of which is garbage.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():  # otherwise objects that the caller froze would be unfrozen
                gc.freeze()
                gc.unfreeze()  # moves the new objects to the oldest generation
            gc.enable()


@contextlib.contextmanager
def temporarily(mapping: MutableMapping[str, Any], values: Mapping[str, Any]) -> Iterator[None]:
    """Set keys of a mapping, such as ``os.environ`` or ``vars(module)``, in the ``with`` block."""
    values_before = {key: mapping[key] for key in values if key in mapping}
    mapping.update(values)
    try:
        yield
    finally:
        for key in values.keys() - values_before.keys():
            mapping.pop(key, None)
        mapping.update(values_before)


def state_without(instance: object, *names: str) -> dict[str, object]:
    """Return the attributes for a copy of an object, without the named ones, which are computed again."""
    return {name: value for name, value in vars(instance).items() if name not in names}


def shared_lock() -> threading.RLock:
    """Return a lock for all objects of a module; an object that has its own lock cannot be copied."""
    lock = threading.RLock()
    hold_during_forks(functools.partial(lock.acquire, timeout=0.01), lock.release)
    return lock


def hold_during_forks(acquire: Callable[[], bool], release: Callable[[], object]) -> None:
    """Let forks wait for a lock, because the child would have a held lock, but no thread to release it.

    ``acquire`` returns whether it got the lock. It must give up soon if the thread that holds the lock may
    wait for another lock of this list.
    """
    _held_during_forks.append((acquire, release))


def _acquire_all() -> None:
    """Acquire all locks of :func:`hold_during_forks`, without a deadlock."""
    while True:
        for number, (acquire, _) in enumerate(_held_during_forks):
            if not acquire():  # the thread that holds it may wait for a lock that is held here
                _release_first(number)
                break
        else:
            return


def _release_first(count: int) -> None:
    for _, release in _held_during_forks[:count]:
        release()


def _release_all() -> None:
    _release_first(len(_held_during_forks))


os.register_at_fork(before=_acquire_all, after_in_parent=_release_all, after_in_child=_release_all)
LOADING = shared_lock()
"""The lock that is held while a call imports, loads or caches something that all threads use."""


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Hold :data:`LOADING`; without it a fork during an import would copy locks that nobody releases."""
    with LOADING:
        yield


class cached_property(Generic[Value]):  # the standard library's name
    """functools.cached_property of Python 3.12; that of 3.11 has a lock, which a fork would copy."""

    def __init__(self, function: Callable[[Any], Value]) -> None:
        self.function, self.__doc__ = function, function.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Value:
        if instance is None:
            return self  # type: ignore[return-value]
        value = self.function(instance)
        vars(instance)[self.function.__name__] = value  # where Python finds it from now on
        return value


def open_streams() -> None:
    """Open the standard streams that are closed, and let standard output accept every character.

    If a stream stayed closed, the next file that is opened would get its number, and with it the output of
    libraries. A terminal whose encoding has no code for a character shows ``?``.
    """
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # to the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def flush_streams() -> None:
    """Flush stdout and stderr; output that cannot be written is dropped, and the exit code stays."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError), open(os.devnull, "w", encoding="utf-8") as null:
                os.dup2(null.fileno(), stream.fileno())


def peak_memory() -> int:
    """Return the peak main memory of this process, in bytes."""
    import resource  # Windows has none

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB


def available_cores() -> int:
    """Return the number of cores that this process may use, by its affinity and its control groups."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([cores, *(max(1, math.ceil(quota)) for quota in _quotas())])


def _quotas() -> Iterator[float]:
    """Yield the limit, in cores, of each control group of this process and of the groups above it."""
    memberships = MEMBERSHIPS.read_text(encoding="utf-8") if MEMBERSHIPS.exists() else ""
    for membership in memberships.splitlines():
        _, kinds, group = membership.split(":", 2)
        group_folder = CONTROL_GROUPS / kinds / group.lstrip("/")
        # In a container the group may be the root folder, under another name than in the list.
        for folder, names in itertools.product((group_folder, *group_folder.parents), LIMITS):
            with contextlib.suppress(OSError, ValueError, ZeroDivisionError):  # "max" and -1 are no limit
                texts = ((folder / name).read_text(encoding="ascii") for name in names)
                quota, period = map(int, " ".join(texts).split())
                if quota > 0:
                    yield quota / period
