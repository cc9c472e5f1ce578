"""``--words tuned``: where trained tables start, and what they are afterwards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from corpora.support.errors import UserError
from corpora.support.files import read_json
from multiview.config import TrainConfig
from multiview.model import MultiViewEncoder
from multiview.train import cli, main
from multiview.training.data import open_trees
from multiview.words.new import new_table
from tests.fixtures.trees import changed

TEXT = "the 3 0 4\nMars 0 5 0\nCAT 6 8 0\ncat 0 0 1\nelsewhere 1 2 2\n"


@pytest.fixture
def config(tiny: TrainConfig, tmp_path: Path) -> TrainConfig:
    (tmp_path / "v.txt").write_text(TEXT)
    return changed(tiny, words="tuned", vectors=str(tmp_path / "v.txt"), vocabulary={"case": "lower"})


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


def test_a_share_of_a_words_own_direction(config: TrainConfig, tmp_path: Path) -> None:
    """Lengths stay; the cosine to the given vector is that of v + b|v|r with r at right angles on average."""
    random = np.random.default_rng(0)
    listed = open_trees(config.trees).type_counts()
    lines = [f"{word} {' '.join(map(str, random.normal(size=400)))}" for word in listed]
    (tmp_path / "v.txt").write_text("\n".join(lines) + "\n")
    trees = open_trees(config.trees)
    plain, mixed = (
        new_table(changed(config, table={"identity": share}), trees, tmp_path).tables[0][1:-3].detach()
        for share in (0.0, 0.5)
    )
    lengths = mixed.norm(dim=1) / plain.norm(dim=1)
    cosines = torch.nn.functional.cosine_similarity(plain, mixed)
    np.testing.assert_allclose(lengths, 1, atol=0.15)
    np.testing.assert_allclose(cosines, 1 / np.sqrt(1.25), atol=0.1)
    own = torch.nn.functional.normalize(mixed - plain / np.sqrt(1.25), dim=1)
    assert float((own @ own.T - torch.eye(len(own))).abs().max()) < 0.3  # a direction for each word


@pytest.mark.parametrize(
    ("case", "starts"), [("exact", ["the", "Mars", "cat"]), ("backoff", ["the", "Mars", "cat"])]
)
def test_spellings_follow_the_vocabulary(
    config: TrainConfig, tmp_path: Path, case: str, starts: list[str]
) -> None:
    (tmp_path / "v.txt").write_text(TEXT.replace("Mars", "mars") if case == "backoff" else TEXT)
    words = new_table(changed(config, vocabulary={"case": case}), open_trees(config.trees), tmp_path)
    for word in starts:
        assert float(words.tables[0][words.vocabulary.row(word)].detach().norm()) in (5.0, 1.0)
    assert "3 of them" in words.origin


def test_views_share_the_vectors_and_not_what_is_drawn(config: TrainConfig, tmp_path: Path) -> None:
    trees = open_trees(config.trees)
    one, other = new_table(changed(config, table={"equal": False}), trees, tmp_path).tables
    same = (one == other).all(dim=1)
    assert int(same.sum()) == 1 + 3
    one, other = new_table(changed(config, table={"equal": True}), trees, tmp_path).tables
    assert torch.equal(one, other)


def test_a_run_tunes_them(config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = changed(config, validation={"sentences": 0})  # the last weights are kept
    assert main(config) == 0
    words = MultiViewEncoder.load(config.folder, "cpu").members[0].network.words
    assert words.mode == "trained" and words.dim == 3
    row = words.tables[0][words.vocabulary.row("the")]
    assert 0 < float((row.detach() - torch.tensor([3.0, 0, 4])).norm()) < 2
    record = read_json(config.folder / "config.json")
    assert record["words"]["mode"] == "trained" and "`v.txt`" in record["training"]["words"]
    assert "3 of them starting from the vectors of `v.txt`" in (config.folder / "README.md").read_text()
    assert main(config) == 0, "a finished run is left alone"


def test_vectors_of_other_words_are_one_line(
    config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"needs --vectors \(a file, distil:MODEL or train\)"):
        changed(config, vectors=None).check()
    with pytest.raises(UserError, match=r"^--table.identity 0.5: is for --words tuned, not fixed$"):
        changed(config, words="fixed", table={"identity": 0.5}).check()
    (tmp_path / "v.txt").write_text("chat 1 2\nsouris 2 1\n")
    for words in ("tuned", "fixed"):
        assert cli([f"--words={words}", "--vectors=v.txt", f"--trees={config.trees}"]) == 2
        told = capsys.readouterr().err
        assert "--vectors v.txt: has none of the corpus's words" in told and len(told.splitlines()) == 1
