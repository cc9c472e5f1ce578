"""Building the questions: pairs of facts, wrong answers, contexts.

Pairs. UNI's questions are those of Google's file. Without the file the possible questions are all ordered
pairs of the project's facts that share no word. If there are more than in UNI's Table 3, as many are drawn
at random.

Words. Every category has five candidates (UNI Table 1): the answer and the four best others of a vector
file's whole vocabulary (:mod:`rank`), or of the category's own words.

Phrases and sentences. Every pair of a category gets one context per level (:mod:`contexts`) into which the
questions are set (:mod:`texts`). There are five or two candidates (UNI Table 3). Semantic wrong answers are
the four best of the category's own words, which keeps the contexts grammatical; a participle's is the past
tense, a comparative's the superlative, a negative's the negated negative.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from corpora.support.errors import UserError
from studies.analogies.contexts import Frames
from studies.analogies.lexicon import CATEGORIES, LEVELS, Category, Pair, Terms, load_pairs
from studies.analogies.questions import Question
from studies.analogies.rank import Ranking
from studies.analogies.texts import Analogy, context_texts, word_texts

Google = Mapping[str, Sequence[Terms]]
"""Questions by section."""
Best = Callable[[Sequence[str], int], tuple[str, ...]]
"""(words, count) to the best ``count`` of them for one question."""
WRONG_WORDS = 4
"""Of a word question, in every category."""


def all_pairs(category: Category, google: Google | None) -> list[tuple[Pair, Pair]]:
    """All possible questions of a category, in the source's order."""
    facts = load_pairs()[category.name]
    if google is None:
        return [(p, q) for p in facts for q in facts if p.left != q.left and p.right != q.right]
    known = {(p.left, p.right): p for p in facts}

    def pair(left: str, right: str) -> Pair:
        return known.get((left, right), Pair(category.name, left, right))

    return [(pair(a, b), pair(c, d)) for a, b, c, d in google.get(category.google, ())]


def analogies(
    category: Category,
    google: Google | None,
    ranking: Ranking | None,
    *,
    whole: bool,
    seed: int,
    limit: int | None,
) -> list[Analogy]:
    """The questions of a category with their wrong answers: all possible ones, or a random choice of them.

    Args:
        category: the relation.
        google: Google's questions, or None for the project's facts.
        ranking: ranks the wrong answers; None takes random ones.
        whole: take the wrong words from the ranking's whole vocabulary, or from the category's own words if
            the vocabulary lacks a word of the question.
        seed: seed of the random choices.
        limit: most questions; None for UNI's number.
    """
    both = all_pairs(category, google)
    generator = random.Random(f"{seed} {category.name}")
    wanted = min(category.questions, limit or category.questions, len(both))
    asked = [both[i] for i in sorted(generator.sample(range(len(both)), wanted))]
    used = dict.fromkeys(pair for pairs in both for pair in pairs)
    words = sorted({word for p in used for word in (p.left, p.right, *p.distractors)})
    slot_words = sorted({word for p in used if not p.distractors for word in (p.left, p.right)})
    terms = [(p.left, p.right, q.left, q.right) for p, q in asked]
    nearest = ranking.nearest(terms, WRONG_WORDS) if ranking and whole else [()] * len(terms)

    def question(pairs: tuple[Pair, Pair], own: Terms, near: tuple[str, ...]) -> Analogy:
        def best(pool: Sequence[str], count: int, also: Sequence[str] = ()) -> tuple[str, ...]:
            taken = {word.lower() for word in (*own, *also)}
            left = [word for word in generator.sample(pool, len(pool)) if word.lower() not in taken]
            return ranking.among(own, left, count) if ranking else tuple(left[:count])

        wrong_words = near + best(words, WRONG_WORDS - len(near), near)
        return Analogy(*pairs, wrong_words, _wrong_slots(category, pairs[1], own, slot_words, best))

    return [question(*row) for row in zip(asked, terms, nearest, strict=True)]


def _wrong_slots(
    category: Category, pair: Pair, own: Terms, words: Sequence[str], best: Best
) -> tuple[str, ...]:
    """The slot texts of the wrong phrases and sentences for a question that ends in ``pair``."""
    contexts = category.contexts
    if contexts is None:
        return ()
    if contexts.kind == "predicate":
        return (f"not {pair.right}",)
    if pair.distractors:
        return tuple(word for word in pair.distractors if word not in own)[: contexts.candidates - 1]
    if not category.semantic:
        raise UserError(f"{category.google}: no wrong answer beside {pair.right!r} is known for contexts")
    return best(words, contexts.candidates - 1)


def build_questions(
    frames: Frames,
    ranking: Ranking | None,
    *,
    google: Google | None = None,
    whole: bool = False,
    shared: bool = True,
    seed: int,
    limit: int | None = None,
) -> list[Question]:
    """All questions of all levels, word questions first; the same arguments give the same questions.

    Args:
        frames: contexts by kind and level.
        ranking: ranks the wrong answers; None takes random ones.
        google: Google's questions by section; None for the project's facts.
        whole: see :func:`analogies`.
        shared: see :func:`studies.analogies.texts.context_texts`.
        seed: seed of questions, contexts and candidate order.
        limit: most questions per category; None for UNI's numbers.

    Raises:
        UserError: a question of Google's file that cannot be asked.
    """
    questions: list[Question] = []
    for category in CATEGORIES.values():
        asked = analogies(category, google, ranking, whole=whole, seed=seed, limit=limit)
        for level in LEVELS if category.contexts else LEVELS[:1]:
            texts = (
                word_texts(asked)
                if level == "word"
                else context_texts(category, level, asked, frames, shared=shared, seed=seed)
            )
            for number, (terms, wrong, source) in enumerate(texts):
                identity = f"{category.name}-{level}-{number:04d}"
                candidates = [terms[3], *wrong]
                random.Random(f"{seed} {identity}").shuffle(candidates)
                word_id = f"{category.name}-word-{number:04d}"
                question = Question(
                    identity, word_id, level, category.name, *terms, tuple(candidates), source
                )
                fault = question.fault()
                if fault is not None:
                    raise UserError(f"{identity}: {fault}")
                questions.append(question)
    return sorted(questions, key=lambda q: LEVELS.index(q.level))
