"""What a command would take, for ``--dry-run``: an amount of work, how fast it is done, and other costs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from runtime.cli import config_to_json


@dataclass(frozen=True)
class Estimate:
    """How much work there is, and what it takes by a calibration."""

    facts: dict[str, str]
    """Further lines, by a short name."""
    amount: float | None
    """None if it is unknown."""
    unit: str
    """What the amount counts, in the plural."""
    per_second: float
    about: bool = False
    """Whether the amount is an estimate, too."""

    def seconds(self, amount: float) -> timedelta:
        """How long an amount of work takes."""
        return timedelta(seconds=round(amount / max(self.per_second, 1e-9)))

    def text(self, config: Any) -> str:
        """Print the resolved configuration and a line per fact, with work and time at the end, as text."""
        number, time = "an unknown number of", "unknown"
        if self.amount is not None:
            number, time = f"{'about ' * self.about}{self.amount:,.0f}", f"about {self.seconds(self.amount)}"
        work = f"{number} {self.unit} at {self.per_second:,.3g} a second"
        rows = {**self.facts, "work": work, "time": time}
        lines = [f"{name:<12} {value}" for name, value in rows.items()]
        return "\n".join([json.dumps(config_to_json(config), indent=2, sort_keys=True), *lines])


def peak_memory() -> int:
    """Return the peak main memory of this process, in bytes."""
    import resource  # Windows has none

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
