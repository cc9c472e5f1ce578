"""Similarity sets: published formats, correlation against scipy by hand, counts of the real files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from corpora.similarity_sets import find_set
from corpora.support.errors import UserError
from senteval_runner.similarity import correlate, cosines, word_similarity

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
    with pytest.raises(UserError, match=r"rw\.txt, row 2"):
        find_set("RW", tmp_path)


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


def test_zero_vectors_have_cosine_zero() -> None:
    assert cosines(np.zeros((1, 3)), np.ones((1, 3))).tolist() == [0.0]


@pytest.mark.data
def test_counts_of_the_real_sets(data_folder: Path) -> None:
    counts = {"SimLex-999": 999, "WS-353-sim": 203, "WS-353-rel": 252, "RW": 2034, "SimVerb-3500": 3499}
    for name, count in counts.items():
        pairs = find_set(name, data_folder / "wordsim")
        assert pairs is not None and abs(len(pairs) - count) <= 1, name

    class Letters:
        def encode(self, sentences: list[str]) -> np.ndarray:
            return np.array(
                [[s.count(c) for c in "abcdefghijklmnopqrstuvwxyz"] for s in sentences], dtype=float
            )

    found, missing = word_similarity(Letters(), data_folder / "wordsim")
    assert set(missing) == {"MEN", "SCWS"}
    assert found["RW"].spearman > 10  # shared letters tell something about derived words


def test_the_command_scores_a_vector_file_and_names_missing_sets(command, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    words = tmp_path / "words"
    words.mkdir()
    (words / "rw.txt").write_text("old\taged\t9\nold\tnew\t5\nold\tdog\t1\n")
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("old 1 0\naged 1 0.1\nnew 1 1\ndog 0 1\n")
    result = command("senteval_runner.similarity", vectors, "--words", words, "--output", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert "| 100.0 |" in (tmp_path / "out" / "results.md").read_text()
    assert "SimLex-999" in result.stdout
    dry = command(
        "senteval_runner.similarity", vectors, "--words", words, "--output", tmp_path / "dry", "--dry-run"
    )
    assert "texts        4 different ones" in dry.stdout and not (tmp_path / "dry").exists()
    nothing = command("senteval_runner.similarity", vectors)
    assert nothing.returncode == 2 and "nothing to compare" in nothing.stderr
