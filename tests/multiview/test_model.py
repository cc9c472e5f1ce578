"""Encoding: order, batches, caches, views, parsers, model folders."""

import contextlib
import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.folder.reading import MAX_CHARACTERS, SentenceReader
from multiview.model import MultiViewEncoder
from multiview.train import main
from multiview.training.data import open_trees
from runtime.cli import warn_once
from runtime.errors import UserError
from tests.fixtures.models import load, reseal
from tests.fixtures.trees import TINY, changed, toy_corpus
from tests.parsing.pipeline.toy_parsers import ToyDependencyParser, write_cache

SENTENCES = [
    "the cat chased a mouse",
    "",
    "word",
    "! , ? ¿",
    "an unknown zyzzyva flew past Mars . Then it left .",
    "the " * 60,
    "日本語 🙂 née",
]


@pytest.fixture(scope="module")
def folder(toy_trees: Path, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("models")
    main(changed(TINY, trees=toy_trees, output=out, name="m", views="dep,const,seq"))
    return out / "m"


@pytest.fixture
def encoder(folder: Path) -> MultiViewEncoder:
    return load(folder)


@pytest.mark.usefixtures("both_devices")
def test_strings_tokens_and_one_sentence_have_the_same_vectors(encoder: MultiViewEncoder) -> None:
    vectors = encoder.encode(SENTENCES)
    assert isinstance(vectors, np.ndarray) and vectors.dtype == np.float32
    assert vectors.shape == (len(SENTENCES), 24) == (7, encoder.get_sentence_embedding_dimension())
    assert np.isfinite(vectors).all() and (np.linalg.norm(vectors, axis=1) > 0).all()
    np.testing.assert_allclose(encoder.encode(SENTENCES[0]), vectors[0], atol=1e-6)
    tokens = encoder.encode([sentence.split() for sentence in SENTENCES])
    np.testing.assert_allclose(tokens, vectors, atol=1e-6)
    assert encoder.encode([]).shape == (0, 24)
    assert isinstance(encoder.encode(SENTENCES, convert_to_tensor=True), torch.Tensor)
    with pytest.raises(UserError, match=r"input 1, .*, is neither a string nor a list of tokens"):
        encoder.encode(["a cat", None])  # type: ignore[list-item]


@pytest.mark.usefixtures("both_devices")
def test_views_can_be_chosen(encoder: MultiViewEncoder) -> None:
    whole = encoder.encode(SENTENCES)
    some = encoder.view_vectors(SENTENCES, views=["2-seq", "dep"])
    np.testing.assert_allclose(some, np.delete(whole, slice(8, 16), axis=1), atol=1e-6)
    for wrong, message in ((["srl"], r"view 'srl'.*0-dep"), ([], r"views=\[\]: this model has 0-dep")):
        with pytest.raises(UserError, match=message):
            encoder.view_vectors(SENTENCES, views=wrong)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 9), max_size=12), st.integers(1, 30), st.integers(1, 5))
def test_a_batch_is_as_large_as_its_tokens_allow(lengths: list[int], limit: int, size: int) -> None:
    """Vectors do not depend on the batch; a new one starts where the next sentence does not fit."""
    texts = [[f"w{n}"] * n for n in lengths]
    encoder = MultiViewEncoder.untrained("seq", dim=4, word_dim=4, device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("multiview.folder.reading.BATCH_TOKENS", limit)
        batches = list(encoder.reader.batches(texts, {"tokens"}, None, size))
        vectors = encoder.encode(texts, batch_size=size)
    alone = [encoder.encode([text])[0] for text in texts]
    np.testing.assert_allclose(vectors, np.reshape(alone, (len(texts), 4)), atol=1e-5)
    assert sorted(row for rows, _ in batches for row in rows) == [*range(len(texts))]
    for _, batch in batches:
        assert len(batch) == 1 or (len(batch) <= size and len(batch.token) <= limit)
    for (_, one), (_, following) in pairwise(batches):
        longest = int(following.sentence_offsets[1])
        assert len(one) == size or len(one.token) + longest > limit


def test_of_a_long_text_the_first_words_are_read(encoder: MultiViewEncoder, caplog) -> None:
    """In tokens, strings and words without blanks; a warning says so, once."""
    warn_once.cache_clear()
    encoder.reader.max_length = 6
    words = [f"cat{i % 3}" for i in range(40)]
    expected = encoder.encode([words[:6], " ".join(words[:6]), "x" * (6 * MAX_CHARACTERS)])
    assert not caplog.records
    for beyond in (7, 40):
        texts = [words[:beyond], " ".join(words[:beyond]), "x" * (beyond * MAX_CHARACTERS)]
        np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-6)
    assert [record.message[:17] for record in caplog.records] == ["the first 6 words"]
    assert MultiViewEncoder.load("builtin", "cpu", max_length=9).reader.max_length == 9


