"""Models by name: what a name means, its key and short name, and what it cannot mean."""

import os
from pathlib import Path

import numpy as np
import pytest

from multiview.model import MultiViewEncoder
from multiview.names.constructors import encoder_of
from multiview.names.encoder import TextEncoder
from multiview.names.grammar import PREFIXES, Name, Prefix, split_parts
from multiview.names.opened import open_encoder
from runtime.errors import UserError
from senteval_runner.evaluation_trees import open_model
from senteval_runner.run import cli as run
from tests.parsing.pipeline.toy_parsers import odd_sentences, write_cache
from tests.senteval_runner.encoders import Letters


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
    encoder = encoder_of(spec)
    assert (encoder.family, encoder.name) == (kind, name or encoder.name)
    has_seed = kind == "random" or ":random" in spec or ":ngrams" in spec
    assert (encoder.key() != encoder_of(spec, seed=1).key()) == has_seed


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
    key = encoder_of("builtin").key()
    assert key == encoder_of(str(builtin)).key()
    with pytest.MonkeyPatch.context() as patch:  # other rules of characters, other vectors
        patch.setattr("multiview.names.constructors.VERSION", 0)
        assert key != encoder_of("builtin").key()
    choices: list[dict] = [{}, {"products": "float32"}, {"products": "int8"}, {"parsers": {"dep": "other"}}]
    keys = [encoder_of("builtin", **choice).key() for choice in choices]
    assert keys[0] == keys[1] == key and len({*keys}) == 3
    assert encoder_of("builtin?views=0-seq").key() != encoder_of("builtin?views=1-seq").key()
    plus = workplace / "a+b.txt"
    plus.write_text((workplace / "words.txt").read_text())
    assert split_parts(str(plus)) == [str(plus)] and split_parts("a+random:seq") == ["a", "random:seq"]
    assert encoder_of(str(plus)).key() == encoder_of("words.txt").key()
    over = encoder_of("random:seq?dim=8?vectors=words.txt").key()
    (workplace / "words.txt").write_text((workplace / "words.txt").read_text() + "sat 1 2 3 4 5 6 7 8\n")
    keys = {over, *(encoder_of(f"random:seq?dim=8{w}").key() for w in ("", "?vectors=words.txt"))}
    assert len(keys) == 3
    write_cache(workplace / "other", odd_sentences(31))
    plain, *scaled = (encoder_of(f"bag:random{end}") for end in ("", "?scale=trees", "?scale=other"))
    keys = {plain.key(), *(one.key(output) for one in scaled for output in ("encode", "features"))}
    assert len(keys) == 5 and plain.key("features") == plain.key()
    assert encoder_of("bag:random?scale=./trees").key() == scaled[0].key()


def letters(name: Name, seed: int) -> TextEncoder:
    def load(device: str | None):
        return Letters().encode

    identity = [name.base]
    return TextEncoder(parsed=name, family="letters", load=load, identity=identity, reads_text=True)


def test_a_prefix_is_a_row_and_the_function_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = Prefix("letters:LANGUAGE", f"{__name__}:letters", own_bases="[a-z]+")
    monkeypatch.setitem(PREFIXES, "letters", prefix)
    both = open_encoder("letters:english+bag:random?dim=3")
    assert both.encode(["a cat", ""]).shape == (2, 29) and both.encode(["a cat"])[0, 0] == 2
    assert encoder_of("letters:english").key() != encoder_of("letters:german").key()
    with pytest.raises(UserError, match=r"'letters:english\?dim=x': expected letters:LANGUAGE"):
        open_encoder("letters:english?dim=x")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_pipe_in_a_folder_of_another_library_is_refused_unread(name: str, tmp_path: Path) -> None:
    for file in ("config.json", "modules.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / file).write_text("{}")
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(UserError, match=f"{name}: a pipe or a device"):
        encoder_of(str(tmp_path))


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
