"""The paper's claim: which pair of views learns the best sentence vectors?

    python -m parsing.run $MULTIVIEW_DATA/corpora/wikipedia.txt.xz
    python -m benchmarks.views --trees runs/trees/wikipedia --data $MULTIVIEW_DATA/senteval

The six pairs of {seq, dep, const} at equal size, steps and order of data on one corpus (MV, Table 2) and
QuickThought's setting (seq,seq; dot score, one softmax, the sentence itself at score 0), each with trained
words and over fixed skip-gram vectors of the same text, at several seeds; before training (Table 3), the
average of their words and of random ones beside them. ``systems.BUDGET`` was fixed before a score was seen.
Every system is trained and scored by ``multiview.train`` and ``senteval_runner.run`` on one thread; finished
ones are not repeated.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from statistics import mean
from typing import Literal

from benchmarks.views.running import Runner, Scores
from benchmarks.views.systems import RANDOM, System, Words, all_systems
from benchmarks.views.tables import (
    Systems,
    difference_table,
    figure,
    mean_of_tasks,
    score_table,
    scores_csv,
)
from corpora.support.cli import Command
from corpora.support.config import Count, CountOrNone, configuration
from corpora.support.files import write_text
from corpora.support.progress import progress
from parsing.cache.reader import TreeCache
from senteval_runner.cells import data_folder
from senteval_runner.report.table import Table


@configuration
class ViewsConfig:
    """Options of ``benchmarks.views``."""

    trees: Path
    """Tree cache to train on."""
    data: Path | None = None
    """SentEval's folder; None is $MULTIVIEW_DATA/senteval."""
    parsed: Path = Path("runs/trees")
    """Folder for the trees of SentEval's sentences."""
    output: Path = Path("runs/views")
    """Folder for models, scores and the report."""
    words: tuple[Words, ...] = ("trained", "fixed")
    """Configurations of words."""
    steps: Count = 500
    """Training steps of each system, of 200 sentences."""
    seeds: tuple[CountOrNone, ...] = (0, 1, 2)
    """Seeds of weights, order and word vectors."""
    protocol: Literal["default", "fast"] = "fast"
    """Of senteval_runner.run."""
    jobs: Count = 2
    """Systems at a time, one thread each."""


def main(config: ViewsConfig) -> None:
    """Run what is missing; write results.md, scores.csv and views.svg; print tables and a line of JSON."""
    TreeCache.open(config.trees).close()  # refused now, not by every training
    runner = Runner(
        trees=config.trees,
        data=data_folder(config.data),
        parsed=config.parsed,
        output=config.output,
        protocol=config.protocol,
    )
    wanted = all_systems(config.words, config.seeds, config.steps)
    # Controls are made from the models, so they wait for them.
    for part in ([s for s in wanted if s.trained], [s for s in wanted if not s.trained]):
        run_all(runner, part, config.jobs)
    columns: dict[str, dict[str, dict[int, Scores]]] = {}
    for system in wanted:
        for words in [system.words] if system.name != RANDOM else config.words:
            columns.setdefault(words, {}).setdefault(system.name, {})[system.seed] = runner.read(system)
    tables = report(columns)
    write_text(config.output / "results.md", "\n".join(table.markdown() for table in tables))
    write_text(config.output / "scores.csv", scores_csv(columns))
    write_text(config.output / "views.svg", figure(columns))
    print((config.output / "results.md").read_text())
    print(f"written: {config.output / 'results.md'}, scores.csv, views.svg")
    means = {
        words: {name: mean(mean_of_tasks(one) for one in seeds.values()) for name, seeds in systems.items()}
        for words, systems in columns.items()
    }
    print(json.dumps({"steps": config.steps, "seeds": config.seeds, "mean": means}))


def run_all(runner: Runner, systems: Sequence[System], jobs: int) -> None:
    """Train and score systems, some at a time; the first that fails ends the others."""
    pool = ThreadPoolExecutor(jobs)
    try:
        with progress(total=len(systems), unit="system", description="views") as bar:
            for done in as_completed([pool.submit(runner.run, system) for system in systems]):
                done.result()
                bar.update(1)
    finally:
        pool.shutdown(cancel_futures=True)


def report(columns: Mapping[str, Systems]) -> list[Table]:
    """Scores and differences, for each configuration of words."""
    tables: list[Table] = []
    for words, systems in columns.items():
        tables += [
            score_table(systems, f"Scores, {words} words"),
            difference_table(systems, f"DEP+CONST against the others, {words} words"),
        ]
    return tables


cli = Command(ViewsConfig, main, "benchmarks.views", (__doc__ or "").split("\n")[0])


if __name__ == "__main__":
    sys.exit(cli())
