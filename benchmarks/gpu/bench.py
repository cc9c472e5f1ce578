"""What the parts of ``benchmarks.gpu`` share, and how they are run."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from parsing.cache.reader import TreeCache

Result = dict[str, object]


class Skipped(Exception):
    """A part cannot run here; says why."""


@dataclass(frozen=True)
class Bench:
    """What the parts share."""

    device: torch.device
    quick: bool
    """Only show that the parts run."""
    folder: Path
    """For files that nobody keeps."""
    trees: TreeCache
    """Sentences of a toy grammar, parsed by the builtin parsers on the CPU."""
    sentences: list[tuple[str, ...]]
    deadline: list[float] = field(default_factory=list)
    """When the running part should end, by ``time.monotonic``."""

    def left_s(self) -> float:
        """Seconds left to the running part."""
        return self.deadline[-1] - time.monotonic()

    def wait(self) -> None:
        """Until the device has done what was queued."""
        import torch

        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


Part = Callable[[Bench], Result]


def run_parts(bench: Bench, parts: dict[str, tuple[Part, float]], end: float) -> tuple[Result, bool]:
    """Results of all parts by name, and whether none failed.

    Args:
        bench: what they share.
        parts: each with its share of the time; what one leaves over goes to those after it.
        end: when all must have ended, by ``time.monotonic``.
    """
    results: Result = {}
    good = True
    shares = sum(share for _, share in parts.values())
    for name, (part, share) in parts.items():
        began = time.monotonic()
        left = end - began
        bench.deadline[:] = [began + left * share / shares]
        shares -= share
        try:
            if left < 1:
                raise Skipped("no time left")
            found = {"state": "done", **part(bench)}
        except Skipped as reason:
            found = {"state": "skipped", "why": str(reason)}
        except Exception as error:
            good = False
            lines = traceback.format_exc().strip().splitlines()
            found = {"state": "failed", "why": f"{type(error).__name__}: {error}", "where": lines[-4:]}
        found["seconds"] = round(time.monotonic() - began, 1)
        results[name] = found
        print(f"{name:<20} {json.dumps(found)}", flush=True)
    return results, good
