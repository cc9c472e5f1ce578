"""Wrong answers: the words nearest to b − a + c among a file's whole vocabulary, or among given words.

UNI takes the five best of GloVe's vocabulary as the candidates of a word question and adds the answer where
it is not among them. That makes five or six; its Table 1 shows five, so ours are the answer and the four
best others. Legend of dimension suffixes: Q questions, W words, E vector size, S words ranked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from studies.analogies.lexicon import Terms

if TYPE_CHECKING:
    from multiview.words.vectors import WordVectors

SCORES = 2**26
"""Scores held at a time."""
SPARE = 12
"""Words ranked beyond those wanted: the question's own, and other spellings of one word."""


class Ranking:
    """Words by cosine with b − a + c, all vectors scaled to length 1.

    Args:
        vectors: word vectors; an unknown word is looked up in lower case. A zero vector is near nothing.
    """

    def __init__(self, vectors: WordVectors) -> None:
        self.words = vectors.words
        self.rows = {word: row for row, word in enumerate(vectors.words)}
        self.vectors_WE = vectors.vectors
        norms_W = np.linalg.norm(vectors.vectors, axis=1)
        self.norms_W: NDArray[np.float32] = np.where(norms_W > 0, norms_W, np.inf).astype(np.float32)

    def row(self, word: str) -> int | None:
        """Where a word stands in the file, or its lower case; None if it is unknown."""
        return self.rows.get(word, self.rows.get(word.lower()))

    def _unit(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        unit: NDArray[np.float32] = self.vectors_WE[rows] / self.norms_W[rows][..., None]
        return unit

    def among(self, question: Terms, pool: Sequence[str], count: int) -> tuple[str, ...]:
        """The ``count`` best of ``pool``; words without a vector follow in the pool's order.

        Args:
            question: a, b, c and the answer, which does not count; one without a vector leaves the order.
            pool: words.
            count: how many.
        """
        terms = [self.row(word) for word in question[:3]]
        if None in terms:
            return tuple(pool[:count])
        a_E, b_E, c_E = self._unit(np.array(terms))
        known = [self.row(word) for word in pool]
        scores = [
            -np.inf if row is None else float(self._unit(np.array(row)) @ (b_E - a_E + c_E)) for row in known
        ]
        order = sorted(range(len(pool)), key=lambda i: -scores[i])
        return tuple(pool[i] for i in order[:count])

    def nearest(self, questions: Sequence[Terms], count: int) -> list[tuple[str, ...]]:
        """The ``count`` best words of the whole file for every question, the question's own left out.

        A word counts once, whatever its capitals. Where a file knows the answer in lower case alone, its
        words take the answer's capital, or the one capitalised candidate would be the right one.

        Args:
            questions: a, b, c and the answer.
            count: how many words.

        Returns:
            One tuple per question; empty where a, b or c has no vector.
        """
        found: list[tuple[str, ...]] = [()] * len(questions)
        rows = [[self.row(word) for word in question[:3]] for question in questions]
        known = [number for number, terms in enumerate(rows) if None not in terms]
        size = min(count + SPARE, len(self.words))
        step = max(1, SCORES // len(self.words))
        for start in range(0, len(known), step):
            block = known[start : start + step]
            terms_Q3E = self._unit(np.array([rows[number] for number in block], dtype=np.int64))
            target_QE = terms_Q3E[:, 1] - terms_Q3E[:, 0] + terms_Q3E[:, 2]
            score_QW = target_QE @ self.vectors_WE.T / self.norms_W
            top_QS = np.argpartition(score_QW, -size, axis=1)[:, -size:]
            for number, top_S, score_W in zip(block, top_QS, score_QW, strict=True):
                best = top_S[np.lexsort((top_S, -score_W[top_S]))]
                found[number] = self._others(questions[number], best, count)
        return found

    def _others(self, question: Terms, best: NDArray[np.int64], count: int) -> tuple[str, ...]:
        """The first words of ``best`` that are new to the question."""
        seen = {word.lower() for word in question}
        answer = question[3]
        capital = answer[0].isupper() and answer not in self.rows
        others: list[str] = []
        for row in best:
            word = self.words[row]
            if (
                word.lower() in seen or not word.isprintable() or "|" in word
            ):  # what the file sets between texts
                continue
            seen.add(word.lower())
            others.append(word[0].upper() + word[1:] if capital else word)
        return tuple(others[:count])
