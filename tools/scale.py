"""Rehearse a big corpus: real shards repeated under new numbers, through everything that sees all of them.

    python -m tools.scale --trees runs/trees/wikipedia --sentences 40M --output runs/scale

The full shards of a real cache are linked under new numbers (no disk is used) until the cache holds the
wanted number of sentences. Manifest, reader, split, an epoch's order and random batches are timed, each in a
fork with its own peak of memory; then training is killed and resumed. Writes scale.json and scale.md.
(The linked shards name their old numbers inside, so parsing.verify would refuse them without --quick.)
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from corpora.support.cli import Command
from corpora.support.config import CountOrNone, configuration
from corpora.support.errors import UserError

BATCHES = 200
BATCH = 400


@configuration
class ScaleConfig:
    """Options of ``python -m tools.scale``."""

    trees: Path
    """A finished cache with at least one full shard."""
    sentences: str = "40M"
    """Size of the rehearsed corpus."""
    output: Path = Path("runs/scale")
    """Folder of the linked cache and the table."""
    train_steps: CountOrNone = 6
    """Steps of the training that is killed half-way and resumed; 0: none."""


@dataclass(frozen=True)
class Stage:
    """What one stage took."""

    name: str
    seconds: float
    processor_s: float
    """Of all cores; says more than ``seconds`` on a machine with other work."""
    peak_mb: float
    """Largest resident memory of its process."""
    note: str = ""


def link_shards(source: Path, folder: Path, wanted: int) -> int:
    """A cache of at least ``wanted`` sentences from the full shards of ``source``; returns its size.

    Raises:
        UserError: no full shard.
    """
    from parsing.cache.manifest import Manifest

    manifest = Manifest.read(source)
    full = [row for row in manifest.prefix() if row.sentences == manifest.shard_sentences]
    if not full:
        raise UserError(f"{source}: no full shard of {manifest.shard_sentences} sentences")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shards = -(-wanted // manifest.shard_sentences)
    rows = [dataclasses.replace(full[index % len(full)], index=index) for index in range(shards)]
    for row in rows:
        (folder / row.file).symlink_to((source / full[row.index % len(full)].file).resolve())
    made = dataclasses.replace(manifest, rows={row.index: row for row in rows}, complete=True)
    made.write(folder)
    return shards * manifest.shard_sentences


def measured(name: str, work: Callable[[], str]) -> Stage:
    """Run ``work`` in a fork; it returns a note.

    Raises:
        RuntimeError: it failed.
    """
    reading, writing = os.pipe()
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            note = work()
            used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
            spent = sum(one.ru_utime + one.ru_stime for one in used)
            os.write(writing, json.dumps([spent, max(one.ru_maxrss for one in used) / 1e3, note]).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading, encoding="utf-8") as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    if not text:
        raise RuntimeError(f"{name} failed")
    spent, peak, note = json.loads(text)
    stage = Stage(name, round(time.monotonic() - began, 2), round(spent, 2), round(peak), note)
    print(stage, flush=True)
    return stage


def stages(folder: Path) -> list[Stage]:
    """Everything that sees the whole cache, one after the other."""
    import numpy as np

    from multiview.encoders.registry import build_view
    from multiview.training.data import Split
    from parsing.cache.manifest import Manifest
    from parsing.cache.reader import TreeCache
    from parsing.verify import verify_shards

    def rewrite() -> str:
        Manifest.read(folder).write(folder)
        return f"{(folder / 'manifest.json').stat().st_size / 1e6:.1f} MB"

    def verify() -> str:
        rows = list(verify_shards(folder, Manifest.read(folder), quick=True))
        return f"{sum(row.file_bytes for row in rows) / 1e9:.1f} GB hashed"

    def order() -> str:
        cache = TreeCache.open(folder)
        # One shard's documents for all: reading all of them is the stage before.
        every = np.append(np.arange(0, len(cache), 50), len(cache))
        return f"{len(Split.of(every, 2000, BATCH).epoch(1, BATCH, 0)):,} segments"

    def batches() -> str:
        cache = TreeCache.open(folder)
        starts = np.random.default_rng(0).integers(0, len(cache) - BATCH, BATCHES)
        began = time.monotonic()
        for start in starts.tolist():
            cache.read(start, start + BATCH)
        return f"{BATCHES * BATCH / (time.monotonic() - began):,.0f} sentences/s, random batches"

    def plans() -> str:
        cache = TreeCache.open(folder)
        encoders = [build_view(name, 1, 1) for name in ("dep", "const")]
        parts = [cache.read(start, start + BATCH) for start in range(0, 20 * BATCH, BATCH)]
        began = time.monotonic()
        for part in parts:
            for encoder in encoders:
                encoder.plan(part)
        return f"{len(parts) * BATCH / (time.monotonic() - began):,.0f} sentences/s, both views"

    def in_order() -> str:
        cache = TreeCache.open(folder)
        began, count = time.monotonic(), min(len(cache) // BATCH, 10 * BATCHES)
        for batch in range(count):
            cache.read(batch * BATCH, (batch + 1) * BATCH)
        return f"{count * BATCH / (time.monotonic() - began):,.0f} sentences/s, in order"

    return [
        measured("read and write the manifest", rewrite),
        measured("verify --quick", verify),
        measured("open", lambda: f"{len(TreeCache.open(folder)):,} sentences"),
        measured("documents", lambda: f"{len(TreeCache.open(folder).documents()) - 1:,} documents"),
        measured("token counts", lambda: f"{int(TreeCache.open(folder).token_counts().sum()):,} tokens"),
        measured("word types", lambda: f"{len(TreeCache.open(folder).type_counts()):,} types"),
        measured("split and order of an epoch", order),
        measured("random batches", batches),
        measured("planning", plans),
        measured("batches in order", in_order),
    ]


def kill_and_resume(folder: Path, output: Path, steps: int) -> list[Stage]:
    """Train a few steps, stop at half, go on: mostly the time until the first step."""
    from multiview.train import cli

    common = f"--trees {folder} --output {output} --name m --views dep,const --encoder.dim 16 --table.dim 16 "
    common += f"--loop.checkpoint-every 1 --loop.max-steps {steps} --validation.sentences 400 --device cpu"

    def train() -> str:
        return f"exit code {cli(common.split())}"

    def killed() -> str:
        pid = os.fork()
        if pid == 0:
            os._exit(cli(common.split()))
        while not list((output / "m" / "checkpoints").glob(f"step-*{max(steps // 2, 1)}")):
            time.sleep(0.05)
            if os.waitpid(pid, os.WNOHANG)[0]:
                return "ended before the kill"
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        return "killed"

    shutil.rmtree(output / "m", ignore_errors=True)
    return [measured("train, killed half-way", killed), measured("resume to the end", train)]


def main(config: ScaleConfig) -> int:
    """Make the cache, run the stages, write the table."""
    from corpora.stream import parse_limit
    from corpora.support.files import write_json, write_text
    from senteval_runner.report.page import Page, Section
    from senteval_runner.report.table import Table

    wanted = parse_limit(config.sentences)
    assert wanted is not None
    folder = config.output / "trees"
    taken = [measured("link shards", lambda: f"{link_shards(config.trees, folder, wanted):,} sentences")]
    taken += stages(folder)
    if config.train_steps:
        taken += kill_and_resume(folder, config.output, config.train_steps)
    rows = [
        [stage.name, f"{stage.seconds:g}", f"{stage.processor_s:g}", f"{stage.peak_mb:g}", stage.note]
        for stage in taken
    ]
    table = Table(["stage", "seconds", "processor seconds", "peak memory, MB", "result"], rows)
    write_json(config.output / "scale.json", [dataclasses.asdict(stage) for stage in taken])
    write_text(config.output / "scale.md", Page("Scale", [Section(config.sentences, [table])]).markdown())
    print(table.markdown())
    return 0


cli = Command(ScaleConfig, main, "tools.scale", "Rehearse a corpus of 40M sentences with linked shards.")

if __name__ == "__main__":
    sys.exit(cli())
