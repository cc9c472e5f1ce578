"""Time one call, several calls in turn, and functions inside another."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from types import ModuleType


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def alternate(
    calls: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of every call, in turns, after one unmeasured round."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            start = clock()
            call()
            if turn:
                taken[name].append(clock() - start)
    return taken


def compare(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int, sentences: int
) -> tuple[list[float], list[float], list[float]]:
    """Sentences per second of both, and their time over ours, for each of ``rounds`` alternations."""
    our_s, their_s = alternate({"ours": ours, "theirs": theirs}, rounds).values()
    ratios = [b / a for a, b in zip(our_s, their_s, strict=True)]
    return [sentences / s for s in our_s], [sentences / s for s in their_s], ratios


def spread(values: list[float], digits: int = 2) -> str:
    """Median and range."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


class Timer:
    """Adds up the time spent in functions of a module inside a ``with`` block."""

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
