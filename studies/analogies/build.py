"""Build the questions: pairs of facts, wrong answers, contexts. docs/papers/uni.md says what is UNI's.

Words have five candidates: the answer and the four words of a vector file that are nearest to b − a + c.
Where the file lacks a word of the question, and without a file, the category's own words stand in.

Semantic phrases and sentences have one context, found around A's word, in two wordings,

    the streets of Athens : the roads of Greece = the roads of Baghdad : the streets of Iraq

so counting words leads away from the answer. Wrong answers are the best of the category's own words, which
keeps the contexts grammatical, in the wording of B and C: then word averages score 0 %, as GloVe does in UNI.

Participles and comparatives have a context for each pair; the one wrong answer is the past tense or the
superlative. Negation has one wording: B is "not" A, and the wrong answer denies the right one,

    the plan was clear : the plan was not clear = the ant is known : the ant is unknown (or: is not unknown)
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from corpora.inputs import read_table
from multiview.words.vectors import WordVectors, load_word_vectors
from parsing.trees.cache import TreeCache
from runtime.cli import config_to_json
from runtime.errors import UserError
from runtime.files import sha256_file, write_json
from senteval_runner.protocol.features import unit
from senteval_runner.report.page import Column, Table, TableCell
from studies.analogies.contexts import FOLDER, Frame, Frames, collect_frames, fill
from studies.analogies.questions import (
    CATEGORIES,
    LEVELS,
    Category,
    Google,
    Question,
    Terms,
    read_google,
    write_questions,
)

if TYPE_CHECKING:
    from studies.analogies.__main__ import BuildConfig

WRONG_WORDS, ALL = 4, 10**9
SPARE = 12
"""Words looked at beyond those wanted: the question's own, and other spellings of one word."""
SCORES = 2**26
"""Scores of words in memory at a time."""
Scores = NDArray[np.floating] | None
"""Of all words for a question, [W]; None where a, b or c has no vector."""


@cache
def load_pairs() -> dict[str, dict[tuple[str, str], list[str]]]:
    """Read the project's pairs by category, in the numbers of UNI's Table 3, with wrong answers of contexts.

    These are the past tense of a participle, the superlative of a comparative, other pronouns for "she" and
    "her"; none where they are chosen per question.
    """
    pairs: dict[str, dict[tuple[str, str], list[str]]] = {name: {} for name in CATEGORIES}
    columns = ("category", "left", "right", "distractors")
    for row in read_table(FOLDER / "lexicon.tsv", columns, may_be_empty=("distractors",)):
        category, left, right, distractors = row.cells
        pairs[category][left, right] = distractors.split()
    return pairs


def content_words() -> set[str]:
    """Collect the lower-cased words of all semantic pairs, which no context may have outside its slot."""
    semantic = [pairs for name, pairs in load_pairs().items() if CATEGORIES[name].semantic]
    texts = [" ".join([*pair, *wrong]) for pairs in semantic for pair, wrong in pairs.items()]
    return {"him", "himself", "herself", *" ".join(texts).lower().split()}


