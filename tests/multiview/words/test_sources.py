"""``--vectors``: gensim's skip-grams, words as a sentence encoder encodes them."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from corpora.support.errors import UserError
from multiview import pretrained
from multiview.config import TrainConfig, read_config
from multiview.folder.files import load_members
from multiview.train import cli, main
from multiview.training.data import open_trees
from multiview.words.sources import PASSES, open_vectors, reduced
from multiview.words.vectors import WordVectors
from multiview.words.vocabulary import corpus_words
from tests.fixtures.transformers import save_sentence_encoder
from tests.fixtures.trees import changed, toy_corpus
from tests.parsing.trees.test_cache import write_cache


def test_vectors_of_new_words_are_opened_before_the_training(tiny: TrainConfig, tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("cat x\n")
    config = changed(tiny, vectors=str(path), table={"expand": 9})
    with pytest.raises(UserError, match=r"line 1: .* is not a word and its numbers"):
        main(config)
    assert not (config.folder / "train.json").exists()  # not claimed: the corrected command goes there
    with pytest.raises(UserError, match=r"--table\.expand 9: --vectors train has the trained words alone"):
        changed(config, vectors="train").check()


@pytest.fixture
def skip_grams(tiny: TrainConfig) -> TrainConfig:
    return changed(tiny, words="fixed", vectors="train", table={"case": "lower"}, seed=5)


def test_the_vectors_are_gensims(skip_grams: TrainConfig, tmp_path: Path, monkeypatch) -> None:
    """Gensim by itself, on lists of words and counting on its own; no two words occur equally often."""
    word2vec = pytest.importorskip("gensim.models").Word2Vec
    tokens = [f"Word{number}" for number in range(20) for _ in range(21 - number)]
    np.random.default_rng(0).shuffle(tokens)
    sentences = [tuple(tokens[start : start + 7]) for start in range(0, len(tokens), 7)]
    write_cache(tmp_path / "trees", sentences, shard=32)
    trees = open_trees(tmp_path / "trees")
    lower = [[word.lower() for word in words] for words in sentences]
    for factor, passes in ((100, 20), (5, 5), (1, 3)):
        monkeypatch.setitem(PASSES, "words", factor * len(tokens))
        theirs = word2vec(
            lower, vector_size=6, window=5, sg=1, negative=5, min_count=2, epochs=passes, seed=5, workers=1
        ).wv
        ours = open_vectors(skip_grams, trees, tmp_path)
        assert ours.words == theirs.index_to_key == [f"word{number}" for number in range(20)]
        np.testing.assert_array_equal(ours.vectors, theirs.vectors)
    shown = open_vectors(changed(skip_grams, table={"case": "exact", "size": 3}), trees, tmp_path)
    assert shown.words == ["Word0", "Word1", "Word2"]
    write_cache(tmp_path / "once", [("a", "b"), ("c", "d")] * 1)
    with pytest.raises(UserError, match=r"no word of .*once occurs twice"):
        open_vectors(skip_grams, open_trees(tmp_path / "once"), tmp_path)


def test_what_is_made_once_is_kept(skip_grams: TrainConfig, tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("gensim")
    trees = open_trees(skip_grams.trees)
    first = open_vectors(skip_grams, trees, tmp_path)
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    np.testing.assert_array_equal(open_vectors(skip_grams, trees, tmp_path).vectors, first.vectors)
    for other in ({"seed": 6}, {"table": {"dim": 5}}, {"table": {"size": 4}}):
        with pytest.raises(UserError, match=r"gensim is not installed: pip install .*\[vectors\]"):
            open_vectors(changed(skip_grams, **other), trees, tmp_path)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with mean pooling, as sentence-transformers saves it."""
    pytest.importorskip("sentence_transformers")
    return save_sentence_encoder(tmp_path_factory.mktemp("teacher"))


@pytest.fixture
def distilled(tiny: TrainConfig, teacher: Path) -> TrainConfig:
    return changed(tiny, words="fixed", vectors=f"distil:{teacher}", table={"case": "lower", "buckets": 0})


def vectors_of(config: TrainConfig, cache: Path) -> WordVectors:
    return open_vectors(config, open_trees(config.trees), cache)


