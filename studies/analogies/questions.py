"""Read and write files of analogies.

A file has one question per line: a is to b as c is to the answer; the other candidates are wrong. A phrase
and a sentence question are made from a word question; they have its name and come after it. The file in the
package is written by ``tools.build_analogies``.
"""

import lzma
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from corpora.tables import read_table
from runtime.errors import UserError
from runtime.files import atomic_path

FILE = Path(__file__).with_name("questions.tsv.xz")
"""The questions in the package."""
LEVELS = ("word", "phrase", "sentence")
SEMANTIC = ("capital-common", "capital-world", "city-state", "male-female")
SYNTACTIC = ("present-participle", "positive-comparative", "positive-negative")
CATEGORIES = (*SEMANTIC, *SYNTACTIC)
"""The relations of a to b: those of meaning, then those of grammar."""
COLUMNS = ("name", "level", "category", "a", "b", "c", "answer", "wrong")
SEPARATOR = " | "
"""Separates the wrong candidates in their cell."""


@dataclass(frozen=True, slots=True)
class Analogy:
    """A question: which candidate completes a : b = c : answer?"""

    name: str
    """The name of the word question, and of the phrase and the sentence question made from it."""
    level: str
    category: str
    a: str
    b: str
    c: str
    answer: str
    wrong: tuple[str, ...]

    @property
    def candidates(self) -> tuple[str, ...]:
        """The answer, then the wrong candidates."""
        return self.answer, *self.wrong

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts of the question."""
        return self.a, self.b, self.c, *self.candidates

    def fault(self) -> str | None:
        """Return what is wrong with the question, or None.

        A question must have two or more candidates, all different, none of which is a, b or c.
        """
        if self.level not in LEVELS:
            return f"level {self.level!r} is none of {', '.join(LEVELS)}"
        if self.category not in CATEGORIES:
            return f"category {self.category!r} is none of {', '.join(CATEGORIES)}"
        if not all(self.texts):
            return "an empty text"
        if self.answer in self.wrong:
            return f"the answer {self.answer!r} is among the wrong candidates"
        if len(set(self.wrong)) != len(self.wrong):
            return "a wrong candidate occurs twice"
        shared = {self.a, self.b, self.c} & set(self.candidates)
        return f"candidate {shared.pop()!r} is a term of the question" if shared else None


def write_questions(path: Path, questions: Iterable[Analogy]) -> None:
    """Write a file of questions, compressed if its name ends in ``.xz``."""
    rows = [
        (q.name, q.level, q.category, q.a, q.b, q.c, q.answer, SEPARATOR.join(q.wrong)) for q in questions
    ]
    text = "".join("\t".join(row) + "\n" for row in [COLUMNS, *rows]).encode()
    with atomic_path(path) as temporary:
        temporary.write_bytes(lzma.compress(text, preset=9) if path.suffix == ".xz" else text)


def questions_file(name: str) -> Path:
    """Return the file of questions that an option names: ``builtin`` is the one in the package."""
    return FILE if name == "builtin" else Path(name)


def read_questions(path: Path) -> list[Analogy]:
    """Return the questions of a file.

    Raises UserError if a row has a fault (:meth:`Analogy.fault`), a question occurs twice, or a phrase or
    sentence question has no word question before it.
    """
    questions: dict[tuple[str, str], Analogy] = {}
    for row in read_table(path, COLUMNS):
        name, level, category, a, b, c, answer, wrong = row.cells
        question = Analogy(name, level, category, a, b, c, answer, tuple(wrong.split(SEPARATOR)))
        if fault := question.fault():
            raise UserError(f"{row.where}: {fault}")
        if (name, level) in questions:
            raise UserError(f"{row.where}: a second {level} question {name!r}")
        if level != "word" and (name, "word") not in questions:
            raise UserError(f"{row.where}: no word question {name!r} stands before it")
        questions[name, level] = question
    return list(questions.values())
