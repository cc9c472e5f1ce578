"""SemEval-2013 task 5(a): is a two-word phrase the meaning of a word? (Korkontzelos et al. 2013).

    train, test = read_semeval2013_5a(Path("data/semeval2013-5a"))

The distribution is four files of positive and negative pairs, a word, a tab and a phrase per line:
``en.trainSet.positiveInstances-v2``, ``...negativeInstances-v2``, ``en.testSet.positiveInstances-v2``,
``...negativeInstances-v2``. They may be anywhere below the folder, also without ``-v2`` or with ``.txt``.
The reader was tested on hand-made files only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corpora.rows import read_rows
from corpora.support.errors import UserError

HOME = "SemEval-2013 task 5 (cs.york.ac.uk/semeval-2013/task5), subtask a, English"
_TRAIN = ("en.trainSet.positiveInstances", "en.trainSet.negativeInstances")
_TEST = ("en.testSet.positiveInstances", "en.testSet.negativeInstances")
_ENDS = ("-v2", "", "-v2.txt", ".txt")


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
    files = {
        stem: [path for end in _ENDS for path in sorted(folder.rglob(stem + end))]
        for stem in (*_TRAIN, *_TEST)
    }
    missing = [f"{stem}-v2" for stem, found in files.items() if not found]
    if missing:
        raise UserError(f"{folder}: no file {', '.join(missing)} below it; get them from {HOME}")
    return _read([files[stem][0] for stem in _TRAIN]), _read([files[stem][0] for stem in _TEST])


def _read(paths: list[Path]) -> WordPhrasePairs:
    """The pairs of two files: positive pairs, negative pairs."""
    words: list[str] = []
    phrases: list[str] = []
    same: list[int] = []
    for path, label in zip(paths, (1, 0), strict=True):
        before = len(same)
        for row in read_rows(path, 2):
            words.append(row.cells[0])
            phrases.append(row.cells[1])
            same.append(label)
        if len(same) == before:
            raise UserError(f"{path}: holds no pairs")
    return WordPhrasePairs(words=words, phrases=phrases, same=same)
