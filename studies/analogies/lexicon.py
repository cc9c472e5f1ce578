"""The facts and words of the analogy task: categories, pairs, synonyms, Google's question file.

``lexicon.tsv`` holds the pairs (category, left, right, distractors); their numbers per category are those
of UNI's Table 3. The column ``distractors`` holds fixed wrong answers: the past tense of a participle
("reads" for "read", whose past tense is spelled like the base), the superlative of a comparative, other
pronouns for "she" and "her".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from corpora.rows import bad_row, read_mapping, read_table, text_lines
from corpora.support.errors import UserError

FOLDER = Path(__file__).parent
LEVELS = ("word", "phrase", "sentence")


@dataclass(frozen=True, kw_only=True, slots=True)
class Category:
    """One of UNI's seven relations."""

    name: str
    semantic: bool
    kind: str
    """The kind of word in the slot of its contexts: place, person, verb, adjective or predicate."""
    questions: int
    """UNI, Table 3."""
    candidates: int
    """UNI, Table 3."""


CATEGORIES = {
    name: Category(name=name, semantic=semantic, kind=kind, questions=questions, candidates=candidates)
    for name, semantic, kind, questions, candidates in (
        ("capital-common", True, "place", 506, 5),
        ("capital-world", True, "place", 4524, 5),
        ("city-state", True, "place", 2467, 5),
        ("male-female", True, "person", 506, 5),
        ("present-participle", False, "verb", 1056, 2),
        ("positive-comparative", False, "adjective", 1322, 2),
        ("positive-negative", False, "predicate", 812, 2),
    )
}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two words in the relation of a category."""

    category: str
    left: str
    right: str
    distractors: tuple[str, ...] = ()
    """Fixed wrong answers; empty if they are chosen per question."""


@cache
def load_pairs() -> dict[str, list[Pair]]:
    """The project's pairs by category."""
    pairs: dict[str, list[Pair]] = {name: [] for name in CATEGORIES}
    columns = ("category", "left", "right", "distractors")
    for row in read_table(FOLDER / "lexicon.tsv", columns, may_be_empty=("distractors",)):
        category, left, right, distractors = row.cells
        pairs[category].append(Pair(category, left, right, tuple(distractors.split())))
    return pairs


@cache
def load_synonyms() -> dict[str, str]:
    """A lower-case word to what replaces it in the same form."""
    return read_mapping(FOLDER / "synonyms.tsv", "word", "synonym")


@cache
def content_words() -> frozenset[str]:
    """Lower-cased words of all semantic pairs, which no context may contain outside its slot."""
    pairs = [p for name, group in load_pairs().items() if CATEGORIES[name].semantic for p in group]
    texts = [text for p in pairs for text in (p.left, p.right, *p.distractors)]
    return frozenset(word for text in texts for word in text.lower().split()) | {"him", "himself", "herself"}


def read_google(path: Path) -> dict[str, list[tuple[str, str, str, str]]]:
    """Google's ``questions-words.txt``: ``: section`` lines, then four words (a b c d) per line.

    Raises:
        UserError: missing file, a line of another number of words, or words before the first section.
    """
    sections: dict[str, list[tuple[str, str, str, str]]] = {}
    current: list[tuple[str, str, str, str]] | None = None
    for line in text_lines(path):
        words = line.text.split()
        if words[0] == ":":
            current = sections.setdefault(" ".join(words[1:]), [])
        elif current is None or len(words) != 4:
            raise bad_row(path, line.number, "': section' or four words after one", line.text)
        else:
            current.append((words[0], words[1], words[2], words[3]))
    if not any(sections.values()):
        raise UserError(f"{path}: holds no questions")
    return sections
