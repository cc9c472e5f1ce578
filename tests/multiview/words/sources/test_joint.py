"""``--vectors A+B``: the parts by hand; ``ngrams``: words that share a spelling."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from multiview.config import TrainConfig
from multiview.training.data import open_trees
from multiview.words.sources.ngrams import ngrams
from multiview.words.sources.spec import open_vectors
from multiview.words.vocabulary import corpus_words
from tests.fixtures.trees import changed


@pytest.fixture
def config(tiny: TrainConfig) -> TrainConfig:
    return changed(tiny, words="fixed", vocabulary={"case": "lower", "min_count": 1}, seed=3)


def opened(config: TrainConfig, spec: str, folder: Path):  # type: ignore[no-untyped-def]
    return open_vectors(dataclasses.replace(config, vectors=spec), open_trees(config.trees), folder)


def test_parts_are_scaled_to_their_weights(config: TrainConfig, tmp_path: Path) -> None:
    """Word by word from the parts as they are made alone; a word that a part lacks has zeros in it."""
    words = corpus_words(open_trees(config.trees).type_counts(), config.vocabulary)[0]
    random = np.random.default_rng(0)
    given = {word: random.normal(size=3).round(3) for word in words[::2]}
    (tmp_path / "v.txt").write_text("".join(f"{w} {' '.join(map(str, v))}\n" for w, v in given.items()))
    alone = opened(config, "ngrams@5", tmp_path)
    joint = opened(config, f"ngrams@5+0.5*{tmp_path / 'v.txt'}", tmp_path)
    assert joint.words == words == alone.words
    left = alone.vectors / np.sqrt(np.mean([v @ v for v in alone.vectors]))
    right = np.stack([given.get(word, np.zeros(3)) for word in words])
    right *= 0.5 / np.sqrt(np.mean([v @ v for v in right]))
    expected = np.hstack([left, right])
    expected /= np.sqrt(np.mean(expected**2))
    np.testing.assert_allclose(joint.vectors, expected, rtol=1e-4, atol=1e-6)
    assert "n-grams" in joint.about and "v.txt" in joint.about


def test_skip_grams_are_weighted(config: TrainConfig, tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    words, counts = corpus_words(open_trees(config.trees).type_counts(), config.vocabulary)
    alone = opened(config, "train@6", tmp_path)
    joint = opened(config, "train@6+2*ngrams@4", tmp_path)
    left = alone.vectors - alone.vectors.mean(axis=0)
    left = left * np.sqrt(1e-3 / (1e-3 + counts / counts.sum()))[:, None]
    lengths = np.linalg.norm(joint.vectors[:, :6], axis=1) / np.linalg.norm(left, axis=1)
    np.testing.assert_allclose(lengths, lengths[0], rtol=1e-3)
    by_part = [np.mean(np.sum(part**2, axis=1)) for part in (joint.vectors[:, :6], joint.vectors[:, 6:])]
    assert by_part[1] / by_part[0] == pytest.approx(4, rel=1e-4)
    assert joint.words == words


def test_a_spelling_is_shared(config: TrainConfig, tmp_path: Path) -> None:
    assert ngrams("Cat") == [f"ngram:{n}" for n in ("<ca", "cat", "at>", "<cat", "cat>", "<cat>")]
    made = opened(config, "ngrams@400", tmp_path)
    unit = made.vectors / np.linalg.norm(made.vectors, axis=1, keepdims=True)
    shared = np.array([[len({*ngrams(a)} & {*ngrams(b)}) for b in made.words] for a in made.words])
    own = np.array([1 + len(ngrams(word)) for word in made.words])
    expected = (shared + np.eye(len(own))) / np.sqrt(np.outer(own, own))
    assert np.abs(unit @ unit.T - expected).max() < 0.3  # 6 standard deviations of 400 random numbers
    assert np.corrcoef((unit @ unit.T).ravel(), expected.ravel())[0, 1] > 0.8
