"""Score models on SentEval: results.json, a Markdown table, an HTML report.

    python -m senteval_runner.run runs/models/mine --tasks MR,CR,TREC,SICK-R --data data/senteval
    python -m senteval_runner.run A B A+B random:dep,const --tasks mv --seeds 1111,1112 --project 4096

Input: models (see ``senteval_runner.vectors.encoders``) and SentEval's data folder. Output: ``--output``
with ``results.json``, ``results.md``, ``report.html``, predictions per item in ``parts/``. Every distinct
sentence is parsed once per pair of parsers and kept under ``--trees``, encoded once per model and kept in
``--cache``; a finished task is not repeated, so the same command resumes a run that was stopped.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from corpora.support.cli import Command
from corpora.support.config import configuration


@configuration
class RunConfig:
    """Options of ``senteval_runner.run``."""

    models: Positional[tuple[str, ...]]
    """Model folders, sentence-transformers names, .npz, word-vector files, random:dep,const; A+B joins."""
    tasks: str = "mv"
    """Tasks and groups, separated by commas: mv (the paper's), sts, sst, probing, all, SentEval's names."""
    data: Path | None = None
    """Folder with downstream/ and probing/; None is $MULTIVIEW_DATA/senteval, else data/senteval."""
    protocol: Literal["default", "fast", "sklearn"] = "default"
    """Configuration of comparable figures, the quick one, or scikit-learn's logistic regression."""
    seeds: str = "1111"
    """Seeds separated by commas; several give mean ± standard deviation."""
    nhid: int = 0
    """Width of the classifiers' hidden layer; 0 is logistic regression."""
    project: int | None = None
    """Apply a fixed random matrix to this many dimensions first (the control for embedding size)."""
    normalize_parts: bool = False
    """Scale the parts of A+B to length 1 before they are joined."""
    random_seed: int = 0
    """Seed of random encoders and of the projection."""
    output: Path = Path("runs/reports/senteval")
    """Folder of the report."""
    cache: Path = Path("runs/embeddings")
    """Folder of sentence vectors, one subfolder per model."""
    trees: Path = Path("runs/trees")
    """Folder where sentences are parsed into, once (senteval-PARSERS/ below it); or a finished tree cache."""
    parse_workers: int | None = None
    """Processes that parse sentences not yet in --trees; None is one per core."""
    device: str | None = None
    """Where models compute, e.g. cpu or cuda; None is a GPU if there is one."""
    batch_size: int = 128
    """Sentences encoded at a time."""
    threads: int | None = None
    """Threads of the classifiers; None is torch's default."""
    published: bool = True
    """Set the multi-view paper's published rows below ours, marked as such."""
    examples: Path | None = None
    """Sentences, one per line: the report shows their nearest neighbours among the evaluation sentences."""
    dry_run: bool = False
    """Print the configuration and an estimate of the encoding's time from some texts; write nothing."""


def main(config: RunConfig) -> int:
    """Evaluate and write the report; exit code 2 when no task could be scored."""
    from senteval_runner.running import dry_run, run

    if config.dry_run:
        print(dry_run(config))
        return 0
    return run(config)


cli = Command(
    RunConfig,
    main,
    "senteval_runner.run",
    (__doc__ or "").split("\n")[0],
    kept="finished tasks and encoded sentences are kept; the same command resumes",
)


if __name__ == "__main__":
    sys.exit(cli())
