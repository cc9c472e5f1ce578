"""Words that fixed vectors lack: one vector, or one a hash bucket."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from multiview.config import TrainConfig
from multiview.folder.files import member_record
from multiview.model import MultiViewEncoder
from multiview.train import main
from multiview.training.data import Rows
from multiview.words.table import WordTable
from multiview.words.vocabulary import Vocabulary
from tests.fixtures.trees import changed

WORDS = ["the", "cat", "sat"]
KNOWN = np.array([[3, 0, 4, 0], [0, 5, 0, 0], [1, 0, 0, 0]], dtype=np.float32)


def vectors(table: WordTable, words: list[str]) -> NDArray[np.float32]:
    """As the encoders read them; both ways of reading agree."""
    rows = table.vocabulary.lookup(words).astype(np.int64)
    read = np.asarray(table.rows(0, rows))
    in_training = Rows.of(rows, table).vectors
    assert in_training is not None
    np.testing.assert_array_equal(read, in_training)
    return read


def test_unknown_words_differ_and_stay_near_the_mean() -> None:
    """Without buckets one vector; with them a fixed one for each, off the mean by 0.3 of the mean length."""
    plain = WordTable.with_fixed(Vocabulary(WORDS), KNOWN)
    table = plain.with_buckets(1000)
    assert (plain.vocabulary.rows, table.vocabulary.rows) == (4, 1004)
    np.testing.assert_array_equal(vectors(table, WORDS), KNOWN)
    np.testing.assert_array_equal(vectors(plain, ["Poirot", "Marple"]), [KNOWN.mean(axis=0)] * 2)
    unknown = vectors(table, ["Poirot", "Marple", "Poirot", "cat"])
    assert not np.array_equal(unknown[0], unknown[1])
    np.testing.assert_array_equal(unknown[0], unknown[2])
    np.testing.assert_array_equal(unknown[3], KNOWN[1])
    again = WordTable.with_fixed(Vocabulary(WORDS, buckets=1000), KNOWN)
    np.testing.assert_array_equal(vectors(again, ["Poirot"]), unknown[:1])
    every = again.rows(0, np.arange(4, 1004)).numpy() - KNOWN.mean(axis=0)
    np.testing.assert_allclose(np.linalg.norm(every, axis=1), 0.3 * (5 + 5 + 1) / 3, rtol=1e-5)
    assert len(np.unique(every, axis=0)) == 1000 and np.abs(every.mean(axis=0)).max() < 0.15


@pytest.fixture
def model(tiny: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainConfig:
    """A finished model over fixed vectors without buckets."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.txt").write_text("the 3 0 4\nMars 0 5 0\n")
    config = changed(tiny, words="fixed", vectors="v.txt", vocabulary={"buckets": 0}, loop={"max_steps": 2})
    assert main(config) == 0
    return config


def test_training_sees_them(model: TrainConfig) -> None:
    config = changed(model, name="hashed", vocabulary={"buckets": 7})
    assert main(config) == 0
    assert member_record(config.folder).words.buckets == 7
    words = MultiViewEncoder.load(config.folder, "cpu").word_vectors(["Poirot", "Marple"])
    assert not np.array_equal(words[0], words[1])
