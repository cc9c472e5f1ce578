"""Parse, train and encode again and again in one process, and watch what it holds.

    python -m tools.soak --minutes 60 --output runs/soak

Memory, file descriptors, threads and speed are sampled from /proc after every round (Linux). After a tenth of
the time everything must stay level: exit code 1 if the second half holds more than the first by over 5 % of
memory, or any descriptor or thread. Writes samples.json, soak.html with curves, and each curve as SVG.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.support.cli import Command
from corpora.support.config import Count, Positive, configuration

if TYPE_CHECKING:
    from senteval_runner.report.page import Figure

MOST_GROWTH = 0.05
ROUNDS = 8
"""Fewer rounds than that say nothing about growth."""


@configuration
class SoakConfig:
    """Options of ``python -m tools.soak``."""

    minutes: Positive = 60.0
    """How long."""
    sentences: Count = 96
    """Sentences parsed and encoded per round."""
    output: Path = Path("runs/soak")
    """Folder of the samples and the page."""


@dataclass(frozen=True)
class Sample:
    """What the process holds after a round."""

    seconds: float
    """Since the start."""
    memory_mb: float
    descriptors: int
    threads: int
    parse: float
    """Sentences parsed per second."""
    train: float
    """Sentences trained on per second."""
    encode: float
    """Sentences encoded per second, trees at hand."""


def held() -> tuple[float, int, int]:
    """Resident memory in MB, open file descriptors, threads of this process."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return resident / 1e3, len(os.listdir("/proc/self/fd")), threading.active_count()


def rounds(folder: Path, sentences: int) -> Iterator[tuple[float, float, float]]:
    """Parse, train, encode for ever; sentences per second of each."""
    from corpora.text import text_corpus
    from multiview.model import MultiViewEncoder
    from multiview.train import cli as train
    from parsing.cache.reader import TreeCache
    from parsing.models import load_constituency_parser, load_dependency_parser
    from parsing.pipeline.driver import run_corpus
    from parsing.pipeline.serial import SerialPool
    from parsing.pipeline.workers import ParserFactories
    from tools.hammer.world import sentences as made

    text = folder / "corpus.txt"
    text.write_text("\n".join(" ".join(words) for words in made(sentences)) + "\n", encoding="utf-8")
    corpus = text_corpus(text, format="lines", tokenize="space")
    dep, const = load_dependency_parser("builtin"), load_constituency_parser("builtin")
    parsers = ParserFactories(dependency=lambda: dep, constituency=lambda: const)
    steps, batch = 20, 16
    options = f"--trees {folder / 'trees'} --output {folder / 'models'} --name m --views dep,const --fresh "
    options += f"--loop.max-steps {steps} --loop.batch {batch} --loop.epochs 100 --encoder.dim 32 "
    options += "--table.dim 32 --validation.sentences 0 --device cpu"

    def timed(work: Callable[[], object], count: int) -> float:
        began = time.monotonic()
        work()
        return count / (time.monotonic() - began)

    while True:
        shutil.rmtree(folder / "trees", ignore_errors=True)
        parsed = timed(
            lambda: run_corpus(corpus, folder / "trees", parsers, pool=SerialPool, shard_sentences=32),
            sentences,
        )
        trained = timed(lambda: _expect_zero(train(options.split())), steps * batch)
        trees = TreeCache.open(folder / "trees")
        encoder = MultiViewEncoder.load(folder / "models/m", "cpu")
        encode = partial(encoder.encode, None, trees=trees, show_progress_bar=False)
        encoded = timed(encode, sentences)
        trees.close()
        yield parsed, trained, encoded


def _expect_zero(code: int) -> None:
    if code:
        raise RuntimeError(f"training ended with {code}")


def growth(samples: Sequence[Sample]) -> list[str]:
    """What the second half holds more of than the first, without the first tenth; empty: level."""
    settled = samples[len(samples) // 10 :]
    if len(settled) < ROUNDS:
        return []
    halves = settled[: len(settled) // 2], settled[len(settled) // 2 :]
    found = []
    first, second = (statistics.median(sample.memory_mb for sample in half) for half in halves)
    if second > first * (1 + MOST_GROWTH):
        found.append(f"memory grew from {first:.0f} to {second:.0f} MB")
    for what in ("descriptors", "threads"):
        first, second = (statistics.median(getattr(sample, what) for sample in half) for half in halves)
        if second > first:
            found.append(f"{what} grew from {first:g} to {second:g}")
    return found


def curves(samples: Sequence[Sample]) -> dict[str, Figure]:
    """What was held and done per second, as figures by name."""
    from senteval_runner.report import plots

    def curve(label: str, *names: str) -> Figure:
        lines = {n: [(sample.seconds, float(getattr(sample, n))) for sample in samples] for n in names}
        return plots.curves(lines, x_label="seconds", y_label=label, caption=label)

    return {
        "memory": curve("memory, MB", "memory_mb"),
        "held": curve("held", "descriptors", "threads"),
        "speed": curve("sentences per second", "parse", "train", "encode"),
    }


def write(folder: Path, samples: Sequence[Sample], verdict: str) -> None:
    """Write samples.json, soak.html, and each figure as an SVG file of its own."""
    from corpora.support.files import write_json, write_text
    from senteval_runner.report.page import Page, Section

    figures = curves(samples)
    write_json(folder / "samples.json", [asdict(sample) for sample in samples])
    page = Page("Soak", [Section("Held and done per second", [*figures.values()])], introduction=verdict)
    write_text(folder / "soak.html", page.html())
    for name, figure in figures.items():  # an SVG that stands alone names its name space
        drawn = figure.svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
        write_text(folder / f"{name}.svg", drawn)


def main(config: SoakConfig) -> int:
    """Run rounds until the time is up; write samples and curves."""
    began, samples = time.monotonic(), list[Sample]()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        for speeds in rounds(Path(name), config.sentences):
            with contextlib.suppress(OSError):
                seconds = time.monotonic() - began
                samples.append(Sample(round(seconds, 1), *held(), *(round(speed, 1) for speed in speeds)))
            print(samples[-1], flush=True)
            if time.monotonic() - began > config.minutes * 60:
                break
    grown = growth(samples)
    verdict = "; ".join(grown) or f"level over {len(samples)} rounds"
    write(config.output, samples, verdict)
    print(verdict)
    return 1 if grown else 0


cli = Command(SoakConfig, main, "tools.soak", "Parse, train and encode for an hour; nothing may grow.")

if __name__ == "__main__":
    sys.exit(cli())
