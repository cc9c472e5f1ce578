"""``--vectors distil:MODEL``: the recipe by hand, what is kept, bad input."""

from __future__ import annotations

import dataclasses
import json
import shutil
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

from corpora.support.errors import UserError
from multiview import pretrained
from multiview.config import TrainConfig
from multiview.defaults import read_config
from multiview.folder.files import load_members
from multiview.model import MultiViewEncoder
from multiview.train import cli, main
from multiview.training.data import open_trees
from multiview.words.sources.distil import reduced
from multiview.words.sources.spec import open_vectors
from multiview.words.vectors import WordVectors
from multiview.words.vocabulary import corpus_words
from tests.fixtures.transformers import save_sentence_encoder
from tests.fixtures.trees import changed

pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with mean pooling, as sentence-transformers saves it."""
    folder = save_sentence_encoder(tmp_path_factory.mktemp("teacher"))
    (folder / "README.md").write_text("---\ntags: [a]\nlicense: apache-2.0\n---\n# A teacher\n")
    return folder


@pytest.fixture
def config(tiny: TrainConfig, teacher: Path) -> TrainConfig:
    return changed(tiny, words="fixed", vectors=f"distil:{teacher}", vocabulary={"case": "lower"})


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
    np.testing.assert_array_equal(ours, reduced(encoded, counts, 5))
    mirrored = reduced(-encoded, counts, 5)  # the axes do not depend on where the vectors point
    np.testing.assert_allclose(mirrored, -ours, rtol=1e-4, atol=1e-5)


def test_the_corpus_words_are_encoded_one_by_one(config: TrainConfig, teacher: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    trees = open_trees(config.trees)
    counts: dict[str, int] = {}
    for word, count in trees.type_counts().items():
        counts[word.lower()] = counts.get(word.lower(), 0) + count
    words = sorted(counts, key=lambda word: (-counts[word], word))
    made = vectors_of(config, tmp_path)
    assert made.words == words
    model = SentenceTransformer(str(teacher), device="cpu")
    encoded = np.stack([model.encode(word, show_progress_bar=False) for word in words])
    theirs = by_svd(encoded, np.array([counts[word] for word in words]), config.table.dim)
    signs = np.sign((made.vectors * theirs).sum(axis=0))
    np.testing.assert_allclose(made.vectors, theirs * signs, rtol=1e-3, atol=1e-4)


def test_what_is_made_once_is_kept(
    config: TrainConfig, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = vectors_of(config, tmp_path)
    loads: list[str] = []
    load = pretrained.whole_model

    def counting(name: str, device: str | None):  # type: ignore[no-untyped-def]
        loads.append(name)
        return load(name, device)

    monkeypatch.setattr("multiview.words.sources.distil.whole_model", counting)
    again = vectors_of(config, tmp_path)
    assert not loads and again.words == first.words
    np.testing.assert_array_equal(again.vectors, first.vectors)
    vectors_of(changed(config, table={"dim": 5}), tmp_path)
    vectors_of(changed(config, vocabulary={"size": 20}), tmp_path)
    assert len(loads) == 2
    moved = tmp_path / "moved"
    shutil.copytree(teacher, moved)
    vectors_of(dataclasses.replace(config, vectors=f"distil:{moved}"), tmp_path)
    assert len(loads) == 2, "the content counts, not the place"
    other = json.loads((moved / "config.json").read_text()) | {"layer_norm_eps": 1e-3}
    (moved / "config.json").write_text(json.dumps(other))
    vectors_of(dataclasses.replace(config, vectors=f"distil:{moved}"), tmp_path)
    assert len(loads) == 3


def test_a_run_trains_on_them_and_its_card_says_so(
    config: TrainConfig, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--words=fixed", f"--vectors=distil:{teacher}", "--table.dim=6", "--encoder.dim=8"]
    options += [f"--trees={config.trees}", "--loop.batch=20", "--validation.sentences=26", "--loop.epochs=1"]
    options += ["--name=distilled", "--device=cpu", "--loop.max-steps=2"]
    assert cli(options) == 0
    folder = Path("runs/models/distilled")
    card = (folder / "README.md").read_text()
    assert f"`{teacher}` encodes them one by one" in card and "licence by its card: apache-2.0" in card
    assert "PCA to 6 dimensions" in card
    assert read_config(folder / "train.json").vectors == f"distil:{teacher}"
    assert MultiViewEncoder.load(folder, "cpu").members[0].network.words.dim == 6


def test_a_name_is_a_model_of_the_hub(teacher: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def download(name: str, *, allow_patterns: list[str]) -> str:
        assert not any(
            fnmatch(file, pattern) for file in ("pytorch_model.bin", "model.py") for pattern in allow_patterns
        )
        asked.append(name)
        return str(teacher)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert pretrained.encoder_folder("all-MiniLM-L6-v2") == teacher
    assert pretrained.encoder_folder("owner/other") == teacher
    assert asked == ["sentence-transformers/all-MiniLM-L6-v2", "owner/other"]


def test_bad_input_is_one_line(config: TrainConfig, teacher: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    cases = {
        "too few for --table.dim 24": changed(config, table={"dim": 24}, vocabulary={"size": 23}),
        "--table.dim 30: .* has vectors of 24 numbers": changed(config, table={"dim": 30}),
        "no .safetensors file": dataclasses.replace(config, vectors=f"distil:{empty}"),
        "neither a folder here nor": dataclasses.replace(config, vectors="distil:no such model"),
    }
    for message, wrong in cases.items():
        with pytest.raises(UserError, match=message) as caught:
            vectors_of(wrong, tmp_path)
        assert "\n" not in str(caught.value)


def test_new_words_are_the_corpus_words_that_training_leaves_out(
    config: TrainConfig, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    grown = changed(
        config,
        words="trained",
        vocabulary={"size": 12, "expand": 20, "buckets": 0},
        encoder={"dim": 4},
        loop={"max_steps": 2},
    )
    assert main(grown) == 0
    words = load_members(grown.folder)[0].network.words
    counts = open_trees(config.trees).type_counts()
    ranked, _ = corpus_words(counts, dataclasses.replace(grown.vocabulary, size=20, min_count=1))
    assert words.vocabulary.words == ranked and words.expanded == 8
    vectors = vectors_of(changed(grown, vocabulary={"size": 20, "min_count": 1}), Path("runs/vectors"))
    fitted, *_ = np.linalg.lstsq(vectors.vectors[:12], words.tables[1].detach().numpy()[1:13], rcond=None)
    found = words.rows(1, np.arange(13, 21)).detach().numpy()
    np.testing.assert_allclose(found, vectors.vectors[12:] @ fitted, atol=1e-4)
    card = (grown.folder / "README.md").read_text()
    assert f"expanded by 8 words, by least squares from words of the corpus as `{teacher}`" in card
