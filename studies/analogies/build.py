"""Build the questions: pairs of facts, wrong answers, contexts. docs/papers/uni.md says what is UNI's.

Semantic phrases and sentences have one context, found around A's word, in two wordings,

    the streets of Athens : the roads of Greece = the roads of Baghdad : the streets of Iraq

so counting words leads away from the answer. Wrong answers are the best of the category's own words, which
keeps the contexts grammatical, in the wording of B and C: then word averages score 0 %, as GloVe does in UNI.

Participles and comparatives have a context for each pair; the one wrong answer is the past tense or the
superlative. Negation has one wording: B is "not" A, and the wrong answer denies the right one,

    the plan was clear : the plan was not clear = the ant is known : the ant is unknown (or: is not unknown)
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from statistics import fmean

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
from studies.analogies.__main__ import BuildConfig
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

WRONG_WORDS, ALL = 4, 10**9
SPARE_WORDS = 12
"""Words looked at beyond the four: the question's own, and other spellings of one word."""
SCORES = 2**26
"""Scores of words in memory at a time."""
Scores = NDArray[np.floating] | None
"""Scores of all words for a question, [W]; None if a, b or c has no vector."""


@cache
def load_pairs() -> dict[str, dict[tuple[str, str], list[str]]]:
    """Read the project's pairs by category, as many as in UNI's Table 3, with wrong answers for contexts.

    Only participles (past tense), comparatives (superlative), "she" and "her" (other pronouns) have some.
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
    """Ranks the words of a file by cosine with b − a + c; without a file every word is unknown."""

    def __init__(self, vectors: WordVectors | None = None) -> None:
        self.words = vectors.words if vectors else []
        self.rows = {word: row for row, word in enumerate(self.words)}
        self.unit_WE = unit(vectors.vectors) if vectors else np.empty((0, 1))

    def row(self, word: str) -> int:
        """Find the row of a word in the file, or of its lower case; -1 if it is unknown."""
        return self.rows.get(word, self.rows.get(word.lower(), -1))

    def scores(self, questions: Sequence[Terms]) -> Iterator[Scores]:
        """Score all words for each question."""
        step = max(1, SCORES // max(1, len(self.words)))
        for start in range(0, len(questions), step):
            row_Q3 = np.array([[self.row(w) for w in terms[:3]] for terms in questions[start : start + step]])
            is_known_Q = np.all(row_Q3 >= 0, axis=1).tolist()
            a_QE, b_QE, c_QE = self.unit_WE[row_Q3[is_known_Q].T]
            score_QW = iter((b_QE - a_QE + c_QE) @ self.unit_WE.T)
            yield from (next(score_QW) if is_known else None for is_known in is_known_Q)

    def nearest(self, question: Terms, score_W: Scores) -> list[str]:
        """Take the best four words of the whole file, without the question's own.

        A word counts once, whatever its capitals. Where a file knows the answer in lower case alone, its
        words take the answer's capital, or the one capitalised candidate would be the right one.
        """
        if score_W is None:
            return []
        count = min(WRONG_WORDS + SPARE_WORDS, len(self.words))
        rows = np.argpartition(score_W, -count)[-count:]
        words_so_far = {word.lower() for word in question}
        with_capital = question[3][0].isupper() and question[3] not in self.rows
        words: list[str] = []
        for word in (self.words[row] for row in rows[np.lexsort((rows, -score_W[rows]))]):
            # "|" stands between the candidates of a file.
            if word.lower() not in words_so_far and word.isprintable() and "|" not in word:
                words_so_far.add(word.lower())
                words.append(word[0].upper() + word[1:] if with_capital else word)
        return words[:WRONG_WORDS]

    def among(self, pool: list[str], score_W: Scores) -> list[str]:
        """Sort ``pool``, best first; words without a vector follow in the pool's order."""
        rows = {word: self.row(word) for word in pool}
        scores = {word: score_W[row] for word, row in rows.items() if score_W is not None and row >= 0}
        return sorted(pool, key=lambda word: -scores.get(word, -np.inf))


def wrong_answers(
    category: Category, questions: Sequence[Terms], ranking: Ranking, generator: random.Random
) -> Iterator[tuple[list[str], list[str]]]:
    """Choose each word question's wrong words, and what wrong phrases and sentences have in their slots.

    Where no vector decides they are random ones of the category. Raises UserError: no wrong answer is known
    for a participle or comparative.
    """
    facts = load_pairs()[category.name]
    pairs = dict.fromkeys(pair for terms in questions for pair in (terms[:2], terms[2:]))
    words = sorted({word for pair in pairs for word in (*pair, *facts.get(pair, ()))})
    slot_words = sorted({word for pair in pairs if not facts.get(pair) for word in pair})

    def best(pool: list[str], terms: Sequence[str], score_W: Scores) -> list[str]:
        excluded_words = {word.lower() for word in terms}
        shuffled_pool = generator.sample(pool, len(pool))
        candidates = [word for word in shuffled_pool if word.lower() not in excluded_words]
        return ranking.among(candidates, score_W)

    for question, score_W in zip(questions, ranking.scores(questions), strict=True):
        neighbours = ranking.nearest(question, score_W)
        wrong_words = [*neighbours, *best(words, [*question, *neighbours], score_W)][:WRONG_WORDS]
        slots = [word for word in facts.get(question[2:], ()) if word not in question]
        if category.kind == "predicate":
            slots = [f"not {question[3]}"]
        elif category.semantic and not slots:
            slots = best(slot_words, question, score_W)
        if category.kind and not slots:
            fault = f"{category.google}: no wrong answer beside {question[3]!r}"
            raise UserError(f"{fault} is known for contexts")
        yield wrong_words, slots[: category.candidates - 1]


