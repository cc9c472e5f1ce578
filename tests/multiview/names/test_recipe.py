"""Models by name: what a name means, its key and short name, and what it cannot mean."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from multiview.encoders.meaning import FEATURE_LENGTH, Scale
from multiview.model import MultiViewEncoder
from multiview.names.grammar import PREFIXES, Name, Prefix, split_parts
from multiview.names.opened import open_encoder
from multiview.names.recipe import EncoderRecipe, recipe_of
from multiview.names.vectors import Loader
from runtime.errors import UserError
from senteval_runner.evaluation_trees import open_model
from senteval_runner.run import cli as run
from tests.parsing.pipeline.toy_parsers import odd_sentences, write_cache
from tests.senteval_runner.encoders import Letters


@pytest.fixture
def workplace(tmp_path: Path, words: Path, builtin: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with word vectors, a tree cache and a builtin encoder of two SEQ views twice."""
    pytest.importorskip("sentence_transformers")
    monkeypatch.chdir(tmp_path)
    write_cache(tmp_path / "trees", odd_sentences(30))
    return tmp_path


@pytest.mark.parametrize(
    ("spec", "kind", "name"),
    [
        ("random:seq?dim=4096", "random", "random:seq?dim=4096"),
        ("random:lstm?dim=8?vectors=words.txt", "random", "random:lstm?dim=8?vectors=words"),
        ("bag:./words.txt", "bag", "bag:words.txt"),
        ("sif:ngrams?corpus=trees", "bag", "sif:ngrams"),
        ("start:builtin?corpus=trees", "start", "start:builtin"),
        ("cls:someone/bert", "pooled", "cls:someone/bert"),
        ("bag:random?scale=trees", "bag", "bag:random?scale=trees"),
        ("builtin?views=seq?scale=none?structure=0.2", "multiview", None),
        ("builtin?kind=features?views=seq", "multiview", "builtin?views=seq?kind=features"),
        ("bertin", "sentence-transformers", "bertin"),
    ],
)
def test_what_a_name_means(workplace: Path, spec: str, kind: str, name: str | None) -> None:
    recipe = recipe_of(spec)
    assert (recipe.family, recipe.name.label) == (kind, name or recipe.name.label)
    has_seed = kind == "random" or ":random" in spec or ":ngrams" in spec
    assert (recipe.key() != recipe_of(spec, seed=1).key()) == has_seed


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere.txt", "no such file or folder"),
        ("x" * 5000, "File name too long"),
        ("random:dep,const?dim=7", "cannot be divided by 2"),
        ("random:seq,lstm", "view 'lstm'"),
        ("random:", "expected random:VIEWS"),
        ("bag:random?views=seq", "expected bag:WORDS"),
        ("bag:words.txt?dim=300", "expected bag:WORDS"),
        ("cls:someone/bert?dim=300", "expected cls:NAME"),
        ("builtin?views=seq?views=seq", "expected MODEL, MODEL"),
        ("builtin?structure=half", "expected MODEL, MODEL"),
        ("builtin?structure=٠.٥", "expected MODEL, MODEL"),
        ("sif:random", r"expected sif:WORDS\?corpus=runs/trees/NAME"),
        ("builtin?views=dep", "view 'dep': this model has 0-seq, 1-seq, seq"),
        ("all-MiniLM-L6-v2?views=dep", "a MODEL of multiview.train"),
        ("bag:random?scale=nowhere", "nowhere/manifest.json: no such file; a scale is a tree cache, or none"),
        ("builtin?kind=meaning?scale=trees", "a meaning has length 1 and no scale"),
    ],
)
def test_what_it_cannot_mean_is_one_line(
    workplace: Path, data: Path, spec: str, message: str, refusal
) -> None:
    with pytest.raises(UserError, match=message):
        open_model(spec)
    assert refusal(run, spec, "--data", data, "--tasks", "CR", "--output", "r")


