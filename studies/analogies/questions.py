"""Analogy questions and their file.

``questions.tsv`` has one question per line: a is to b as c is to the answer, which is among the
candidates. ``word_question_id`` names the word question that a phrase or sentence question was made
from (a word question names itself); ``source`` tells where both contexts come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.rows import Row, read_table
from corpora.support.errors import UserError
from corpora.support.files import write_text
from studies.analogies.lexicon import CATEGORIES, LEVELS

COLUMNS = (
    "question_id",
    "word_question_id",
    "level",
    "category",
    "a",
    "b",
    "c",
    "answer",
    "candidates",
    "source",
)
BETWEEN = " | "


@dataclass(frozen=True, slots=True)
class Question:
    """a : b = c : answer."""

    question_id: str
    word_question_id: str
    level: str
    category: str
    a: str
    b: str
    c: str
    answer: str
    candidates: tuple[str, ...]
    """In the order of the file, the answer among them."""
    source: str

    def fault(self) -> str | None:
        """What is wrong with it, or None.

        The answer stands once among distinct candidates, none of which is a, b or c.
        """
        if self.level not in LEVELS:
            return f"level {self.level!r} is none of {', '.join(LEVELS)}"
        if self.category not in CATEGORIES:
            return f"category {self.category!r} is none of {', '.join(CATEGORIES)}"
        if not all((self.a, self.b, self.c, *self.candidates)):
            return "an empty text"
        if self.candidates.count(self.answer) != 1:
            return f"the answer {self.answer!r} is not once among the candidates"
        if len(set(self.candidates)) != len(self.candidates) or len(self.candidates) < 2:
            return "needs two or more candidates, all different"
        shared = {self.a, self.b, self.c} & set(self.candidates)
        return f"candidate {shared.pop()!r} is a term of the question" if shared else None


def write_questions(path: Path, questions: Sequence[Question]) -> None:
    """Write the file."""
    write_text(path, "\n".join(("\t".join(COLUMNS), *map(question_line, questions))) + "\n")


def question_line(q: Question) -> str:
    """A question's line in the file."""
    cells = (q.question_id, q.word_question_id, q.level, q.category, q.a, q.b, q.c, q.answer)
    return "\t".join((*cells, BETWEEN.join(q.candidates), q.source))


def read_questions(path: Path) -> list[Question]:
    """Read the file.

    Raises:
        UserError: see :func:`corpora.rows.read_table`; a bad row (see :meth:`Question.fault`),
            or a link to no word question.
    """
    questions: dict[str, Question] = {}
    rows: dict[str, Row] = {}
    for row in read_table(path, COLUMNS, unique=True):
        named = dict(zip(COLUMNS, row.cells, strict=True))
        candidates = tuple(named.pop("candidates").split(BETWEEN))
        question = Question(**named, candidates=candidates)
        fault = question.fault()
        if fault is not None:
            raise UserError(f"{row.where}: {fault}")
        questions[question.question_id], rows[question.question_id] = question, row
    for question in questions.values():
        linked = questions.get(question.word_question_id)
        if linked is None or linked.level != "word":
            raise UserError(
                f"{rows[question.question_id].where}: word_question_id "
                f"{question.word_question_id!r} is no word question of this file"
            )
    return list(questions.values())
