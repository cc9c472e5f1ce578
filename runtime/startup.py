"""The first seconds of a process: imports and weights make a million objects that all stay."""

import atexit
import contextlib
import gc
from collections.abc import Iterator

# When Python ends, it searches for garbage several times, for a second: all goes with the process anyway.
atexit.register(gc.freeze)


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """No search for garbage meanwhile, nor for it in what was made meanwhile until much more is made."""
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
