"""Similarity sets: published formats, correlation against scipy by hand, counts of the real files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.pairs.phrases import read_semeval2013_5a
from corpora.pairs.similarity import find_set
from corpora.senteval.files import read_task
from corpora.support.errors import UserError
from senteval_runner import evaluate
from senteval_runner.vectors.embed import as_vectors
from studies.burt.prepare import Phrases, hold_out_phrases
from studies.similarity.__main__ import main
from studies.similarity.config import SimilarityConfig
from studies.similarity.correlations import (
    correlate,
    phrase_similarity,
    sentence_similarity,
    word_similarity,
)
from studies.similarity.phrases import PhraseScores, best_threshold, score_phrases
from tests.senteval_runner.encoders import RandomBag

FORMATS = {
    "SimLex-999": ("SimLex-999.txt", "word1\tword2\tPOS\tSimLex999\told\nold\tnew\tA\t1.58\t2.72\n"),
    "WS-353-sim": ("wordsim_similarity_goldstandard.txt", "old\tnew\t1.58\n"),
    "MEN": ("MEN_dataset_natural_form_full", "old new 1.58\n"),
    "RW": ("rw.txt", "old\tnew\t1.58\t1\t2\t3\n"),
    "SimVerb-3500": ("SimVerb-3500.txt", "old\tnew\tV\t1.58\tSYNONYMS\n"),
    "SCWS": ("ratings.txt", "1\told\ta\tnew\ta\tthe <b>old</b> man\ta <b>new</b> man\t1.58\t1\t2\n"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_published_formats(name: str, tmp_path: Path) -> None:
    file, text = FORMATS[name]
    (tmp_path / file).write_text(text)
    pairs = find_set(name, tmp_path)
    assert pairs is not None and (pairs.left, pairs.right, pairs.score) == (("old",), ("new",), (1.58,))


def test_bad_rows_name_file_and_row(tmp_path: Path) -> None:
    assert find_set("MEN", tmp_path) is None
    (tmp_path / "rw.txt").write_text("a\tb\t1\nc\td\tmany\n")
    with pytest.raises(UserError, match=r"rw\.txt:2"):
        find_set("RW", tmp_path)
    (tmp_path / "rw.txt").write_text("a\tb\tnan\n")
    with pytest.raises(UserError, match=r"rw\.txt:1"):
        find_set("RW", tmp_path)


def test_only_line_feeds_end_a_row(tmp_path: Path) -> None:
    """Before, a NEL or form feed in a sentence of SCWS cut its row in two."""
    row = "1\told\ta\tnew\ta\tthe <b>old</b>\x85man\ta\x0c<b>new</b> man\t1.58\t1\n"
    (tmp_path / "ratings.txt").write_bytes(row.encode())
    pairs = find_set("SCWS", tmp_path)
    assert pairs is not None and pairs.score == (1.58,)


class Numbers:
    """Encodes "3" as the direction of angle 0.3."""

    def encode(self, sentences: list[str]) -> np.ndarray:
        angles = np.array([float(s) / 10 for s in sentences])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_correlation_follows_the_cosine() -> None:
    left, right = ["0"] * 4, ["1", "2", "5", "9"]
    perfect = correlate(Numbers(), left, right, [4.0, 3.0, 2.0, 1.0])
    assert perfect.spearman == pytest.approx(100) and perfect.pairs == 4
    expected = np.corrcoef(np.cos([0.1, 0.2, 0.5, 0.9]), [4, 3, 2, 1])[0, 1]
    assert perfect.pearson == pytest.approx(100 * expected)
    assert correlate(Numbers(), ["1", "2"], ["1", "2"], [1.0, 2.0]).spearman == 0.0


class FirstNumber(Numbers):
    """The same for the first word alone."""

    def encode(self, sentences: list[str]) -> np.ndarray:
        return super().encode([sentence.split()[0] for sentence in sentences])


@pytest.mark.data
def test_counts_of_the_real_sets(data_folder: Path) -> None:
    counts = {"SimLex-999": 999, "WS-353-sim": 203, "WS-353-rel": 252, "RW": 2034, "SimVerb-3500": 3499}
    for name, count in counts.items():
        pairs = find_set(name, data_folder / "wordsim")
        assert pairs is not None and abs(len(pairs) - count) <= 1, name

    found, missing = word_similarity(Letters(), data_folder / "wordsim")
    assert set(missing) == {"MEN", "SCWS"}
    assert found["RW"].spearman > 10  # shared letters tell something about derived words


def test_the_command_scores_a_vector_file_and_names_missing_sets(command, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    words = tmp_path / "words"
    words.mkdir()
    (words / "rw.txt").write_text("old\taged\t9\nold\tnew\t5\nold\tdog\t1\n")
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("old 1 0\naged 1 0.1\nnew 1 1\ndog 0 1\n")
    result = command("studies.similarity", vectors, "--words", words, "--output", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert "| 100.0 |" in (tmp_path / "out" / "results.md").read_text()
    assert "SimLex-999" in result.stdout
    nothing = command("studies.similarity", vectors)
    assert nothing.returncode == 2 and "nothing to compare" in nothing.stderr


def write_phrases(
    folder: Path, positive: list[str], negative: list[str], part: str, end: str = "-v2"
) -> None:
    (folder / part).mkdir(parents=True, exist_ok=True)
    for kind, lines in (("positive", positive), ("negative", negative)):
        (folder / part / f"en.{part}Set.{kind}Instances{end}").write_text("".join(f"{x}\n" for x in lines))


class Letters:
    def encode(self, sentences: list[str]) -> np.ndarray:
        return np.array([[s.count(c) for c in "abcdefghijklmnopqrstuvwxyz"] for s in sentences], dtype=float)


def phrase_scores(folder: Path, nhid: int = 0) -> PhraseScores:
    return score_phrases(as_vectors(Letters()), *read_semeval2013_5a(folder), nhid=nhid)


def test_semeval_2013_is_read_and_tuned_on_its_training_pairs(tmp_path: Path) -> None:
    """Hand-made files in the published format; the phrase repeats the word's letters where it means it."""
    rng = np.random.RandomState(0)

    def word() -> str:
        return "".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 5))

    def pairs(count: int, same: bool) -> list[str]:
        rows = []
        for _ in range(count):
            one = word()
            rows.append(f"{one}\t{one[::-1] + ' ' + one[:3] if same else word() + ' ' + word()}")
        return rows

    for part, count in (("train", 40), ("test", 15)):
        write_phrases(
            tmp_path, pairs(count, True), pairs(count, False), part, "-v2" if part == "train" else ""
        )
    train, test = read_semeval2013_5a(tmp_path)
    assert (len(train), len(test), sum(train.same)) == (80, 30, 40)
    assert train.words[0] == train.phrases[0].split()[0][::-1]
    scores = phrase_scores(tmp_path)
    assert scores.acc > 80 and scores.threshold_acc > 90 and scores.pairs == 30
    assert 0 < scores.threshold < 1 and scores.f1 > 80
    assert phrase_scores(tmp_path, nhid=4).acc > 60


