"""Build the questions of ``studies.analogies`` that are in the package, from facts and hand-made contexts.

    python -m tools.build_analogies

The facts are in ``analogies-facts.tsv``. The contexts are in ``analogies-frames.tsv``; a context has a blank
for a word, and is there in two wordings. A word question is made of two facts that have no word in common.
The questions are drawn at random, as many as in UNI's Table 3.

The four texts of a semantic phrase or sentence question have one context, which depends on the first fact.
Its two wordings alternate in such a way that common words lead away from the answer:

    the streets of Athens : the roads of Greece = the roads of Baghdad : the streets of Iraq

Wrong answers are other words of the category, so that they fit the context, in the wording of B and C. An
average of word vectors therefore scores 0 %, as GloVe does in UNI.

In questions on participles and comparatives each fact has a context of its own; the only wrong answer is the
past tense or the superlative. Negation has one wording: B is "not" A, and the wrong answer is the negated
answer,

    the plan was clear : the plan was not clear = the ant is known : the ant is unknown (or: is not unknown)

docs/papers/uni.md says what of this is UNI's.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from corpora.tables import read_table
from studies.analogies.questions import CATEGORIES, FILE, LEVELS, SEMANTIC, Analogy, write_questions

FOLDER = Path(__file__).parent
KINDS = {
    **dict.fromkeys(("capital-common", "capital-world", "city-state"), "place"),
    "male-female": "person",
    "present-participle": "verb",
    "positive-comparative": "adjective",
    "positive-negative": "predicate",
}
"""The kind of word that the blank of a category's contexts takes."""
COUNTS = dict(zip(CATEGORIES, (506, 4524, 2467, 506, 1056, 1322, 812), strict=True))
"""The number of questions of each category (UNI, Table 3)."""
WRONG_WORDS = 4
PRONOUNS = ("he", "she", "they", "we", "it", "you")
POSSESSIVES = ("his", "her", "their", "our", "its", "your")


@dataclass(frozen=True)
class Fact:
    """Two words that are in the relation of a category."""

    left: str
    right: str
    distractors: tuple[str, ...]
    """Wrong answers in contexts: the past tense of a participle, the superlative of a comparative, or other
    pronouns than "she" and "her"."""


@dataclass(frozen=True)
class Frame:
    """A context in two wordings, each with one blank."""

    left: str
    right: str


def read_facts(category: str) -> list[Fact]:
    """Return the facts of a category, as many as in UNI's Table 3."""
    columns = ("category", "left", "right", "distractors")
    rows = read_table(FOLDER / "analogies-facts.tsv", columns, may_be_empty=("distractors",))
    cells = [row.cells for row in rows if row.cells[0] == category]
    return [Fact(left, right, tuple(distractors.split())) for _, left, right, distractors in cells]


def read_frames(kind: str, level: str) -> list[Frame]:
    """Return the contexts of a level whose blanks take this kind of word."""
    rows = read_table(FOLDER / "analogies-frames.tsv", ("kind", "level", "left", "right"))
    return [Frame(*row.cells[2:]) for row in rows if row.cells[:2] == (kind, level)]


def fill(wording: str, word: str, kind: str, level: str, *, is_right: bool) -> str:
    """Return a wording with the word in its blank; a sentence begins with a capital.

    A noun for a person gets "the", a possessive pronoun "friend". In a sentence a participle that is right
    (``is_right``) gets "are".
    """
    if kind == "person" and word not in PRONOUNS:
        word = f"{word} friend" if word in POSSESSIVES else f"the {word}"
    elif kind == "verb" and level == "sentence" and is_right:
        word = f"are {word}"
    text = wording.replace("_", word)
    return text[0].upper() + text[1:] if level == "sentence" else text


def in_context(
    category: str, level: str, one: Fact, other: Fact, first: Frame, second: Frame, wrong: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the texts of a, b, c and the answer in their contexts, and the texts of the wrong words.

    Args:
        category: the relation of the facts.
        level: ``phrase`` or ``sentence``.
        one: the fact of a and b.
        other: the fact of c and the answer.
        first: the context of the first fact.
        second: the context of the second fact; of semantic questions it is not used.
        wrong: the wrong words.
    """
    kind = KINDS[category]
    words = [one.left, one.right, other.left, other.right]
    if kind == "predicate":
        words[1], wrong = f"not {one.left}", [f"not {other.right}"]
        wordings, wrong_wording = [first.left, first.left, second.left, second.left], second.left
    elif category in SEMANTIC:
        wordings, wrong_wording = [first.left, first.right, first.right, first.left], first.right
    else:
        wordings, wrong_wording = [first.left, first.right, second.left, second.right], second.right
    texts = [
        fill(wording, word, kind, level, is_right=word in (one.right, other.right))
        for wording, word in zip(wordings, words, strict=True)
    ]
    return texts, [fill(wrong_wording, word, kind, level, is_right=False) for word in wrong]


def build_questions(category: str) -> Iterator[Analogy]:
    """Yield the questions of a category, those of words first; they are always the same."""
    facts = read_facts(category)
    generator = random.Random(category)
    pairs = [(a, b) for a in facts for b in facts if a.left != b.left and a.right != b.right]
    pairs = [pairs[row] for row in sorted(generator.sample(range(len(pairs)), COUNTS[category]))]
    # "Her" and "the widow" do not fit the same context.
    alike = [fact for fact in facts if not (category in SEMANTIC and fact.distractors)]
    words = sorted({word for fact in alike for word in (fact.left, fact.right)})
    # The order of wrong words depends on the answer alone, so that texts recur and the file is small.
    order = {fact: [*fact.distractors, *generator.sample(words, len(words))] for fact in facts}
    for level in LEVELS:
        frames = read_frames(KINDS[category], level)
        generator.shuffle(frames)
        for number, (one, other) in enumerate(pairs):
            texts = [one.left, one.right, other.left, other.right]
            wrong = [word for word in order[other] if word not in texts][:WRONG_WORDS]
            if level != "word":
                first, second = (frames[facts.index(fact) % len(frames)] for fact in (one, other))
                wrong = wrong[: WRONG_WORDS if category in SEMANTIC else 1]  # UNI, Table 3: #c
                texts, wrong = in_context(category, level, one, other, first, second, wrong)
            name = f"{category}-{number:04d}"
            yield Analogy(name, level, category, *texts, wrong=tuple(wrong))


if __name__ == "__main__":
    write_questions(FILE, chain.from_iterable(map(build_questions, CATEGORIES)))
