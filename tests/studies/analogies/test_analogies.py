"""Analogies: scoring against a loop, invariants of the construction, contexts from trees, bad files."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.support.errors import UserError
from multiview.words.vectors import WordVectors
from parsing.cache.sentences import StoredSentence
from studies.analogies.__main__ import cli, run
from studies.analogies.build import Ranking, build_questions
from studies.analogies.config import ScoreConfig
from studies.analogies.contexts import SLOT, collect_frames, fill, frames_of, paraphrase
from studies.analogies.lexicon import CATEGORIES, load_pairs, read_google
from studies.analogies.questions import Question, read_questions, write_questions
from studies.analogies.score import (
    TextVectors,
    answer_ranks,
    open_accuracy,
    score_analogies,
    transfer_rates,
)
from tests.parsing.cache.test_reader import corpus_of, write_cache

FRAMES, _ = collect_frames(None, 1)
SMALL = build_questions(FRAMES, None, seed=1, limit=12)


def one_hot(sentences) -> np.ndarray:
    """Counts of words: knows which words are the same, and nothing else."""
    words = {w: i for i, w in enumerate(sorted({t.lower() for tokens in sentences for t in tokens}))}
    counts = np.zeros((len(sentences), len(words)))
    for row, tokens in enumerate(sentences):
        np.add.at(counts[row], [words[token.lower()] for token in tokens], 1)
    return counts


def test_counts_are_those_of_the_paper() -> None:
    pairs = {name: len(group) for name, group in load_pairs().items()}
    assert pairs == {
        "capital-common": 23,
        "capital-world": 116,
        "city-state": 67,
        "male-female": 23,
        "present-participle": 33,
        "positive-comparative": 37,
        "positive-negative": 29,
    }
    questions = build_questions(FRAMES, None, seed=0)
    found = Counter((q.level, q.category) for q in questions)
    for level in ("word", "phrase", "sentence"):
        assert {c: found[level, c] for c in CATEGORIES} == {c: v.questions for c, v in CATEGORIES.items()}
    for q in questions:
        assert q.fault() is None
        assert len(q.candidates) == CATEGORIES[q.category].candidates


def test_links_lead_to_the_same_pairs() -> None:
    words = {q.question_id: q for q in SMALL if q.level == "word"}
    for q in SMALL:
        linked = words[q.word_question_id]
        assert linked.category == q.category
        assert linked.answer in q.answer and linked.a in q.a and linked.b in q.b and linked.c in q.c


def test_candidates_are_the_word_questions_in_one_context() -> None:
    words = {q.question_id: q for q in SMALL if q.level == "word"}
    for q in SMALL:
        linked = words[q.word_question_id]
        for word in linked.candidates:
            assert any(f" {word} ".lower() in f" {text} ".lower() for text in q.candidates)


def test_the_wrong_negative_is_the_positive_of_another_pair() -> None:
    positives = {pair.left: pair for pair in load_pairs()["positive-negative"]}
    found = [q for q in SMALL if q.category == "positive-negative"]
    for q in found:
        wrong = next(text for text in q.candidates if text != q.answer)
        assert {word.lower() for word in wrong.split()} & positives.keys()
        linked = next(w for w in found if w.question_id == q.word_question_id)
        assert linked.c not in wrong.split() and linked.a not in wrong.split()


def test_same_seed_same_questions() -> None:
    assert build_questions(FRAMES, None, seed=1, limit=12) == SMALL
    assert build_questions(FRAMES, None, seed=2, limit=12) != SMALL


def test_shared_words_do_not_give_the_answer_away() -> None:
    semantic = [q for q in SMALL if CATEGORIES[q.category].semantic]
    assert min(answer_ranks(semantic, TextVectors(semantic, one_hot))) > 1
    for q in semantic:
        if q.level == "word":
            continue
        # All candidates stand in one context: they differ by the words in the slot alone.
        texts = [text.split() for text in q.candidates]
        first, *others = texts
        start = next(i for i, word in enumerate(first) if any(t[i : i + 1] != [word] for t in others))
        assert all(text[:start] == first[:start] for text in texts)


def test_left_and_right_contexts_differ() -> None:
    for frames in FRAMES.values():
        for frame in frames:
            assert frame.left != frame.right
            assert frame.left.count(SLOT) == frame.right.count(SLOT) == 1


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


def test_scores_and_transfer() -> None:
    scores = score_analogies(SMALL, TextVectors(SMALL, lambda sentences: np.ones((len(sentences), 3))))
    assert set(scores.accuracy) == {"word", "phrase", "sentence"}
    assert all(value == 0 for level in scores.accuracy.values() for value in level.values())
    assert scores.transfer["phrase"] == {"PPR": None, "PNR": 1.0}
    assert scores.rank_counts["word"]["city-state"] == [0, 0, 0, 0, 12]
    word = [replace(SMALL[0], question_id=f"w{i}", word_question_id=f"w{i}") for i in range(5)]
    phrase = [
        replace(SMALL[0], question_id=f"p{i}", word_question_id=f"w{i}", level="phrase") for i in range(5)
    ]
    answers = zip([*word, *phrase], (1, 1, 1, 0, 0, 1, 0, 1, 0, 1), strict=True)
    right = {q.question_id: bool(answer) for q, answer in answers}
    rates = transfer_rates([*word, *phrase], right, "phrase")
    assert rates == {"PPR": pytest.approx(2 / 3), "PNR": 0.5}


def test_open_vocabulary() -> None:
    words = ["a", "b", "c", "d", "e"]
    vectors = np.array([[1.0, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1], [0, 0, 1]])
    assert open_accuracy([("a", "b", "c", "d"), ("a", "b", "c", "unknown")], words, vectors) == (1.0, 1)
    assert open_accuracy([("a", "b", "c", "e")], words, vectors) == (0.0, 1)
    assert open_accuracy([("x", "b", "c", "e")], words, vectors) == (0.0, 0)


def test_the_words_of_a_question_are_no_answers() -> None:
    """b - a + c is nearest to b itself here; b does not count, so d is right."""
    vectors = np.array([[1.0, 0, 0], [0, 1, 0], [1, 0, 0.01], [0, 1, 0.5], [0, 0, 1]])
    assert open_accuracy([("a", "b", "c", "d")], ["a", "b", "c", "d", "e"], vectors) == (1.0, 1)


def test_wrong_answers_follow_the_vectors() -> None:
    words = ["athens", "greece", "oslo", "norway", "sweden", "rome"]
    vectors = np.array(
        [[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1], [1, 1, 0.9], [-1, 0, 0]], dtype=np.float32
    )
    ranking = Ranking(WordVectors(words, vectors))
    assert ranking.best("Athens", "Greece", "Oslo", ["Rome", "Nowhere", "Sweden"], 3) == (
        "Sweden",
        "Rome",
        "Nowhere",
    )


def parsed(text: str, tags: str, heads: list[int], relations: str, spans) -> StoredSentence:
    return StoredSentence(text.split(), 0, heads, relations.split(), tags.split(), spans)


def test_contexts_are_whole_constituents() -> None:
    sentence = parsed(
        "The old people visited the streets of London .",
        "DT JJ NNS VBD DT NNS IN NNP .",
        [3, 3, 4, 0, 6, 4, 8, 6, 4],
        "det amod nsubj root det obj case nmod punct",
        [(0, 9, "S"), (0, 3, "NP"), (3, 8, "VP"), (4, 8, "NP"), (4, 6, "NP"), (6, 8, "PP")],
    )
    found = {(kind, level): frame for kind, level, frame in frames_of(sentence, 7)}
    assert found["place", "phrase"].left == ("the", "streets", "of", SLOT)
    assert found["place", "phrase"].right == ("the", "roads", "of", SLOT)
    assert found["place", "phrase"].source == "cache:7"
    assert fill(found["place", "sentence"].left, "Oslo") == "The old people visited the streets of Oslo ."
    assert found["adjective", "phrase"].left == ("the", SLOT, "people")
    assert fill(found["place", "sentence"].right, "Oslo") == "The aged folk toured the roads of Oslo ."
    assert not any("London" in frame.left for frame in found.values())
    assert list(frames_of(replace(sentence, flags=1), 7)) == []


def test_paraphrase_minds_articles_and_names() -> None:
    assert paraphrase(("an", "idea", "of", SLOT)) == (("a", "thought", "of", SLOT), 1)
    assert paraphrase(("the", "Work", "of", SLOT)) == (("the", "Work", "of", SLOT), 0)


def test_file_round_trip(tmp_path: Path) -> None:
    write_questions(tmp_path / "q.tsv", SMALL)
    assert read_questions(tmp_path / "q.tsv") == SMALL


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        (7, "nobody", "is not once among"),
        (2, "paragraph", "level 'paragraph'"),
        (3, "colours", "category 'colours'"),
        (1, "gone", "is no word question"),
        (0, SMALL[1].question_id, "occurs twice"),
        (4, "", "column 'a' is empty"),
        (4, SMALL[0].answer, "is a term of the question"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, column: int, value: str, told: str) -> None:
    path = tmp_path / "q.tsv"
    write_questions(path, SMALL[:2])
    lines = path.read_text().splitlines()
    cells = lines[1].split("\t")
    cells[column] = value
    path.write_text("\n".join([lines[0], "\t".join(cells), lines[2]]))
    with pytest.raises(UserError, match=told) as error:
        read_questions(path)
    assert "q.tsv:2: " in str(error.value) or "q.tsv:3: " in str(error.value)


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    with pytest.raises(UserError, match="no such file"):
        read_questions(path)
    path.write_bytes(b"a\xff")
    with pytest.raises(UserError, match="not UTF-8"):
        read_google(path)
    path.write_text("one two three four\n")
    with pytest.raises(UserError, match=r"bad\.txt:1: "):
        read_google(path)
    path.write_text(": family\nboy girl king\n")
    with pytest.raises(UserError, match=r"bad\.txt:2: "):
        read_google(path)
    path.write_text("header\na\tb\n")
    with pytest.raises(UserError, match="no column 'question_id'"):
        read_questions(path)


def test_a_wrong_google_file_is_refused_before_models_are_loaded(tmp_path: Path) -> None:
    write_questions(tmp_path / "q.tsv", SMALL)
    config = ScoreConfig(models=("./no-model",), questions=tmp_path / "q.tsv", google=tmp_path / "none.txt")
    with pytest.raises(UserError, match=r"none\.txt: no such file"):
        run(config)


@pytest.mark.data
def test_google_file(data_folder: Path) -> None:
    sections = read_google(data_folder / "analogy" / "questions-words.txt")
    assert len(sections) == 14 and sum(map(len, sections.values())) == 19_544


def test_questions_are_built_from_a_tree_cache_and_vectors(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_cache(tmp_path / "trees", corpus_of(30))
    (tmp_path / "v.txt").write_text("Oslo 1 2\nking 2 1\nrain 0 1\n")
    assert cli(["build", "--cache", "trees", "--vectors", "v.txt", "--limit", "6", "--output", "out"]) == 0
    summary = json.loads((tmp_path / "out" / "build.json").read_text())
    assert summary["cache"] and summary["questions"]["word"]["city-state"] == 6


def test_commands(tmp_path: Path, command) -> None:
    built = command("studies.analogies", "build", "--output", tmp_path / "data", "--limit", 6)
    assert built.returncode == 0, built.stderr
    summary = json.loads((tmp_path / "data" / "build.json").read_text())
    assert summary["questions"]["word"]["city-state"] == 6
    words = {
        w for q in read_questions(tmp_path / "data" / "questions.tsv") for w in f"{q.a} {q.b} {q.c}".split()
    }
    vectors = tmp_path / "vectors.txt"
    generator = np.random.default_rng(0)
    vectors.write_text(
        "".join(
            f"{w.lower()} {' '.join(f'{x:.3f}' for x in generator.normal(size=8))}\n" for w in sorted(words)
        )
    )
    done = command(
        "studies.analogies", "run", vectors, "--questions", tmp_path / "data" / "questions.tsv",
        "--output", tmp_path / "report", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "report" / "results.json").read_text())
    assert 0 <= results["models"][str(vectors)]["accuracy"]["sentence"]["overall"] <= 1
    assert "<svg" in (tmp_path / "report" / "report.html").read_text()
    missing = command("studies.analogies", "run", vectors, "--questions", tmp_path / "none.tsv")
    assert missing.returncode == 2 and missing.stderr.count("\n") == 1
