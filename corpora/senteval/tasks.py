"""List the SentEval tasks by name: aliases, published row counts, where their files lie.

``tasks.tsv`` has a row for each split of a task. Names are those of the original toolkit (Conneau & Kiela
2018); aliases are names used in papers. Files are relative to the data folder. The numbers of rows are those
of the papers and the task pages, so that a truncated or enlarged copy is noticed: one well-known mirror
shipped a SUBJ on which models score above 99 %. The splits of STS12-16 are their subsets.
"""

import csv
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from runtime.errors import UserError, did_you_mean

with open(Path(__file__).with_name("tasks.tsv"), encoding="utf-8", newline="") as _lines:
    _ROWS = list(csv.DictReader(_lines, delimiter="\t"))
_ALIASES = [alias for row in _ROWS for alias in row["aliases"].split()]
TASK_NAMES = tuple(dict.fromkeys(row["task"] for row in _ROWS))
"""All tasks, in the order of reports."""
PUBLISHED_ROW_COUNTS = {(row["task"], row["split"]): int(row["rows"]) for row in _ROWS if row["rows"]}
"""Number of rows by task and split."""
BINARY_TASKS = ("MR", "CR", "SUBJ", "MPQA")
"""Tasks with a file per class; class 1 is read first."""
STS_SUBSETS: Mapping[str, tuple[str, ...]] = {
    name: tuple(row["split"] for row in _ROWS if row["task"] == name)
    for name in ("STS12", "STS13", "STS14", "STS15", "STS16")
}
"""Subsets of each year; the fourth of STS13, SMT, is not free and not in SentEval."""
PROBING_TASKS = tuple(dict.fromkeys(row["task"] for row in _ROWS if row["files"].startswith("probing/")))
RELATEDNESS_TASKS = ("STSBenchmark", "SICKRelatedness")
"""Tasks scored by a trained regression, and by the cosines of test pairs."""
TRIPLET_TASKS = ("SemAntoNeg", "SugarCrepe++")
"""Tasks whose rows are three pairs; the first means the same (:mod:`corpora.senteval.structure`)."""
STRUCTURE_TASKS = ("Binding", "HANS", "PAWS", "MinimalPairs", *TRIPLET_TASKS, "Opposites")
"""Pairs of nearly the same words (:mod:`corpora.senteval.structure`), by cosine; not in the toolkit."""
BOOK_TASKS = ("Authors", "Neighbours")
"""Made from the books in the package (:mod:`corpora.books`), without files; not in the toolkit."""
GROUPS: Mapping[str, Sequence[str]] = {
    "mv": (*BINARY_TASKS, "TREC", "MRPC", "SICKRelatedness"),
    "sts": (*STS_SUBSETS, *RELATEDNESS_TASKS),
    "sst": ("SST2", "SST5"),
    "probing": PROBING_TASKS,
    "structure": STRUCTURE_TASKS,
    "books": BOOK_TASKS,
    "all": tuple(task for task in TASK_NAMES if task not in ("SNLI", *STRUCTURE_TASKS, *BOOK_TASKS)),
}
"""Tasks by the name of their group; mv has those of the multi-view paper."""


def _fold(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


_CANONICAL = {_fold(alias): row["task"] for row in _ROWS for alias in (row["task"], *row["aliases"].split())}


def canonical_task(name: str, groups: Collection[str] = ()) -> str:
    """Return the toolkit's name of a task: ``"sick-r"`` -> ``"SICKRelatedness"``; case and hyphens are free.

    An unknown name is refused with the nearest one, all others, and ``groups``.
    """
    if _fold(name) not in _CANONICAL:
        suggestion = did_you_mean(name, [*TASK_NAMES, *_ALIASES, *groups])
        choices = [f"known: {', '.join(TASK_NAMES)}", f"also called {', '.join(_ALIASES)}"]
        if groups:
            choices.append(f"groups: {', '.join(groups)}")
        raise UserError(f"unknown task {name!r}: {suggestion}({'; '.join(choices)})")
    return _CANONICAL[_fold(name)]


def task_paths(name: str, data: Path) -> dict[str, list[Path]]:
    """Return by split where a task's files should lie, in the data folder or in ``senteval/`` there."""
    paths: dict[str, list[Path]] = {}
    for row in _ROWS:
        if row["task"] != name:
            continue
        for path in map(Path, row["files"].split()):
            has_folder = [(root / path.parts[0]).is_dir() for root in (data, data / "senteval")]
            root = data / "senteval" if has_folder == [False, True] else data
            paths.setdefault(row["split"], []).append(root / path)
    return paths


def expand_tasks(text: str) -> list[str]:
    """Return the canonical names, each once, of tasks and groups separated by commas or blanks."""
    names: list[str] = []
    for word in text.replace(",", " ").split():
        names += GROUPS.get(word.lower(), [word])
    if not names:
        raise UserError("--tasks is empty")
    return list(dict.fromkeys(canonical_task(name, tuple(GROUPS)) for name in names))


def data_folder(data: Path | None, tasks: Collection[str] = TASK_NAMES) -> Path:
    """Return the folder of SentEval's data: the given one, else ``$MULTIVIEW_DATA``, else ``data``.

    A missing folder is refused, unless none of the ``tasks`` needs a file.
    """
    folder = data or Path(os.environ.get("MULTIVIEW_DATA") or "data")
    if not folder.is_dir() and any(row["files"] for row in _ROWS if row["task"] in tasks):
        raise UserError(
            f"{folder}: no such folder; --data wants SentEval's data folder (downstream/, probing/), as the "
            "download script at github.com/facebookresearch/SentEval writes it"
        )
    return folder