def test_keys_are_of_the_content(workplace: Path, builtin: Path) -> None:
    key = recipe_of("builtin").key()
    assert key == recipe_of(str(builtin)).key()
    with pytest.MonkeyPatch.context() as patch:  # other rules of characters, other vectors
        patch.setattr("multiview.names.recipe.VERSION", 0)
        assert key != recipe_of("builtin").key()
    choices: list[dict] = [{}, {"products": "float32"}, {"products": "int8"}, {"parsers": {"dep": "other"}}]
    keys = [Loader(recipe=recipe_of("builtin"), **choice).key("encode") for choice in choices]
    assert keys[0] == keys[1] == key and len({*keys}) == 3
    assert recipe_of("builtin?views=0-seq").key() != recipe_of("builtin?views=1-seq").key()
    plus = workplace / "a+b.txt"
    plus.write_text((workplace / "words.txt").read_text())
    assert split_parts(str(plus)) == [str(plus)] and split_parts("a+random:seq") == ["a", "random:seq"]
    assert recipe_of(str(plus)).key() == recipe_of("words.txt").key()
    over = recipe_of("random:seq?dim=8?vectors=words.txt").key()
    (workplace / "words.txt").write_text((workplace / "words.txt").read_text() + "sat 1 2 3 4 5 6 7 8\n")
    keys = {over, *(recipe_of(f"random:seq?dim=8{w}").key() for w in ("", "?vectors=words.txt"))}
    assert len(keys) == 3
    write_cache(workplace / "other", odd_sentences(31))
    plain, *scaled = (recipe_of(f"bag:random{end}") for end in ("", "?scale=trees", "?scale=other"))
    keys = {plain.key(), *(one.key(output) for one in scaled for output in ("encode", "features"))}
    assert len(keys) == 5 and plain.key("features") == plain.key()
    assert recipe_of("bag:random?scale=./trees").key() == scaled[0].key()


def letters(name: Name, seed: int) -> EncoderRecipe:
    identity = [name.base]
    return EncoderRecipe(
        name=name, family="letters", load=lambda _: Letters().encode, identity=identity, reads="text"
    )


