"""What threads of a process share while they only read: words, trees, buffers that are kept for later."""

from __future__ import annotations

import os
import threading
from typing import Any, TypeVar

Lock = TypeVar("Lock", bound=Any)


def state_without(thing: object, *names: str) -> dict[str, object]:
    """The attributes that a copy of a thing has: all but these, which use adds."""
    return {name: value for name, value in vars(thing).items() if name not in names}


def shared_lock() -> threading.RLock:
    """A lock for what the objects of a module keep; locks of their own would keep them from being copied."""
    return kept_over_forks(threading.RLock())


def kept_over_forks(lock: Lock) -> Lock:
    """A lock that a fork waits for, so that the child, which has no other thread, finds it free."""
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
