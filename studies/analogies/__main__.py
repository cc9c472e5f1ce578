"""Analogies of words, phrases and sentences in one vector space (UNI: Li & Zhao 2021).

    python -m studies.analogies build --google questions-words.txt --cache runs/trees/wikipedia \
        --vectors glove.txt --output runs/analogies/data
    python -m studies.analogies run MODEL [A+B ...] --questions runs/analogies/data/questions.tsv
    python -m studies.analogies run --preset paper

``build`` makes the questions (UNI Table 3): ``questions.tsv``, ``build.json``. ``run`` scores models on them
(UNI Tables 4 and 6). Models are named as in ``senteval_runner.run``.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from runtime.cli import VERSION_HELP, Command, Count, Seed, configuration
from studies.kit import command


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
    models: Annotated[tuple[str, ...], Positional, arg(metavar="MODEL...")] = ()
    """Model folders or names, word-vector files, random:dep,const; A+B puts vectors side by side."""
    questions: Path = Path("runs/analogies/data/questions.tsv")
    """Questions that ``build`` wrote."""
    output: Path = Path("runs/analogies/report")
    """Folder for the report and the finished cells."""


COMMANDS = {
    "build": Command(
        BuildConfig,
        lambda config: import_module("studies.analogies.build").build(config),  # late: --help is fast
        "studies.analogies build",
        "Build the questions from facts and a tree cache.",
        owns=lambda config: config.output,
    ),
    "run": command(ScoreConfig, "studies.analogies.score:score", "studies.analogies run", "Score models."),
}


def cli(args: Sequence[str] | None = None) -> int:
    """Run the command that the first word names and return the exit code."""
    words = list(sys.argv[1:] if args is None else args)
    if words and words[0] in COMMANDS:
        return COMMANDS[words[0]](words[1:])
    if "--version" in words:
        return COMMANDS["run"](words)
    is_help = words[:1] in (["-h"], ["--help"])
    usage = f"usage: python -m studies.analogies {{build,run}} [OPTIONS]\n\n{__doc__}\n{VERSION_HELP}"
    print(usage, file=sys.stdout if is_help else sys.stderr)
    return 0 if is_help else 2


if __name__ == "__main__":
    sys.exit(cli())
