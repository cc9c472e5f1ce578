"""The facts and words of the analogy task: categories, pairs, synonyms, Google's question file.

UNI's questions are Google's, put into contexts: its Table 3 counts the questions of seven of the file's
fourteen sections (1,322 comparatives where the file has 1,332). The other seven are asked of words alone.
``lexicon.tsv`` holds pairs of facts (category, left, right, distractors) for builds without Google's file,
in the numbers of Table 3. Its column ``distractors`` holds wrong answers of phrases and sentences: the past
tense of a participle ("reads" for "read", whose past tense is spelled like the base), the superlative of a
comparative, other pronouns for "she" and "her".
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
class Contexts:
    """How a category is asked in phrases and sentences."""

    kind: str
    """What stands in the slot: place, person, verb, adjective or predicate."""
    pairs: int
    """UNI, Table 3: #p."""
    candidates: int
    """UNI, Table 3: #c."""
    tokens: dict[str, float]
    """UNI, Table 2: mean length by level."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Category:
    """One relation: a section of Google's questions."""

    name: str
    semantic: bool
    google: str
    """Its section of ``questions-words.txt``."""
    questions: int
    """How many are asked: UNI's Table 3; for a relation of words alone, all of Google's."""
    contexts: Contexts | None
    """None where the relation is asked of words alone."""


def _category(
    name: str, google: str, questions: int, kind: str, pairs: int, phrase: float, sentence: float
) -> Category:
    semantic = kind in ("place", "person")
    contexts = Contexts(
        kind=kind,
        pairs=pairs,
        candidates=5 if semantic else 2,
        tokens={"phrase": phrase, "sentence": sentence},
    )
    return Category(name=name, semantic=semantic, google=google, questions=questions, contexts=contexts)


def _of_words(name: str, google: str, questions: int, *, semantic: bool = False) -> Category:
    return Category(name=name, semantic=semantic, google=google, questions=questions, contexts=None)


CATEGORIES = {
    category.name: category
    for category in (
        _category("capital-common", "capital-common-countries", 506, "place", 23, 6.0, 12.0),
        _category("capital-world", "capital-world", 4524, "place", 116, 6.0, 12.0),
        _category("city-state", "city-in-state", 2467, "place", 67, 6.0, 12.0),
        _category("male-female", "family", 506, "person", 23, 4.1, 10.1),
        _category("present-participle", "gram5-present-participle", 1056, "verb", 33, 4.8, 8.8),
        _category("positive-comparative", "gram3-comparative", 1322, "adjective", 37, 3.4, 6.1),
        _category("positive-negative", "gram2-opposite", 812, "predicate", 29, 4.4, 9.2),
        _of_words("country-currency", "currency", 866, semantic=True),
        _of_words("adjective-adverb", "gram1-adjective-to-adverb", 992),
        _of_words("positive-superlative", "gram4-superlative", 1122),
        _of_words("country-nationality", "gram6-nationality-adjective", 1599),
        _of_words("past-tense", "gram7-past-tense", 1560),
        _of_words("singular-plural", "gram8-plural", 1332),
        _of_words("verb-third-person", "gram9-plural-verbs", 870),
    )
}
"""UNI's seven relations, then those Google's file has for words alone."""

Terms = tuple[str, str, str, str]
"""a is to b as c is to d."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two words in the relation of a category."""

    category: str
    left: str
    right: str
    distractors: tuple[str, ...] = ()
    """Fixed wrong answers of phrases and sentences; empty where they are chosen per question."""


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


def read_google(path: Path) -> dict[str, list[Terms]]:
    """Google's ``questions-words.txt``: ``: section`` lines, then four words (a b c d) per line.

    Raises:
        UserError: missing file, a line of another number of words, or words before the first section.
    """
    sections: dict[str, list[Terms]] = {}
    current: list[Terms] | None = None
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
