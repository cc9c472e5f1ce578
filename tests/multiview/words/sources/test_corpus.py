"""``--vectors train``: gensim's own vectors, the same every time, made once."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

from corpora.support.errors import UserError
from multiview.config import TrainConfig
from multiview.train import cli
from multiview.training.data import open_trees
from multiview.words.sources.corpus import PASSES, trained_on_corpus
from multiview.words.sources.spec import open_vectors
from tests.fixtures.trees import changed
from tests.parsing.cache.test_reader import write_cache


@pytest.fixture
def config(tiny: TrainConfig) -> TrainConfig:
    return changed(tiny, words="fixed", vectors="train", vocabulary={"case": "lower", "min_count": 3}, seed=5)


def test_the_vectors_are_gensims(config: TrainConfig, tmp_path: Path, monkeypatch) -> None:
    """Gensim by itself, on lists of words and counting on its own; no two words occur equally often."""
    word2vec = pytest.importorskip("gensim.models").Word2Vec
    tokens = [f"Word{number}" for number in range(20) for _ in range(40 - number)]
    np.random.default_rng(0).shuffle(tokens)
    sentences = [tuple(tokens[start : start + 7]) for start in range(0, len(tokens), 7)]
    write_cache(tmp_path / "trees", sentences, shard=32)
    trees = open_trees(tmp_path / "trees")
    lower = [[word.lower() for word in words] for words in sentences]
    theirs = word2vec(
        lower, vector_size=6, window=5, sg=1, negative=5, min_count=25, epochs=20, seed=5, workers=1
    ).wv
    ours = open_vectors(changed(config, vocabulary={"min_count": 25}), trees, tmp_path)
    assert ours.words == theirs.index_to_key == [f"word{number}" for number in range(16)]
    np.testing.assert_array_equal(ours.vectors, theirs.vectors)
    assert ours.about.endswith("(20 passes)")
    with monkeypatch.context() as patch:
        patch.setitem(PASSES, "words", 5 * len(tokens))
        assert trained_on_corpus(config, trees).about.endswith("(5 passes)")
        patch.setitem(PASSES, "words", len(tokens))
        assert trained_on_corpus(config, trees).about.endswith("(3 passes)")
    shown = open_vectors(changed(config, vocabulary={"case": "exact", "size": 3}), trees, tmp_path)
    assert shown.words == ["Word0", "Word1", "Word2"]


def test_what_is_made_once_is_kept(config: TrainConfig, tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("gensim")
    trees = open_trees(config.trees)
    first = open_vectors(config, trees, tmp_path)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "gensim.models", None)
        np.testing.assert_array_equal(open_vectors(config, trees, tmp_path).vectors, first.vectors)
        for other in ({"seed": 6}, {"table": {"dim": 5}}, {"vocabulary": {"min_count": 4}}):
            with pytest.raises(UserError, match=r"gensim is not installed: pip install .*\[vectors\]"):
                open_vectors(changed(config, **other), trees, tmp_path)


def test_a_run_trains_on_them_and_its_card_says_so(config: TrainConfig, tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("gensim")
    monkeypatch.chdir(tmp_path)
    options = ["--words=fixed", "--vectors=train", "--table.dim=6", "--encoder.dim=8", "--device=cpu"]
    options += [f"--trees={config.trees}", "--loop.batch=20", "--validation.sentences=26", "--name=own"]
    assert cli([*options, "--loop.max-steps=2"]) == 0
    card = Path("runs/models/own/README.md").read_text()
    assert "skip-gram vectors of 6 dimensions that gensim trained on the same corpus" in card
    assert len(list(Path("runs/vectors").glob("train-*.vectors"))) == 1


def test_a_corpus_without_words_is_one_line(config: TrainConfig, tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    none = dataclasses.replace(config, vocabulary=dataclasses.replace(config.vocabulary, min_count=10**6))
    with pytest.raises(UserError, match="--vectors train: no word occurs 1000000 times"):
        open_vectors(none, open_trees(config.trees), tmp_path)
