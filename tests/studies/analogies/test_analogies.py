"""Analogies: invariants of the construction, wrong answers, contexts from trees, bad files."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.words.vectors import WordVectors
from parsing.trees.sentences import ParsedSentence
from runtime.errors import UserError
from studies.analogies import build, contexts
from studies.analogies.__main__ import ScoreConfig, cli
from studies.analogies.build import Ranking, build_questions, content_words, load_pairs
from studies.analogies.contexts import SLOT, Frame, collect_frames, fill, frames_of
from studies.analogies.questions import CATEGORIES, Question, read_google, read_questions, write_questions
from studies.analogies.score import answer_ranks, summarise, text_vectors
from studies.kit import read_presets, read_published
from tests.conftest import ROOT
from tests.parsing.trees.test_cache import corpus_of, write_cache

FRAMES = collect_frames()
LEVELS = ("word", "phrase", "sentence")
SMALL = build_questions(FRAMES, seed=1, limit=12)


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
    assert [len(group) for group in load_pairs().values() if group] == [
        pairs for pairs, *_ in TABLE_3.values()
    ]
    questions = build_questions(FRAMES, seed=0)
    found = Counter((q.level, q.category) for q in questions)
    assert found == {(level, c): n for level in LEVELS for c, (_, n, _) in TABLE_3.items()}
    for q in questions:
        assert q.fault() is None
        assert len(q.candidates) == (5 if q.level == "word" else TABLE_3[q.category][2])


def test_negation_is_unis() -> None:
    """UNI's Table 5: b denies a, the wrong answer denies the right one, and no context is paraphrased."""
    words = {q.question_id: q for q in SMALL}
    found = [q for q in SMALL if q.category == "positive-negative" and q.level != "word"]
    for q in found:
        linked = words[q.word_question_id]
        wrong = next(text for text in q.candidates if text != q.answer)
        assert q.b.lower() == q.a.lower().replace(linked.a, f"not {linked.a}")
        assert q.answer.lower() == q.c.lower().replace(linked.c, linked.answer)
        assert wrong.lower() == q.c.lower().replace(linked.c, f"not {linked.answer}")
    # What counts words takes the double negation, as UNI says of GloVe.
    assert set(answer_ranks(found, text_vectors(found, one_hot))) == {2}


GOOGLE = {
    "family": [("boy", "girl", "king", "queen"), ("king", "queen", "duke", "duchess")],
    "gram3-comparative": [("bad", "worse", "big", "bigger")],
    "gram8-plural": [("dog", "dogs", "cat", "cats"), ("cow", "cows", "cat", "cats")],
}


def test_googles_questions_are_asked_as_they_stand() -> None:
    questions = build_questions(FRAMES, google=GOOGLE, seed=0)
    asked = {(q.a, q.b, q.c, q.answer) for q in questions if q.level == "word"}
    assert asked == {terms for rows in GOOGLE.values() for terms in rows}
    counts = Counter(q.category for q in questions)  # two and one at three levels, two of words alone
    assert counts == {"male-female": 6, "positive-comparative": 3, "singular-plural": 2}
    assert any("the duchess" in q.answer for q in questions)
    with pytest.raises(UserError, match="no wrong answer beside 'odder'"):
        build_questions(FRAMES, google={"gram3-comparative": [("bad", "worse", "odd", "odder")]}, seed=0)


@pytest.mark.data
def test_googles_file_gives_the_papers_counts(data_folder: Path) -> None:
    google = read_google(data_folder / "analogy" / "questions-words.txt")
    assert len(google) == 14 and sum(map(len, google.values())) == 19_544
    found = Counter(q.level for q in build_questions(FRAMES, google=google, seed=0))
    assert found == {"word": 19_544 - 10, "phrase": 11_193, "sentence": 11_193}


def test_the_seed_decides_and_the_file_keeps_them(tmp_path: Path) -> None:
    assert build_questions(FRAMES, seed=1, limit=12) == SMALL != build_questions(FRAMES, seed=2, limit=12)
    write_questions(tmp_path / "q.tsv", SMALL)
    assert read_questions(tmp_path / "q.tsv") == SMALL


