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

import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Literal

from benchmarks.views.running import Runner
from benchmarks.views.systems import Words, all_systems
from corpora.support.cli import Command
from corpora.support.config import Count, CountOrNone, configuration
from corpora.support.progress import progress
from senteval_runner.cells import data_folder


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
    """Run what is missing; print tables and a line of JSON; write results.md and report.html."""
    runner = Runner(
        trees=config.trees,
        data=data_folder(config.data),
        parsed=config.parsed,
        output=config.output,
        protocol=config.protocol,
    )
    wanted = all_systems(config.words, config.seeds, config.steps)
    models = [system for system in wanted if system.trained]
    controls = [system for system in wanted if not system.trained]
    with progress(total=len(wanted), unit="system", description="views") as bar:
        for part in (models, controls):  # controls are made from the models
            with ThreadPoolExecutor(config.jobs) as pool:
                for done in as_completed([pool.submit(runner.run, system) for system in part]):
                    done.result()
                    bar.update(1)


cli = Command(ViewsConfig, main, "benchmarks.views", (__doc__ or "").split("\n")[0])


if __name__ == "__main__":
    sys.exit(cli())
