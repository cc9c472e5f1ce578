"""Benchmarks. Those of speed run this project and another library in turns; all print JSON at the end."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence


def time_in_turns(
    calls: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Return the seconds of each call in each round; the calls take turns.

    A first round is not measured, because it compiles and loads.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            began = clock()
            call()
            if turn:
                seconds[name].append(clock() - began)
    return seconds


def ratios(seconds: Mapping[str, Sequence[float]], ours: str, theirs: str) -> list[float]:
    """Return the time of ``theirs`` divided by that of ``ours``, for each round of :func:`time_in_turns`."""
    pairs = zip(seconds[ours], seconds[theirs], strict=True)
    return [seconds_theirs / seconds_ours for seconds_ours, seconds_theirs in pairs]


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return the median, lowest and highest value as text."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"