class Ranking:
    """Ranks the words of a file by cosine with b − a + c; an unknown word is looked up in lower case.

    Without a file every word is unknown.
    """

    def __init__(self, vectors: WordVectors | None = None) -> None:
        self.words = vectors.words if vectors else []
        self.rows = {word: row for row, word in enumerate(self.words)}
        self.unit_WE = unit(vectors.vectors) if vectors else np.empty((0, 1))

    def row(self, word: str) -> int | None:
        """Find where a word stands in the file, or its lower case; None if it is unknown."""
        return self.rows.get(word, self.rows.get(word.lower()))

    def scores(self, questions: Sequence[Terms]) -> Iterator[Scores]:
        """Score all words for each question."""
        step = max(1, SCORES // max(1, len(self.words)))
        for start in range(0, len(questions), step):
            rows = [[self.row(word) for word in terms[:3]] for terms in questions[start : start + step]]
            known = np.array([terms for terms in rows if None not in terms], dtype=np.int64).reshape(-1, 3)
            a_QE, b_QE, c_QE = self.unit_WE[known.T]
            score_QW = iter((b_QE - a_QE + c_QE) @ self.unit_WE.T)
            yield from (None if None in terms else next(score_QW) for terms in rows)

    def nearest(self, question: Terms, score_W: Scores) -> list[str]:
        """Take the best four words of the whole file, without the question's own.

        A word counts once, whatever its capitals. Where a file knows the answer in lower case alone, its
        words take the answer's capital, or the one capitalised candidate would be the right one.
        """
        if score_W is None:
            return []
        top = np.argpartition(score_W, -min(WRONG_WORDS + SPARE, len(self.words)))[-WRONG_WORDS - SPARE :]
        seen = {word.lower() for word in question}
        capital = question[3][0].isupper() and question[3] not in self.rows
        others: list[str] = []
        for word in (self.words[row] for row in top[np.lexsort((top, -score_W[top]))]):
            # "|" stands between the candidates of a file.
            if word.lower() not in seen and word.isprintable() and "|" not in word:
                seen.add(word.lower())
                others.append(word[0].upper() + word[1:] if capital else word)
        return others[:WRONG_WORDS]

    def among(self, pool: list[str], score_W: Scores) -> list[str]:
        """Sort ``pool``, best first; words without a vector follow in the pool's order."""
        rows = {word: self.row(word) for word in pool}
        known = {word: score_W[row] for word, row in rows.items() if score_W is not None and row is not None}
        return sorted(pool, key=lambda word: -known.get(word, -np.inf))


def wrong_answers(
    category: Category, chosen: Sequence[Terms], ranking: Ranking, generator: random.Random
) -> Iterator[tuple[list[str], list[str]]]:
    """Choose each word question's wrong words, and what wrong phrases and sentences have in their slots.

    Where no vector decides they are random ones of the category. Raises UserError: no wrong answer is known
    for a participle or comparative.
    """
    facts = load_pairs()[category.name]
    used = dict.fromkeys(pair for terms in chosen for pair in (terms[:2], terms[2:]))
    words = sorted({word for pair in used for word in (*pair, *facts.get(pair, ()))})
    plain = sorted({word for pair in used if not facts.get(pair) for word in pair})

    def best(pool: list[str], taken: Sequence[str], score_W: Scores) -> list[str]:
        seen = {word.lower() for word in taken}
        left = [word for word in generator.sample(pool, len(pool)) if word.lower() not in seen]
        return ranking.among(left, score_W)

    for question, score_W in zip(chosen, ranking.scores(chosen), strict=True):
        near = ranking.nearest(question, score_W)
        wrong = [*near, *best(words, [*question, *near], score_W)][:WRONG_WORDS]
        slots = [word for word in facts.get(question[2:], ()) if word not in question]
        if category.kind == "predicate":
            slots = [f"not {question[3]}"]
        elif category.semantic and not slots:
            slots = best(plain, question, score_W)
        if category.kind and not slots:
            fault = f"{category.google}: no wrong answer beside {question[3]!r}"
            raise UserError(f"{fault} is known for contexts")
        yield wrong, slots[: category.candidates - 1]


def slot_text(kind: str, level: str, word: str, *, is_right: bool) -> str:
    """Write a word for a slot: "the boy", "her friend", "are walking" (a pair's right word in a sentence)."""
    if kind == "person" and word not in ("he", "she", "they", "we", "it", "you"):
        return f"{word} friend" if word in ("his", "her", "their", "our", "its", "your") else f"the {word}"
    return f"are {word}" if kind == "verb" and level == "sentence" and is_right else word


def in_context(
    category: Category, level: str, terms: Terms, wrong: Sequence[str], here: Frame, there: Frame
) -> tuple[Terms, list[str], str]:
    """Put a word question into contexts: a, b, c and the answer, the wrong answers, the source.

    ``here`` and ``there`` are the contexts of its two pairs; ``wrong`` fills the slots of the wrong answers.
    """
    a, b, c, d = terms
    wordings, wording = [here.left, here.right, there.left, there.right], there.right
    if category.kind == "predicate":
        b, wordings, wording = f"not {a}", [here.left, here.left, there.left, there.left], there.left
    elif category.semantic:
        wordings, wording, there = [here.left, here.right, here.right, here.left], here.right, here
    a, b, c, d = (
        fill(frame, slot_text(category.kind, level, word, is_right=place % 2 == 1))
        for place, (frame, word) in enumerate(zip(wordings, (a, b, c, d), strict=True))
    )
    others = [fill(wording, slot_text(category.kind, level, word, is_right=False)) for word in wrong]
    return (a, b, c, d), others, " ".join(dict.fromkeys([here.source, there.source]))


def word_questions(
    category: Category, google: Google | None, most: int, generator: random.Random
) -> list[Terms]:
    """Draw a category's word questions from Google's, or from all pairs of two facts that share no word."""
    facts = load_pairs()[category.name]
    possible = [(*a, *b) for a in facts for b in facts if a[0] != b[0] and a[1] != b[1]]
    questions = possible if google is None else google.get(category.google, ())
    rows = generator.sample(range(len(questions)), min(category.questions, most, len(questions)))
    return [questions[row] for row in sorted(rows)]


def build_questions(
    frames: Frames,
    ranking: Ranking | None = None,
    *,
    google: Google | None = None,
    seed: int,
    limit: int = ALL,
) -> list[Question]:
    """Make all questions of all levels, word questions first; the same arguments give the same questions.

    Without Google's questions they are made of the project's facts. ``limit`` is the most per category, by
    default UNI's numbers. Raises UserError: a question of Google's file that cannot be asked.
    """
    questions: dict[str, list[Question]] = {level: [] for level in LEVELS}
    for category in CATEGORIES.values():
        generator = random.Random(f"{seed} {category.name}")
        chosen = word_questions(category, google, limit, generator)
        wrong = list(wrong_answers(category, chosen, ranking or Ranking(), generator))
        pairs = dict.fromkeys(pair for terms in chosen for pair in (terms[:2], terms[2:]))
        for level in LEVELS if category.kind else LEVELS[:1]:
            order = frames.get((category.kind, level), [])
            order = generator.sample(order, len(order))
            contexts = {pair: order[place % len(order)] for place, pair in enumerate(pairs) if order}
            for number, (terms, (words, slots)) in enumerate(zip(chosen, wrong, strict=True)):
                name, word_name = (f"{category.name}-{kind}-{number:04d}" for kind in (level, "word"))
                (a, b, c, answer), others, source = terms, words, "lexicon"
                if level != "word":
                    here, there = contexts[terms[:2]], contexts[terms[2:]]
                    (a, b, c, answer), others, source = in_context(category, level, terms, slots, here, there)
                candidates = tuple(generator.sample([answer, *others], 1 + len(others)))
                question = Question(
                    name, word_name, level, category.name, a, b, c, answer, candidates, source
                )
                if fault := question.fault():
                    raise UserError(f"{name}: {fault}")
                questions[level].append(question)
    return [question for of_level in questions.values() for question in of_level]


def build(config: BuildConfig) -> None:
    """Write the questions and a summary; a missing input or kind of trees in the cache is refused."""
    google = None if config.google is None else read_google(config.google)
    trees = TreeCache.open(config.cache) if config.cache else None
    if trees is not None and not (trees.has("dep") and trees.has("const")):
        raise UserError(f"{config.cache}: needs dependency and constituency trees; parse with both")
    ranking = Ranking(load_word_vectors(config.vectors, limit=ALL) if config.vectors else None)
    frames = collect_frames(trees, content_words())
    questions = build_questions(frames, ranking, google=google, seed=config.seed, limit=config.limit or ALL)
    path = config.output / "questions.tsv"
    write_questions(path, questions)
    table = length_table(questions)
    summary = {
        "config": config_to_json(config),
        "cache": trees.identity if trees else None,
        "google_sha256": sha256_file(config.google) if config.google else None,
        "frames": Counter(frame.source.split(":")[0] for group in frames.values() for frame in group),
        "lengths": table.rows,
        "questions_sha256": sha256_file(path),
    }
    write_json(config.output / "build.json", summary)
    print(table.markdown())
    print(f"{path}: {len(questions):,} questions")


def length_table(questions: Sequence[Question]) -> Table:
    """Count each category's word questions, and average the tokens of a, b, c and the answer beside UNI's."""
    rows: list[list[TableCell]] = []
    for name, category in CATEGORIES.items():
        groups = {level: [q for q in questions if (q.category, q.level) == (name, level)] for level in LEVELS}
        row: list[TableCell] = [name, len(groups["word"])]
        for level, published in zip(LEVELS[1:], category.tokens, strict=True):
            lengths = [len(text.split()) for q in groups[level] for text in (q.a, q.b, q.c, q.answer)]
            row += [fmean(lengths), published] if lengths else [None, None]
        rows.append(row)
    columns = [Column(f"{level}{whose}", digits=1) for level in LEVELS[1:] for whose in ("", ", UNI")]
    return Table(["category", "questions", *columns], rows, title="Mean tokens (UNI: Table 2)")