def by_svd(encoded_WT: np.ndarray, counts_W: np.ndarray, dim: int, a: float = 1e-3) -> np.ndarray:
    """PCA by the singular value decomposition, unit mean square, a / (a + p); signs are arbitrary."""
    centred = encoded_WT.astype(np.float64) - encoded_WT.mean(axis=0, dtype=np.float64)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    projected = left[:, :dim] * values[:dim]
    projected /= np.sqrt((projected**2).sum() / projected.size)
    return projected * (a / (a + counts_W / counts_W.sum()))[:, None]


def test_the_reduction_is_that_of_the_svd() -> None:
    random = np.random.default_rng(0)
    encoded = (random.normal(size=(50, 12)) @ random.normal(size=(12, 12)) + 3).astype(np.float32)
    counts = random.integers(1, 1000, size=50)
    ours, theirs = reduced(encoded, counts, 5), by_svd(encoded, counts, 5)
    signs = np.sign((ours * theirs).sum(axis=0))
    np.testing.assert_allclose(ours, theirs * signs, rtol=1e-4, atol=1e-6)
    mirrored = reduced(-encoded, counts, 5)  # the axes do not depend on where the vectors point
    np.testing.assert_allclose(mirrored, -ours, rtol=1e-4, atol=1e-5)


def test_the_corpus_words_are_encoded_one_by_one(
    distilled: TrainConfig, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers import SentenceTransformer

    counts = open_trees(distilled.trees).type_counts()
    words, counts_W = corpus_words(counts, distilled.table)
    made = vectors_of(distilled, tmp_path)
    assert made.words == words
    model = SentenceTransformer(str(teacher), device="cpu")
    encoded = np.stack([model.encode(word, show_progress_bar=False) for word in words])
    theirs = by_svd(encoded, counts_W, distilled.table.dim)
    signs = np.sign((made.vectors * theirs).sum(axis=0))
    np.testing.assert_allclose(made.vectors, theirs * signs, rtol=1e-3, atol=1e-4)
    moved = tmp_path / "moved"
    shutil.copytree(teacher, moved)
    with monkeypatch.context() as patch:
        patch.setattr(pretrained, "whole_model", None)  # the content counts, not the place
        again = vectors_of(changed(distilled, vectors=f"distil:{moved}"), tmp_path)
    np.testing.assert_array_equal(again.vectors, made.vectors)
    other = json.loads((moved / "config.json").read_text()) | {"layer_norm_eps": 1e-1}
    (moved / "config.json").write_text(json.dumps(other))
    different = vectors_of(changed(distilled, vectors=f"distil:{moved}"), tmp_path)
    assert not np.array_equal(different.vectors, made.vectors)


def test_bad_encoders_are_one_line(distilled: TrainConfig, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    cases = {
        "more than the 24 numbers of .* or the corpus's 23 words": {"table": {"dim": 24, "size": 23}},
        "--table.dim 30: more than the 24 numbers": {"table": {"dim": 30}},
        "no .safetensors file": {"vectors": f"distil:{tmp_path / 'empty'}"},
        "neither a folder here nor": {"vectors": "distil:no such model"},
    }
    for message, wrong in cases.items():
        with pytest.raises(UserError, match=message) as caught:
            vectors_of(changed(distilled, **wrong), tmp_path)
        assert "\n" not in str(caught.value)


def test_a_run_reads_them_and_its_card_says_so(
    distilled: TrainConfig, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expanded by the words of the corpus that training leaves out."""
    monkeypatch.chdir(tmp_path)
    options = [f"--vectors=distil:{teacher}", "--table.dim=6", "--table.size=12", "--table.expand=20"]
    options += [f"--trees={distilled.trees}", "--loop.batch=20", "--loop.validation=26", "--encoder.dim=8"]
    assert cli([*options, "--name=grown", "--device=cpu", "--loop.max-steps=2", "--table.buckets=0"]) == 0
    folder = Path("runs/models/grown")
    words = load_members(folder)[0].network.words
    ranked, _ = corpus_words(
        open_trees(distilled.trees).type_counts(), changed(distilled, table={"size": 20}).table
    )
    assert words.vocabulary.words == ranked and words.expanded == 8
    assert f"`{teacher}` encodes them one by one" in (folder / "README.md").read_text()
    assert read_config(folder / "train.json").vectors == f"distil:{teacher}"
    known = {word for sentence in toy_corpus()[0] for word in sentence}
    assert {word.lower() for word in known} >= set(ranked)
