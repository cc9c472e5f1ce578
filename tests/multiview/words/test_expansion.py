"""Vocabulary expansion: the map, the rows it gives, and the folders that keep it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from corpora.support.errors import UserError
from multiview.config import TrainConfig
from multiview.folder.files import expanded_folder, load_members
from multiview.model import MultiViewEncoder
from multiview.train import main
from multiview.words.table import WordTable
from multiview.words.vectors import WordVectors, load_word_vectors
from multiview.words.vocabulary import Vocabulary
from tests.fixtures.trees import changed, toy_corpus

RANDOM = np.random.default_rng(0)
VECTORS_PG = RANDOM.normal(size=(60, 5)).round(3).astype(np.float32)
MAPS_VGE = RANDOM.normal(size=(2, 5, 3)).astype(np.float32)


def write_vectors(path: Path, vectors: Mapping[str, NDArray[np.floating]]) -> Path:
    path.write_text("".join(f"{word} {' '.join(map(str, v.tolist()))}\n" for word, v in vectors.items()))
    return path


@pytest.fixture
def vectors(tmp_path: Path) -> WordVectors:
    path = write_vectors(tmp_path / "v.txt", {f"w{i}": row for i, row in enumerate(VECTORS_PG)})
    return load_word_vectors(path, tmp_path)


def table_of(vocabulary: Vocabulary, known: Mapping[str, int]) -> WordTable:
    """Trained tables that are exactly a linear map of the vectors, a map per view."""
    table = WordTable(vocabulary, 3, views=2)
    with torch.no_grad():
        for values, map_GE in zip(table.tables, MAPS_VGE, strict=True):
            values.normal_(generator=torch.Generator().manual_seed(1))
            for word, place in known.items():
                values[vocabulary.row(word)] = torch.from_numpy(VECTORS_PG[place] @ map_GE)
    return table


def test_every_view_gets_its_linear_map_and_keeps_its_own_rows(vectors: WordVectors) -> None:
    vocabulary = Vocabulary([f"w{i}" for i in range(40)], buckets=4, case="exact")
    table = table_of(vocabulary, {f"w{i}": i for i in range(40)})
    before = [values.detach().clone() for values in table.tables]
    assert table.expand(vectors) == table.expanded == 20
    words = ["w3", "w40", "w59", "neither", "w41"]
    rows = table.vocabulary.lookup(words)
    assert rows.tolist()[:3] == [4, 41, 60] and rows[3] > 60 and table.vocabulary.rows == 65
    for view, map_GE in enumerate(MAPS_VGE):
        values = table.rows(view, np.append(rows, 0)).detach().numpy()
        for place, word in ((1, 40), (2, 59), (4, 41)):
            np.testing.assert_allclose(values[place], VECTORS_PG[word] @ map_GE, atol=1e-4)
        np.testing.assert_array_equal(values[0], before[view][4])
        np.testing.assert_array_equal(values[3], before[view][vocabulary.row("neither")])
        np.testing.assert_array_equal(values[5], before[view][0])
        assert torch.equal(table.tables[view], before[view])
    assert table.trained_vocabulary.key == vocabulary.key
    assert table.expand(vectors) == 20  # again from the trained words, not from those it added


def test_spellings_that_the_vocabulary_reads_alike_are_one_word(tmp_path: Path) -> None:
    spelt = [f"w{i}" for i in range(20)] + ["Paris", "paris", "Rome", "ROME"]
    path = write_vectors(tmp_path / "v.txt", dict(zip(spelt, VECTORS_PG, strict=False)))
    loaded = load_word_vectors(path, tmp_path)
    for case, new in (("lower", ["rome"]), ("exact", ["Paris", "Rome", "ROME"])):
        known = {f"w{i}": i for i in range(20)} | {"paris": 20 if case == "lower" else 21}
        table = table_of(Vocabulary(list(known), case=case), known)
        table.expand(loaded)
        assert table.vocabulary.words[len(known) :] == new
        rows = table.rows(1, table.vocabulary.lookup(["Rome"])).detach().numpy()
        np.testing.assert_allclose(rows[0], VECTORS_PG[22] @ MAPS_VGE[1], atol=1e-4)


def test_too_few_words_in_common_and_fixed_vectors(vectors: WordVectors) -> None:
    table = table_of(Vocabulary([f"w{i}" for i in range(4)]), {})
    with pytest.raises(UserError, match="needs 5 words in common, the vectors share 4"):
        table.expand(vectors)
    assert not table.expanded
    assert WordTable.with_fixed(Vocabulary(vectors.words), vectors.vectors).expand(vectors) == 0


@pytest.fixture
def trained(tiny: TrainConfig, tmp_path: Path) -> tuple[Path, Path]:
    """A model folder, and vectors of its words and of "zyzzyva"."""
    config = changed(tiny, views="seq,seq", loop={"max_steps": 2})
    assert main(config) == 0
    words = sorted({word for sentence in toy_corpus()[0] for word in sentence})
    drawn = RANDOM.normal(size=(len(words) + 1, 4)).round(3)
    path = write_vectors(tmp_path / "glove.txt", dict(zip([*words, "zyzzyva"], drawn, strict=True)))
    return config.folder, path


def test_an_expanded_model_is_made_once_and_read_like_any_other(trained, tmp_path: Path) -> None:
    folder, path = trained
    made = expanded_folder(folder, str(path), cache=tmp_path)
    assert made.name == f"{folder.name}-expanded-glove"
    plain, grown = MultiViewEncoder.load(folder), MultiViewEncoder.load(made)
    known = [" ".join(sentence) for sentence in toy_corpus(20)[0]]
    np.testing.assert_array_equal(grown.encode(known), plain.encode(known))
    np.testing.assert_array_equal(grown.encode("quokka"), plain.encode("quokka"))
    assert np.abs(grown.encode("a zyzzyva") - plain.encode("a zyzzyva")).max() > 1e-4
    assert plain.expand_vocabulary(path, cache=tmp_path) == 1
    np.testing.assert_array_equal(grown.encode("zyzzyva"), plain.encode("zyzzyva"))
    before = (made / "model.safetensors").stat().st_mtime_ns
    assert expanded_folder(folder, str(path), cache=tmp_path) == made
    assert (made / "model.safetensors").stat().st_mtime_ns == before
    path.write_text(path.read_text() + "quokka 1 2 3 4\n")
    expanded_folder(folder, str(path), cache=tmp_path)
    assert json.loads((made / "config.json").read_text())["words"]["expanded"] == 2
    assert np.abs(MultiViewEncoder.load(made).encode("quokka") - plain.encode("quokka")).max() > 1e-4
    assert len(load_members(folder)[0].network.words.vocabulary) == len(
        plain.members[0].network.words.trained_vocabulary
    )


@pytest.mark.parametrize("file", ["expansion.safetensors", "expansion.txt", "vectors.npy"])
def test_a_damaged_expansion_is_named(trained, tmp_path: Path, file: str) -> None:
    folder, path = trained
    made = expanded_folder(folder, str(path), cache=tmp_path)
    content = (made / file).read_bytes()
    (made / file).unlink()
    with pytest.raises(UserError, match=file):
        MultiViewEncoder.load(made)
    (made / file).write_bytes(
        content[: len(content) // 2] if file != "expansion.txt" else content + b"more\n"
    )
    with pytest.raises(UserError, match=file):
        MultiViewEncoder.load(made)
