"""Shows progress, rate and remaining time: a bar in terminals and notebooks, a line every 30 s in logs."""

import contextlib
import logging
import sys
import threading
from collections.abc import Mapping
from typing import Any, Self, TypeAlias

from tqdm import tqdm

from runtime.cli import LOGGER, RUNS_COMMAND
from runtime.process import shared_lock

INTERVAL_S = 30.0
"""The time between two lines of a log."""
TICK_S = 2.0
"""The time after which a terminal's bar is drawn again, so that its clock runs while a unit takes long."""
ESTIMATED_BAR = "{l_bar}{bar}| {n_fmt}/about {total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
"""tqdm's format of a bar, with "about" before a total that is an estimate."""
Bar: TypeAlias = "tqdm[Any] | NoBar"
"""A bar of tqdm, or an object with its methods ``update(n)`` and ``set_postfix({name: value})``."""


def progress(
    *,
    total: int | None = None,
    with_estimated_total: bool = False,
    initial: int = 0,
    unit: str = "sent",
    description: str,
    show: bool | None = None,
) -> Bar:
    """Return a bar that shows the progress of a loop, to be used in a ``with`` statement.

    Args:
        total: the number of units of the whole job, if it is known.
        with_estimated_total: whether the total is an estimate; it may be set again later (``bar.total``).
        initial: the number of units that an earlier run finished.
        unit: what is counted, such as ``sent``, or ``B`` for bytes.
        description: the name of the job.
        show: True shows a bar, False nothing; None shows progress in commands and in notebooks only.
    """
    is_notebook = "ipykernel" in sys.modules
    if show is None:
        show = None if is_notebook or RUNS_COMMAND.get() else False
    if show is False or (sys.stderr is None and not is_notebook):
        return NoBar()
    options: dict[str, Any] = {
        "total": total,
        "initial": initial,
        "unit": unit,
        "unit_scale": unit == "B",
        "desc": description,
        "smoothing": 0.05,
        "bar_format": ESTIMATED_BAR if with_estimated_total else None,
    }
    if is_notebook:
        from tqdm.auto import tqdm as notebook_bar

        return notebook_bar(**options)
    return Ticking(lines=show is not True and not _is_terminal(), **options)


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # the caller replaced sys.stderr by another object, or closed it
        return False


class NoBar:
    """A bar that shows nothing."""

    total: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def update(self, n: float) -> None:
        """Show nothing."""

    def set_postfix(self, values: Mapping[str, object]) -> None:
        """Show nothing."""

    def set_postfix_str(self, text: str) -> None:
        """Show nothing."""


class Ticking(tqdm):  # type: ignore[type-arg]  # not generic at run time
    """A bar that a thread also draws every two seconds, because a unit may take minutes.

    With ``lines``, a line is written every 30 seconds in place of the bar: to the command's log, or to
    standard error if there is no log. A loop that ends sooner writes nothing.
    """

    def __init__(self, *, lines: bool, **options: Any) -> None:
        self._close_event, self._lines = threading.Event(), lines
        super().__init__(**options | ({"leave": False, "ncols": 0} if lines else {}))
        if not self.disable:  # by the variable TQDM_DISABLE
            threading.Thread(target=self._report, name="progress", daemon=True).start()

    def close(self) -> None:
        """Stop the bar and its thread."""
        self._close_event.set()
        super().close()

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Draw the bar, if there is one."""
        if not self._lines:
            super().display(msg, pos)

    def _report(self) -> None:
        """Draw the bar or write a line, again and again until the bar is closed."""
        log = logging.getLogger(LOGGER)
        with contextlib.suppress(OSError, ValueError):  # the stream was closed
            while not self._close_event.wait(INTERVAL_S if self._lines else TICK_S):
                if not self._lines:
                    self.refresh()
                elif log.handlers:
                    log.info("%s", self)
                else:
                    print(self, file=sys.stderr, flush=True)


# A fork would copy the lock of tqdm, which also needs a semaphore of the system.
Ticking.set_lock(shared_lock())
