"""Analogies: the questions in the package, files of others, scores and the report."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.errors import UserError
from studies.analogies.__main__ import cli
from studies.analogies.config import AnalogiesConfig
from studies.analogies.questions import CATEGORIES, FILE, SEMANTIC, Analogy, read_questions, write_questions
from studies.analogies.score import answer_ranks, summarise, text_vectors
from studies.runner import read_presets, read_published
from tests.fixtures.processes import ROOT
from tests.fixtures.senteval import write_word_vectors
from tools.build_analogies import build_questions, read_facts

LEVELS = ("word", "phrase", "sentence")
QUESTIONS = read_questions(FILE)
SMALL = [q for q in QUESTIONS if int(q.name[-4:]) % 41 == 0 and int(q.name[-4:]) < 492]


def one_hot(sentences) -> np.ndarray:
    """Counts of words: knows which words are the same, and nothing else."""
    words = {w: i for i, w in enumerate(sorted({t.lower() for tokens in sentences for t in tokens}))}
    counts = np.zeros((len(sentences), len(words)))
    for row, tokens in enumerate(sentences):
        np.add.at(counts[row], [words[token.lower()] for token in tokens], 1)
    return counts


TABLE_3 = {
    "capital-common": (23, 506, 5),
    "capital-world": (116, 4524, 5),
    "city-state": (67, 2467, 5),
    "male-female": (23, 506, 5),
    "present-participle": (33, 1056, 2),
    "positive-comparative": (37, 1322, 2),
    "positive-negative": (29, 812, 2),
}
"""UNI's, of pairs, questions and candidates."""


def test_counts_are_those_of_the_paper() -> None:
    assert [len(read_facts(name)) for name in CATEGORIES] == [pairs for pairs, *_ in TABLE_3.values()]
    counts = Counter((q.level, q.category) for q in QUESTIONS)
    assert counts == {(level, c): n for level in LEVELS for c, (_, n, _) in TABLE_3.items()}
    for q in QUESTIONS:
        assert len(q.candidates) == (5 if q.level == "word" else TABLE_3[q.category][2])


def test_the_file_in_the_package_is_what_the_builder_makes() -> None:
    assert [q for category in CATEGORIES for q in build_questions(category)] == QUESTIONS


def test_negation_is_unis() -> None:
    """UNI's Table 5: b denies a, the wrong answer denies the right one, and no context is paraphrased."""
    words = {q.name: q for q in SMALL if q.level == "word"}
    questions = [q for q in SMALL if q.category == "positive-negative" and q.level != "word"]
    for q in questions:
        word = words[q.name]
        assert q.b.lower() == q.a.lower().replace(word.a, f"not {word.a}")
        assert q.answer.lower() == q.c.lower().replace(word.c, word.answer)
        assert q.wrong[0].lower() == q.c.lower().replace(word.c, f"not {word.answer}")
    # What counts words takes the double negation, as UNI says of GloVe.
    assert set(answer_ranks(questions, text_vectors(questions, one_hot))) == {2}


def test_semantic_wordings_lead_away_from_the_answer() -> None:
    """UNI: A and the answer are worded alike, B, C and the wrong answers the other way."""
    semantic = [q for q in SMALL if q.category in SEMANTIC and q.level != "word"]
    words = {q.name: q for q in SMALL if q.level == "word"}
    assert set(answer_ranks(semantic, text_vectors(semantic, one_hot))) == {5}
    for q in semantic:
        word = words[q.name]
        if q.category == "city-state":
            wording_of_a, wording_of_b = q.a.replace(word.a, "_"), q.b.replace(word.b, "_")
            assert q.answer.replace(word.answer, "_") == wording_of_a
            assert q.c.replace(word.c, "_") == wording_of_b
            start, end = wording_of_b.split("_")
            assert all(text.startswith(start) and text.endswith(end) for text in q.wrong)


def test_what_cannot_be_asked_is_named(tmp_path: Path) -> None:
    path = tmp_path / "q.tsv"
    phrase = next(q for q in SMALL if q.level == "phrase")
    for questions, message in (
        ([replace(SMALL[0], wrong=(SMALL[0].answer,))], r"q\.tsv:2: the answer '\w+' is among the wrong"),
        ([replace(SMALL[0], wrong=("x", "x"))], r"q\.tsv:2: a wrong candidate occurs twice"),
        ([replace(SMALL[0], wrong=("x", SMALL[0].a))], r"q\.tsv:2: candidate '\w+' is a term"),
        ([replace(SMALL[0], level="text")], r"q\.tsv:2: level 'text' is none of word"),
        ([replace(SMALL[0], category="text")], r"q\.tsv:2: category 'text' is none of capital"),
        ([SMALL[0], SMALL[0]], r"q\.tsv:3: a second word question"),
        ([phrase], r"q\.tsv:2: no word question .* stands before it"),
    ):
        write_questions(path, questions)
        with pytest.raises(UserError, match=message):
            read_questions(path)


