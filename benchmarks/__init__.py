"""Measure us and the peer in one run, alternating; each command ends with one line of JSON."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence


def time_in_turns(
    calls: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Measure the seconds of each call, in turns, after one round that is not measured."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            began = clock()
            call()
            if turn:
                seconds[name].append(clock() - began)
    return seconds


def ratios(seconds: Mapping[str, Sequence[float]], ours: str, theirs: str) -> list[float]:
    """Divide their time by ours in each round of :func:`time_in_turns`."""
    return [b / a for a, b in zip(seconds[ours], seconds[theirs], strict=True)]


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return the median and the range as text."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"
