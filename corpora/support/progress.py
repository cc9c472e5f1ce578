"""Progress with rate and time left: a bar in terminals and notebooks, a line every 30 seconds elsewhere."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Mapping
from importlib import import_module
from types import TracebackType
from typing import Protocol, Self

from corpora.support.cli import LOGGER
from corpora.support.dry_run import duration

INTERVAL_S = 30.0
"""Between two lines of a log."""


class Bar(Protocol):
    """What a loop reports to."""

    def update(self, n: int = 1, /) -> object:
        """Count ``n`` more units as done."""

    def set_postfix(self, metrics: Mapping[str, str], /) -> object:
        """Show these at the end of the line."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


def progress(
    *,
    total: int | None = None,
    initial: int = 0,
    unit: str = "sent",
    description: str,
    show: bool | None = None,
) -> Bar:
    """Progress of a loop, to be used in a ``with``.

    Args:
        total: number of units of the whole job, or None when unknown.
        initial: units that an earlier run did.
        unit: what is counted; ``B`` for bytes.
        description: what is being done, in a word or two.
        show: True shows a bar wherever this runs, False nothing; None picks what suits the place.
    """
    if show is False:
        return _Silent()
    notebook = _in_notebook()
    if not (show or notebook or sys.stderr.isatty()):
        return LogLines(total=total, initial=initial, unit=unit, description=description)
    bar: Bar = import_module("tqdm.auto" if notebook else "tqdm").tqdm(
        total=total,
        initial=initial,
        unit=unit,
        unit_scale=unit == "B",
        desc=description,
        dynamic_ncols=True,
        smoothing=0.05,
    )
    return bar


def _in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel, where standard error is a cell's output."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config


class _Silent:
    """Shows nothing."""

    def update(self, n: int = 1, /) -> None:
        """Nothing."""

    def set_postfix(self, metrics: Mapping[str, str], /) -> None:
        """Nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...


_open: list[LogLines] = []
"""The bars of this process that are open; the innermost one writes."""


class LogLines(_Silent):
    """Says every 30 seconds how far a loop is, in the command's log if there is one, else on standard error.

    A thread writes, so a step that takes minutes shows as well. A loop that is over sooner writes nothing.

    Args:
        total: as in :func:`progress`.
        initial: as in :func:`progress`.
        unit: as in :func:`progress`.
        description: as in :func:`progress`.
    """

    def __init__(self, *, total: int | None, initial: int, unit: str, description: str) -> None:
        self.total, self.initial, self.unit, self.description = total, initial, unit, description
        self.done, self.metrics = initial, ""
        self._began = time.monotonic()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._report, name="progress", daemon=True)

    def __enter__(self) -> Self:
        _open.append(self)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closed.set()
        self._thread.join()
        _open.remove(self)

    def update(self, n: int = 1, /) -> None:
        """Count ``n`` more units as done."""
        self.done += n

    def set_postfix(self, metrics: Mapping[str, str], /) -> None:
        """Show these at the end of the line."""
        self.metrics = "".join(f", {name} {value}" for name, value in metrics.items())

    def line(self, seconds: float) -> str:
        """How far the loop is.

        Args:
            seconds: since it began.
        """
        new, of, left = self.done - self.initial, "", ""
        if self.total:
            of = f" of {_count(self.total, self.unit)} ({self.done / self.total:.0%})"
        if self.total and new > 0:
            left = f", {duration(seconds * max(self.total - self.done, 0) / new)} left"
        return (
            f"{self.description}: {_count(self.done, self.unit)}{of} {_name(self.unit)}, "
            f"{_speed(new, seconds, self.unit)}{left}{self.metrics}"
        )

    def _report(self) -> None:
        while not self._closed.wait(INTERVAL_S):
            if _open[-1] is self:
                _write(self.line(time.monotonic() - self._began))


def _name(unit: str) -> str:
    return {"B": "MB", "sent": "sentences", "pass": "passes"}.get(unit, f"{unit}s")


def _count(number: int, unit: str) -> str:
    return f"{number / 1e6:,.0f}" if unit == "B" else f"{number:,}"


def _speed(done: int, seconds: float, unit: str) -> str:
    """``412 a second``; slower than one a second: ``48 s each``; nothing yet: how long it has taken."""
    if not done:
        return f"{duration(seconds)} so far"
    rate = (done / 1e6 if unit == "B" else done) / seconds
    return f"{rate:,.0f} a second" if rate >= 1 else f"{duration(1 / rate)} each"


def _write(line: str) -> None:
    log = logging.getLogger(LOGGER)
    if log.handlers:
        log.info("%s", line)
    else:
        print(line, file=sys.stderr, flush=True)
