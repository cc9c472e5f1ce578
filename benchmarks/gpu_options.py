"""The options of ``benchmarks.gpu``, apart from it because they need libraries that it looks for first."""

from __future__ import annotations

from benchmarks.gpu import main
from corpora.support.cli import Command
from corpora.support.config import Positive, configuration


@configuration
class GpuBenchmark:
    """Options of the benchmark."""

    device: str = "cuda"
    """Device to check and measure; cpu tests the command itself."""
    quick: bool = False
    """Small sizes, only to show that every part runs."""
    minutes: Positive = 9.0
    """End within this time; parts that do not fit are left out or cut short."""


def run(config: GpuBenchmark) -> int:
    """Check and measure."""
    return main(config.device, config.quick, config.minutes)


cli = Command(GpuBenchmark, run, "benchmarks.gpu", "Check and measure everything on a GPU.")
