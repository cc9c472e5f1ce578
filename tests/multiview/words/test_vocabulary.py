"""Rows of words, the words of a corpus."""

from pathlib import Path

import numpy as np
import pytest

from multiview.model_config import TableConfig
from multiview.words.vectors import read_words
from multiview.words.vocabulary import Vocabulary, corpus_words, sif_weights

WORDS = ["the", "Paris", "cat", "USA"]


def test_a_word_backs_off_to_other_cases_then_to_a_bucket() -> None:
    vocabulary = Vocabulary(WORDS)
    assert vocabulary.lookup(["the", "THE", "paris", "usa", "dog", ""]).tolist() == [1, 1, 2, 4, 0, 0]
    assert Vocabulary(WORDS, case="exact").lookup(["THE", "cat"]).tolist() == [0, 3]
    assert Vocabulary(["the"], case="lower").lookup(["THE"]).tolist() == [1]
    curly = Vocabulary(["n’t", "’s", "'s", "café"])
    written = curly.lookup(["n't", "nʼt", "’s", "cafe\u0301", "Ca\u00adfé", "\u200b"])
    assert written.tolist() == [1, 1, 3, 4, 4, 0]
    hashed = Vocabulary(WORDS, buckets=7)
    rows = hashed.lookup([f"word{i}" for i in range(200)])
    assert hashed.row_count == 12 and set(rows.tolist()) == set(range(5, 12))
    assert hashed.row("Zebra") == hashed.row("zebra") >= 5
    assert vocabulary.key == Vocabulary(list(WORDS)).key
    assert len({vocabulary.key, Vocabulary(WORDS[::-1]).key, hashed.key}) == 3


def test_corpus_words_are_sorted_and_can_be_written(tmp_path: Path) -> None:
    counts = {"b": 2, "a": 2, "c": 5, "B": 1, "x\ny": 9, "": 9, "rare": 1, "\ud800": 9}
    for table, expected in (
        (TableConfig(size=3), {"c": 5, "b": 3, "a": 2}),  # with buckets, rare words are left to them
        (TableConfig(buckets=0), {"c": 5, "b": 3, "a": 2, "rare": 1}),
        (TableConfig(case="exact", size=3), {"c": 5, "a": 2, "b": 2}),
    ):
        words, numbers = corpus_words(counts, table)
        assert dict(zip(words, numbers.tolist(), strict=True)) == expected and words == list(expected)
    words, _ = corpus_words(dict.fromkeys(["a\rb", "c\x85d", "e\u2028f", " "], 1), TableConfig(buckets=0))
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in words), "utf-8", newline="\n")
    assert read_words(tmp_path / "vocab.txt") == words and len(words) == 4
    apart = {"n’t": 2, "n't": 1, "\u200b": 9}
    assert corpus_words(apart, TableConfig(size=3))[0] == ["n't"]
    weight = sif_weights(np.array([900, 100]), rows=4)
    assert weight == pytest.approx([1, 0.001 / 0.901, 0.001 / 0.101, 1])
