"""The store of vectors: what it got, it gives back; kills, two processes, damage."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from multiview.names.constructors import encoder_of_object
from multiview.names.opened import as_encoder
from multiview.names.store import KeptEncoder, VectorStore
from runtime.errors import UserError
from tests.senteval_runner.encoders import RandomBag


def random_vectors(n: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).randn(3, n, 5).astype(np.float32)


def test_it_stays_in_its_folder(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    store = VectorStore(Path("store"), 3)
    monkeypatch.chdir("other")
    store.add(["a"], random_vectors(1))
    assert VectorStore(tmp_path / "store", 3).positions.keys() == store.positions.keys()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_it_gives_back_what_it_got(tmp_path: Path, dtype: str) -> None:
    """Also when another process wrote a sentence of its own and one of ours."""
    texts, vectors = [f"sentence {i}" for i in range(10)], random_vectors(10)
    store, second_store = (VectorStore(tmp_path, 3, dtype) for _ in range(2))
    store.add(texts[:6], vectors[:, :6])
    store.add(texts[6:], vectors[:, 6:])
    second_store.add(["sentence 3", "another"], random_vectors(2, 1))
    reopened = VectorStore(tmp_path, 3, dtype)
    assert reopened.missing(["new", texts[3], "new"]) == ["new"] and reopened.dim == 5
    rows = reopened.get([texts[i] for i in (7, 2, 2, 9)], 1)
    np.testing.assert_array_equal(rows, vectors[1, [7, 2, 2, 9]].astype(dtype).astype(np.float32))
    np.testing.assert_array_equal(reopened.get(["another"], 2)[0], random_vectors(2, 1)[2, 1].astype(dtype))


@pytest.mark.usefixtures("switching")
def test_threads_share_an_encoder_and_its_store() -> None:
    bag, sentences = RandomBag(6), [[f"w{i}", f"v{i % 3}"] for i in range(64)]
    shared = as_encoder(bag)
    with ThreadPoolExecutor(8) as pool:
        pairs = list(pool.map(lambda first: shared.encode(sentences[first : first + 2]), range(0, 64, 2)))
    np.testing.assert_allclose(np.concatenate(pairs), bag.encode(sentences), atol=1e-6)


def test_tokens_with_spaces_are_other_tokens() -> None:
    """As in a treebank."""
    sentences = [["New York", "x"], ["New", "York", "x"], ["New", "York x"], []]
    bag = RandomBag(6)
    vectors = as_encoder(bag).encode(sentences)
    np.testing.assert_allclose(vectors, RandomBag(6).encode([*sentences[:3], ["."]]), atol=1e-6)
    assert len(np.unique(vectors, axis=0)) == 4


def test_an_encoder_of_an_object_can_be_pickled_with_its_store() -> None:
    encoder, sentences = as_encoder(RandomBag(6)), [["a", "b"], ["c"]]
    for calls in ([2], [2]):  # before and after the first sentence
        copied = pickle.loads(pickle.dumps(encoder))
        np.testing.assert_array_equal(copied.encode(sentences), encoder.encode(sentences))
        assert copied.key() == encoder.key() and copied.members[0].loaded.calls == calls


def test_an_encoder_is_asked_once_per_sentence_over_runs(tmp_path: Path) -> None:
    bag = RandomBag(6)
    sentences = [["a", "b"], [], ["c"], ["a", "b"]]

    def run(sentences: list[list[str]]) -> np.ndarray:
        return KeptEncoder(encoder_of_object(bag), tmp_path).encode(sentences)

    first = run(sentences)
    (next(tmp_path.iterdir()) / "00001-0.npy").write_bytes(b"half a shard")  # killed before its record
    second = run([["d"], *sentences])
    assert bag.calls == [3, 1]
    np.testing.assert_array_equal(second[1:], first)


@pytest.mark.parametrize("file", ["*.npy", "*.json"])
def test_damaged_shards_are_named(tmp_path: Path, file: str) -> None:
    VectorStore(tmp_path, 3).add(["a"], random_vectors(1))
    path = next(tmp_path.glob(file))
    content = path.read_bytes()
    bit_flips = [content[:i] + bytes([content[i] ^ 4]) + content[i + 1 :] for i in range(0, len(content), 3)]
    for damage in (b"", b"nothing", content[:-2], *bit_flips):
        path.write_bytes(damage)
        with pytest.raises(UserError, match=r"\.json: not a shard .*; delete"):
            VectorStore(tmp_path, 3)
    path.write_bytes(content)
    for columns, dtype in ((4, "float32"), (3, "float16")):  # whole, but of another shape
        with pytest.raises(UserError, match="not a shard"):
            VectorStore(tmp_path, columns, dtype)
