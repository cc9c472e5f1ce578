"""Where the words of a new model start: tuned tables, and words that fixed vectors lack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from corpora.support.errors import UserError
from corpora.support.files import read_json
from multiview.config import TrainConfig
from multiview.model import MultiViewEncoder
from multiview.train import cli, main
from multiview.training.data import Rows, open_trees
from multiview.words.sources import new_table, tuned_table
from multiview.words.table import WordTable
from multiview.words.vectors import WordVectors
from multiview.words.vocabulary import Vocabulary
from tests.fixtures.trees import changed

TEXT = "the 3 0 4\nMars 0 5 0\nCAT 6 8 0\ncat 0 0 1\nelsewhere 1 2 2\n"
WORDS = ["the", "cat", "sat"]
KNOWN = np.array([[3, 0, 4, 0], [0, 5, 0, 0], [1, 0, 0, 0]], dtype=np.float32)


@pytest.fixture
def config(tiny: TrainConfig, tmp_path: Path) -> TrainConfig:
    (tmp_path / "v.txt").write_text(TEXT)
    return changed(tiny, words="tuned", vectors=str(tmp_path / "v.txt"), table={"case": "lower"})


def test_rows_start_from_the_vectors(config: TrainConfig, tmp_path: Path) -> None:
    words = new_table(config, open_trees(config.trees), tmp_path)
    assert words.mode == "trained" and words.dim == 3 and len(words.tables) == 2
    given = {"the": [3, 0, 4], "mars": [0, 5, 0], "cat": [0, 0, 1]}  # cat as written comes before CAT
    for table in words.tables:
        for word, vector in given.items():
            assert table[words.vocabulary.row(word)].tolist() == vector
        np.testing.assert_allclose(
            table[0].detach(),
            np.mean([[3, 0, 4], [0, 5, 0], [6, 8, 0], [0, 0, 1], [1, 2, 2]], axis=0),
            rtol=1e-6,
        )
        others = [row for row in range(1, len(table)) if row not in map(words.vocabulary.row, given)]
        assert len(others) == len(words.vocabulary) - 3 + 3  # with three buckets
        drawn = table[others].detach()
        np.testing.assert_allclose(drawn.norm(dim=1), np.full(len(others), (5 + 5 + 1) / 3), rtol=1e-5)
        assert len(torch.unique(drawn, dim=0)) == len(others)
    assert "3 of them starting from the vectors of `v.txt`" in words.origin
    one, other = words.tables
    assert int((one == other).all(dim=1).sum()) == 1 + 3  # what is drawn differs
    one, other = new_table(
        changed(config, encoder={"start": "bag"}), open_trees(config.trees), tmp_path
    ).tables
    assert torch.equal(one, other)


@pytest.mark.parametrize("case", ["exact", "backoff"])
def test_spellings_follow_the_vocabulary(config: TrainConfig, tmp_path: Path, case: str) -> None:
    (tmp_path / "v.txt").write_text(TEXT.replace("Mars", "mars") if case == "backoff" else TEXT)
    words = new_table(changed(config, table={"case": case}), open_trees(config.trees), tmp_path)
    for word in ("the", "Mars", "cat"):
        assert float(words.tables[0][words.vocabulary.row(word)].detach().norm()) in (5.0, 1.0)
    assert "3 of them" in words.origin


def test_a_share_of_a_words_own_direction(config: TrainConfig) -> None:
    """Lengths stay; the cosine to the given vector is that of v + b|v|r with r at right angles on average."""
    listed = [f"w{i}" for i in range(40)]
    given = WordVectors(listed, np.random.default_rng(0).normal(size=(40, 400)).astype(np.float32))
    plain, mixed = (
        tuned_table(config, Vocabulary(listed), given, share).tables[0][1:].detach() for share in (0.0, 0.5)
    )
    np.testing.assert_allclose(mixed.norm(dim=1) / plain.norm(dim=1), 1, atol=0.15)
    cosines = torch.nn.functional.cosine_similarity(plain, mixed)
    np.testing.assert_allclose(cosines, 1 / np.sqrt(1.25), atol=0.1)
    own = torch.nn.functional.normalize(mixed - plain / np.sqrt(1.25), dim=1)
    assert float((own @ own.T - torch.eye(len(own))).abs().max()) < 0.3  # a direction for each word


def test_a_run_tunes_them(config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = changed(config, loop={"validation": 0})  # the last weights are kept
    assert main(config) == 0
    words = MultiViewEncoder.load(config.folder, "cpu").members[0].network.words
    assert words.mode == "trained" and words.dim == 3
    row = words.tables[0][words.vocabulary.row("the")]
    assert 0 < float((row.detach() - torch.tensor([3.0, 0, 4])).norm()) < 2
    record = read_json(config.folder / "config.json")
    assert record["words"]["mode"] == "trained" and "`v.txt`" in record["training"]["words"]
    assert "3 of them starting from the vectors of `v.txt`" in (config.folder / "README.md").read_text()


def test_vectors_of_other_words_are_one_line(
    config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"--words tuned.*need --vectors, which is not given"):
        changed(config, vectors=None).check()
    (tmp_path / "v.txt").write_text("chat 1 2\nsouris 2 1\n")
    for words in ("tuned", "fixed"):
        assert cli([f"--words={words}", "--vectors=v.txt", f"--trees={config.trees}"]) == 2
        told = capsys.readouterr().err
        assert "--vectors v.txt: has none of the corpus's words" in told and len(told.splitlines()) == 1


def read(table: WordTable, words: list[str]) -> NDArray[np.float32]:
    """As the encoders read them; both ways of reading agree."""
    rows = table.vocabulary.lookup(words).astype(np.int64)
    found = np.asarray(table.rows(0, rows))
    in_training = Rows.of(rows, table).vectors
    assert in_training is not None
    np.testing.assert_array_equal(found, in_training)
    return found


def test_unknown_words_of_fixed_vectors_differ_and_stay_near_the_mean() -> None:
    """Without buckets one vector; with them a fixed one for each, off the mean by 0.3 of the mean length."""
    plain, table, again = (WordTable.with_fixed(Vocabulary(WORDS, buckets=n), KNOWN) for n in (0, 1000, 1000))
    assert (plain.vocabulary.rows, table.vocabulary.rows) == (4, 1004)
    np.testing.assert_array_equal(read(table, WORDS), KNOWN)
    np.testing.assert_array_equal(read(plain, ["Poirot", "Marple"]), [KNOWN.mean(axis=0)] * 2)
    unknown = read(table, ["Poirot", "Marple", "Poirot", "cat"])
    assert not np.array_equal(unknown[0], unknown[1])
    np.testing.assert_array_equal(unknown[0], unknown[2])
    np.testing.assert_array_equal(unknown[3], KNOWN[1])
    np.testing.assert_array_equal(read(again, ["Poirot"]), unknown[:1])
    every = again.rows(0, np.arange(4, 1004)).numpy() - KNOWN.mean(axis=0)
    np.testing.assert_allclose(np.linalg.norm(every, axis=1), 0.3 * (5 + 5 + 1) / 3, rtol=1e-5)
    assert len(np.unique(every, axis=0)) == 1000 and np.abs(every.mean(axis=0)).max() < 0.15
