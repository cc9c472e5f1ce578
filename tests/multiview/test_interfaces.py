"""The encoder under the names that other libraries use."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from corpora.support.errors import UserError
from multiview.folder.files import save_members
from multiview.info import cli as info
from multiview.model import MultiViewEncoder
from multiview.sklearn import MultiViewTransformer
from multiview.train import main
from tests.fixtures.trees import TINY, changed

TEXTS = [["the", "cat"], ["stock", "prices", "fell"], ["word"]]


@pytest.fixture(scope="module")
def folder(toy_trees: Path, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("models")
    main(changed(TINY, trees=toy_trees, output=out, name="m", views="seq,seq"))
    return out / "m"


def test_the_names_of_sentence_transformers(folder: Path) -> None:
    encoder = MultiViewEncoder.load(folder)
    vectors = encoder.encode(TEXTS)
    np.testing.assert_array_equal(encoder.encode_query(TEXTS), vectors)
    np.testing.assert_array_equal(encoder.encode_document(TEXTS, normalize_embeddings=False), vectors)
    other = vectors[::-1].copy()
    pairs = encoder.similarity_pairwise(vectors, other)
    assert pairs.shape == (3,)
    torch.testing.assert_close(pairs, encoder.similarity(vectors, other).diagonal())
    assert float(encoder.similarity_pairwise(vectors[0], vectors[0])) == pytest.approx(1)
    assert encoder.device == torch.device("cpu")


def test_a_model_in_words(folder: Path) -> None:
    encoder = MultiViewEncoder.load(folder)
    shown = repr(encoder).splitlines()
    assert shown[0] == "MultiViewEncoder m on cpu"
    assert shown[1] == "  views    seq 8 + seq 8 = 16 dimensions"
    assert shown[2].endswith(" trained, of size 6")
    assert shown[3] == "  parsers  const toy-const, dep toy-dep"
    assert len(shown) == 4
    assert "none on record" in repr(MultiViewEncoder.untrained("dep,const", dim=4, word_dim=4))


def test_a_saved_model_is_the_same(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = MultiViewEncoder.load(folder)
    expected = encoder.encode(TEXTS)
    encoder.save(tmp_path / "copy")
    for name in ("config.json", "model.safetensors", "README.md", "vocab.txt", "time.json"):
        assert (tmp_path / "copy" / name).read_bytes() == (folder / name).read_bytes()
    with torch.no_grad():
        encoder.members[0].network.tables[0].mul_(2)
    encoder.save(tmp_path / "copy")  # a model may be replaced, nothing else
    changed_vectors = MultiViewEncoder.load(tmp_path / "copy").encode(TEXTS)
    np.testing.assert_array_equal(changed_vectors, encoder.encode(TEXTS))
    assert np.abs(changed_vectors - expected).max() > 1e-3
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "README.md").write_text("mine")
    with pytest.raises(UserError, match="thesis: holds something other than a model"):
        encoder.save(tmp_path / "thesis")
    assert (tmp_path / "thesis" / "README.md").read_text() == "mine"


def test_untrained_and_joined_models_can_be_saved(folder: Path, tmp_path: Path, capsys) -> None:
    twin = MultiViewEncoder.untrained("seq,seq", dim=4, word_dim=4)
    twin.save(tmp_path / "twin")
    np.testing.assert_array_equal(MultiViewEncoder.load(tmp_path / "twin").encode(TEXTS), twin.encode(TEXTS))
    assert info([str(tmp_path / "twin")]) == 0
    for name in ("a", "b"):
        shutil.copytree(folder, tmp_path / "joined" / name)
    save_members(tmp_path / "joined", ["a", "b"], card="# Two\n")
    joined = MultiViewEncoder.load(tmp_path / "joined")
    joined.save(tmp_path / "copy")
    assert (tmp_path / "copy" / "README.md").read_text() == "# Two\n"
    np.testing.assert_array_equal(
        MultiViewEncoder.load(tmp_path / "copy").encode(TEXTS), joined.encode(TEXTS)
    )


def test_a_step_of_a_scikit_learn_pipeline(folder: Path) -> None:
    texts, labels = TEXTS * 6, [0, 1, 0] * 6
    for model in (folder, MultiViewEncoder.load(folder)):
        step = MultiViewTransformer(model, normalize=True, batch_size=4)
        pipeline = make_pipeline(clone(step), LogisticRegression(C=100))
        assert pipeline.fit(texts, labels).predict(TEXTS).tolist() == [0, 1, 0]
        assert cross_val_score(pipeline, texts, labels, cv=2).mean() == 1
        fitted = pipeline[0]
        expected = MultiViewEncoder.load(folder).encode(TEXTS, normalize_embeddings=True)
        np.testing.assert_allclose(fitted.transform(TEXTS), expected, atol=1e-6)
        assert len(fitted.get_feature_names_out()) == 16
        assert "MultiViewTransformer" in repr(pipeline)
    shared = MultiViewEncoder.load(folder)
    assert clone(MultiViewTransformer(shared)).model is shared
