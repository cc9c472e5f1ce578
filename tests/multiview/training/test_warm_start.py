"""``--init MODEL``: the same vectors before the first step, a grown vocabulary, resumption, bad input."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from corpora.support.errors import UserError
from corpora.support.files import read_json
from multiview.config import TrainConfig
from multiview.encoders.registry import Reading
from multiview.folder.files import Member, expand_into, load_members, model_sha256
from multiview.model import MultiViewEncoder
from multiview.train import cli, main
from multiview.training.data import open_trees
from multiview.training.gradient import MultiViewNetwork
from multiview.training.trainer import Trainer
from multiview.words.vectors import load_word_vectors
from tests.fixtures.files import assert_same_bits, newest
from tests.fixtures.trees import changed, toy_corpus
from tests.multiview.test_train import killed_after
from tests.parsing.trees.test_cache import write_cache

NEW = ["zebra", "yak", "Xenon"]


@pytest.fixture(scope="module")
def other_trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another corpus: some of the words, and three that the toy corpus lacks."""
    texts, documents = toy_corpus(120, seed=3)
    random = np.random.default_rng(0)
    mixed = [tuple(random.choice([*text, *NEW], size=len(text)).tolist()) for text in texts]
    folder = tmp_path_factory.mktemp("other") / "other"
    write_cache(folder, mixed, documents=documents, shard=64)
    return folder


