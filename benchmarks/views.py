"""The paper's claim: which pair of views learns the best sentence vectors?

    python -m parsing.run $MULTIVIEW_DATA/corpora/wikipedia.txt.xz
    python -m benchmarks.views --trees runs/trees/wikipedia --data $MULTIVIEW_DATA/senteval

The six pairs of {seq, dep, const} at equal size, steps and order of data on one corpus (MV, Table 2) and
QuickThought's setting (seq,seq; dot score, one softmax, the sentence itself at score 0), each with trained
words and over fixed skip-gram vectors of the same text, at several seeds; before training (Table 3), the
average of their words and of random ones beside them. Every system is trained and scored by
``multiview.train`` and ``senteval_runner.run`` on one thread; finished ones are not repeated.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Literal

import pandas as pd

from corpora.senteval.tasks import RELATEDNESS_TASKS
from corpora.support.cli import Command, Count, CountOrNone, configuration
from corpora.support.errors import UserError
from corpora.support.files import atomic_path, read_json
from corpora.support.progress import progress
from parsing.trees.cache import TreeCache
from senteval_runner.evaluation import data_folder

TASKS = ("MR", "CR", "SUBJ", "TREC", "MRPC", "SICKRelatedness")
SIMILARITY = ("STS12", "STS14", "STS16", "STSBenchmark")
PAIRS = tuple(",".join(pair) for pair in combinations_with_replacement(("seq", "dep", "const"), 2))
QUICKTHOUGHT, REFERENCE = "QuickThought", "dep,const"
"""A setting of seq,seq; the pair that the paper found best, with which the others are compared."""
JOBS = 2
"""Systems at a time, one thread each."""
STARTS = ("start of seq,seq", "start of dep,const")
AVERAGE, RANDOM = "average of its words", "random words"
# Shared by every system. Options that favour some pairs are off: forget bias and small recurrent weights suit
# trees, an equal start suits views that share an architecture. The score is the paper's. The learning rate
# was chosen by the validation loss of dep,const. The last step is kept, not the best, so that all systems
# have had the same training.
BUDGET = (
    *("--preset", "laptop", "--objective.score", "bilinear", "--loop.learning-rate", "5e-3"),
    *("--encoder.start", "xavier", "--encoder.dim", "128", "--loop.batch", "200"),
    *("--loop.epochs", "1000", "--loop.validation", "0"),
)
Words = Literal["trained", "fixed"]
WORDS: dict[Words, tuple[str, ...]] = {
    "trained": ("--table.dim", "128"),
    "fixed": ("--words", "fixed", "--vectors", "train", "--table.dim", "256"),
}
QUICKTHOUGHT_OPTIONS = (
    *("--views", "seq,seq", "--objective.score", "dot", "--objective.denominator", "quickthought"),
)


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
    """Folder for models, scores and scores.csv."""
    words: tuple[Words, ...] = ("trained", "fixed")
    """Configurations of words."""
    steps: Count = 500
    """Training steps of each system, of 200 sentences."""
    seeds: tuple[CountOrNone, ...] = (0, 1, 2)
    """Seeds of weights, order and word vectors."""


@dataclass(frozen=True, kw_only=True)
class System:
    """One row of a table, at one seed."""

    words: Words
    name: str
    """A pair of views, QuickThought, or a control."""
    seed: int
    steps: int

    @property
    def trained(self) -> bool:
        """Whether it is a model of its own; controls are made from the model of dep,const or seq,seq."""
        return self.name in (*PAIRS, QUICKTHOUGHT)

    @property
    def label(self) -> str:
        """Name of its folders."""
        name = self.name.lower().replace(",", "-").replace(" ", "-")
        return f"{self.words}-{name}-steps{self.steps}-seed{self.seed}"

    def options(self) -> list[str]:
        """Options of ``multiview.train``."""
        views = QUICKTHOUGHT_OPTIONS if self.name == QUICKTHOUGHT else ("--views", self.name)
        size = ("--loop.max-steps", str(self.steps), "--seed", str(self.seed))
        return [*BUDGET, *WORDS[self.words], *views, *size]

    def spec(self, models: Path, trees: Path) -> str:
        """The model as ``senteval_runner.run`` names it, from the trained ones and the trees of training."""
        if self.trained:
            return str(models / self.label)
        if self.name == RANDOM:
            return "bag:random"
        if self.name == AVERAGE:
            return f"bag:{models / replace(self, name=REFERENCE).label}"
        return f"start:{models / replace(self, name=self.name.split()[-1]).label}?corpus={trees}"


def all_systems(words: Sequence[Words], seeds: Sequence[int], steps: int) -> list[System]:
    """Every system, seed by seed, so that a table of fewer seeds is there early."""
    return [
        System(words=kind, name=name, seed=seed, steps=steps)
        for seed in seeds
        for kind in words
        for name in (*PAIRS, QUICKTHOUGHT, *STARTS, AVERAGE, RANDOM)
    ]


def run(config: ViewsConfig, system: System) -> None:
    """Train (a stopped training is resumed) and score a system, unless that is done."""
    models, report = config.output / "models", config.output / "scores" / system.label
    if (report / "results.json").exists():
        return
    if system.trained:
        where = ("--trees", config.trees, "--output", models, "--name", system.label)
        _command("multiview.train", *where, *system.options())
    _command(
        "senteval_runner.run",
        *(system.spec(models, config.trees), "--tasks", ",".join((*TASKS, *SIMILARITY))),
        *("--data", data_folder(config.data), "--trees", config.parsed, "--protocol", "fast"),
        *("--output", report, "--cache", report / "vectors"),
    )
    shutil.rmtree(report / "vectors", ignore_errors=True)  # 50 MB that nothing reads again


def _command(module: str, *arguments: object) -> None:
    words = [sys.executable, "-m", module, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if done.returncode == 2:
        raise UserError(done.stderr.strip().splitlines()[-1])
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def run_all(config: ViewsConfig, systems: Sequence[System]) -> None:
    """Train and score systems, some at a time; the first that fails ends the others."""
    pool = ThreadPoolExecutor(JOBS)
    try:
        with progress(total=len(systems), unit="system", description="views") as bar:
            for done in as_completed([pool.submit(run, config, system) for system in systems]):
                done.result()
                bar.update(1)
    finally:
        pool.shutdown(cancel_futures=True)


def read(config: ViewsConfig, systems: Sequence[System]) -> pd.DataFrame:
    """A row of scores per system: accuracy in per cent or Pearson times 100, their mean, the STS average."""
    rows = []
    for system in systems:
        report = read_json(config.output / "scores" / system.label / "results.json")
        metrics = {row["task"]: row["metrics"] for row in report["results"]}
        scores = {
            task: 100 * metrics[task]["pearson"] if task in RELATEDNESS_TASKS else metrics[task]["acc"]
            for task in TASKS
        }
        [model] = report["models"].values()
        similarity = model["similarity_table"][0]
        scores |= {"mean": sum(scores.values()) / len(scores), "STS": similarity.get("STS average")}
        rows.append({"words": system.words, "system": system.name, "seed": system.seed, **scores})
    return pd.DataFrame(rows).set_index(["words", "system", "seed"])


def tables(scores: pd.DataFrame) -> list[pd.DataFrame]:
    """Mean and deviation over seeds of every score; and of how far DEP+CONST is ahead, seed by seed."""
    spread = scores.groupby(["words", "system"], sort=False).agg(["mean", "std"])
    ahead = scores.xs(REFERENCE, level="system")["mean"] - scores["mean"].reorder_levels(
        ["words", "seed", "system"]
    )
    by_system = ahead.groupby(["words", "system"], sort=False)
    return [spread, by_system.agg(["mean", "std"]).assign(seeds=by_system.apply(lambda d: (d > 0).sum()))]


def main(config: ViewsConfig) -> None:
    """Run what is missing; write scores.csv; print the tables."""
    TreeCache.open(config.trees)  # refused now, not by every training
    wanted = all_systems(config.words, config.seeds, config.steps)
    # Controls are made from the models, so they wait for them.
    for part in ([s for s in wanted if s.trained], [s for s in wanted if not s.trained]):
        run_all(config, part)
    scores = read(config, wanted)
    with atomic_path(config.output / "scores.csv") as temporary:
        scores.to_csv(temporary, float_format="%.2f")
    for title, table in zip(("Scores", f"{REFERENCE} ahead in the mean"), tables(scores), strict=True):
        print(f"{title}, mean and deviation over seeds\n\n{table.round(2).to_string()}\n")
    print(f"written: {config.output / 'scores.csv'}")


cli = Command(ViewsConfig, main, "benchmarks.views", (__doc__ or "").split("\n")[0])


if __name__ == "__main__":
    sys.exit(cli())
