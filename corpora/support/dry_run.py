"""What ``--dry-run`` prints, the same for every command: configuration, sizes, memory, time.

The time comes from a short calibration: the command's own work on a small part of its own input.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

from corpora.support.config import config_to_json

Part = TypeVar("Part")

CALIBRATION_S = 5.0
"""Longest calibration, in seconds."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """One kind of work that a command does."""

    name: str
    """One word for the work: encode, train."""
    units: float | None
    """Amount of work; None if it is unknown."""
    unit: str
    """The unit of work in the plural: sentences, steps."""
    per_s: float
    """Units per second, measured."""

    @property
    def seconds(self) -> float | None:
        """Time for all of the work."""
        return None if self.units is None else self.units / max(self.per_s, 1e-9)


def rate(work: Callable[[Part], float], parts: Iterable[Part], *, budget_s: float = CALIBRATION_S) -> float:
    """Units per second: the median over parts, without the first one (compilation) if there are more.

    Args:
        work: does one part and returns how many units that were.
        parts: taken until the budget is used up.
        budget_s: no part starts after this many seconds.
    """
    rates: list[float] = []
    began = time.perf_counter()
    for part in parts:
        start = time.perf_counter()
        units = work(part)
        rates.append(units / max(time.perf_counter() - start, 1e-9))
        if time.perf_counter() - began > budget_s and len(rates) > 1:
            break
    return median(rates[1:] or rates or [0.0])


def duration(seconds: float) -> str:
    """``48 s``, ``12.5 min`` or ``3.2 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def peak_memory() -> int:
    """Peak main memory of this process, in bytes."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in KiB, macOS in bytes


def by_part(sizes: Mapping[str, int]) -> dict[str, int]:
    """Numbers of parameters by part of the model: the first word of ``encoder.words.weight``."""
    parts: Counter[str] = Counter()
    for name, size in sizes.items():
        parts[name.split(".")[0]] += size
    return dict(parts)


def dry_run_text(
    config: Any,
    *,
    work: Sequence[Work],
    parameters: Mapping[str, int] | None = None,
    facts: Mapping[str, str] | None = None,
    disk_bytes: float | None = None,
    memory_bytes: int | None = None,
    not_counted: str = "",
) -> str:
    """The text of a dry run.

    Args:
        config: the resolved configuration, a dataclass.
        work: the kinds of work, each with its measured rate.
        parameters: number of parameters by part of the model.
        facts: further lines, by a short name.
        disk_bytes: size of the output.
        memory_bytes: peak during the calibration; by default this process's main memory.
        not_counted: what the time does not include.
    """
    lines = [json.dumps(config_to_json(config), indent=2, sort_keys=True)]
    lines += [f"{name:<12} {value}" for name, value in (facts or {}).items()]
    for part, count in (parameters or {}).items():
        lines.append(f"parameters   {count:>13,}  {part}")
    if parameters:
        lines.append(f"parameters   {sum(parameters.values()):>13,}  in all")
    memory = peak_memory() if memory_bytes is None else memory_bytes
    lines.append(f"memory       {memory / 2**20:,.0f} MiB peak in the calibration")
    if disk_bytes is not None:
        lines.append(f"disk         {disk_bytes / 1e6:,.1f} MB")
    for job in work:
        amount = "an unknown number of" if job.units is None else f"{job.units:,.0f}"
        lines.append(f"{job.name:<12} {amount} {job.unit} at {job.per_s:,.3g} a second")
    known = [job.seconds for job in work if job.seconds is not None]
    if known:
        left_out = f"; not counted: {not_counted}" if not_counted else ""
        lines.append(f"time         {duration(sum(known))}{left_out}")
    return "\n".join(lines)