def test_semantic_wordings_lead_away_from_the_answer() -> None:
    """UNI: A and the answer are worded alike, B, C and the wrong answers the other way."""
    semantic = [q for q in SMALL if CATEGORIES[q.category].semantic and q.level != "word"]
    words = {q.question_id: q for q in SMALL}
    assert set(answer_ranks(semantic, text_vectors(semantic, one_hot))) == {5}
    for q in semantic:
        linked = words[q.word_question_id]
        if q.category == "city-state":
            one, other = (q.a.replace(linked.a, SLOT), q.b.replace(linked.b, SLOT))
            assert q.answer.replace(linked.answer, SLOT) == one and q.c.replace(linked.c, SLOT) == other
            start, end = other.split(SLOT)
            wrong = [text for text in q.candidates if text != q.answer]
            assert all(text.startswith(start) and text.endswith(end) for text in wrong)


def ranking(table: dict[str, list[float]]) -> Ranking:
    return Ranking(WordVectors(list(table), np.array(list(table.values()), dtype=np.float32)))


NEAR = {
    **{"athens": [1.0, 0, 0], "greece": [1, 1, 0], "oslo": [1, 0, 1], "norway": [1, 1, 1]},
    **{"rome": [-1, 0, 0]},
    **{"sweden": [1, 1, 0.9], "SWEDEN": [1, 1, 0.8], "a|b": [1, 1, 0.8], "finland": [1, 1, 0.7]},
}


def test_wrong_answers_follow_the_vectors() -> None:
    question, unknown = ("Athens", "Greece", "Oslo", "Norway"), ("x", "Greece", "Oslo", "Norway")
    lower, cased = ranking(NEAR), ranking({**NEAR, "Norway": [1, 1, 1]})
    nothing, scores = lower.scores([unknown, question])
    assert nothing is None and scores is not None
    assert lower.among(["Rome", "Nowhere", "Sweden"], scores) == ["Sweden", "Rome", "Nowhere"]
    # Among all words: no term of the question, no second spelling, no sign of the file's own; in capitals,
    # since the file knows the answer in lower case alone.
    assert lower.nearest(question, scores) == ["Sweden", "Finland", "Rome"]
    assert cased.nearest(question, next(cased.scores([question]))) == ["sweden", "finland", "rome"]


def test_the_nearest_words_equal_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "SCORES", 60 * 7)  # seven questions at a time
    generator = np.random.default_rng(0)
    words = [f"w{i}" for i in range(60)]
    table = dict(zip(words, generator.normal(size=(60, 5)).tolist(), strict=True))
    unit = {word: np.array(v) / np.linalg.norm(v) for word, v in table.items()}
    questions = [tuple(generator.choice(words, 4, replace=False).tolist()) for _ in range(20)]
    known = ranking(table)
    for question, scores in zip(questions, known.scores(questions), strict=True):
        a, b, c, _ = (unit[word] for word in question)
        left = [word for word in words if word not in question]
        order = np.argsort([-float(unit[word] @ (b - a + c)) for word in left])
        assert known.nearest(question, scores) == [left[place] for place in order[:4]]


def test_contexts_are_whole_constituents() -> None:
    sentence = ParsedSentence(
        ["The", "old", "people", "visited", "the", "streets", "of", "London", "."],
        0,
        [3, 3, 4, 0, 6, 4, 8, 6, 4],
        ["det", "amod", "nsubj", "root", "det", "obj", "case", "nmod", "punct"],
        ["DT", "JJ", "NNS", "VBD", "DT", "NNS", "IN", "NNP", "."],
        [(0, 9, "S"), (0, 3, "NP"), (3, 8, "VP"), (4, 8, "NP"), (4, 6, "NP"), (6, 8, "PP")],
    )
    found = {(kind, level): frame for kind, level, frame in frames_of(sentence, 7, content_words())}
    streets, roads = (("the", word, "of", SLOT) for word in ("streets", "roads"))
    assert found["place", "phrase"] == Frame(streets, roads, "cache:7")
    assert fill(found["place", "sentence"].left, "Oslo") == "The old people visited the streets of Oslo ."
    assert found["adjective", "phrase"].left == ("the", SLOT, "people")
    assert fill(found["place", "sentence"].right, "Oslo") == "The aged folk toured the roads of Oslo ."
    assert not any("London" in frame.left for frame in found.values())
    assert list(frames_of(replace(sentence, flags=1), 7, content_words())) == []


def test_bad_rows_are_named(tmp_path: Path) -> None:
    path = tmp_path / "q.tsv"
    write_questions(path, [replace(SMALL[0], answer="nobody")])
    with pytest.raises(UserError, match=r"q\.tsv:2: the answer 'nobody' is not once among"):
        read_questions(path)
    write_questions(path, [replace(SMALL[0], word_question_id="none")])
    with pytest.raises(UserError, match=r"q\.tsv:2: word_question_id 'none' is no word question"):
        read_questions(path)