def test_semeval_2013_bad_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        read_semeval2013_5a(tmp_path / "none")
    with pytest.raises(UserError, match=r"no file en\.trainSet\.positiveInstances-v2 below it"):
        read_semeval2013_5a(tmp_path)
    for part in ("train", "test"):
        write_phrases(tmp_path, ["a\tb c"], ["a\tb c\td"], part)
    with pytest.raises(UserError, match=r"negativeInstances-v2:1: expected 2 cells"):
        read_semeval2013_5a(tmp_path)
    write_phrases(tmp_path, ["a\tb c"], [], "train")
    with pytest.raises(UserError, match="holds no pairs"):
        read_semeval2013_5a(tmp_path)
    for part in ("train", "test"):
        write_phrases(tmp_path, ["a\tb c"], ["a\td e"], part)
    with pytest.raises(UserError, match="the folds need 10"):
        phrase_scores(tmp_path)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), min_size=1, max_size=9))
def test_the_threshold_is_the_best_one(rows: list[tuple[int, int]]) -> None:
    values, same = np.array([float(v) for v, _ in rows]), [s for _, s in rows]

    def right(threshold: float) -> int:
        return sum((v >= threshold) == bool(s) for v, s in zip(values, same, strict=True))

    best = max(right(t) for t in [*values, np.inf])
    assert right(best_threshold(values, same)) == best