@pytest.mark.parametrize("max_length", [0, -1, 2.0, True, "9", None])
def test_a_length_that_is_none_is_refused(folder: Path, max_length: object) -> None:
    with pytest.raises(UserError, match=r"max_length=.*: must be a whole number from 1"):
        MultiViewEncoder.load(folder, max_length=max_length)


def test_numbers_of_numpy_are_kept_as_python_s(tmp_path: Path) -> None:
    numbers: dict[str, Any] = {"dim": np.int64(8), "word_dim": np.int64(4), "seed": np.int64(1)}
    encoder = MultiViewEncoder.untrained("seq", **numbers)
    encoder = encoder.with_options(structure=np.float32(0.5), structure_size=np.int64(128))  # type: ignore[arg-type]
    encoder.save(tmp_path / "model")
    assert MultiViewEncoder.load(tmp_path / "model").structure == 0.5


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"dim": "8"}, "dim='8': must be a whole number from 1"),
        ({"seed": 1.5}, "seed=1.5"),
        ({"seed": 10**30}, "seed=10"),
        ({"init": "x"}, "init"),
        ({"relations": 1}, "relations"),
        ({"views": []}, "views: names none"),
        ({"views": None}, "is no list of views"),
        ({"words": "x"}, "is no WordTable"),
    ],
)
def test_an_argument_of_an_untrained_encoder_is_checked(arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(UserError, match=f"untrained: .*{fault}"):
        MultiViewEncoder.untrained(**{"views": "seq", "dim": 8, **arguments})


def test_words_are_strings_and_may_be_none(encoder: MultiViewEncoder) -> None:
    for model in (encoder, MultiViewEncoder.load("builtin")):
        assert model.word_vectors([]).shape == (0, model.word_vectors(["cat"]).shape[1])
    with pytest.raises(UserError, match="word_vectors: takes words"):
        encoder.word_vectors([["cat"]])  # type: ignore[list-item]
    with pytest.raises(UserError, match="word vectors: a int is no path"):
        encoder.expand_vocabulary(3)  # type: ignore[arg-type]


def test_long_texts_are_parsed_a_few_at_a_time(encoder: MultiViewEncoder, monkeypatch) -> None:
    """So that memory does not grow with their number."""
    monkeypatch.setattr("multiview.folder.reading.CHUNK_TOKENS", 100)
    sizes, parse = [], encoder.reader.parse
    monkeypatch.setattr(
        encoder.reader, "parse", lambda rows, annotations: sizes.append(len(rows)) or parse(rows, annotations)
    )
    texts = [["cat"] * (1 + 37 * i % 60) for i in range(30)]
    vectors = encoder.encode(texts)
    assert sum(sizes) == 30 and len(sizes) > 5
    monkeypatch.undo()
    np.testing.assert_allclose(vectors, encoder.encode(texts), atol=1e-5)


def test_a_tree_cache_saves_parsing(folder: Path, toy_trees: Path) -> None:
    texts, _ = toy_corpus()
    expected = load(folder).encode(texts)
    cache = open_trees(toy_trees)
    silent = MultiViewEncoder.load(folder)  # has no parser to fall back to
    np.testing.assert_allclose(silent.encode(None, trees=cache), expected, atol=1e-5)
    picked = [texts[i] for i in (250, 3, 3, 99)]
    np.testing.assert_allclose(silent.encode(picked, trees=cache), expected[[250, 3, 3, 99]], atol=1e-5)
    mixed = [*picked, ("brand", "new")]
    np.testing.assert_allclose(load(folder).encode(mixed, trees=cache), load(folder).encode(mixed), atol=1e-5)


def test_strings_are_split_by_rules_and_tokens_stay(encoder: MultiViewEncoder) -> None:
    encoder.model.corpus["tokenizer"] = "space"  # trained on text that came in words
    reader = SentenceReader(encoder.model.parsers)
    reader.parsers, encoder.reader = encoder.reader.parsers, reader
    raw, words, glued = encoder.encode(["the cat sat.", ["the", "cat", "sat", "."], ["the", "cat", "sat."]])
    np.testing.assert_array_equal(raw, words)
    assert not np.allclose(raw, glued)


def test_the_parser_must_be_the_training_one(folder: Path, tmp_path: Path, monkeypatch) -> None:
    specs = []

    def give(kind: str, spec: str, device: str, products: str) -> ToyDependencyParser:
        specs.append(spec)
        return ToyDependencyParser()

    monkeypatch.setattr("parsing.text_parser.load_parser", give)
    encoder = MultiViewEncoder.load(folder, dep_model="my/parser")
    assert encoder.view_vectors(SENTENCES[:2], views=["dep"]).shape == (2, 8)
    assert specs == ["my/parser"]
    for name in ("mine", "toy-dep"):  # given, and recorded with the model
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path)
        encoder = MultiViewEncoder.load(folder, dep_model="mine" if name == "mine" else "")
        monkeypatch.chdir(tmp_path / name)  # the parser is loaded later
        assert encoder.view_vectors(SENTENCES[:2], views=["dep"]).shape == (2, 8)
        assert specs[-1] == str(tmp_path / name)
    monkeypatch.setattr(ToyDependencyParser, "identity", {**ToyDependencyParser.identity, "version": "2"})
    with pytest.raises(UserError, match=r"toy-dep 1 .*here is toy-dep 2 .*--dep-model"):
        MultiViewEncoder.load(folder).view_vectors(SENTENCES[:2], views=["dep"])
    write_cache(tmp_path, [("a", "b")] * 3)
    with pytest.raises(UserError, match=r"of dependency parser toy-dep 1 .*was parsed by toy-dep 2"):
        encoder.encode(None, trees=open_trees(tmp_path))


