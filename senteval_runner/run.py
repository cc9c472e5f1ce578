"""Score models on SentEval: results.json, a Markdown table, an HTML report.

    python -m senteval_runner.run runs/models/mine --tasks MR,CR,TREC,SICK-R --data data/senteval
    python -m senteval_runner.run A B A+B random:dep,const --tasks mv --seeds 1111,1112 --project 4096

Input: models (see ``senteval_runner.vectors.encoders``) and SentEval's data folder. Output: ``--output``
with ``results.json``, ``results.csv`` (one score a line), ``results.md``, ``report.html``, and predictions
per item in ``parts/``. Every distinct sentence is parsed once per pair of parsers (``--trees``) and encoded
once per model (``--cache``). Finished tasks are not repeated: the same command resumes a stopped run.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from corpora.support.cli import Command, Count, CountOrNone, configuration
from corpora.support.errors import UserError


@configuration
class SentEvalConfig:
    """Options of ``senteval_runner.run``."""

    models: Positional[tuple[str, ...]]
    """Model folders (MODEL?views=dep for a view alone), sentence-transformers names, .npz, word-vector files,
    cls:NAME (a transformer's [CLS]), random:dep,const@4800?vectors=FILE, random:lstm@4096?vectors=FILE,
    start:MODEL?corpus=CACHE (a model before its first step), bags of words (bag:random, bag:ngrams, bag:FILE,
    sif:FILE?corpus=CACHE; FILE may be a model folder); A+B joins."""
    tasks: str = "mv"
    """Tasks and groups, separated by commas: mv (the paper's), sts, sst, probing, all; SentEval's names, or
    those of papers (SICK-R, SICK-E, STS-B, BShift, ...)."""
    data: Path | None = None
    """Folder with downstream/ and probing/; None is $MULTIVIEW_DATA/senteval, else data/senteval."""
    protocol: Literal["default", "fast", "sklearn"] = "default"
    """default for comparable scores, fast for quick ones, sklearn for scikit-learn's logistic regression."""
    seeds: str = "1111"
    """Seeds separated by commas; several give mean ± standard deviation."""
    nhid: CountOrNone = 0
    """Width of the classifiers' hidden layer; 0 is logistic regression."""
    project: Count | None = None
    """Apply a fixed random matrix to this many dimensions first (the control for embedding size)."""
    expand: str | None = None
    """Expand the vocabulary of multi-view models by these word vectors (least squares, as Skip-Thought): a
    file. The expanded model stays in a folder beside the model."""
    random_seed: CountOrNone = 0
    """Seed of random encoders and of the projection."""
    output: Path = Path("runs/reports/senteval")
    """Folder of the report."""
    cache: Path = Path("runs/embeddings")
    """Folder of sentence vectors, one subfolder per model."""
    trees: Path = Path("runs/trees")
    """Folder for the parsed sentences (in senteval-PARSERS/), or a finished tree cache."""
    device: str | None = None
    """Device of the models, e.g. cpu or cuda; None is a GPU if there is one."""


def main(config: SentEvalConfig) -> int:
    """Evaluate and write the report; exit code 2 when no task could be scored."""
    from senteval_runner.running import run

    if not config.models:
        raise UserError("name at least one model")
    return run(config)


cli = Command(
    SentEvalConfig,
    main,
    "senteval_runner.run",
    (__doc__ or "").split("\n")[0],
    owns=lambda config: config.output,
    kept="finished tasks and encoded sentences are kept; the same command resumes",
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
