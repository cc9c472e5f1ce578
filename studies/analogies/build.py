"""Building the questions: pairs to word questions, word questions into contexts.

Word level. The possible questions of a category are all ordered pairs of facts that share no word; as many as
in UNI's Table 3 are drawn at random. The wrong answers of semantic categories are the four words of the
category with the highest cosine with b − a + c, so that they fit the contexts; words without a vector come
last in random order. The wrong answer of a participle is the past tense, of a comparative the superlative,
of a negative the positive of another pair.

Phrase and sentence level. Every pair of a category gets one context per level (:mod:`contexts`): the left
word goes into the frame, its partner into the paraphrase. All candidates of the word question go into the
same paraphrase, so they differ only in the word in the slot.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from studies.analogies.contexts import Frame, Frames, fill
from studies.analogies.lexicon import CATEGORIES, LEVELS, Category, Pair, load_pairs
from studies.analogies.questions import Question

if TYPE_CHECKING:
    from multiview.words.vectors import WordVectors

_POSSESSIVE = {"his", "her", "their", "our", "its", "your"}
_PRONOUN = {"he", "she", "they", "we", "it", "you"}


@dataclass(frozen=True, slots=True)
class WordQuestion:
    """Two pairs of a category and the wrong answers."""

    first: Pair
    second: Pair
    wrong: tuple[str, ...]


class Ranking:
    """Ranks words by their cosine with b − a + c.

    Args:
        vectors: word vectors; None keeps the given (random) order.
    """

    def __init__(self, vectors: WordVectors | None) -> None:
        self.rows = {word: row for row, word in enumerate(vectors.words)} if vectors else {}
        self.vectors = vectors.vectors if vectors else np.zeros((0, 0), dtype=np.float32)

    def vector(self, word: str) -> np.ndarray | None:
        """Unit vector [D] of a word, or of its lower case, or None."""
        row = self.rows.get(word, self.rows.get(word.lower()))
        if row is None:
            return None
        vector = self.vectors[row].astype(np.float64)
        norm = float(np.linalg.norm(vector))
        return vector / norm if norm else None

    def best(self, a: str, b: str, c: str, pool: Sequence[str], count: int) -> tuple[str, ...]:
        """The ``count`` best of ``pool``; words without a vector follow in the pool's order."""
        a_D, b_D, c_D = (self.vector(word) for word in (a, b, c))
        if a_D is None or b_D is None or c_D is None:
            return tuple(pool[:count])
        target = b_D - a_D + c_D
        found = [(word, self.vector(word)) for word in pool]
        scores = [float(vector @ target) if vector is not None else -np.inf for _, vector in found]
        order = sorted(range(len(pool)), key=lambda i: -scores[i])
        return tuple(pool[i] for i in order[:count])


def word_questions(category: Category, ranking: Ranking, seed: int, limit: int | None) -> list[WordQuestion]:
    """The questions of a category: all ordered pairs of facts, or a random choice of them."""
    pairs = load_pairs()[category.name]
    generator = random.Random(f"{seed} {category.name}")
    both = [(p, q) for p in pairs for q in pairs if p.left != q.left and p.right != q.right]
    wanted = min(category.questions, limit or category.questions, len(both))
    chosen = sorted(generator.sample(range(len(both)), wanted))
    return [_with_wrong(category, *both[i], pairs, ranking, generator) for i in chosen]


def _with_wrong(
    category: Category, p: Pair, q: Pair, pairs: Sequence[Pair], ranking: Ranking, generator: random.Random
) -> WordQuestion:
    terms = {p.left, p.right, q.left, q.right}
    if q.distractors:
        wrong = [word for word in q.distractors if word not in terms]
        return WordQuestion(p, q, tuple(wrong[: category.candidates - 1]))
    # Another pair's positive. The question's own positive, paraphrased, is nearly the term c, which 3CosAdd
    # always prefers: with it phrases scored 0 to 1 % and sentences 3 to 23 % with every model.
    if category.kind == "predicate":
        others = [r.left for r in pairs if r.left not in terms]
        return WordQuestion(p, q, (generator.choice(others),))
    words = {word for r in pairs if not r.distractors for word in (r.left, r.right)} - terms
    pool = generator.sample(sorted(words), len(words))
    return WordQuestion(p, q, ranking.best(p.left, p.right, q.left, pool, category.candidates - 1))


def slot_text(kind: str, level: str, word: str, role: str) -> str:
    """What stands in the slot for a word: "the boy", "her friend", "are walking" in sentences.

    Args:
        kind: of the category.
        level: phrase or sentence.
        word: the word.
        role: left, right (also the wrong answers of semantic categories) or wrong.
    """
    if kind == "person":
        return word if word in _PRONOUN else f"{word} friend" if word in _POSSESSIVE else f"the {word}"
    if kind == "verb" and level == "sentence" and role == "right":
        return f"are {word}"
    return word


def build_questions(
    frames: Frames, vectors: WordVectors | None, *, seed: int, limit: int | None = None
) -> list[Question]:
    """All questions of all levels, word questions first; the same arguments give the same questions.

    Args:
        frames: contexts by kind and level.
        vectors: rank the wrong answers; None ranks them at random.
        seed: seed of questions, contexts and candidate order.
        limit: most questions per category; None for UNI's numbers.
    """
    ranking = Ranking(vectors)
    questions: list[Question] = []
    for category in CATEGORIES.values():
        drawn = word_questions(category, ranking, seed, limit)
        for level in LEVELS:
            contexts = _contexts(category, level, frames, seed)
            for number, word_question in enumerate(drawn):
                question = _question(category, level, number, word_question, contexts, seed)
                fault = question.fault()
                assert fault is None, f"{question.question_id}: {fault}"
                questions.append(question)
    return sorted(questions, key=lambda q: LEVELS.index(q.level))


def _contexts(category: Category, level: str, frames: Frames, seed: int) -> dict[Pair, Frame]:
    """One context per pair: the frames in random order, repeated if there are too few."""
    pairs = load_pairs()[category.name]
    if level == "word":
        return dict.fromkeys(pairs, Frame(("_",), ("_",), "lexicon"))
    found = frames[category.kind, level]
    order = random.Random(f"{seed} {category.name} {level}").sample(found, len(found))
    return {pair: order[i % len(order)] for i, pair in enumerate(pairs)}


def _question(
    category: Category,
    level: str,
    number: int,
    word_question: WordQuestion,
    contexts: dict[Pair, Frame],
    seed: int,
) -> Question:
    p, q, wrong = word_question.first, word_question.second, word_question.wrong
    word_id = f"{category.name}-word-{number:04d}"
    identity = f"{category.name}-{level}-{number:04d}"

    def text(pair: Pair, word: str, role: str) -> str:
        if level == "word":
            return word
        frame = contexts[pair].left if role == "left" else contexts[pair].right
        return fill(frame, slot_text(category.kind, level, word, role))

    candidates = [text(q, q.right, "right"), *(text(q, word, "wrong") for word in wrong)]
    random.Random(f"{seed} {identity}").shuffle(candidates)
    return Question(
        question_id=identity,
        word_question_id=word_id,
        level=level,
        category=category.name,
        a=text(p, p.left, "left"),
        b=text(p, p.right, "right"),
        c=text(q, q.left, "left"),
        answer=text(q, q.right, "right"),
        candidates=tuple(candidates),
        source=f"{contexts[p].source} {contexts[q].source}",
    )
