"""Word and phrase pairs with human similarity scores, in the formats they were published in.

Each set is found by its published file name anywhere below a folder:

- SimLex-999: ``SimLex-999.txt`` (header; word1 word2 POS score) or ``EN-SIMLEX-999.txt``
- WS-353 sim and rel: ``wordsim_{similarity,relatedness}_goldstandard.txt`` or ``EN-WS-353-{SIM,REL}.txt``
- MEN: ``MEN_dataset_natural_form_full`` or ``EN-MEN-TR-3k.txt``
- RW: ``rw.txt`` or ``EN-RW-STANFORD.txt``
- SimVerb: ``SimVerb-3500.txt`` (word1 word2 POS score) or ``EN-SimVerb-3500.txt``
- SCWS: its ``ratings.txt`` (id word1 POS word2 POS context context score ...)

Unless stated otherwise the columns are word1 word2 score, separated by tabs or spaces.

SemEval-2013 task 5(a), whether a two-word phrase is the meaning of a word (Korkontzelos et al. 2013), is four
files of positive and negative pairs, a word, a tab and a phrase per line:
``en.{train,test}Set.{positive,negative}Instances-v2``. They may be anywhere below the folder, whatever
follows ``Instances``. That reader was tested on hand-made files only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corpora.inputs import read_rows
from runtime.errors import UserError

_WORDS, _TAGGED, _SCWS = (0, 1, 2), (0, 1, 3), (1, 3, 7)
"""Columns of the two words and the score."""
_FILES: Final[dict[str, dict[str, tuple[int, int, int]]]] = {
    "SimLex-999": {"SimLex-999.txt": _TAGGED, "EN-SIMLEX-999.txt": _WORDS},
    "WS-353-sim": {"wordsim_similarity_goldstandard.txt": _WORDS, "EN-WS-353-SIM.txt": _WORDS},
    "WS-353-rel": {"wordsim_relatedness_goldstandard.txt": _WORDS, "EN-WS-353-REL.txt": _WORDS},
    "MEN": {"MEN_dataset_natural_form_full": _WORDS, "EN-MEN-TR-3k.txt": _WORDS},
    "SCWS": {"ratings.txt": _SCWS},
    "RW": {"rw.txt": _WORDS, "EN-RW-STANFORD.txt": _WORDS},
    "SimVerb-3500": {"SimVerb-3500.txt": _TAGGED, "EN-SimVerb-3500.txt": _WORDS},
}
SETS: Final = tuple(_FILES)
"""The sets that can be read, in the order of BURT's table of words."""
SEMEVAL = "SemEval-2013 task 5 (cs.york.ac.uk/semeval-2013/task5), subtask a, English"


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


def find_set(name: str, folder: Path) -> ScoredPairs | None:
    """Read the set ``name`` from anywhere below ``folder``, or return None if it is not there."""
    for file, (one, other, score) in _FILES[name].items():
        for path in _below(folder, file):
            rows = list(read_rows(path, score + 1, more=True, may_be_empty=True))
            if file == "SimLex-999.txt":  # the one with a header line
                del rows[:1]
            if not rows:
                raise UserError(f"{path}: no pairs")
            scores = tuple(row.number(score) for row in rows)
            left, right = (tuple(row.cells[place] for row in rows) for place in (one, other))
            return ScoredPairs(name, left, right, scores, path)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class WordPhrasePairs:
    """The pairs of one split of SemEval-2013 task 5(a), positive pairs first."""

    words: list[str]
    phrases: list[str]
    same: list[int]
    """1 where the phrase means the word, 0 where it does not."""

    def __len__(self) -> int:
        return len(self.same)


def read_semeval2013_5a(folder: Path) -> tuple[WordPhrasePairs, WordPhrasePairs]:
    """Read the training and the test pairs; all four files are there and hold pairs."""
    train, test = (WordPhrasePairs(words=[], phrases=[], same=[]) for _ in range(2))
    for split, part in (("train", train), ("test", test)):
        for kind, label in (("positive", 1), ("negative", 0)):
            name = f"en.{split}Set.{kind}Instances"
            path = next(_below(folder, f"{name}*"), None)
            if path is None:
                raise UserError(f"{folder}: no file {name}-v2 below it; get it from {SEMEVAL}")
            rows = list(read_rows(path, 2))
            if not rows:
                raise UserError(f"{path}: holds no pairs")
            part.words.extend(row.cells[0] for row in rows)
            part.phrases.extend(row.cells[1] for row in rows)
            part.same.extend([label] * len(rows))
    return train, test


def _below(folder: Path, name: str) -> Iterator[Path]:
    """Find the files of a name anywhere below a folder, sorted."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    yield from sorted(folder.rglob(name))
