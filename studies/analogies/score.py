"""Scoring of analogies: ranks, accuracies, transfer between levels, open vocabulary.

A question a : b = c : d is answered by 3CosAdd: the candidate whose vector has the highest cosine with
b − a + c, all vectors scaled to length 1 first. Ties count against the answer: a candidate within 1e-6 of
the answer's cosine ranks before it, so an encoder that gives all texts the same vector scores 0.

Transfer (UNI Table 6). The paper's exact definition could not be checked; this is our reading of it. Every
phrase or sentence question is linked to the word question it was made from.

    PPR = fraction of word questions answered right whose phrase (sentence) question is right too
    PNR = fraction of word questions answered wrong whose phrase (sentence) question is wrong too

Averages (UNI Table 4): semantic and syntactic are means over their categories, overall is the mean over all
categories. Legend of dimension suffixes: Q questions, K candidates, D embedding size, W words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from senteval_runner.protocol.features import unit
from senteval_runner.vectors.embed import SentenceVectors
from studies.analogies.lexicon import CATEGORIES, LEVELS
from studies.analogies.questions import Question

Float = NDArray[np.floating]
OpenScores = dict[str, tuple[float, int]]
"""Open-vocabulary accuracy and number of questions, by set."""
TIE = 1e-6
BLOCK = 1024


class TextVectors:
    """Unit vectors of every distinct text of the questions.

    Args:
        questions: whose texts are encoded.
        encode: token lists to vectors.
    """

    def __init__(self, questions: Sequence[Question], encode: SentenceVectors) -> None:
        texts = [text for q in questions for text in (q.a, q.b, q.c, *q.candidates)]
        self.rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        self.unit_ND = unit(encode([text.split() for text in self.rows]))

    def __call__(self, texts: Sequence[str]) -> Float:
        """Rows [len(texts), D]."""
        rows: Float = self.unit_ND[[self.rows[text] for text in texts]]
        return rows


def answer_ranks(questions: Sequence[Question], vectors: TextVectors) -> NDArray[np.int64]:
    """Rank of the right answer among the candidates, from 1: [Q]."""
    ranks = np.zeros(len(questions), dtype=np.int64)
    for start in range(0, len(questions), BLOCK):
        block = questions[start : start + BLOCK]
        terms = (vectors([getattr(q, name) for q in block]) for name in ("a", "b", "c"))
        a_QD, b_QD, c_QD = (term.astype(np.float64) for term in terms)
        target_QD = unit(b_QD - a_QD + c_QD)
        size = max(len(q.candidates) for q in block)
        filled = [q.candidates + (q.answer,) * (size - len(q.candidates)) for q in block]
        candidate_QKD = vectors([text for row in filled for text in row]).reshape(len(block), size, -1)
        score_QK = np.einsum("qd,qkd->qk", target_QD, candidate_QKD.astype(np.float64))
        wrong_QK = np.array(
            [[text != q.answer for text in row] for q, row in zip(block, filled, strict=True)]
        )
        answer_Q = np.where(wrong_QK, -np.inf, score_QK).max(axis=1)
        ahead_QK = wrong_QK & (score_QK >= answer_Q[:, None] - TIE)
        ranks[start : start + BLOCK] = 1 + ahead_QK.sum(axis=1)
    return ranks


@dataclass(frozen=True, kw_only=True)
class AnalogyScores:
    """Scores of one encoder; fractions between 0 and 1."""

    accuracy: dict[str, dict[str, float]]
    """level -> category, ``semantic``, ``syntactic``, ``overall``."""
    rank_counts: dict[str, dict[str, list[int]]]
    """level -> category -> number of questions whose answer came 1st, 2nd, ... (UNI Figures 1 and 2)."""
    transfer: dict[str, dict[str, float | None]]
    """level -> ``PPR``, ``PNR``; None where no word question is right (wrong)."""
    questions: dict[str, int]
    """Number per level."""


def averages(by_category: Mapping[str, float]) -> dict[str, float]:
    """``semantic``, ``syntactic`` and ``overall`` means over the categories there are."""
    groups = {
        "semantic": [v for name, v in by_category.items() if CATEGORIES[name].semantic],
        "syntactic": [v for name, v in by_category.items() if not CATEGORIES[name].semantic],
        "overall": list(by_category.values()),
    }
    return {name: float(np.mean(values)) for name, values in groups.items() if values}


def transfer_rates(
    questions: Sequence[Question], right: Mapping[str, bool], level: str
) -> dict[str, float | None]:
    """PPR and PNR of a level (see the module's docstring).

    Args:
        questions: of all levels.
        right: question id to whether the answer came first.
        level: phrase or sentence.
    """
    pairs = [(right[q.word_question_id], right[q.question_id]) for q in questions if q.level == level]
    positive = [here for word, here in pairs if word]
    negative = [not here for word, here in pairs if not word]
    return {
        "PPR": float(np.mean(positive)) if positive else None,
        "PNR": float(np.mean(negative)) if negative else None,
    }


def score_analogies(questions: Sequence[Question], vectors: TextVectors) -> AnalogyScores:
    """Accuracies, rank distributions and transfer rates of one encoder."""
    ranks = answer_ranks(questions, vectors)
    right = {q.question_id: bool(rank == 1) for q, rank in zip(questions, ranks, strict=True)}
    accuracy: dict[str, dict[str, float]] = {}
    counts: dict[str, dict[str, list[int]]] = {}
    for level in LEVELS:
        found: dict[str, list[int]] = {}
        for question, rank in zip(questions, ranks, strict=True):
            if question.level == level:
                found.setdefault(question.category, []).append(int(rank))
        if found:
            by_category = {name: float(np.mean(np.array(r) == 1)) for name, r in found.items()}
            accuracy[level] = {**by_category, **averages(by_category)}
            counts[level] = {name: np.bincount(r, minlength=3)[1:].tolist() for name, r in found.items()}
    return AnalogyScores(
        accuracy=accuracy,
        rank_counts=counts,
        transfer={
            level: transfer_rates(questions, right, level) for level in LEVELS[1:] if level in accuracy
        },
        questions={level: sum(q.level == level for q in questions) for level in accuracy},
    )


def open_accuracy(
    questions: Sequence[tuple[str, str, str, str]], words: Sequence[str], vectors_WD: Float
) -> tuple[float, int]:
    """Open-vocabulary 3CosAdd: is d nearest to b − a + c among all words but a, b and c?

    Args:
        questions: (a, b, c, d).
        words: the W words to choose from.
        vectors_WD: their vectors.

    Returns:
        Fraction of right answers among the questions whose four words are known, and the number of those.
    """
    rows = {word: row for row, word in enumerate(words)}
    known = [[rows[w] for w in question] for question in questions if all(w in rows for w in question)]
    if not known:
        return 0.0, 0
    unit_WD = unit(vectors_WD.astype(np.float32))
    right = 0
    for start in range(0, len(known), BLOCK):
        index_Q4 = np.array(known[start : start + BLOCK])
        a, b, c, d = index_Q4.T
        score_QW = unit(unit_WD[b] - unit_WD[a] + unit_WD[c]) @ unit_WD.T
        each = np.arange(len(index_Q4))
        answer_Q = score_QW[each, d].copy()
        for term in (a, b, c, d):
            score_QW[each, term] = -np.inf
        right += int((score_QW.max(axis=1) < answer_Q - TIE).sum())
    return right / len(known), len(known)
