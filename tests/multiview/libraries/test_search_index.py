"""An index of FAISS finds what a search of all vectors finds."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from multiview.search import Hit, collection, semantic_search
from multiview.search.__main__ import cli
from multiview.search.collection import Collection

pytest.importorskip("faiss")
from multiview.libraries.search_index import SearchIndex


def clusters(count: int, dim: int = 32) -> np.ndarray:
    """Return vectors of different length around 200 centres."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(200, dim))
    rows = centres[random.integers(0, 200, count)] + 0.5 * random.normal(size=(count, dim))
    return (rows * random.uniform(0.5, 2, (count, 1))).astype(np.float32)


def rows_of(hits: Sequence[Sequence[Hit]]) -> list[list[int]]:
    return [[hit.corpus_id for hit in each] for each in hits]


def test_an_index_finds_what_a_search_of_all_finds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queries, stored = np.split(clusters(12_000), [200])
    stored[7] = 0
    index = SearchIndex.load_or_build(stored, tmp_path / "index", {"vectors": 1})
    collection = Collection(None, stored, index)  # type: ignore[arg-type]
    found, exact = collection.search(queries, top_k=10), semantic_search(queries, stored, top_k=10)
    recall = np.mean([len({*a} & {*b}) / 10 for a, b in zip(rows_of(found), rows_of(exact), strict=True)])
    assert recall >= 0.99
    for near, nearest in zip(found, exact, strict=True):  # scores are those of the vectors themselves
        score_of_row = dict(nearest)
        scores = [(hit.score, score_of_row.get(hit.corpus_id, hit.score)) for hit in near]
        np.testing.assert_allclose(*zip(*scores, strict=True), atol=1e-6)
    assert "an index of 11,800 vectors" in capsys.readouterr().err
    SearchIndex.load_or_build(stored, tmp_path / "index", {"vectors": 1})
    assert capsys.readouterr().err == ""  # read, not written again


def test_many_kept_vectors_get_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(collection, "INDEXED_FROM", 300)
    sentences = [
        f"{who} saw {what} ." for who in ["he", "she", "Ann", "Bob", "Eve"] for what in map(str, range(60))
    ]
    Path("text.txt").write_text("\n".join(sentences), encoding="utf-8")
    arguments = ["random:dep", "text.txt", "Ann saw 17 .", "--top", "1"]
    assert cli(arguments) == 0
    expected = capsys.readouterr().out
    for _ in range(2):
        assert cli([*arguments, "--keep"]) == 0
        assert capsys.readouterr().out == expected
    (path,) = Path("runs/vectors").glob("*/index/vectors.faiss")
    path.write_bytes(path.read_bytes()[:-9])  # damaged: made again
    assert cli([*arguments, "--keep"]) == 0
    assert capsys.readouterr().out == expected
