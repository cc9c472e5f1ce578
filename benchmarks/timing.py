"""Seconds of one thing, of two in turn, and of functions inside another."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from types import ModuleType


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def alternate(
    ours: Callable[[], object], theirs: Callable[[], object], alternations: int
) -> tuple[list[float], list[float]]:
    """Seconds of both, one after the other, after one unmeasured call of each."""
    ours()
    theirs()
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(alternations)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def spread(values: list[float], digits: int = 2) -> str:
    """Median and range."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


class Timer:
    """Counts the time in functions of a module while it is entered."""

    def __init__(self, *functions: tuple[ModuleType, str]) -> None:
        self.total_s = 0.0
        self._functions = [(module, name, getattr(module, name)) for module, name in functions]

    def __enter__(self) -> Timer:
        for module, name, function in self._functions:
            setattr(module, name, self._timed(function))
        return self

    def __exit__(self, *_: object) -> None:
        for module, name, function in self._functions:
            setattr(module, name, function)

    def _timed(self, function: Callable[..., object]) -> Callable[..., object]:
        def timed(*arguments: object) -> object:
            start = time.perf_counter()
            result = function(*arguments)
            self.total_s += time.perf_counter() - start
            return result

        return timed
