"""Options of ``senteval_runner.run``; imports nothing heavy."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from corpora.senteval.tasks import data_folder, expand_tasks
from multiview.names.grammar import check_names
from parsing.parser_names import check_parser
from runtime.cli import Count, CountOrNone, Seed, config_to_json, configuration
from runtime.errors import UserError
from runtime.files import json_digest

REPORTS = Path("runs/reports/senteval")
PLACES = ("output", "cache", "trees", "data", "device")
"""Options that change no figure."""


def report_name(config: Any, words: Iterable[str]) -> str:
    """Return the name of a command's own report: what it is about, and a digest of its options.

    Args:
        config: the options.
        words: what it is about; of paths the last part is shown.
    """
    options = {name: value for name, value in config_to_json(config).items() if name not in PLACES}
    shown = "-".join(Path(part).name for word in words for part in word.split("+"))
    plain = re.sub(r"[^\w.=-]+", "-", shown).strip("-.")
    return f"{plain[:60] or 'report'}-{json_digest(options, 6)}"


@configuration
class SentEvalConfig:
    """Options of ``senteval_runner.run``."""

    models: Annotated[Positional[tuple[str, ...]], arg(metavar="MODEL...")]
    """Model folders (MODEL?views=dep for a view alone, MODEL?readout=features, meaning or raw for all tasks),
    sentence-transformers names, .npz, word-vector files, cls:NAME (a transformer's [CLS]),
    random:dep,const@4800?vectors=FILE, random:lstm@4096?vectors=FILE, start:MODEL?corpus=CACHE (a model
    before its first step), bags of words (bag:random, bag:ngrams, bag:FILE, sif:FILE?corpus=CACHE; FILE may
    be a model folder); A+B joins. ANY?scale=CACHE gives classifiers each number at one scale over that text,
    as a trained model's are; ?scale=none gives raw numbers."""
    tasks: str = "mv"
    """Tasks and groups, separated by commas: mv (the paper's), sts, sst, probing, all, structure,
    books (both made of the books in the package); SentEval's names, or
    those of papers (SICK-R, SICK-E, STS-B, BShift, ...)."""
    data: Path | None = None
    """Folder with downstream/ and probing/; None is $MULTIVIEW_DATA, else data."""
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
    random_seed: Seed = 0
    """Seed of random encoders and of the projection."""
    output: Path | None = None
    """Folder of the report; None is one below runs/reports/senteval, named by models, tasks and options."""
    baselines: bool = True
    """Score random words too and, where the tree cache of its training is here, every trained model before
    its first step (start:MODEL)."""
    cache: Path = Path("runs/embeddings")
    """Folder of sentence vectors, one subfolder per model."""
    trees: Path = Path("runs/trees")
    """Folder for the parsed sentences (in senteval-PARSERS/), or a finished tree cache."""
    dep_model: str = ""
    """Dependency parser that the models were trained with, unless it is the builtin one."""
    const_model: str = ""
    """Constituency parser that the models were trained with, unless it is the builtin one."""
    device: str | None = None
    """Device of the models, e.g. cpu or cuda; None is a GPU if there is one."""

    @property
    def folder(self) -> Path:
        """Folder of the report: the same for the same command, another for another one."""
        return self.output or REPORTS / report_name(self, [*self.models, self.tasks])

    @property
    def cells(self) -> Path:
        """Folder of finished tasks, which all reports share that lie where they do by default."""
        return (self.output or REPORTS) / "parts"

    @property
    def seed_list(self) -> list[int]:
        """Lists the seeds, each once.

        Raises:
            UserError: one is no seed.
        """
        words = self.seeds.replace(",", " ").split()
        seeds = [int(word) for word in words if word.isascii() and word.isdigit()]
        if not seeds or len(seeds) < len(words) or max(seeds) >= 2**32:
            wanted = "whole numbers from 0 to 2**32 - 1 separated by commas"
            raise UserError(f"--seeds {self.seeds!r}: expected {wanted}")
        return list(dict.fromkeys(seeds))

    def check_words(self) -> None:
        """Refuse, before torch is imported, what cannot be run: models, tasks, seeds and folders by name.

        Raises:
            UserError: the first one.
        """
        if not self.models:
            raise UserError("name at least one model")
        check_names(self.models)
        for kind, name in (("dep", self.dep_model), ("const", self.const_model)):
            check_parser(kind, name or "builtin")
        _ = self.seed_list, data_folder(self.data, expand_tasks(self.tasks))
