"""Questions, their candidate passages, and which of them are relevant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.support.errors import UserError
from corpora.tokenize import Tokenizer


@dataclass(frozen=True, slots=True)
class Question:
    """One question with K candidates."""

    id: str
    text: str
    """Its tokens joined by one space."""
    candidates: NDArray[np.int64]
    """Indices into the set's passages, [K], in the file's order."""
    relevant: NDArray[np.bool_]
    """Which candidates are relevant, [K]."""
    missed: int = 0
    """Relevant passages that are not candidates; they count against recall and average precision."""


@dataclass(frozen=True)
class PassageSet:
    """A data set."""

    name: str
    passages: list[str]
    """Distinct passages, tokens joined by one space."""
    splits: dict[str, list[Question]]
    """``train``, ``dev``, ``test``."""
    files: list[Path]
    """The files it was read from."""
    notes: list[str] = field(default_factory=list)
    """What a reader of the scores must know."""

    def counts(self) -> dict[str, dict[str, int]]:
        """Questions, candidates and relevant candidates per split."""
        return {
            name: {
                "questions": len(questions),
                "candidates": sum(len(q.candidates) for q in questions),
                "relevant": sum(int(q.relevant.sum()) for q in questions),
            }
            for name, questions in self.splits.items()
        }

    def used_passages(self) -> NDArray[np.int64]:
        """Indices of passages that are a candidate of some question, in increasing order."""
        # Training questions of InsuranceQA share one array, which is looked at once.
        rows = {id(q.candidates): q.candidates for questions in self.splits.values() for q in questions}
        return np.unique(np.concatenate(list(rows.values()))) if rows else np.zeros(0, dtype=np.int64)


class Passages:
    """Distinct passages in order of first appearance.

    Args:
        tokenizer: splits texts into words.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.texts: list[str] = []
        self._rows: dict[str, int] = {}

    def text(self, raw: str) -> str:
        """Tokens joined by one space; "." for a text without tokens."""
        return " ".join(self.tokenizer.line(raw)) or "."

    def row(self, raw: str) -> int:
        """The index of a passage, which is added if it is new."""
        text = self.text(raw)
        if text not in self._rows:
            self._rows[text] = len(self.texts)
            self.texts.append(text)
        return self._rows[text]


def question(id: str, text: str, rows: Sequence[int], relevant: Sequence[bool]) -> Question:
    """A question from plain lists."""
    return Question(id, text, np.array(rows, dtype=np.int64), np.array(relevant, dtype=bool))


def filtered(data: PassageSet, keep: str, limit: int | None) -> PassageSet:
    """The questions that are used for training and evaluation.

    Args:
        data: as read.
        keep: for dev and test: ``answered`` drops questions without a relevant candidate (the usual WikiQA
            and raw TrecQA), ``mixed`` also those without an irrelevant one (TrecQA "clean"), ``all`` drops
            none. Training questions always need both, because a training pair has one of each.
        limit: keep only this many questions at the start of each split; None keeps all.

    Raises:
        UserError: a split has no question left.
    """

    def is_kept(q: Question, wanted: str) -> bool:
        answered = bool(q.relevant.any() or q.missed)
        return wanted == "all" or (answered and (wanted == "answered" or not q.relevant.all()))

    splits, notes = {}, list(data.notes)
    for name, questions in data.splits.items():
        wanted = "mixed" if name == "train" else keep
        kept = [q for q in questions if is_kept(q, wanted)]
        if len(kept) < len(questions):
            reason = "a relevant" if wanted == "answered" else "both a relevant and an irrelevant"
            notes.append(
                f"{name}: {len(questions) - len(kept)} of {len(questions)} questions without {reason} "
                "candidate left out"
            )
        if not kept:
            raise UserError(f"{data.name}: no question of {name} is left with --keep {keep}")
        splits[name] = kept[:limit]
    return replace(data, splits=splits, notes=notes)