@pytest.mark.usefixtures("drawings")
def test_questions_are_scored_and_reported(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = " ".join(text for q in SMALL for text in q.texts).lower()
    write_word_vectors(Path("v.txt"), sorted({*texts.split()}))
    write_questions(Path("q.tsv.xz"), SMALL)
    assert read_questions(Path("q.tsv.xz")) == SMALL
    assert cli(["v.txt", "--questions", "q.tsv.xz", "--output", "report"]) == 0
    (scores,) = json.loads((tmp_path / "report" / "results.json").read_text())["cells"]
    report = (tmp_path / "report/report.md").read_text()
    assert report.count(" † |") == 19 + 4 and "| ALBURT-xxlarge † | 68.7 |" in report  # Tables 4 and 6
    for row in read_published(ROOT / "studies/analogies/published-averages.csv").values():
        parts = [[row[f"{level} {name}"] for name in ("sem", "syn", "Avg.")] for level in LEVELS]
        assert all((sem + syn) / 2 == pytest.approx(mean, abs=0.11) for sem, syn, mean in parts)
        assert np.mean([mean for *_, mean in parts]) == pytest.approx(row["All"], abs=0.11)
    preset = read_presets(AnalogiesConfig)["paper"]["models"]
    assert len(preset) == 19 and cli(["v.txt", "no.txt", "--questions", "q.tsv.xz"]) == 2
    assert 0 <= scores["overall"] <= 1 and 0 <= scores["averages"]["sentence Avg."] <= 1
    assert (tmp_path / "report" / "report.html").read_text().count("<img") == 5


def loop_rank(question: Analogy, unit: dict[str, np.ndarray]) -> int:
    """Rank of the answer by the definition, one candidate at a time."""
    target = unit[question.b] - unit[question.a] + unit[question.c]
    cosines = {text: unit[text] @ target / max(np.linalg.norm(target), 1e-12) for text in question.candidates}
    answer = cosines.pop(question.answer)
    return 1 + sum(cosine >= answer - 1e-6 for cosine in cosines.values())


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12))
def test_ranks_equal_a_loop(seed: int, dim: int) -> None:
    generator = np.random.default_rng(seed)
    texts = sorted({t for q in SMALL for t in q.texts})
    # Small integers, so that exact ties occur.
    table = dict(zip(texts, generator.integers(1, 4, (len(texts), dim)).astype(float), strict=True))
    vectors = text_vectors(SMALL, lambda sentences: np.array([table[" ".join(t)] for t in sentences]))
    unit = {text: vector / np.linalg.norm(vector) for text, vector in table.items()}
    assert answer_ranks(SMALL, vectors).tolist() == [loop_rank(q, unit) for q in SMALL]


@pytest.mark.parametrize(
    ("word", "phrase", "ppr", "pnr"),
    [
        ([1, 1, 1, 0], [0, 1, 0, 1], 1 / 3, 1),
        ([1, 1, 0, 0], [0, 0, 0, 0], 0, 0),  # GloVe in UNI's Table 6
        ([0, 0], [0, 0], None, 0),
    ],
)
def test_transfer_by_hand(word: list[int], phrase: list[int], ppr: float | None, pnr: float) -> None:
    base = next(q for q in SMALL if q.category == "capital-world")
    words = [replace(base, name=f"w{i}") for i in range(len(word))]
    phrases = [replace(q, level="phrase") for q in words]
    rates = summarise([*words, *phrases], [2 - right for right in (*word, *phrase)])["transfer"]
    assert rates == {"phrase PPR": ppr, "phrase PNR": pytest.approx(pnr)}


def test_scores_agree_with_each_other() -> None:
    """Averages as in UNI's Table 4: over questions, not over categories; and its Table 6 with them."""
    generator = np.random.default_rng(0)
    questions = [q for q in SMALL if q.category != "city-state" or q.name[-1] in "012"]
    vectors = text_vectors(questions, lambda sentences: generator.normal(size=(len(sentences), 6)))
    ranks = answer_ranks(questions, vectors)
    scores, hits = summarise(questions, ranks), ranks == 1
    averages, transfer = scores["averages"], scores["transfer"]
    for level in LEVELS:
        rows = [q.level == level and q.category in SEMANTIC for q in questions]
        assert averages[f"{level} sem"] == pytest.approx(hits[rows].mean())
        of_kinds = [averages[f"{level} {kind}"] for kind in ("sem", "syn")]
        assert averages[f"{level} Avg."] == pytest.approx(np.mean(of_kinds))
        if level != "word":
            word, (ppr, pnr) = averages["word sem"], [transfer[f"{level} {name}"] for name in ("PPR", "PNR")]
            assert averages[f"{level} sem"] == pytest.approx(word * ppr + (1 - word) * pnr)
    assert scores["overall"] == pytest.approx(np.mean([averages[f"{level} Avg."] for level in LEVELS]))
