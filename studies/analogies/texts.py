"""Putting a question's words into contexts.

UNI's semantic example has one context, found around A's word, in two wordings: one for A and the answer, the
other for B and C,

    the streets of Athens : the roads of Greece = the roads of Baghdad : the streets of Iraq

so counting words leads away from the answer. The paper does not say how its wrong answers are worded. Here
they have the wording of B and C: then word averages score 0 % on semantic phrases, as GloVe and most
encoders do in the paper, far below chance. Our own variant gives every pair its own context, with one
wording for A and C and the other for B and all candidates, so counting words gives no help. Participles and
comparatives always have two contexts, as in UNI's syntactic example.

Negation follows UNI's Table 5 and has one wording: B is the opposite of A with "not", and the wrong answer is
the question's own positive as a double negation,

    the plan was clear : the plan was not clear = the ant is known : the ant is unknown (or: is not unknown)
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from studies.analogies.contexts import Frame, Frames, fill
from studies.analogies.lexicon import Category, Pair, Terms

_POSSESSIVE = {"his", "her", "their", "our", "its", "your"}
_PRONOUN = {"he", "she", "they", "we", "it", "you"}


@dataclass(frozen=True, slots=True)
class Analogy:
    """Two pairs of a category and the wrong answers."""

    first: Pair
    second: Pair
    wrong_words: tuple[str, ...]
    """Of the word question."""
    wrong: tuple[str, ...]
    """Of phrases and sentences: the texts of the slot."""

    @property
    def terms(self) -> Terms:
        """a, b, c and the answer."""
        return (self.first.left, self.first.right, self.second.left, self.second.right)


Texts = tuple[Terms, list[str], str]
"""a, b, c and the answer, the wrong answers, and where the contexts come from."""


def slot_text(kind: str, level: str, word: str, role: str) -> str:
    """The slot text of a word: "the boy", "her friend", "are walking" in sentences.

    Args:
        kind: of the category's contexts.
        level: phrase or sentence.
        word: the word.
        role: left, right (also the wrong answers of semantic categories) or wrong.
    """
    if kind == "person":
        return word if word in _PRONOUN else f"{word} friend" if word in _POSSESSIVE else f"the {word}"
    if kind == "verb" and level == "sentence" and role == "right":
        return f"are {word}"
    return word


def word_texts(asked: Sequence[Analogy]) -> list[Texts]:
    """Word questions: words are their own contexts."""
    return [(question.terms, list(question.wrong_words), "lexicon") for question in asked]


def context_texts(
    category: Category, level: str, asked: Sequence[Analogy], frames: Frames, *, shared: bool, seed: int
) -> list[Texts]:
    """Phrase or sentence questions.

    Args:
        category: one that has contexts.
        level: phrase or sentence.
        asked: its questions.
        frames: contexts by kind and level.
        shared: see the module; False is our own variant.
        seed: seed of the pairs' contexts.
    """
    assert category.contexts is not None
    kind = category.contexts.kind
    found = frames[kind, level]
    order = random.Random(f"{seed} {category.name} {level}").sample(found, len(found))
    pairs = dict.fromkeys(pair for q in asked for pair in (q.first, q.second))
    context = {pair: order[i % len(order)] for i, pair in enumerate(pairs)}
    if kind == "predicate":
        return [_negated(q, context[q.first], context[q.second]) for q in asked]
    if shared and category.semantic:
        return [_shared(kind, level, q, context[q.first]) for q in asked]
    return [_own(kind, level, q, context[q.first], context[q.second]) for q in asked]


def _shared(kind: str, level: str, question: Analogy, here: Frame) -> Texts:
    """Both pairs in the first one's context."""
    p, q = question.first, question.second

    def text(frame: tuple[str, ...], word: str) -> str:
        return fill(frame, slot_text(kind, level, word, "left"))

    terms = (
        text(here.left, p.left),
        text(here.right, p.right),
        text(here.right, q.left),
        text(here.left, q.right),
    )
    return terms, [text(here.right, word) for word in question.wrong], here.source


def _own(kind: str, level: str, question: Analogy, here: Frame, there: Frame) -> Texts:
    """Each pair in its own context."""
    p, q = question.first, question.second

    def text(frame: tuple[str, ...], word: str, role: str) -> str:
        return fill(frame, slot_text(kind, level, word, role))

    terms = (
        text(here.left, p.left, "left"),
        text(here.right, p.right, "right"),
        text(there.left, q.left, "left"),
        text(there.right, q.right, "right"),
    )
    wrong = [text(there.right, word, "wrong") for word in question.wrong]
    return terms, wrong, f"{here.source} {there.source}"


def _negated(question: Analogy, here: Frame, there: Frame) -> Texts:
    """Adjectives and their opposites."""
    p, q = question.first, question.second
    terms = (
        fill(here.left, p.left),
        fill(here.left, f"not {p.left}"),
        fill(there.left, q.left),
        fill(there.left, q.right),
    )
    wrong = [fill(there.left, word) for word in question.wrong]
    return terms, wrong, f"{here.source} {there.source}"
