"""Options of ``python -m studies.analogies``; imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from corpora.support.config import Count, configuration


@configuration
class BuildConfig:
    """Options of ``build``."""

    output: Path = Path("runs/analogies/data")
    """Folder for questions.tsv and build.json."""
    cache: Path | None = None
    """Tree cache with both kinds of trees to take contexts from; None uses only hand-made contexts."""
    vectors: Path | None = None
    """Word vectors that rank the wrong answers; None draws them at random."""
    sentences: Count = 100_000
    """Most sentences to read from the cache."""
    limit: Count | None = None
    """Most questions per category and level; None makes as many as UNI's Table 3."""
    seed: int = 0
    """Seed of the random choice of questions, contexts and candidates."""


@configuration
class ScoreConfig:
    """Options of ``run``."""

    models: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL...")]
    """Model folders or names, word-vector files, random:dep,const; A+B puts vectors side by side."""
    questions: Path = Path("runs/analogies/data/questions.tsv")
    """Questions that ``build`` wrote."""
    output: Path = Path("runs/analogies/report")
    """Folder for results.json, tables.md and report.html."""
    google: Path | None = None
    """Google's questions-words.txt: open-vocabulary 3CosAdd over the words of the file, by section."""
    normalize_parts: bool = False
    """Scale the parts of A+B to length 1 first."""
    seed: int = 0
    """Seed of random encoders."""
