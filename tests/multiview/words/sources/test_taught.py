"""``--vectors taught:MODEL``: the least squares of the equation, by a dense solver."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from corpora.support.errors import UserError
from multiview.config import TrainConfig
from multiview.training.data import open_trees
from multiview.words.sources.spec import open_vectors
from multiview.words.sources.taught import ALONE, PENALTY, fitted, occurrences
from multiview.words.vectors import WordVectors
from multiview.words.vocabulary import corpus_words
from tests.fixtures.teacher import write_teacher
from tests.fixtures.transformers import save_sentence_encoder
from tests.fixtures.trees import changed

pytest.importorskip("sentence_transformers")


def solved(rows: np.ndarray, targets: np.ndarray, start: np.ndarray, penalty: float) -> np.ndarray:
    """The minimum by one least-squares problem of both terms' rows, float64."""
    found = rows @ start
    scale = (found * targets).sum() / (found**2).sum()
    both = np.vstack([rows, np.sqrt(penalty) * np.eye(rows.shape[1])])
    return np.linalg.lstsq(both, np.vstack([targets, np.sqrt(penalty) * scale * start]), rcond=None)[0]


def test_conjugate_gradients_find_the_least_squares() -> None:
    random = np.random.default_rng(0)
    rows = random.poisson(0.3, size=(60, 20)).astype(np.float32)
    targets = random.normal(size=(60, 5)).astype(np.float32)
    start = random.normal(size=(20, 5)).astype(np.float32)
    for penalty in (0.5, 20.0):
        found = fitted(csr_matrix(rows), targets, start, penalty=penalty, steps=40)
        np.testing.assert_allclose(found, solved(rows, targets, start, penalty), atol=2e-4)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_sentence_encoder(tmp_path_factory.mktemp("encoder") / "m")


@pytest.fixture
def config(tiny: TrainConfig, encoder: Path, tmp_path: Path) -> TrainConfig:
    write_teacher(str(encoder), tiny.trees, tmp_path / "teacher")
    return changed(
        tiny,
        words="fixed",
        vectors=f"taught:{encoder}",
        vocabulary={"case": "lower", "min_count": 1},
        table={"dim": 24},
        teacher={"vectors": tmp_path / "teacher"},
    )


def made(config: TrainConfig, folder: Path) -> WordVectors:
    return open_vectors(config, open_trees(config.trees), folder / "cache")


def test_words_are_fitted_to_the_sentences(config: TrainConfig, encoder: Path, tmp_path: Path) -> None:
    """From sentence-transformers' own vectors of words and sentences."""
    from sentence_transformers import SentenceTransformer

    trees = open_trees(config.trees)
    words, counts = corpus_words(trees.type_counts(), config.vocabulary)
    sentences = [list(tokens) for tokens in trees.read(0, len(trees), ("token",)).words()]
    model = SentenceTransformer(str(encoder), device="cpu")
    targets = model.encode([" ".join(tokens) for tokens in sentences]).astype(np.float64)
    targets /= np.linalg.norm(targets, axis=1, keepdims=True)
    targets -= targets.mean(axis=0)
    targets /= np.linalg.norm(targets, axis=1, keepdims=True)
    start = model.encode(words).astype(np.float64)
    start = (start - start.mean(axis=0)) * (1e-3 / (1e-3 + counts / counts.sum()))[:, None]
    rows = np.array([[[t.lower() for t in s].count(w) for w in words] for s in sentences], dtype=float)
    rows /= np.sqrt(rows.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(occurrences(words, config, trees).toarray(), rows, rtol=1e-6)
    fit = solved(rows, targets, start, PENALTY)
    expected = fit / np.sqrt(np.mean(fit**2)) + ALONE * start / np.sqrt(np.mean(start**2))
    expected /= np.sqrt(np.mean(expected**2))
    found = made(config, tmp_path)
    assert found.words == words and "whose sum comes nearest" in found.about
    assert np.corrcoef(found.vectors.ravel(), expected.ravel())[0, 1] > 0.999  # float16 teachers
    smaller = made(changed(config, table={"dim": 10}), tmp_path)
    assert smaller.dim == 10
    gram = found.vectors @ found.vectors.T
    assert np.corrcoef((smaller.vectors @ smaller.vectors.T).ravel(), gram.ravel())[0, 1] > 0.9


def test_it_needs_the_teachers_vectors(config: TrainConfig, tmp_path: Path) -> None:
    without = dataclasses.replace(config, teacher=dataclasses.replace(config.teacher, vectors=None))
    with pytest.raises(UserError, match=r"taught:.*: needs --teacher\.vectors"):
        made(without, tmp_path)
    other = tmp_path / "other"
    write_teacher("bag:random@6", config.trees, other)
    wrong = dataclasses.replace(config, teacher=dataclasses.replace(config.teacher, vectors=other))
    with pytest.raises(UserError, match=r"has vectors of 24 numbers, those of .* have 6"):
        made(wrong, tmp_path)
