"""Progress with rate and time left: a bar in terminals and notebooks, a line every 30 seconds elsewhere."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from typing import Any, TypeAlias

from tqdm import tqdm

from runtime.cli import LOGGER

INTERVAL_S = 30.0
"""Between two lines of a log."""
TICK_S = 2.0
"""After which a terminal's bar is drawn anew, so that its clock goes on while one unit takes long."""
ABOUT = "{l_bar}{bar}| {n_fmt}/about {total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
"""As tqdm's own, where the total is an estimate."""
Bar: TypeAlias = "tqdm[Any]"
"""What a loop reports to: ``update(n)`` and ``set_postfix({name: value})``."""


def progress(
    *,
    total: int | None = None,
    about: bool = False,
    initial: int = 0,
    unit: str = "sent",
    description: str,
    show: bool | None = None,
) -> Bar:
    """Progress of a loop, to be used in a ``with``.

    Args:
        total: number of units of the whole job, or None when unknown.
        about: whether the total is an estimate; what reports may set it again.
        initial: units that an earlier run did.
        unit: what is counted; ``B`` for bytes.
        description: what is being done, in a word or two.
        show: True shows a bar wherever this runs, False nothing; None picks what suits the place.
    """
    kind: type[Bar] = LogLines
    if "ipykernel" in sys.modules:  # a notebook
        from tqdm.auto import tqdm as kind
    elif show is True or sys.stderr.isatty():
        kind = Ticking
    return kind(
        total=total,
        initial=initial,
        unit=unit,
        unit_scale=unit == "B",
        desc=description,
        smoothing=0.05,
        disable=show is False,
        bar_format=ABOUT if about else None,
    )


class Ticking(tqdm):  # type: ignore[type-arg]  # not generic at run time
    """A bar that a thread draws anew every two seconds, too."""

    def __init__(self, **options: Any) -> None:
        self._closed = threading.Event()
        super().__init__(**options)
        if not self.disable:
            threading.Thread(target=self._until_closed, name="progress", daemon=True).start()

    def close(self) -> None:
        """End bar and thread."""
        self._closed.set()
        super().close()

    def _until_closed(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # who closed the stream wants no more reports
            self._report()

    def _report(self) -> None:
        while not self._closed.wait(TICK_S):
            self.refresh()


class LogLines(Ticking):
    """Says every 30 seconds how far a loop is, in the command's log if there is one, else on standard error.

    A thread writes, so a step that takes minutes shows as well. A loop that is over sooner writes nothing.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, leave=False, ncols=0)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Nothing: the thread writes."""

    def _report(self) -> None:
        log = logging.getLogger(LOGGER)
        while not self._closed.wait(INTERVAL_S):
            if log.handlers:
                log.info("%s", self)
            else:
                print(self, file=sys.stderr, flush=True)
