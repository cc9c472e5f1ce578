"""Options of the analogies: those of building the questions and those of scoring."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from runtime.cli import Count, Seed, configuration


@configuration
class BuildConfig:
    """Options of ``build``: with all three inputs the questions are made as UNI makes them."""

    output: Path = Path("runs/analogies/data")
    """Folder for questions.tsv and build.json."""
    google: Path | None = None
    """Google's questions-words.txt (github.com/tmikolov/word2vec), the source of all questions (UNI); None
    draws them at random from the project's own facts."""
    cache: Path | None = None
    """Tree cache with both kinds of trees to take contexts from (UNI: English Wikipedia); None uses only
    hand-made contexts."""
    vectors: Path | None = None
    """Word vectors whose vocabulary gives the wrong words (UNI: GloVe, nlp.stanford.edu/projects/glove); None
    draws them from the category's own words."""
    limit: Count | None = None
    """Most questions per category and level; None makes as many as UNI's Table 3."""
    seed: Seed = 0
    """Seed of the random choice of questions, contexts and candidates."""


@configuration
class ScoreConfig:
    """Options of ``run``."""

    preset: Literal["paper"] | None = None
    """paper: the models of UNI's Table 4, as far as they are there."""
    models: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL...")] = ()
    """Model folders or names, word-vector files, random:dep,const; A+B puts vectors side by side."""
    questions: Path = Path("runs/analogies/data/questions.tsv")
    """Questions that ``build`` wrote."""
    output: Path = Path("runs/analogies/report")
    """Folder for the report and the finished cells."""