@pytest.fixture
def model(tiny: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainConfig:
    """A finished run with trained weights."""
    monkeypatch.chdir(tmp_path)
    config = changed(tiny, name="first", loop={"max_steps": 5, "validation": 0})
    assert main(config) == 0
    return config


@pytest.fixture
def config(model: TrainConfig, other_trees: Path) -> TrainConfig:
    return changed(model, name="second", init=model.folder, trees=other_trees)


def vectors(network: torch.nn.Module, trees: Path) -> np.ndarray:
    """Vectors of a whole corpus, before training."""
    encoder = MultiViewEncoder([Member(network)])  # type: ignore[arg-type]
    return np.asarray(encoder.encode(None, trees=open_trees(trees)))


@pytest.mark.parametrize("expanded", [False, True])
def test_the_start_encodes_every_sentence_as_the_model_did(
    model: TrainConfig, config: TrainConfig, other_trees: Path, tmp_path: Path, expanded: bool
) -> None:
    """New words have the vectors of their buckets, or of the model's expansion."""
    if expanded:
        random = np.random.default_rng(1)
        known = load_members(model.folder)[0].network.words.vocabulary.words
        lines = [f"{word} {' '.join(map(str, random.normal(size=4)))}" for word in [*known, "yak", "unseen"]]
        (tmp_path / "v.txt").write_text("\n".join(lines) + "\n")
        expand_into(model.folder, model.folder, load_word_vectors(tmp_path / "v.txt", tmp_path))
    (before,) = load_members(model.folder)
    network = MultiViewNetwork.new(config, open_trees(other_trees)).eval()
    np.testing.assert_array_equal(vectors(network, other_trees), vectors(before.network, other_trees))
    was = before.network.words.trained_vocabulary.words
    counts = open_trees(other_trees).type_counts()
    here = [word for word in sorted(counts, key=lambda word: (-counts[word], word)) if counts[word] > 1]
    assert network.words.vocabulary.words == here + [word for word in was if word not in here]
    for table, old in zip(network.tables, before.network.tables, strict=True):
        bucket = old[before.network.words.trained_vocabulary.row("zebra")]
        assert torch.equal(table[network.words.vocabulary.row("zebra")], bucket)
        assert torch.equal(table[-3:], old[-3:])  # the buckets


def test_a_run_goes_on_from_a_model_and_resumes_to_the_bit(
    model: TrainConfig, config: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(config) == 0
    killed = changed(config, name="killed")
    killed_after(killed, 4, monkeypatch)
    assert main(killed) == 0
    assert_same_bits(newest(config), newest(killed))
    card = (config.folder / "README.md").read_text()
    digest = model_sha256(model.folder)[:16]
    assert f"continued from `{model.folder}` (SHA-256 {digest}) with 3 words more" in card
    assert f"--init {model.folder}" in card
    words = MultiViewEncoder.load(config.folder, "cpu").members[0].network.words
    assert words.mode == "trained" and "zebra" in words.vocabulary.words
    monkeypatch.setattr("multiview.folder.files.BUILTIN_FOLDER", model.folder)  # with its own sizes
    command = ["--init=builtin", f"--trees={config.trees}", "--output=out", "--name=mine"]
    assert cli([*command, "--loop.batch=20", "--loop.max-steps=2"]) == 0
    record = read_json(Path("out/mine/config.json"))["training"]["config"]
    assert record["init"] == "builtin" and record["encoder"]["dim"] == model.encoder.dim
    assert record["table"]["case"] == "backoff" and record["objective"]["score"] == "dot"
    assert load_members(Path("out/mine"))[0].network.words.dim == 6
    shutil.rmtree(model.folder)
    assert main(changed(model, seed=9)) == 0  # another content of the model is another run
    with pytest.raises(UserError, match=r"content of --init"):
        main(config)


def test_the_result_is_read_as_the_model_is(model: TrainConfig, other_trees: Path, tmp_path: Path) -> None:
    """Trained with one pooling; then the pools, added views and factors of the model it started from."""
    wide = MultiViewEncoder.load(model.folder, "cpu")
    (part,) = wide.members
    reading = Reading("root,mean,max", ("bag", "hash"), (1.0, 0.5, 2.0, 3.0))
    part.network = part.network.as_read(reading)
    wide.save(tmp_path / "wide")
    config = changed(model, name="second", init=tmp_path / "wide", trees=other_trees)
    assert main(changed(config, encoder={"pooling": "root+mean"})) == 0
    encoder, words = MultiViewEncoder.load(config.folder, "cpu"), ["cat", "sat"]
    network = encoder.members[0].network
    assert network.reading == load_members(tmp_path / "wide")[0].network.reading
    assert network.views == ("dep", "const", "bag", "hash")
    hashed, before = (one.encode([words], views="hash") for one in (encoder, wide))
    assert np.abs(hashed - before).max() > 1e-3  # words have the weights of this corpus
    part.network.encoder_list[-1].use_words(network.words.trained_vocabulary)
    np.testing.assert_allclose(hashed, wide.encode([words], views="hash"), atol=1e-6)


def test_fixed_words_and_both_models(
    tiny: TrainConfig, tmp_path: Path, other_trees: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay fixed, or become trained ones to which the corpus adds its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.txt").write_text("the 0.5 1 0\nMars 1 2 3\ncat 4 5 6\n")
    both = changed(tiny, name="both", words="both", vectors=str(tmp_path / "v.txt"), loop={"max_steps": 2})
    assert main(both) == 0
    (tmp_path / "v.txt").unlink()  # the model has its words with it
    again = changed(both, name="again", init=both.folder, trees=other_trees, vectors=None)
    assert main(again) == 0
    words = load_members(again.folder / "fixed")[0].network.words
    assert words.mode == "fixed" and words.vocabulary.words == ["the", "Mars", "cat"]
    with pytest.raises(UserError, match="holds the models trained, fixed; name one of these folders"):
        main(changed(again, name="wrong", words="fixed"))
    tuned = changed(again, name="tuned", words="tuned", init=both.folder / "fixed", table={"buckets": 0})
    words = MultiViewNetwork.new(tuned, open_trees(other_trees)).words
    assert words.mode == "trained" and {"the", "Mars", "cat", *NEW} <= set(words.vocabulary.words)
    average = np.linalg.norm([[0.5, 1, 0], [1, 2, 3], [4, 5, 6]], axis=1).mean()
    lengths = words.tables[0][words.vocabulary.lookup(NEW).astype(np.int64)].norm(dim=1)
    np.testing.assert_allclose(lengths.detach(), average, rtol=1e-5)
    assert main(tuned) == 0
    assert f"continued from `{tuned.init}`" in (tuned.folder / "README.md").read_text()


def test_what_does_not_fit_is_one_line(config: TrainConfig, other_trees: Path, tmp_path: Path) -> None:
    first = config.init
    write_cache(tmp_path / "dep", [("a", "b")] * 40, views=("dep",))
    cases: dict[str, dict[str, object]] = {
        f"--views dep,seq: --init {first} has dep,const": {"views": "dep,seq"},
        "no model here": {"init": tmp_path / "nothing"},
        "has no const trees": {"trees": tmp_path / "dep"},
        "is where this run would write": {"name": "first"},
    }
    for message, change in cases.items():
        wrong = changed(config, **change)
        with pytest.raises(UserError, match=f"^.*{re.escape(message)}.*$"):
            wrong.check(), Trainer(wrong, open_trees(wrong.trees))
    Trainer(changed(config, encoder={"start": "bag"}), open_trees(other_trees))
