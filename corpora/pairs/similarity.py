"""Word and phrase pairs with human similarity scores, in the formats they were published in.

Each set is found by its published file name anywhere below a folder:

- SimLex-999: ``SimLex-999.txt`` (header; word1 word2 POS score) or ``EN-SIMLEX-999.txt``
- WS-353 sim and rel: ``wordsim_{similarity,relatedness}_goldstandard.txt`` or ``EN-WS-353-{SIM,REL}.txt``
- MEN: ``MEN_dataset_natural_form_full`` or ``EN-MEN-TR-3k.txt``
- RW: ``rw.txt`` or ``EN-RW-STANFORD.txt``
- SimVerb: ``SimVerb-3500.txt`` (word1 word2 POS score) or ``EN-SimVerb-3500.txt``
- SCWS: its ``ratings.txt`` (id word1 POS word2 POS context context score ...)

Unless stated otherwise the columns are word1 word2 score, separated by tabs or spaces.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from corpora.rows import read_rows
from corpora.support.errors import UserError


@dataclass(frozen=True, slots=True)
class ScoredPairs:
    """Pairs of words or phrases with gold scores; higher is more similar."""

    name: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    score: tuple[float, ...]
    file: Path

    def __len__(self) -> int:
        return len(self.score)


@dataclass(frozen=True, slots=True)
class _Format:
    """The file names of a set, and which columns hold the words and the score."""

    files: tuple[str, ...]
    left: int = 0
    right: int = 1
    score: int = 2
    tag: bool = False
    """Whether a part-of-speech column may precede the score."""
    header: bool = False
    separator: Literal["tab", "either"] = "either"


_FORMATS: Final[dict[str, tuple[_Format, ...]]] = {
    "SimLex-999": (
        _Format(("SimLex-999.txt",), tag=True, header=True),
        _Format(("EN-SIMLEX-999.txt",)),
    ),
    "WS-353-sim": (_Format(("wordsim_similarity_goldstandard.txt", "EN-WS-353-SIM.txt")),),
    "WS-353-rel": (_Format(("wordsim_relatedness_goldstandard.txt", "EN-WS-353-REL.txt")),),
    "MEN": (_Format(("MEN_dataset_natural_form_full", "EN-MEN-TR-3k.txt")),),
    "SCWS": (_Format(("ratings.txt",), 1, 3, 7, separator="tab"),),
    "RW": (_Format(("rw.txt", "EN-RW-STANFORD.txt")),),
    "SimVerb-3500": (_Format(("SimVerb-3500.txt", "EN-SimVerb-3500.txt"), tag=True),),
}
SETS: Final = tuple(_FORMATS)
"""The sets that can be read, in the order of BURT's table of words."""


def find_set(name: str, folder: Path) -> ScoredPairs | None:
    """Read the set ``name`` from anywhere below ``folder``, or return None if it is not there.

    Raises:
        UserError: the folder is missing, or a row has too few columns or a score that is not a number.
    """
    if name not in _FORMATS:
        raise UserError(f"unknown similarity set {name!r} (known: {', '.join(SETS)})")
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    for layout in _FORMATS[name]:
        for file_name in layout.files:
            found = sorted(folder.rglob(file_name))
            if found:
                return _read(name, found[0], layout)
    return None


def published_files(name: str) -> tuple[str, ...]:
    """The file names under which a set is looked for."""
    return tuple(file for layout in _FORMATS[name] for file in layout.files)


def _read(name: str, path: Path, layout: _Format) -> ScoredPairs:
    left, right, scores = [], [], []
    rows = read_rows(path, layout.score + 1, separator=layout.separator, more=True, may_be_empty=True)
    for row in itertools.islice(rows, int(layout.header), None):
        left.append(row.cells[layout.left])
        right.append(row.cells[layout.right])
        scores.append(row.number(3 if layout.tag and len(row.cells) > 3 else layout.score))
    if not scores:
        raise UserError(f"{path}: no pairs")
    return ScoredPairs(name, tuple(left), tuple(right), tuple(scores), path)