def test_a_prefix_is_a_row_and_the_function_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = Prefix("letters:LANGUAGE", f"{__name__}:letters", own_bases="[a-z]+")
    monkeypatch.setitem(PREFIXES, "letters", prefix)
    both = open_encoder("letters:english+bag:random?dim=3")
    assert both.encode(["a cat", ""]).shape == (2, 29) and both.encode(["a cat"])[0, 0] == 2
    assert recipe_of("letters:english").key() != recipe_of("letters:german").key()
    with pytest.raises(UserError, match=r"'letters:english\?dim=x': expected letters:LANGUAGE"):
        open_encoder("letters:english?dim=x")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_pipe_in_a_folder_of_another_library_is_refused_unread(name: str, tmp_path: Path) -> None:
    for file in ("config.json", "modules.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / file).write_text("{}")
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(UserError, match=f"{name}: a pipe or a device"):
        recipe_of(str(tmp_path))


def test_models_side_by_side(workplace: Path) -> None:
    names = ("words.txt", "bag:builtin", "builtin?views=1-seq")
    sentences = [["good", "bad"], ["zzz"], ["the", "cat"]]
    both, parts = open_model("+".join(names)), [open_model(name).encode(sentences) for name in names]
    np.testing.assert_array_equal(both.encode(sentences), np.hstack(parts))
    np.testing.assert_allclose(both.encode(["good bad"]), both.encode(sentences)[:1], atol=1e-6)
    assert both.name == "+".join(names)
    model = MultiViewEncoder.load("builtin", "cpu")
    words = [model.word_vectors(one).mean(axis=0) for one in sentences]
    np.testing.assert_allclose(parts[1], words, rtol=1e-5)
    np.testing.assert_allclose(parts[2], np.split(model.encode(sentences), 2, axis=1)[1], atol=1e-6)


@pytest.fixture
def npz(workplace: Path) -> str:
    """Vectors of the cache's sentences, and of one more."""
    sentences = sorted({" ".join(words) for words in odd_sentences(30)} | {"zzz"})
    normal = np.random.default_rng(1).normal(size=(len(sentences), 6))
    vectors = normal * [0.1, 9, 0.01, 0, 1e-5, 1e-8] + [7, -40, 0, 7, 0, 0.1]  # the last: a constant, rounded
    np.savez(workplace / "made.npz", sentences=sentences, vectors=vectors.astype(np.float32))
    return "made.npz"


@pytest.mark.parametrize(
    "spec",
    [
        "bag:random?dim=6",
        "words.txt",
        "random:seq?dim=8",
        "random:lstm?dim=4",
        "builtin",
        "builtin?views=seq",
        "npz",
    ],
)
def test_a_scale_is_that_of_a_text(
    workplace: Path, npz: str, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Classifiers get each number centred and at one deviation over the text; cosines are of raw numbers."""
    spec = npz if spec == "npz" else spec
    monkeypatch.setattr("multiview.names.vectors.STORED_TOGETHER", 7)
    raw, scaled, none = (open_model(f"{spec}{end}") for end in ("", "?scale=trees", "?scale=none"))
    text = [list(words) for words in odd_sentences(30)]
    sentences, text_vectors = [["zzz"], *text[:3]], raw.encode(text).astype(np.float64)
    deviation = text_vectors.std(axis=0)
    flat = deviation <= 1e-6 * abs(text_vectors.mean(axis=0))
    factor = np.where(flat, 0, FEATURE_LENGTH / len(flat) ** 0.5 / np.where(flat, 1, deviation))
    expected = (raw.encode(sentences) - text_vectors.mean(axis=0)) * factor
    np.testing.assert_allclose(scaled.features(sentences), expected, atol=1e-5)
    for same in (scaled.encode(sentences), none.features(sentences)):
        np.testing.assert_allclose(same, raw.encode(sentences), atol=1e-6)
    np.testing.assert_allclose(scaled.features(sentences[0]), expected[:1], atol=1e-5)
    assert (scaled.encode.label, scaled.features.label) == ("raw", "features")


def test_a_models_own_scale(workplace: Path, builtin: Path) -> None:
    """Its features have it unless a name says otherwise; a scale leaves out what the model's leaves out."""
    model = MultiViewEncoder.load("builtin", "cpu")
    dim = model.network.dim
    model.network.scale = Scale(torch.ones(dim), torch.full((dim,), 2.0))
    model.network.scale.deviation[1] = torch.inf
    model.save(workplace / "own")
    words = [["good", "bad"]]
    raw = model.encode(words)
    scaled = (np.delete(raw, 1, axis=1) - 1) / 2
    encoders = {end: open_model(f"own{end}") for end in ("", "?scale=none", "?scale=trees")}
    features = {end: encoder.features(words) for end, encoder in encoders.items()}
    np.testing.assert_allclose(features[""], scaled * FEATURE_LENGTH / scaled.shape[1] ** 0.5, atol=1e-6)
    np.testing.assert_allclose(features["?scale=none"], raw, atol=1e-6)
    assert features["?scale=trees"].shape == scaled.shape
    assert [(one.encode.label, one.features.label) for one in encoders.values()] == [
        ("raw", "features"),
        ("raw", "raw"),
        ("raw", "features"),
    ]
    np.testing.assert_allclose(encoders[""].encode(words), raw, atol=1e-6)
    assert len({one.features.parts[0].key for one in encoders.values()}) == 3
    columns = (np.split(raw, 2, axis=1)[1] - 1) / 2
    one = open_model("own?views=1-seq").features(words)
    np.testing.assert_allclose(one, columns * FEATURE_LENGTH / columns.shape[1] ** 0.5, atol=1e-6)
