"""``--init MODEL``: the same vectors before the first step, a grown vocabulary, resumption, bad input."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from corpora.support.errors import UserError
from corpora.support.files import read_json
from multiview.config import TrainConfig
from multiview.defaults import read_config
from multiview.encoders.stack import Reading
from multiview.folder.expanded import expand_into
from multiview.folder.files import load_members, model_sha256
from multiview.model import MultiViewEncoder
from multiview.train import cli, main
from multiview.training.data import open_trees
from multiview.training.network import MultiViewNetwork
from multiview.training.trainer import Trainer
from multiview.words.vectors import load_word_vectors
from senteval_runner.vectors.untrained import load_start
from tests.fixtures.trees import changed, toy_corpus
from tests.multiview.test_train import assert_same_bits, killed_after, newest
from tests.parsing.cache.test_reader import write_cache

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
    config = changed(tiny, name="first", loop={"max_steps": 5}, validation={"sentences": 0})
    assert main(config) == 0
    return config


@pytest.fixture
def config(model: TrainConfig, other_trees: Path) -> TrainConfig:
    return changed(model, name="second", init=model.folder, trees=other_trees)


def vectors(network: torch.nn.Module, trees: Path) -> np.ndarray:
    """Vectors of a whole corpus, before training."""
    from multiview.folder.files import Member

    encoder = MultiViewEncoder([Member(network)])  # type: ignore[arg-type]
    return np.asarray(encoder.encode(None, trees=open_trees(trees)))


def test_the_start_encodes_every_sentence_as_the_model_did(
    model: TrainConfig, config: TrainConfig, other_trees: Path
) -> None:
    network = MultiViewNetwork.new(config, open_trees(other_trees)).eval()
    (before,) = load_members(model.folder)
    for trees in (model.trees, other_trees):
        assert trees is not None
        np.testing.assert_array_equal(vectors(network, trees), vectors(before.network, trees))
    listed, was = network.words.vocabulary.words, before.network.words.vocabulary.words
    assert sorted(listed) == sorted([*was, *NEW])
    counts = open_trees(other_trees).type_counts()
    here = sorted(counts, key=lambda word: (-counts[word], word))
    assert listed == here + [word for word in was if word not in counts]
    for table, old in zip(network.tables, before.network.tables, strict=True):
        bucket = old[before.network.words.vocabulary.row("zebra")]
        assert torch.equal(table[network.words.vocabulary.row("zebra")], bucket)
        assert torch.equal(table[-3:], old[-3:])  # the buckets


def test_how_many_words_are_new_follows_the_vocabulary(config: TrainConfig, other_trees: Path) -> None:
    counts = open_trees(other_trees).type_counts()
    few = changed(config, vocabulary={"size": 2})
    network = MultiViewNetwork.new(few, open_trees(other_trees))
    top = sorted(counts, key=lambda word: (-counts[word], word))[:2]
    assert [word for word in network.words.vocabulary.words if word in NEW] == [w for w in top if w in NEW]


def test_words_of_an_expansion_become_words_of_the_table(
    model: TrainConfig, config: TrainConfig, tmp_path: Path, other_trees: Path
) -> None:
    random = np.random.default_rng(1)
    known = load_members(model.folder)[0].network.words.vocabulary.words
    lines = [f"{word} {' '.join(map(str, random.normal(size=4)))}" for word in [*known, "yak", "unseen"]]
    (tmp_path / "v.txt").write_text("\n".join(lines) + "\n")
    expand_into(model.folder, model.folder, load_word_vectors(tmp_path / "v.txt", tmp_path))
    (before,) = load_members(model.folder)
    network = MultiViewNetwork.new(config, open_trees(other_trees)).eval()
    assert before.network.words.expanded == 2 and network.words.expanded == 0
    assert "unseen" not in network.words.vocabulary.words
    np.testing.assert_array_equal(vectors(network, other_trees), vectors(before.network, other_trees))


def test_a_run_goes_on_from_a_model_and_resumes_to_the_bit(
    model: TrainConfig, config: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(config) == 0
    killed = dataclasses.replace(config, name="killed")
    killed_after(killed, 4, monkeypatch)
    assert main(killed) == 0
    assert_same_bits(newest(config), newest(killed))
    digest = model_sha256(model.folder)
    assert read_json(config.folder / "train.json")["init"] == digest
    card = (config.folder / "README.md").read_text()
    assert f"continued from `{model.folder}` (SHA-256 {digest[:16]}) with 3 words more" in card
    assert f"--init {model.folder}" in card
    assert read_config(config.folder / "train.json").init == model.folder
    words = MultiViewEncoder.load(config.folder, "cpu").members[0].network.words
    assert words.mode == "trained" and "zebra" in words.vocabulary.words


def test_the_result_is_read_as_the_model_is(model: TrainConfig, other_trees: Path, tmp_path: Path) -> None:
    """Trained with one pooling; then the pools, added views and factors of the model it started from."""
    wide = tmp_path / "wide"
    source = MultiViewEncoder.load(model.folder, "cpu")
    (part,) = source.members
    part.network = part.network.as_read(Reading("root,mean,max", ("bag", "hash"), (1.0, 0.5, 2.0, 3.0)))
    source.save(wide)
    config = changed(model, name="second", init=wide, trees=other_trees, encoder={"pooling": "root+mean"})
    assert config.view_list == ["dep", "const"]
    assert main(config) == 0
    (member,) = load_members(config.folder)
    (was,) = load_members(wide)
    assert member.network.reading == was.network.reading
    assert member.network.views == ("dep", "const", "bag", "hash")
    assert member.network.reading.pooling == "root,mean,max"
    start = load_start(config.folder, other_trees, "cpu")
    encoder, before = MultiViewEncoder.load(config.folder, "cpu"), MultiViewEncoder.load(wide, "cpu")
    words = ["cat", "sat"]
    bags = [one.encode([words], views="bag") for one in (start, before)]
    np.testing.assert_allclose(*bags, atol=1e-6)
    hashed, hashed_before = (one.encode([words], views="hash") for one in (encoder, before))
    assert np.abs(hashed - hashed_before).max() > 1e-3  # words have the weights of this corpus
    before.members[0].network.encoder_list[-1].use_words(member.network.words.trained_vocabulary)
    np.testing.assert_allclose(hashed, before.encode([words], views="hash"), atol=1e-6)
    assert encoder.get_sentence_embedding_dimension() == start.get_sentence_embedding_dimension()


def test_another_content_of_the_model_is_another_run(model: TrainConfig, config: TrainConfig) -> None:
    assert main(config) == 0
    assert main(changed(model, fresh=True, seed=9)) == 0
    with pytest.raises(UserError, match=r"other options \(the content of --init .*first\)"):
        main(config)


def test_the_builtin_encoder_goes_on_with_its_own_sizes(
    model: TrainConfig, other_trees: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiview.folder.names.BUILTIN_FOLDER", model.folder)
    command = ["--init", "builtin", "--trees", str(other_trees), "--output", "out", "--name", "mine"]
    assert cli([*command, "--loop.batch", "20", "--loop.max-steps", "2"]) == 0
    record = read_config(Path("out/mine/train.json"))
    assert str(record.init) == "builtin" and record.encoder == model.encoder
    assert record.vocabulary.case == "backoff" and record.objective == TrainConfig().objective
    assert load_members(Path("out/mine"))[0].network.words.dim == 6


def test_fixed_words_and_both_models(
    tiny: TrainConfig, tmp_path: Path, other_trees: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.txt").write_text("the 0.5 1 0\nMars 1 2 3\ncat 4 5 6\n")
    both = changed(tiny, name="both", words="both", vectors=str(tmp_path / "v.txt"), loop={"max_steps": 2})
    assert main(both) == 0
    (tmp_path / "v.txt").unlink()  # the model has its words with it
    fixed = changed(
        both, name="fixed", words="fixed", init=both.folder / "fixed", trees=other_trees, vectors=None
    )
    assert main(fixed) == 0
    words = MultiViewEncoder.load(fixed.folder, "cpu").members[0].network.words
    assert words.mode == "fixed" and words.vocabulary.words == ["the", "Mars", "cat"]
    again = changed(both, name="again", init=both.folder, trees=other_trees, vectors=None)
    assert main(again) == 0
    assert read_config(again.folder / "trained" / "train.json").init == both.folder / "trained"
    with pytest.raises(UserError, match="holds the models trained, fixed; name one of these folders"):
        main(changed(fixed, name="wrong", init=both.folder))


def test_fixed_words_become_trained_ones_with_the_corpuss_own(
    tiny: TrainConfig, tmp_path: Path, other_trees: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences of known words keep their vectors; new words start at random, as long as known ones."""
    monkeypatch.chdir(tmp_path)
    known = sorted({word for text in toy_corpus()[0] for word in text})[:-2]
    random = np.random.default_rng(0)
    lines = [f"{word} {' '.join(map(str, random.normal(size=6)))}" for word in known]
    (tmp_path / "v.txt").write_text("\n".join(lines) + "\n")
    first = changed(tiny, name="f", words="fixed", vectors=str(tmp_path / "v.txt"), loop={"max_steps": 2})
    assert main(first) == 0
    config = changed(first, name="tuned", words="tuned", init=first.folder, trees=other_trees, vectors=None)
    config = changed(config, vocabulary={"buckets": 0}, validation={"sentences": 0})
    (before,) = load_members(first.folder)
    trees = open_trees(other_trees)
    network = MultiViewNetwork.new(config, trees).eval()
    words = network.words
    assert words.mode == "trained" and set(NEW) <= set(words.vocabulary.words)
    texts = list(trees.read(0, len(trees), ("token",)).words())
    same = [not set(text) & set(words.vocabulary.words) - set(known) for text in texts]
    assert 0 < sum(same) < len(same)
    now, was = vectors(network, other_trees), vectors(before.network, other_trees)
    np.testing.assert_array_equal(now[same], was[same])
    rows = words.vocabulary.lookup(NEW).astype(np.int64)
    lengths = [table[rows].norm(dim=1) for table in words.tables]
    average = float(np.linalg.norm(before.network.words.fixed, axis=1).mean())
    np.testing.assert_allclose(torch.cat(lengths).detach(), average, rtol=1e-5)
    assert main(config) == 0
    after = MultiViewEncoder.load(config.folder, "cpu").members[0].network.words
    assert not torch.equal(after.tables[0][rows], words.tables[0][rows])
    assert f"continued from `{first.folder}`" in (config.folder / "README.md").read_text()


