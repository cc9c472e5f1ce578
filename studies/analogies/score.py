"""Scoring of analogies: ranks, accuracies, transfer between levels.

A question a : b = c : d is answered by 3CosAdd: the candidate whose vector has the highest cosine with
b − a + c, all vectors scaled to length 1 first. Ties count against the answer: a candidate within 1e-6 of
the answer's cosine ranks before it, so an encoder that gives all texts the same vector scores 0.

Averages (UNI Table 4). Per level: the accuracy over all semantic questions, over all syntactic ones, and the
mean of the two. Over the levels: the mean of their averages. That the first two are over questions, not over
categories, is our reading. The paper's SALBERT fits it: its semantic phrases (55.8) and sentences (56.4) both
follow from its transfer rates in Table 6 if 74.5 % of the word questions were right.

Transfer (UNI Table 6), over the semantic questions alone. Every phrase or sentence question is linked to the
word question it was made from. With P (N) the questions whose word question is answered right (wrong), and PP
(PN) those of them that are answered right at the higher level,

    PPR = |PP| / |P|        what is right in words stays right
    PNR = |PN| / |N|        what is wrong in words is right in context

Legend of dimension suffixes: Q questions, K candidates, D embedding size.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TypedDict

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from senteval_runner.protocol.features import unit
from senteval_runner.vectors.embed import SentenceVectors
from studies.analogies.questions import CATEGORIES, LEVELS, Question

Float = NDArray[np.floating]
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
        wrong_QK = np.array([q.answer for q in block])[:, None] != np.array(filled)
        answer_Q = np.where(wrong_QK, -np.inf, score_QK).max(axis=1)
        ahead_QK = wrong_QK & (score_QK >= answer_Q[:, None] - TIE)
        ranks[start : start + BLOCK] = 1 + ahead_QK.sum(axis=1)
    return ranks


class AnalogyScores(TypedDict):
    """Scores of one encoder; fractions between 0 and 1."""

    accuracy: dict[str, dict[str, float]]
    """level -> category."""
    averages: dict[str, dict[str, float]]
    """level -> ``semantic``, ``syntactic`` and the mean of the two, ``average``."""
    overall: float | None
    """Mean of the three levels' averages (UNI Table 4, All); None where one is missing."""
    rank_counts: dict[str, dict[str, list[int]]]
    """level -> category -> number of questions whose answer came 1st, 2nd, ... (UNI Figures 1 and 2)."""
    transfer: dict[str, dict[str, float | None]]
    """level -> ``PPR``, ``PNR``; None where no word question is right (wrong)."""


def summarise(questions: Sequence[Question], ranks: Sequence[int] | NDArray[np.int64]) -> AnalogyScores:
    """Accuracies, averages, rank distributions and transfer rates (see the module's docstring).

    Args:
        questions: of all levels.
        ranks: of their right answers, from 1.
    """
    table = pd.DataFrame({"level": [q.level for q in questions], "category": [q.category for q in questions]})
    table["rank"], table["right"] = ranks, np.asarray(ranks) == 1
    table["semantic"] = [CATEGORIES[q.category].semantic for q in questions]
    right = dict(zip([q.question_id for q in questions], table["right"], strict=True))
    table["from"] = [right[q.word_question_id] for q in questions]
    scores = AnalogyScores(accuracy={}, averages={}, overall=None, rank_counts={}, transfer={})
    for level in LEVELS:
        if (here := table[table["level"] == level]).empty:
            continue
        by_category = here.groupby("category", sort=False)
        scores["accuracy"][level] = by_category["right"].mean().to_dict()
        scores["rank_counts"][level] = {
            str(name): np.bincount(found, minlength=3)[1:].tolist() for name, found in by_category["rank"]
        }
        semantic = here[here["semantic"]]
        kinds = {"semantic": semantic["right"], "syntactic": here[~here["semantic"]]["right"]}
        means = {name: float(found.mean()) for name, found in kinds.items() if len(found)}
        scores["averages"][level] = means | ({"average": fmean(means.values())} if len(means) == 2 else {})
        if level != "word":
            rates = {"PPR": semantic[semantic["from"]]["right"], "PNR": semantic[~semantic["from"]]["right"]}
            scores["transfer"][level] = {
                n: float(found.mean()) if len(found) else None for n, found in rates.items()
            }
    of_levels = [means["average"] for means in scores["averages"].values() if "average" in means]
    return {**scores, "overall": fmean(of_levels) if len(of_levels) == len(LEVELS) else None}
