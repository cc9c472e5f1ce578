"""The store of vectors: what it got, it gives back; kills, two processes, damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from corpora.support.errors import UserError
from senteval_runner.vectors.embed import Part, StoredEncoder, VectorStore
from tests.senteval_runner.encoders import RandomBag


def drawn(n: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).randn(3, n, 5).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_it_gives_back_what_it_got(tmp_path: Path, dtype: str) -> None:
    texts, vectors = [f"sentence {i}" for i in range(10)], drawn(10)
    store = VectorStore(tmp_path, 3, dtype)
    store.add(texts[:6], vectors[:, :6])
    store.add(texts[6:], vectors[:, 6:])
    for opened in (store, VectorStore(tmp_path, 3, dtype)):
        assert opened.missing(["new", texts[3], "new"]) == ["new"] and opened.dim == 5
        found = opened.get([texts[i] for i in (7, 2, 2, 9)], 1)
        np.testing.assert_array_equal(found, vectors[1, [7, 2, 2, 9]].astype(dtype).astype(np.float32))


def test_an_encoder_is_asked_once_per_sentence_over_runs(tmp_path: Path) -> None:
    bag = RandomBag(6)
    sentences = [["a", "b"], [], ["c"], ["a", "b"]]

    def run(sentences: list[list[str]]) -> np.ndarray:
        return StoredEncoder(Part(lambda: bag.encode, tokens=True, store=VectorStore(tmp_path)))(sentences)

    first = run(sentences)
    assert bag.calls == [3] and first.shape == (4, 6)
    (tmp_path / "00001-0.npy").write_bytes(b"half a shard")  # killed before its record
    again = run([["d"], *sentences])
    assert bag.calls == [3, 1]
    np.testing.assert_array_equal(again[1:], first)


def test_a_shard_without_its_record_does_not_exist(tmp_path: Path) -> None:
    store = VectorStore(tmp_path, 3)
    store.add(["a", "b"], drawn(2))
    store.add(["c", "d"], drawn(2, 1))
    next(tmp_path.glob("00001-*.json")).unlink()
    store = VectorStore(tmp_path, 3)
    assert store.missing(["a", "b", "c"]) == ["c"]
    store.add(["c", "e"], drawn(2, 2))
    np.testing.assert_array_equal(VectorStore(tmp_path, 3).get(["c"])[0], drawn(2, 2)[0, 0])


def test_two_processes_may_share_a_store(tmp_path: Path) -> None:
    one, two = VectorStore(tmp_path, 3), VectorStore(tmp_path, 3)
    one.add(["a", "b"], drawn(2))
    two.add(["b", "c"], drawn(2, 1))
    found = VectorStore(tmp_path, 3).get(["a", "c"], 2)
    np.testing.assert_array_equal(found, [drawn(2)[2, 0], drawn(2, 1)[2, 1]])


@pytest.mark.parametrize("file", ["*.npy", "*.json"])
def test_damaged_shards_are_named(tmp_path: Path, file: str) -> None:
    VectorStore(tmp_path, 3).add(["a"], drawn(1))
    path = next(tmp_path.glob(file))
    whole = path.read_bytes()
    flipped = [whole[:i] + bytes([whole[i] ^ 4]) + whole[i + 1 :] for i in range(0, len(whole), 3)]
    for damage in (b"", b"nothing", whole[:-2], *flipped):
        path.write_bytes(damage)
        with pytest.raises(UserError, match=r"\.json: not a shard .*; delete"):
            VectorStore(tmp_path, 3)
    path.write_bytes(whole)
    np.testing.assert_array_equal(VectorStore(tmp_path, 3).get(["a"], 1), drawn(1)[1])


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    VectorStore(tmp_path, 3).add(["a"], drawn(1))
    for columns, dtype in ((4, "float32"), (3, "float16")):
        with pytest.raises(UserError, match="not a shard"):
            VectorStore(tmp_path, columns, dtype)
    with pytest.raises(UserError, match="do not fit float16"):
        VectorStore(None, 3, "float16").add(["a"], drawn(1) * 1e6)
