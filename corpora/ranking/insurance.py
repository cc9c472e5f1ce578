"""InsuranceQA, version 1: words as numbers, answers by label, pools of 500 candidates.

| file | line |
|---|---|
| ``vocabulary`` | word number, tab, word |
| ``answers.label.token_idx`` | answer label, tab, word numbers joined by blanks |
| ``question.train.token_idx.label`` | word numbers, tab, labels of right answers |
| ``question.{dev,test1,test2}.label.token_idx.pool`` | labels of right answers, tab, word numbers, tab, labels of the pool |

Training questions have no pool, so wrong answers are drawn from all answers. ``test1`` is the test split.
A right answer that is not in the pool counts as missed.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from corpora.ranking.questions import Passages, PassageSet, Question
from corpora.rows import Row, read_rows
from corpora.support.errors import UserError
from corpora.tokenize import SpaceTokenizer

PARTS = (("dev", "dev"), ("test", "test1"))


def read_insuranceqa(folder: Path, name: str) -> PassageSet:
    """InsuranceQA V1 as published.

    Raises:
        UserError: a file is missing or malformed; an unknown word number or answer label.
    """
    passages = Passages(SpaceTokenizer())
    rows = (row.cells for row in read_rows(folder / "vocabulary", 2, may_be_empty=True))
    vocabulary = {number: word for number, word in rows}
    answers: dict[str, int] = {}
    path = folder / "answers.label.token_idx"
    for row in read_rows(path, 2, may_be_empty=True):
        label, numbers = row.cells
        answers[label] = passages.row(_spell(row, numbers, vocabulary))
    train = folder / "question.train.token_idx.label"
    pools = {split: folder / f"question.{part}.label.token_idx.pool" for split, part in PARTS}
    everything = np.arange(len(passages.texts))
    splits: dict[str, list[Question]] = {"train": []}
    for row in read_rows(train, 2, may_be_empty=True):
        numbers, labels = row.cells
        right = np.zeros(len(everything), dtype=bool)
        right[_rows(row, labels, answers)] = True
        text = passages.text(_spell(row, numbers, vocabulary))
        splits["train"].append(Question(f"train{len(splits['train'])}", text, everything, right))
    for split, file in pools.items():
        splits[split] = []
        for row in read_rows(file, 3, may_be_empty=True):
            labels, numbers, pool = row.cells
            right_rows = set(_rows(row, labels, answers))
            candidates = np.array(_rows(row, pool, answers), dtype=np.int64)
            relevant = np.isin(candidates, list(right_rows))
            missed = len(right_rows - set(candidates.tolist()))
            text = passages.text(_spell(row, numbers, vocabulary))
            splits[split].append(Question(f"{split}{len(splits[split])}", text, candidates, relevant, missed))
    files = [folder / "vocabulary", path, train, *pools.values()]
    notes = ["test is test1", "wrong answers in training come from all answers"]
    return PassageSet(name, passages.texts, splits, files, notes)


def _spell(row: Row, numbers: str, vocabulary: Mapping[str, str]) -> str:
    unknown = [number for number in numbers.split() if number not in vocabulary]
    if unknown:
        raise UserError(f"{row.where}: word {unknown[0]!r} is not in the vocabulary")
    return " ".join(vocabulary[number] for number in numbers.split())


def _rows(row: Row, labels: str, answers: Mapping[str, int]) -> list[int]:
    unknown = [label for label in labels.split() if label not in answers]
    if unknown or not labels.split():
        raise UserError(f"{row.where}: answer {(unknown or [''])[0]!r} is not in answers.label.token_idx")
    return [answers[label] for label in labels.split()]
