"""Options of ``python -m studies.analogies``; imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from corpora.support.config import Count, configuration


@configuration
class BuildConfig:
    """Options of ``build``."""

    output: Path = Path("runs/analogies/data")
    """Folder for questions.tsv and build.json."""
    preset: Literal["paper"] | None = None
    """``paper`` builds the questions like UNI: from Google's file, a tree cache of Wikipedia, and GloVe."""
    google: Path | None = None
    """Google's questions-words.txt, the source of all questions (UNI); None draws them at random from the
    project's own facts."""
    cache: Path | None = None
    """Tree cache with both kinds of trees to take contexts from; None uses only hand-made contexts."""
    vectors: Path | None = None
    """Word vectors that rank the wrong answers."""
    candidates: Literal["vocabulary", "category"] = "vocabulary"
    """Wrong answers of word questions: from the whole vocabulary of --vectors (UNI), or from the category's
    own words (random ones without --vectors)."""
    contexts: Literal["shared", "own"] = "shared"
    """shared: both pairs of a semantic question are in one context, whose two wordings lead away from the
    answer (UNI); own: each pair has its own, and all candidates have one wording."""
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
    random_seed: int = 0
    """Seed of random encoders."""
