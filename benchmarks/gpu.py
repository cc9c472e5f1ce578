"""Check and measure everything on a GPU, in nine minutes.

    python -m benchmarks.gpu
    python -m benchmarks.gpu --device cpu --quick

First the checks (``gpu_checks``): every encoder, engine, loss option and parser against the CPU, and what a
run on a device has to keep. Then the speeds (``gpu_speed``). A part that needs a library or a model that is
not here says so; one that fails does not stop the others. Prints a line per part and, as the last line,
everything as JSON. Exit code 1 if a check failed. It needs torch, numpy, h5py, numba and what every command
needs; no data, no network.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

NEEDED = ("torch", "numpy", "h5py", "numba", "safetensors", "tqdm", "pydantic", "tyro")

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


def main(device: str, quick: bool, minutes: float) -> int:
    """Run every part and print the results."""
    import torch

    from benchmarks import gpu_checks, gpu_speed
    from benchmarks.gpu_text import parsed_text
    from parsing.networks.device import pick_device

    end = time.monotonic() + 60 * minutes
    chosen = pick_device(device)
    with tempfile.TemporaryDirectory() as folder:
        trees, sentences = parsed_text(Path(folder) / "trees", 120 if quick else 2400)
        bench = Bench(chosen, quick, Path(folder), trees, sentences)
        results, good = run_parts(bench, {**gpu_checks.PARTS, **gpu_speed.PARTS}, end)
    name = torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else "cpu"
    facts = {"benchmark": "gpu", "device": name, "torch": torch.__version__, "quick": quick, "good": good}
    print(json.dumps({**facts, "parts": results}))
    return int(not good)


if __name__ == "__main__":
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(
            f"benchmarks.gpu: missing {', '.join(missing)}; pip install {' '.join(missing)}", file=sys.stderr
        )
        sys.exit(2)
    from benchmarks.gpu_options import cli

    sys.exit(cli())
