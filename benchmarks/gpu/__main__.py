"""Check and measure everything on a GPU, in nine minutes.

    python -m benchmarks.gpu
    python -m benchmarks.gpu --device cpu --quick

First the checks (``checks``): every encoder, engine, loss option and parser against the CPU, and what a
run on a device has to keep. Then the speeds (``speed``). A part that needs a library or a model that is
not here says so; one that fails does not stop the others. Prints a line per part and, as the last line,
everything as JSON. Exit code 1 if a check failed.
It needs no data and no network.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.gpu import checks, speed
from benchmarks.gpu.bench import Bench, run_parts
from benchmarks.gpu.text import parsed_text
from corpora.support.cli import Command
from corpora.support.config import Positive, configuration
from parsing.networks.device import pick_device


@configuration
class GpuBenchmark:
    """Options of the benchmark."""

    device: str = "cuda"
    """Device to check and measure; cpu tests the command itself."""
    quick: bool = False
    """Small sizes, only to show that every part runs."""
    minutes: Positive = 9.0
    """End within this time; parts that do not fit are left out or cut short."""


def main(device: str, quick: bool, minutes: float) -> int:
    """Run every part and print the results."""
    end = time.monotonic() + 60 * minutes
    chosen = pick_device(device)
    with tempfile.TemporaryDirectory() as folder:
        trees, sentences = parsed_text(Path(folder) / "trees", 120 if quick else 2400)
        bench = Bench(chosen, quick, Path(folder), trees, sentences)
        results, good = run_parts(bench, {**checks.PARTS, **speed.PARTS}, end)
    name = torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else "cpu"
    facts = {"benchmark": "gpu", "device": name, "torch": torch.__version__, "quick": quick, "good": good}
    print(json.dumps({**facts, "parts": results}))
    return int(not good)


def run(config: GpuBenchmark) -> int:
    """Check and measure."""
    return main(config.device, config.quick, config.minutes)


cli = Command(GpuBenchmark, run, "benchmarks.gpu", "Check and measure everything on a GPU.")


if __name__ == "__main__":
    sys.exit(cli())
