"""Read and write analogy questions: their categories, their file, and Google's.

UNI's questions are Google's, put into contexts: its Table 3 counts the questions of seven of the file's
fourteen sections (1,322 comparatives where the file has 1,332). The other seven are asked of words alone.

``questions.tsv`` has one question per line: a is to b as c is to the answer, which is among the candidates.
``word_question_id`` names the word question that a phrase or sentence question was made from (a word question
names itself); ``source`` tells where its contexts come from.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from corpora.inputs import bad_row, read_table, text_lines
from runtime.errors import UserError
from runtime.files import write_text

LEVELS = ("word", "phrase", "sentence")
SEPARATOR = " | "
"""Stands between the candidates in their cell."""
Terms = tuple[str, str, str, str]
"""a is to b as c is to d."""
Google = dict[str, list[Terms]]
"""Questions by section."""


@dataclass(frozen=True, slots=True)
class Category:
    """One relation: a section of Google's questions."""

    name: str
    google: str
    """Its section of ``questions-words.txt``."""
    questions: int
    """The number of questions: UNI's Table 3; for a relation of words alone, all of Google's."""
    kind: str = ""
    """What stands in the slot of its contexts: place, person, verb, adjective or predicate; empty where the
    relation is asked of words alone."""
    tokens: tuple[float, float] = (0, 0)
    """UNI, Table 2: mean length of phrases and sentences."""

    @property
    def semantic(self) -> bool:
        """Whether the relation is one of meaning, not of grammar."""
        return self.kind in ("place", "person") or self.google == "currency"

    @property
    def candidates(self) -> int:
        """The number of candidates of phrases and sentences (UNI, Table 3: #c)."""
        return 5 if self.semantic else 2


CATEGORIES = {
    category.name: category
    for category in (
        Category("capital-common", "capital-common-countries", 506, "place", (6.0, 12.0)),
        Category("capital-world", "capital-world", 4524, "place", (6.0, 12.0)),
        Category("city-state", "city-in-state", 2467, "place", (6.0, 12.0)),
        Category("male-female", "family", 506, "person", (4.1, 10.1)),
        Category("present-participle", "gram5-present-participle", 1056, "verb", (4.8, 8.8)),
        Category("positive-comparative", "gram3-comparative", 1322, "adjective", (3.4, 6.1)),
        Category("positive-negative", "gram2-opposite", 812, "predicate", (4.4, 9.2)),
        Category("country-currency", "currency", 866),
        Category("adjective-adverb", "gram1-adjective-to-adverb", 992),
        Category("positive-superlative", "gram4-superlative", 1122),
        Category("country-nationality", "gram6-nationality-adjective", 1599),
        Category("past-tense", "gram7-past-tense", 1560),
        Category("singular-plural", "gram8-plural", 1332),
        Category("verb-third-person", "gram9-plural-verbs", 870),
    )
}
"""UNI's seven relations, then those that Google's file has for words alone."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question: which candidate completes a : b = c : answer?"""

    question_id: str
    word_question_id: str
    level: str
    category: str
    a: str
    b: str
    c: str
    answer: str
    candidates: tuple[str, ...]
    """The answer and wrong ones, in the order of the file."""
    source: str

    def fault(self) -> str | None:
        """Say what is wrong with the question, or None.

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


COLUMNS = tuple(Question.__dataclass_fields__)


def write_questions(path: Path, questions: Sequence[Question]) -> None:
    """Write the file."""
    rows = [{**asdict(q), "candidates": SEPARATOR.join(q.candidates)}.values() for q in questions]
    write_text(path, "".join("\t".join(row) + "\n" for row in [COLUMNS, *rows]))


def read_questions(path: Path) -> list[Question]:
    """Read the file; a bad row (:meth:`Question.fault`), or a link to no word question, is refused."""
    rows = list(read_table(path, COLUMNS, unique=True))
    questions: dict[str, Question] = {}
    for row in rows:
        cells = dict(zip(COLUMNS, row.cells, strict=True))
        candidates = tuple(cells.pop("candidates").split(SEPARATOR))
        question = questions[row.cells[0]] = Question(**cells, candidates=candidates)
        if fault := question.fault():
            raise UserError(f"{row.where}: {fault}")
    for row, question in zip(rows, questions.values(), strict=True):
        link = question.word_question_id
        if link not in questions or questions[link].level != "word":
            raise UserError(f"{row.where}: word_question_id {link!r} is no word question of this file")
    return list(questions.values())


def read_google(path: Path) -> Google:
    """Read Google's ``questions-words.txt``: ``: section`` lines, then four words (a b c d) per line.

    Raises UserError: missing file, a line of another number of words, words before the first section, or none
    of the file's own sections.
    """
    sections: Google = {}
    name = None
    for line in text_lines(path):
        words = line.text.split()
        if words[0] == ":":
            name = " ".join(words[1:])
        elif name is None or len(words) != 4:
            raise bad_row(path, line.number, "': section' or four words after one", line.text)
        else:
            sections.setdefault(name, []).append((words[0], words[1], words[2], words[3]))
    if not any(category.google in sections for category in CATEGORIES.values()):
        raise UserError(f"{path}: has none of the sections of questions-words.txt")
    return sections
