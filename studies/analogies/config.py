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
    """Tree cache with both kinds of trees whose contexts are used; none: hand-made contexts alone."""
    vectors: Path | None = None
    """Word vectors for the ranking of wrong answers; none: they are drawn by seed."""
    sentences: Count = 100_000
    """Sentences of the cache to read at most."""
    limit: Count | None = None
    """Questions per category and level at most; none: as many as UNI's Table 3."""
    seed: int = 0
    """Of the draw of questions, contexts and candidates."""


@configuration
class RunConfig:
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
    """Of random encoders."""