def test_questions_are_built_from_a_tree_cache_and_scored(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    real, spans = contexts.cached_sentences, []
    monkeypatch.setattr(contexts, "cached_sentences", lambda *of: spans.append(of[1:]) or real(*of))
    write_cache(tmp_path / "trees", corpus_of(30))
    texts = " ".join(text for q in SMALL for text in (q.a, q.b, q.c, *q.candidates)).lower()
    generator = np.random.default_rng(0)
    rows = {word: " ".join(f"{x:.3f}" for x in generator.normal(size=8)) for word in sorted({*texts.split()})}
    (tmp_path / "v.txt").write_text("".join(f"{word} {row}\n" for word, row in rows.items()))
    assert cli(["build", "--cache", "trees", "--vectors", "v.txt", "--limit", "6", "--output", "out"]) == 0
    summary = json.loads((tmp_path / "out" / "build.json").read_text())
    [read] = Path("runs/vectors").glob("*/source.json")
    assert json.loads(read.read_text())["limit"] == build.ALL and spans == [(0, 30)]  # all words, sentences
    assert summary["cache"] and ["city-state", 6] in [row[:2] for row in summary["lengths"]]
    assert cli(["run", "v.txt", "--questions", "out/questions.tsv", "--output", "report"]) == 0
    (scores,) = json.loads((tmp_path / "report" / "results.json").read_text())["cells"]
    report = (tmp_path / "report/report.md").read_text()
    assert report.count(" † |") == 19 + 4 and "| ALBURT-xxlarge † | 68.7 |" in report  # Tables 4 and 6
    for row in read_published(ROOT / "studies/analogies/published-averages.csv").values():
        parts = [[row[f"{level} {name}"] for name in ("sem", "syn", "Avg.")] for level in LEVELS]
        assert all((sem + syn) / 2 == pytest.approx(mean, abs=0.11) for sem, syn, mean in parts)
        assert np.mean([mean for *_, mean in parts]) == pytest.approx(row["All"], abs=0.11)
    preset = read_presets(ScoreConfig)["paper"]["models"]
    assert len(preset) == 19 and cli(["run", "v.txt", "no.txt", "--questions", "out/questions.tsv"]) == 2
    assert 0 <= scores["overall"] <= 1 and 0 <= scores["averages"]["sentence"]["average"] <= 1
    assert (tmp_path / "report" / "report.html").read_text().count("<img") == 5


def loop_rank(question: Question, unit: dict[str, np.ndarray]) -> int:
    """Rank of the answer by the definition, one candidate at a time."""
    target = unit[question.b] - unit[question.a] + unit[question.c]
    cosines = {text: unit[text] @ target / max(np.linalg.norm(target), 1e-12) for text in question.candidates}
    answer = cosines.pop(question.answer)
    return 1 + sum(cosine >= answer - 1e-6 for cosine in cosines.values())


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12))
def test_ranks_equal_a_loop(seed: int, dim: int) -> None:
    generator = np.random.default_rng(seed)
    texts = sorted({t for q in SMALL for t in (q.a, q.b, q.c, *q.candidates)})
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
    words = [replace(base, question_id=f"w{i}", word_question_id=f"w{i}") for i in range(len(word))]
    phrases = [replace(q, question_id=f"p{i}", level="phrase") for i, q in enumerate(words)]
    rates = summarise([*words, *phrases], [2 - right for right in (*word, *phrase)])["transfer"]["phrase"]
    assert rates == {"PPR": ppr, "PNR": pytest.approx(pnr)}


def test_scores_agree_with_each_other() -> None:
    """Averages as in UNI's Table 4: over questions, not over categories; and its Table 6 with them."""
    generator = np.random.default_rng(0)
    asked = [q for q in SMALL if q.category != "city-state" or q.question_id[-1] in "012"]
    vectors = text_vectors(asked, lambda sentences: generator.normal(size=(len(sentences), 6)))
    ranks = answer_ranks(asked, vectors)
    scores, right = summarise(asked, ranks), ranks == 1
    for level, means in scores["averages"].items():
        here = [q.level == level and CATEGORIES[q.category].semantic for q in asked]
        assert means["semantic"] == pytest.approx(right[here].mean())
        assert means["average"] == pytest.approx((means["semantic"] + means["syntactic"]) / 2)
        if level != "word":
            word, rates = scores["averages"]["word"]["semantic"], scores["transfer"][level]
            assert means["semantic"] == pytest.approx(word * rates["PPR"] + (1 - word) * rates["PNR"])
    assert scores["overall"] == pytest.approx(np.mean([m["average"] for m in scores["averages"].values()]))