def test_phrases_of_ppdb_are_those_that_training_leaves_out(tmp_path: Path) -> None:
    """Pairs of two single words do not count; both directions of a pair are held out together."""
    rows = [(f"{i} x", f"{i % 7}") for i in range(60)] + [(f"{i % 7}", f"{i} x") for i in range(60)]
    words = [(f"{i}", f"{i % 7}") for i in range(60)]
    file = tmp_path / "ppdb.txt"
    file.write_text(
        "".join(
            f"[NP] ||| {a} ||| {b} ||| Equivalence=0.{len(a) % 7} Abc=1 ||| 0-0 ||| Equivalence\n"
            for a, b in rows + words
        )
    )
    every = phrase_similarity(FirstNumber(), file)
    held = phrase_similarity(FirstNumber(), file, 0.3)
    trained, left_out = hold_out_phrases([Phrases(a, b, None) for a, b in rows], 0.3)
    assert every.pairs == 120 == len(trained) + len(left_out)
    assert held.pairs == len(left_out) and 0 < held.pairs < 120
    with pytest.raises(UserError, match="raise --held-out"):
        phrase_similarity(FirstNumber(), file, 1e-9)
    file.write_text("[NP] ||| a ||| b ||| Abc=1 ||| 0-0\n")
    with pytest.raises(UserError, match="feature Equivalence"):
        phrase_similarity(FirstNumber(), file)
    file.write_text("[NP] ||| a ||| b ||| Equivalence=1 ||| 0-0 ||| Equivalence\n")
    with pytest.raises(UserError, match="pairs of single words"):
        phrase_similarity(FirstNumber(), file)


def test_sentence_pairs_with_and_without_a_head(data: Path) -> None:
    found, skipped = sentence_similarity(RandomBag(20), data)
    assert set(found) == {"SICKRelatedness (trained head)", "SICKRelatedness (untrained)"}
    assert "sts-train.csv" in skipped["STSBenchmark"]
    trained = evaluate(RandomBag(20), ["SICK-R"], data)["SICKRelatedness"]
    assert found["SICKRelatedness (trained head)"].spearman == pytest.approx(100 * trained["spearman"])
    part = read_task("SICK-R", data).splits["test"]
    bag = RandomBag(20)
    similarity = [
        np.dot(u, v) / np.linalg.norm(u) / np.linalg.norm(v)
        for u, v in ((bag.encode([a])[0], bag.encode([b])[0]) for a, b in zip(part.a, part.b, strict=True))
    ]
    expected = np.corrcoef(similarity, part.y)[0, 1]
    assert found["SICKRelatedness (untrained)"].pearson == pytest.approx(100 * expected, abs=1e-3)


def test_what_one_model_lacks_is_said(tmp_path: Path, data: Path, words: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "few.npz", sentences=np.array(["a"]), vectors=np.ones((1, 3)))
    main(SimilarityConfig(models=(str(words), "few.npz"), data=data, output=tmp_path / "out"))
    skipped = json.loads((tmp_path / "out/results.json").read_text())["skipped"]
    assert "no vector for" in skipped["SICKRelatedness"] and "sts-train.csv" in skipped["STSBenchmark"]


def test_nothing_found_is_refused(command, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "empty").mkdir()
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("old 1 0\n")
    for options, message in (
        (("--words", "empty"), "holds none of the word sets"),
        (("--words", "vectors.txt"), "no such folder"),
        (("--data", "empty"), "STSbenchmark"),
        (("--semeval2013", "empty"), "en.trainSet.positiveInstances"),
        (("--phrases", "vectors.txt", "--held-out", "2"), "--held-out 2"),
    ):
        done = command("studies.similarity", vectors, *options, cwd=tmp_path)
        assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr
