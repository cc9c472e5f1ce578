"""Scores of analogies against loops and hand-made tables, and the report's tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.analogies.build import build_questions
from studies.analogies.contexts import collect_frames
from studies.analogies.questions import CATEGORIES, Question
from studies.analogies.score import (
    TextVectors,
    answer_ranks,
    summarise,
)

SMALL = build_questions(collect_frames(), seed=1, limit=12)


def loop_rank(question: Question, vector) -> int:
    """Rank of the answer by the definition, one candidate at a time."""

    def cosine(u, v) -> float:
        return float(u @ v / max(np.linalg.norm(u) * np.linalg.norm(v), 1e-12))

    a, b, c = (vector(t) / np.linalg.norm(vector(t)) for t in (question.a, question.b, question.c))
    target = b - a + c
    answer = cosine(vector(question.answer), target)
    return 1 + sum(
        cosine(vector(text), target) >= answer - 1e-6
        for text in question.candidates
        if text != question.answer
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12))
def test_ranks_equal_a_loop(seed: int, dim: int) -> None:
    generator = np.random.default_rng(seed)
    texts = sorted({t for q in SMALL for t in (q.a, q.b, q.c, *q.candidates)})
    # Small integers, so that exact ties occur.
    table = dict(zip(texts, generator.integers(1, 4, (len(texts), dim)).astype(float), strict=True))
    vectors = TextVectors(SMALL, lambda sentences: np.array([table[" ".join(t)] for t in sentences]))
    assert answer_ranks(SMALL, vectors).tolist() == [loop_rank(q, table.__getitem__) for q in SMALL]


def linked(word_right: Sequence[int], phrase_right: Sequence[int]) -> tuple[list[Question], list[int]]:
    """Semantic word questions, the phrases made from them, and the ranks of their answers."""
    base = next(q for q in SMALL if q.category == "capital-world")
    word = [replace(base, question_id=f"w{i}", word_question_id=f"w{i}") for i in range(len(word_right))]
    phrase = [replace(q, question_id=f"p{i}", level="phrase") for i, q in enumerate(word)]
    return [*word, *phrase], [2 - right for right in (*word_right, *phrase_right)]


@pytest.mark.parametrize(
    ("word", "phrase", "ppr", "pnr"),
    [
        ([1, 0, 0, 0], [1, 1, 0, 0], 1, 1 / 3),
        ([1, 1, 1, 0], [0, 1, 0, 1], 1 / 3, 1),
        ([1, 1, 0, 0], [0, 0, 0, 0], 0, 0),  # GloVe in UNI's Table 6
        ([0, 0], [0, 0], None, 0),
    ],
)
def test_transfer_by_hand(word: list[int], phrase: list[int], ppr: float | None, pnr: float) -> None:
    questions, ranks = linked(word, phrase)
    rates = summarise(questions, ranks)["transfer"]["phrase"]
    assert rates == {"PPR": ppr, "PNR": pytest.approx(pnr)}


def test_averages_are_those_of_table_4() -> None:
    ranks = {"capital-world": [1, 1, 1, 2], "city-state": [5], "positive-negative": [1, 2]}
    pick = {q.category: q for q in SMALL if q.level == "word"}
    asked = [
        replace(pick[name], question_id=f"{name}{i}", word_question_id=f"{name}{i}")
        for name, found in ranks.items()
        for i in range(len(found))
    ]
    found = summarise(asked, [rank for some in ranks.values() for rank in some])
    means = {"semantic": 3 / 5, "syntactic": 1 / 2, "average": 0.55}
    assert found["averages"]["word"] == pytest.approx(means) and found["overall"] is None
    assert summarise(asked[:1], [1])["averages"]["word"] == {"semantic": 1.0}


def test_scores_agree_with_each_other() -> None:
    generator = np.random.default_rng(0)
    vectors = TextVectors(SMALL, lambda sentences: generator.normal(size=(len(sentences), 6)))
    scores = summarise(SMALL, answer_ranks(SMALL, vectors))
    right = answer_ranks(SMALL, vectors) == 1
    for level, means in scores["averages"].items():
        here = [q.level == level and CATEGORIES[q.category].semantic for q in SMALL]
        assert means["semantic"] == pytest.approx(right[here].mean())
        assert means["average"] == pytest.approx((means["semantic"] + means["syntactic"]) / 2)
        if level != "word":
            word, rates = scores["averages"]["word"]["semantic"], scores["transfer"][level]
            assert means["semantic"] == pytest.approx(word * rates["PPR"] + (1 - word) * rates["PNR"])
    assert scores["overall"] == pytest.approx(np.mean([m["average"] for m in scores["averages"].values()]))
    alike = TextVectors(SMALL, lambda sentences: np.ones((len(sentences), 3)))
    flat = summarise(SMALL, answer_ranks(SMALL, alike))
    assert flat["overall"] == 0 and flat["transfer"]["phrase"] == {"PPR": None, "PNR": 0.0}
    assert flat["rank_counts"]["word"]["city-state"] == [0, 0, 0, 0, 12]
