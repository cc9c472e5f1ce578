"""What ``--dry-run`` prints: configuration, sizes, memory, and a time from work on a part of the input."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from corpora.support.config import config_to_json


def duration(seconds: float) -> str:
    """``48 s``, ``12.5 min`` or ``3.2 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def peak_memory() -> int:
    """Peak main memory of this process, in bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB


def dry_run_text(
    config: Any,
    *,
    facts: Mapping[str, str],
    parameters: Mapping[str, int],
    disk_bytes: float | None,
    work: tuple[str, float | None, str, float],
    memory_bytes: int | None = None,
) -> str:
    """The text of a dry run.

    Args:
        config: the resolved configuration, a dataclass.
        facts: further lines, by a short name.
        parameters: number of parameters by part of the model.
        disk_bytes: size of the output; None if it is unknown.
        work: one word for it (train), how much (None if it is unknown), its unit (steps), units per second.
        memory_bytes: peak during the calibration; by default this process's main memory.
    """
    name, units, unit, per_s = work
    amount = "an unknown number of" if units is None else f"{units:,.0f}"
    memory = peak_memory() if memory_bytes is None else memory_bytes
    rows = {
        **facts,
        **{f"{part} parameters": f"{count:,}" for part, count in parameters.items()},
        "memory": f"{memory / 2**20:,.0f} MiB peak in the calibration",
        "disk": "unknown" if disk_bytes is None else f"{disk_bytes / 1e6:,.1f} MB",
        name: f"{amount} {unit} at {per_s:,.3g} a second",
        "time": "unknown" if units is None else duration(units / max(per_s, 1e-9)),
    }
    lines = [f"{name:<12} {value}" for name, value in rows.items()]
    return "\n".join([json.dumps(config_to_json(config), indent=2, sort_keys=True), *lines])
