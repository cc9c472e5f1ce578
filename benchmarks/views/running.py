"""Train and score one system by the commands that a user types, and read what they wrote."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.views.systems import System
from corpora.support.errors import UserError
from corpora.support.files import read_json, read_record
from senteval_runner.protocol.results import TaskResult

TASKS = ("MR", "CR", "SUBJ", "TREC", "MRPC", "SICKRelatedness")
SIMILARITY = ("STS12", "STS14", "STS16", "STSBenchmark")


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What one system scored."""

    results: dict[str, TaskResult]
    """By task, predictions included."""
    similarity: float | None
    """STS average of the report: Spearman of cosines over all pairs; None without such data."""


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Where systems are trained and scored."""

    trees: Path
    data: Path
    parsed: Path
    output: Path
    protocol: str

    def folder(self, system: System) -> Path:
        """Of the system's report."""
        return self.output / "scores" / self.protocol / system.label

    def run(self, system: System) -> None:
        """Train (a stopped training is resumed) and score a system, unless that is done.

        Raises:
            RuntimeError: a command failed; its last lines.
        """
        models, report = self.output / "models", self.folder(system)
        if (report / "results.json").exists():
            return
        if system.trained:
            where = ("--trees", self.trees, "--output", models, "--name", system.label)
            self._command("multiview.train", *where, *system.options())
        vectors = report / "vectors"
        self._command(
            "senteval_runner.run",
            *(system.spec(models, self.trees), "--tasks", ",".join((*TASKS, *SIMILARITY))),
            *("--data", self.data, "--trees", self.parsed, "--protocol", self.protocol),
            *("--output", report, "--cache", vectors),
        )
        shutil.rmtree(vectors, ignore_errors=True)  # 50 MB that nothing reads again

    def _command(self, module: str, *arguments: object) -> None:
        words = [sys.executable, "-m", module, *map(str, arguments)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        if done.returncode == 2:
            raise UserError(done.stderr.strip().splitlines()[-1])
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def read(self, system: System) -> Scores:
        """The scores of a finished system."""
        folder = self.folder(system)
        report = read_json(folder / "results.json")
        [model] = report["models"]
        key, protocol = report["models"][model]["key"], report["protocol"]["name"]
        [parts] = folder.glob(f"parts/{key}-{protocol}-*/*/")
        found = {path.stem: TaskResult(**read_record(path)) for path in sorted(parts.glob("*.json"))}
        return Scores(results=found, similarity=report["similarity_table"][model][0].get("STS average"))
