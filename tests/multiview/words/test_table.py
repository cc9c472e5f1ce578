"""Word tables: where rows start, what fixed vectors lack, words by a linear map."""

from pathlib import Path

import numpy as np
import pytest
import torch

from multiview.config import NewViewsConfig
from multiview.model import MultiViewEncoder
from multiview.names.opened import open_encoder
from multiview.train import cli, main
from multiview.training.data import open_trees
from multiview.words.sources import WordSource
from multiview.words.table import WordTable
from multiview.words.vectors import WordVectors, load_word_vectors
from multiview.words.vocabulary import Vocabulary
from runtime.errors import UserError
from tests.fixtures.trees import changed, toy_corpus, write_vectors

RANDOM = np.random.default_rng(0)
VECTORS_PG = RANDOM.normal(size=(60, 5)).round(3).astype(np.float32)
MAPS_VGE = RANDOM.normal(size=(2, 5, 3)).astype(np.float32)
TEXT = "the 3 0 4\nMars 0 5 0\nCAT 6 8 0\ncat 0 0 1\nelsewhere 1 2 2\n"
KNOWN = np.array([[3, 0, 4, 0], [0, 5, 0, 0], [1, 0, 0, 0]], dtype=np.float32)


@pytest.fixture
def tuned(tiny: NewViewsConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NewViewsConfig:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.txt").write_text(TEXT)
    return changed(tiny, words="tuned", vectors="v.txt", table={"case": "lower"})


def test_tuned_rows_start_from_the_vectors(tuned: NewViewsConfig, tmp_path: Path, refusal) -> None:
    trees = open_trees(tuned.trees)
    words = WordSource.of(tuned, trees).new_table(2)
    assert words.mode == "trained" and words.dim == 3 and len(words.tables) == 2
    vectors = {"the": [3, 0, 4], "mars": [0, 5, 0], "cat": [0, 0, 1]}  # cat as written comes before CAT
    mean = np.mean([[3, 0, 4], [0, 5, 0], [6, 8, 0], [0, 0, 1], [1, 2, 2]], axis=0)
    for table in words.tables:
        for word, vector in vectors.items():
            assert table[words.vocabulary.row(word)].tolist() == vector
        np.testing.assert_allclose(table[0].detach(), mean, rtol=1e-6)
        others = [row for row in range(1, len(table)) if row not in map(words.vocabulary.row, vectors)]
        assert len(others) == len(words.vocabulary) - 3 + 3  # with three buckets
        rows = table[others].detach()
        np.testing.assert_allclose(rows.norm(dim=1), np.full(len(others), (5 + 5 + 1) / 3), rtol=1e-5)
        assert len(torch.unique(rows, dim=0)) == len(others)
    assert "3 of them starting from the vectors of `v.txt`" in words.origin
    one, other = words.tables
    assert int((one == other).all(dim=1).sum()) == 1 + 3  # what is drawn differs
    assert torch.equal(*WordSource.of(changed(tuned, encoder={"init": "bag"}), trees).new_table(2).tables)
    assert main(changed(tuned, loop={"validation": 0})) == 0  # the last weights are kept
    words = MultiViewEncoder.load(tuned.folder, "cpu").network.words
    assert words.mode == "trained" and words.dim == 3
    change = words.tables[0][words.vocabulary.row("the")].detach() - torch.tensor([3.0, 0, 4])
    assert 0 < float(change.norm()) < 2
    assert "3 of them starting from the vectors of `v.txt`" in (tuned.folder / "README.md").read_text()
    (tmp_path / "v.txt").write_text("chat 1 2\nsouris 2 1\n")
    for mode in ("tuned", "fixed"):
        options = (f"--words={mode}", "--vectors=v.txt", f"--trees={tuned.trees}")
        line = refusal(cli, "--start=none", *options)
        assert "--vectors v.txt: has none of the corpus's words" in line


def test_unknown_words_of_fixed_vectors_differ_and_stay_near_the_mean() -> None:
    """Without buckets one vector; with them a fixed one for each, off the mean by 0.3 of the mean length."""

    def read(table: WordTable, words: list[str]):
        rows = table.vocabulary.lookup(words).astype(np.int64)
        vectors = np.asarray(table.rows(0, rows))
        np.testing.assert_array_equal(vectors, table.fixed_rows(rows))  # both ways of reading agree
        return vectors

    listed = ["the", "cat", "sat"]
    plain, table, same_table = (
        WordTable.with_fixed(Vocabulary(listed, buckets=n), KNOWN) for n in (0, 1000, 1000)
    )
    np.testing.assert_array_equal(read(table, listed), KNOWN)
    np.testing.assert_array_equal(read(plain, ["Poirot", "Marple"]), [KNOWN.mean(axis=0)] * 2)
    unknown = read(table, ["Poirot", "Marple"])
    assert not np.array_equal(*unknown)
    np.testing.assert_array_equal(read(same_table, ["Marple", "Poirot"]), unknown[::-1])
    bucket_vectors = same_table.rows(0, np.arange(4, 1004)).numpy() - KNOWN.mean(axis=0)
    np.testing.assert_allclose(np.linalg.norm(bucket_vectors, axis=1), 0.3 * (5 + 5 + 1) / 3, rtol=1e-5)
    assert len(np.unique(bucket_vectors, axis=0)) == 1000 and np.abs(bucket_vectors.mean(axis=0)).max() < 0.15


@pytest.fixture
def vectors(tmp_path: Path) -> WordVectors:
    path = write_vectors(tmp_path / "v.txt", {f"w{i}": row for i, row in enumerate(VECTORS_PG)})
    return load_word_vectors(path, tmp_path)


def table_of(vocabulary: Vocabulary, rows) -> WordTable:
    """Trained tables that are exactly a linear map of the vectors, a map per view."""
    table = WordTable(vocabulary, 3, views=2)
    with torch.no_grad():
        for values, map_GE in zip(table.tables, MAPS_VGE, strict=True):
            values.normal_(generator=torch.Generator().manual_seed(1))
            for word, row in rows.items():
                values[vocabulary.row(word)] = torch.from_numpy(VECTORS_PG[row] @ map_GE)
    return table


def test_every_view_gets_its_linear_map_and_keeps_its_own_rows(vectors: WordVectors) -> None:
    vocabulary = Vocabulary([f"w{i}" for i in range(40)], buckets=4, case="exact")
    table = table_of(vocabulary, {f"w{i}": i for i in range(40)})
    before = [values.detach().clone() for values in table.tables]
    assert table.expand(vectors) == table.added_word_count == 20
    rows = table.vocabulary.lookup(["w3", "w40", "w59", "neither", "w41"])
    assert rows.tolist()[:3] == [4, 41, 60] and rows[3] > 60 and table.vocabulary.row_count == 65
    for view, map_GE in enumerate(MAPS_VGE):
        values = table.rows(view, np.append(rows, 0)).detach().numpy()
        np.testing.assert_allclose(values[[1, 2, 4]], VECTORS_PG[[40, 59, 41]] @ map_GE, atol=1e-4)
        own = before[view][[4, vocabulary.row("neither"), 0]]
        np.testing.assert_array_equal(values[[0, 3, 5]], own)
        assert torch.equal(table.tables[view], before[view])
    assert table.trained_vocabulary.key == vocabulary.key
    assert table.expand(vectors) == 20  # again from the trained words, not from those it added
    assert WordTable.with_fixed(Vocabulary(vectors.words), vectors.vectors).expand(vectors) == 0
    few = table_of(Vocabulary([f"w{i}" for i in range(4)]), {})
    with pytest.raises(UserError, match="needs 5 words in common, the vectors share 4"):
        few.expand(vectors)
    assert not few.added_word_count


def test_a_name_gives_a_model_more_words(tiny: NewViewsConfig, toy_glove: Path, tmp_path: Path) -> None:
    folder, saved_folder = tiny.folder, tmp_path / "saved"
    assert main(changed(tiny, views="seq,seq", loop={"max_steps": 2})) == 0
    plain, grown = open_encoder(str(folder)), open_encoder(f"{folder}?expand=glove.txt")
    assert plain.key() != grown.key() and grown.name == f"{folder.name}?expand=glove"
    sentences = [*(" ".join(sentence) for sentence in toy_corpus(20)[0]), "quokka"]
    np.testing.assert_array_equal(grown.encode(sentences), plain.encode(sentences))
    assert np.abs(grown.encode(["a zyzzyva"]) - plain.encode(["a zyzzyva"])).max() > 1e-4
    encoder = MultiViewEncoder.load(folder)
    assert encoder.expand_vocabulary(toy_glove) == 1
    encoder.save(saved_folder)
    saved = MultiViewEncoder.load(saved_folder)
    np.testing.assert_array_equal(grown.encode(["zyzzyva"]), saved.encode(["zyzzyva"]))
    with pytest.raises(UserError, match=r"builtin.*: has fixed word vectors only"):
        open_encoder("builtin?expand=glove.txt")