def slot_text(kind: str, level: str, word: str, *, is_right: bool) -> str:
    """Write a word for a slot: "the boy", "her friend", "are walking" (a pair's right word in a sentence)."""
    if kind == "person" and word not in ("he", "she", "they", "we", "it", "you"):
        return f"{word} friend" if word in ("his", "her", "their", "our", "its", "your") else f"the {word}"
    return f"are {word}" if kind == "verb" and level == "sentence" and is_right else word


def in_context(
    category: Category, level: str, terms: Terms, wrong_slots: Sequence[str], first: Frame, second: Frame
) -> tuple[Terms, list[str], str]:
    """Put a word question into contexts: a, b, c and the answer, the wrong answers, the source.

    ``first`` and ``second`` are the contexts of its two pairs; the wrong answers have ``wrong_slots``.
    """
    a, b, c, answer = terms
    if category.kind == "predicate":
        b = f"not {a}"
        wordings = [first.left, first.left, second.left, second.left]
    elif category.semantic:
        second = first
        wordings = [first.left, first.right, first.right, first.left]
    else:
        wordings = [first.left, first.right, second.left, second.right]
    a, b, c, answer = (
        fill(wording, slot_text(category.kind, level, word, is_right=place in (1, 3)))
        for place, (wording, word) in enumerate(zip(wordings, (a, b, c, answer), strict=True))
    )
    # Wrong answers have the wording of c, or with a context for each pair that of the right answer.
    wrong_wording = wordings[2] if category.semantic else wordings[3]
    texts = [slot_text(category.kind, level, word, is_right=False) for word in wrong_slots]
    source = " ".join(dict.fromkeys([first.source, second.source]))
    return (a, b, c, answer), [fill(wrong_wording, text) for text in texts], source


def word_questions(
    category: Category, google: Google | None, limit: int, generator: random.Random
) -> list[Terms]:
    """Draw a category's word questions from Google's, or from all pairs of two facts that share no word."""
    if google is None:
        facts = load_pairs()[category.name]
        questions = [(*a, *b) for a in facts for b in facts if a[0] != b[0] and a[1] != b[1]]
    else:
        questions = google.get(category.google, [])
    rows = generator.sample(range(len(questions)), min(category.questions, limit, len(questions)))
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
        terms_of_questions = word_questions(category, google, limit, generator)
        wrong = list(wrong_answers(category, terms_of_questions, ranking or Ranking(), generator))
        pairs = list(dict.fromkeys(pair for terms in terms_of_questions for pair in (terms[:2], terms[2:])))
        for level in LEVELS if category.kind else ["word"]:
            contexts = frames.get((category.kind, level), [])
            contexts = generator.sample(contexts, len(contexts))
            for number, (terms, (words, slots)) in enumerate(zip(terms_of_questions, wrong, strict=True)):
                texts, wrong_texts, source = terms, words, "lexicon"
                if level != "word":
                    first, second = (
                        contexts[pairs.index(pair) % len(contexts)] for pair in (terms[:2], terms[2:])
                    )
                    texts, wrong_texts, source = in_context(category, level, terms, slots, first, second)
                candidates = tuple(generator.sample([texts[3], *wrong_texts], 1 + len(wrong_texts)))
                name, word_name = (f"{category.name}-{kind}-{number:04d}" for kind in (level, "word"))
                question = Question(name, word_name, level, category.name, *texts, candidates, source)
                if fault := question.fault():
                    raise UserError(f"{name}: {fault}")
                questions[level].append(question)
    return [question for of_level in questions.values() for question in of_level]


def build(config: BuildConfig) -> None:
    """Write the questions and a summary; a missing input, or a cache with one kind of trees, is refused."""
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
    """Count each category's word questions, and average the tokens of a, b, c and the answer, as UNI does."""
    rows: list[list[TableCell]] = []
    for name, category in CATEGORIES.items():
        groups = {level: [q for q in questions if (q.category, q.level) == (name, level)] for level in LEVELS}
        row: list[TableCell] = [name, len(groups["word"])]
        for level, mean_of_paper in zip(LEVELS[1:], category.tokens, strict=True):
            lengths = [len(text.split()) for q in groups[level] for text in (q.a, q.b, q.c, q.answer)]
            row += [fmean(lengths), mean_of_paper] if lengths else [None, None]
        rows.append(row)
    columns = [Column(f"{level}{suffix}", digits=1) for level in LEVELS[1:] for suffix in ("", ", UNI")]
    return Table(["category", "questions", *columns], rows, title="Mean tokens (UNI: Table 2)")
