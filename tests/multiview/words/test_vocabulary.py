"""Vocabulary, word-vector readers, vocabulary expansion."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.support.errors import UserError
from multiview.config import TableConfig
from multiview.words.vectors import load_word_vectors
from multiview.words.vocabulary import Vocabulary, corpus_words, inverse_frequency, read_words

WORDS = ["the", "Paris", "cat", "USA"]
TEXT = "the 0.5 1\nNew York 2 3\ncat -1e-3 4\nthe 9 9\n"


def test_unknown_word_and_case_back_off() -> None:
    vocabulary = Vocabulary(WORDS)
    assert vocabulary.lookup(["the", "THE", "paris", "usa", "dog", ""]).tolist() == [1, 1, 2, 4, 0, 0]
    assert Vocabulary(WORDS, case="exact").lookup(["THE", "cat"]).tolist() == [0, 3]
    assert Vocabulary(["the"], case="lower").lookup(["THE"]).tolist() == [1]


def test_hash_buckets_follow_the_words() -> None:
    vocabulary = Vocabulary(WORDS, buckets=7)
    rows = vocabulary.lookup([f"word{i}" for i in range(200)])
    assert vocabulary.rows == 12 and set(rows.tolist()) == set(range(5, 12))
    assert vocabulary.row("Zebra") == vocabulary.row("zebra") >= 5


def test_key_tells_mappings_apart() -> None:
    assert Vocabulary(WORDS).key == Vocabulary(list(WORDS)).key
    keys = {Vocabulary(WORDS).key, Vocabulary(WORDS[::-1]).key, Vocabulary(WORDS, buckets=2).key}
    assert len(keys) == 3


@given(st.lists(st.text(min_size=1).filter(lambda w: "\n" not in w), unique=True, max_size=20))
def test_file_round_trip(tmp_path_factory, words: list[str]) -> None:
    words, _ = corpus_words(dict.fromkeys(words, 1), TableConfig(buckets=0, case="exact"))
    path = tmp_path_factory.mktemp("v") / "vocab.txt"
    path.write_text("".join(word + "\n" for word in words), encoding="utf-8", newline="\n")
    assert read_words(path) == words


def test_corpus_words_are_sorted_and_can_be_written() -> None:
    counts = {"b": 2, "a": 2, "c": 5, "B": 1, "x\ny": 9, "": 9, "rare": 1, "\ud800": 9}
    for table, expected in (
        (TableConfig(size=3), {"c": 5, "b": 3, "a": 2}),  # with buckets, rare words are left to them
        (TableConfig(buckets=0), {"c": 5, "b": 3, "a": 2, "rare": 1}),
        (TableConfig(case="exact", size=3), {"c": 5, "a": 2, "b": 2}),
    ):
        words, numbers = corpus_words(counts, table)
        assert dict(zip(words, numbers.tolist(), strict=True)) == expected and words == list(expected)


def test_inverse_frequency_weighs_common_words_down() -> None:
    weight = inverse_frequency(np.array([900, 100]), rows=4, a=0.1)
    assert weight == pytest.approx([1, 0.1 / 1.0, 0.1 / 0.2, 1])


def binary(words: list[bytes], vectors: np.ndarray, newline: bytes = b"\n") -> bytes:
    head = f"{len(words)} {vectors.shape[1]}\n".encode()
    return head + b"".join(
        w + b" " + struct.pack(f"<{len(v)}f", *v) + newline for w, v in zip(words, vectors, strict=True)
    )


@pytest.mark.parametrize("kind", ["glove", "glove.gz", "word2vec", "fasttext", "bin", "bin-no-newline"])
def test_readers_agree(tmp_path, kind: str) -> None:
    vectors = np.array([[0.5, 1], [2, 3], [-1e-3, 4]], dtype=np.float32)
    path = tmp_path / ("v.bin" if kind.startswith("bin") else "v.txt.gz" if kind.endswith("gz") else "v.txt")
    if kind.startswith("bin"):
        pytest.importorskip("gensim")
        newline = b"" if "no" in kind else b"\n"
        path.write_bytes(binary([b"the", b"New_York", b"cat"], vectors, newline))
    elif kind == "word2vec":
        path.write_text("4 2\n" + TEXT)
    elif kind == "fasttext":
        path.write_text("4 2\n" + TEXT.replace("\n", " \n"))  # a space ends its lines
    else:
        path.write_bytes(gzip.compress(TEXT.encode()) if kind.endswith("gz") else TEXT.encode())
    loaded = load_word_vectors(path, tmp_path / "cache")
    assert [word.replace("_", " ") for word in loaded.words] == ["the", "New York", "cat"]
    assert isinstance(loaded.vectors, np.memmap) and loaded.dim == 2
    np.testing.assert_array_equal(loaded.vectors, vectors)
    assert load_word_vectors(path, tmp_path / "cache", limit=2).words == loaded.words[:2]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", None, "no such file"),
        ("v.txt", b"", "line 1"),
        ("v.txt", b"the 1 2\ncat 1 x\n", r"v\.txt, line 2: .*cat"),
        ("v.txt", b"the 1 2\ncat 1\n", r"v\.txt, line 2: .*cat"),
        ("v.txt", b"the 1 2\ncat nan 1\n", r"v\.txt: the vector of 'cat' is not finite"),
        ("v.txt", b"1000 2\nthe 1 2\ncat 3 4\n", "says 1000 words, it has 2"),
        ("v.txt", b"1 2\nthe 1 2\ncat 3 4\n", "says 1 words, it has 2"),
        ("v.txt", b"2 " + b"9" * 30 + b"\nthe 1 2\n", "line 1: .* is not a word and its numbers"),
        ("v.txt", b"9" * 5000 + b" 2\nthe 1 2\n", "its first line says"),
        ("v.txt.gz", gzip.compress(TEXT.encode())[:-9], "is the file whole"),
        ("v.bin", binary([b"a", b"b"], np.ones((2, 3), np.float32), b"")[:-2], "not word2vec's binary"),
        ("v.bin", struct.pack("<ii", 793712314, 12) + bytes(40), r"not word2vec's binary.*\.vec file"),
        ("v.bin", binary([b"a"], np.full((1, 3), np.nan, np.float32)), "the vector of 'a' is not finite"),
    ],
)
def test_bad_files_are_one_line(tmp_path, name: str, content: bytes | None, message: str) -> None:
    if name.endswith("bin"):
        pytest.importorskip("gensim")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        load_word_vectors(tmp_path / name, tmp_path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_a_conversion_that_was_killed_or_damaged_is_repeated(tmp_path, monkeypatch) -> None:
    (tmp_path / "v.txt").write_text("the 1 2\ncat 3 4\n")
    load_word_vectors(tmp_path / "v.txt", tmp_path)

    def killed(path, value) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("multiview.words.vectors.write_record", killed)
        load_word_vectors(tmp_path / "v.txt", tmp_path, limit=1)
    assert load_word_vectors(tmp_path / "v.txt", tmp_path).words == ["the", "cat"]
    (folder,) = tmp_path.glob("*.vectors")
    random = np.random.default_rng(0)
    for name in ("vectors.npy", "words.txt", "source.json"):
        whole = (folder / name).read_bytes()
        flipped = bytearray(whole)
        flipped[int(random.integers(len(whole)))] ^= 1 << int(random.integers(8))
        for damaged in (bytes(flipped), whole[:-3], b""):
            (folder / name).write_bytes(damaged)
            again = load_word_vectors(tmp_path / "v.txt", tmp_path)
            assert again.words == ["the", "cat"]
            np.testing.assert_array_equal(again.vectors, [[1, 2], [3, 4]])
            assert (folder / name).read_bytes() == whole


@pytest.mark.data
def test_reads_real_vectors(data_folder, tmp_path) -> None:
    path = data_folder / "vectors" / "glove.twitter.27B.25d.top12k.txt.gz"
    loaded = load_word_vectors(path, tmp_path)
    assert loaded.vectors.shape == (11_925, 25)