def test_damaged_folders_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no model here"):
        MultiViewEncoder.load(tmp_path)
    copy, random = tmp_path / "m", np.random.default_rng(0)
    shutil.copytree(folder, copy)
    sealed = (copy / "config.json").read_bytes()
    refused = {"model.safetensors": "cannot be loaded", "vocab.txt": "asks for words.tables"}
    for name in (*refused, "config.json"):
        whole = (copy / name).read_bytes()
        for byte in random.integers(len(whole), size=20):
            flipped = bytearray(whole)
            flipped[byte] ^= 1 << int(random.integers(8))
            (copy / name).write_bytes(flipped)
            with contextlib.suppress(ValueError):
                if json.loads(flipped) == json.loads(whole):  # 1E-3, or the last digit of many
                    continue
            with pytest.raises(UserError, match=name):
                MultiViewEncoder.load(copy)
        if name in refused:
            (copy / name).write_bytes(whole[: len(whole) // 2])
            with pytest.raises(UserError, match=rf"{name}: damaged: \d+ bytes"):
                MultiViewEncoder.load(copy)
            reseal(copy)
            with pytest.raises(UserError, match=refused[name]):
                MultiViewEncoder.load(copy)
            (copy / "config.json").write_bytes(sealed)
        (copy / name).write_bytes(whole)
    MultiViewEncoder.load(copy)


def test_a_vector_that_is_not_finite_is_an_error(encoder: MultiViewEncoder) -> None:
    words = encoder.network.words
    with torch.no_grad():
        words.tables[2][words.vocabulary.row("mouse")] = torch.nan
    with pytest.raises(UserError, match=r"sentence 0, 'the cat chased a mouse', is not finite"):
        encoder.encode(SENTENCES)
    assert np.isfinite(encoder.encode(SENTENCES[1:])).all()