def test_what_does_not_fit_is_one_line(config: TrainConfig, other_trees: Path, tmp_path: Path) -> None:
    first = config.init
    assert first is not None
    write_cache(tmp_path / "dep", [("a", "b")] * 40, views=("dep",))
    cases = {
        f"--views dep,seq: --init {first} has dep,const": changed(config, views="dep,seq"),
        f"--encoder.dim 4: --init {first} has 8": changed(config, encoder={"dim": 4}),
        f"--words fixed: --init {first} has trained": changed(config, words="fixed"),
        f"--vocabulary.case lower: --init {first} has backoff": changed(config, vocabulary={"case": "lower"}),
        f"--vocabulary.buckets 9: --init {first} has 3": changed(config, vocabulary={"buckets": 9}),
        "no model here": changed(config, init=tmp_path / "nothing"),
        "has no const trees": changed(config, trees=tmp_path / "dep"),
    }
    for message, wrong in cases.items():
        with pytest.raises(UserError) as caught:
            Trainer(wrong, open_trees(wrong.trees))
        assert message in str(caught.value) and "\n" not in str(caught.value)
    for inside in (first, first / "checkpoints"):
        with pytest.raises(UserError, match="is where this run would write"):
            changed(config, name="first", init=inside).check()
    engine = changed(config, encoder={"engine": "torch", "forget_bias": 1.5, "equal_inputs": True})
    Trainer(engine, open_trees(other_trees))
