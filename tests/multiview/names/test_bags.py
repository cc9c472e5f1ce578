"""Bags of words against loops that follow the papers and their authors' programs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from senteval_runner.vectors import open_model
from tests.parsing.trees.test_cache import write_cache

TEXT = [
    "the cat sat on the mat", "a dog saw the cat", "The Dog sat", "on a mat , a cat",
    "the the the the the the the",
    "cats see dogs", "a unknowable thing", "zebra",
]  # fmt: skip
SENTENCES = [line.split() for line in TEXT]
TESTED = [["the", "cat"], ["A", "dog", "unheard"], ["unheard"], ["mat", ",", "mat"], []]
WORDS = ["the", "cat", "sat", "on", "mat", "a", "dog", "saw", ",", "cats"]


@pytest.fixture
def glove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # converted vectors go to runs/vectors
    drawn = np.random.default_rng(0).normal(size=(len(WORDS), 7)).round(3)
    lines = [f"{w} {' '.join(map(str, v))}\n" for w, v in zip(WORDS, drawn.tolist(), strict=True)]
    (tmp_path / "glove.txt").write_text("".join(lines))
    return tmp_path / "glove.txt"


@pytest.fixture
def corpus(glove: Path) -> Path:
    write_cache(glove.parent / "trees", [tuple(words) for words in SENTENCES], documents=(0, 3))
    return glove.parent / "trees"


def vectors_of(glove: Path) -> dict[str, np.ndarray]:
    rows = (line.split() for line in glove.read_text().splitlines())
    return {word: np.array(values, np.float64) for word, *values in rows}


def slow(glove: Path) -> list[np.ndarray]:
    """SIF by loops in float64, the direction by an eigen-decomposition."""
    table = vectors_of(glove)
    counts = Counter(word.lower() for words in SENTENCES for word in words)
    total = sum(counts.values())
    p = {word: count / total for word, count in counts.items()}

    def mean(words: list[str]) -> np.ndarray:
        known = [word if word in table else word.lower() for word in words]
        known = [word for word in known if word in table]
        if not known:
            return np.zeros(7)
        rows = np.array([table[word] for word in known])
        weights = [1e-3 / (1e-3 + p.get(word, min(p.values()))) for word in known]
        return sum(weight * row for weight, row in zip(weights, rows, strict=True)) / len(rows)

    training = np.array([mean(words) for words in SENTENCES])
    direction = np.linalg.eigh(training.T @ training)[1][:, -1]
    means = [mean(words) for words in TESTED]
    return [vector - (vector @ direction) * direction for vector in means]


def test_weights_and_direction_are_those_of_the_paper(glove, corpus) -> None:
    encoder = open_model(f"sif:{glove}?corpus={corpus}")
    np.testing.assert_allclose(encoder(TESTED), slow(glove), rtol=1e-4, atol=1e-5)
    alone = np.concatenate([encoder([words]) for words in TESTED])  # whatever else is scored
    np.testing.assert_allclose(encoder(TESTED), alone, rtol=1e-5, atol=1e-6)


def test_a_plain_bag_is_the_mean_of_known_words(glove) -> None:
    table = vectors_of(glove)
    for spec in (str(glove), f"bag:{glove}"):
        found = open_model(spec)(TESTED)
        np.testing.assert_allclose(found[0], (table["the"] + table["cat"]) / 2, rtol=1e-5)
        np.testing.assert_allclose(found[1], (table["a"] + table["dog"]) / 2, rtol=1e-5)
        assert not found[2].any() and not found[4].any()


def test_words_share_the_ngrams_of_their_spelling() -> None:
    encoder, words = open_model("bag:ngrams@512"), open_model("bag:random@512")
    names = ["parsing", "Parsing", "parsings", "zebra"]
    vectors = encoder([[name] for name in names])
    grams = ["<zeb", "zebra", "bra>", "<ze", "zeb", "ebr", "bra", "ra>", "zebr", "ebra", "<zebr", "ebra>"]
    drawn = words([[name] for name in ["zebra", *(f"ngram:{gram}" for gram in grams)]])
    np.testing.assert_allclose(words([["cat", "dog"]]), words([["cat"], ["dog"]]).mean(0)[None], rtol=1e-5)
    np.testing.assert_allclose(vectors[3], drawn.sum(0) / np.sqrt(len(drawn)), rtol=1e-4, atol=1e-5)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert unit[0] @ unit[1] > 0.8 and unit[0] @ unit[2] > 0.6 and abs(unit[0] @ unit[3]) < 0.2
    np.testing.assert_allclose(encoder([names[:2]])[0], vectors[:2].mean(0), rtol=1e-5)
    assert encoder([["a"], []]).shape == (2, 512)
