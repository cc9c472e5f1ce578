"""SemEval-2013 task 5(a): is a two-word phrase the meaning of a word? (Korkontzelos et al. 2013).

    train, test = read_semeval2013_5a(Path("data/semeval2013-5a"))

The distribution is four files of positive and negative pairs, a word, a tab and a phrase per line:
``en.trainSet.positiveInstances-v2``, ``...negativeInstances-v2``, ``en.testSet.positiveInstances-v2``,
``...negativeInstances-v2``. They may be anywhere below the folder, whatever follows ``Instances``. The reader
was tested on hand-made files only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corpora.rows import read_rows
from corpora.support.errors import UserError

HOME = "SemEval-2013 task 5 (cs.york.ac.uk/semeval-2013/task5), subtask a, English"


@dataclass(frozen=True, slots=True, kw_only=True)
class WordPhrasePairs:
    """The pairs of one split, positive pairs first."""

    words: list[str]
    phrases: list[str]
    same: list[int]
    """1 where the phrase means the word, 0 where it does not."""

    def __len__(self) -> int:
        return len(self.same)


def read_semeval2013_5a(folder: Path) -> tuple[WordPhrasePairs, WordPhrasePairs]:
    """Training and test pairs.

    Raises:
        UserError: the folder or one of the four files is missing, or a row is not two cells.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; give the one that holds {HOME}")
    return _read(folder, "train"), _read(folder, "test")


def _read(folder: Path, split: str) -> WordPhrasePairs:
    """The pairs of two files: positive pairs, negative pairs."""
    rows, same = [], []
    for kind, label in (("positive", 1), ("negative", 0)):
        name = f"en.{split}Set.{kind}Instances"
        path = next(iter(sorted(folder.rglob(f"{name}*"))), None)
        if path is None:
            raise UserError(f"{folder}: no file {name}-v2 below it; get it from {HOME}")
        found = list(read_rows(path, 2))
        if not found:
            raise UserError(f"{path}: holds no pairs")
        rows += found
        same += [label] * len(found)
    words, phrases = ([row.cells[place] for row in rows] for place in (0, 1))
    return WordPhrasePairs(words=words, phrases=phrases, same=same)
