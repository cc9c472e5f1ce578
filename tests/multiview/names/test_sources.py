"""Models by name: what a name means, its key and short name, and what it cannot mean."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from corpora.support.errors import UserError
from multiview.model import MultiViewEncoder
from multiview.names.grammar import split_parts
from multiview.names.sources import find_source
from senteval_runner.run import cli as run
from senteval_runner.vectors.models import open_model
from tests.parsing.trees.test_cache import corpus_of, write_cache


@pytest.fixture
def here(tmp_path: Path, words: Path, builtin: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with word vectors, a tree cache and a builtin encoder of two SEQ views twice."""
    pytest.importorskip("sentence_transformers")
    monkeypatch.chdir(tmp_path)
    write_cache(tmp_path / "trees", corpus_of(30))
    return tmp_path


@pytest.mark.parametrize(
    ("spec", "kind", "name"),
    [
        ("random:seq@4096", "random", "random:seq@4096"),
        ("random:lstm@8?vectors=words.txt", "random", "random:lstm@8 over words"),
        ("bag:./words.txt", "bag", "bag:words.txt"),
        ("sif:ngrams?corpus=trees", "bag", "sif:ngrams"),
        ("start:builtin?corpus=trees", "start", "start:builtin"),
        ("cls:someone/bert", "pooled", "cls:someone/bert"),
        ("bertin", "sentence-transformers", "bertin"),
    ],
)
def test_what_a_name_means(here: Path, spec: str, kind: str, name: str) -> None:
    source = find_source(spec)
    assert (source.kind, source.name) == (kind, name)
    drawn = kind == "random" or ":random" in spec or ":ngrams" in spec
    assert (source.key != find_source(spec, seed=1).key) == drawn


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere.txt", "no such file or folder"),
        ("random:dep,const@7", "cannot be divided by 2"),
        ("random:seq,lstm", "view 'lstm'"),
        ("sif:random", r"expected sif:WORDS\?corpus=runs/trees/NAME"),
        ("builtin?views=dep", "view 'dep': this model has 0-seq, 1-seq, seq"),
        ("all-MiniLM-L6-v2?views=dep", "a MODEL of multiview.train"),
    ],
)
def test_what_it_cannot_mean_is_one_line(here: Path, data: Path, spec: str, message: str, capsys) -> None:
    with pytest.raises(UserError, match=message):
        open_model(spec)
    assert run([spec, "--data", str(data), "--tasks", "CR", "--output", "r"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_keys_are_of_the_content(here: Path, builtin: Path) -> None:
    assert find_source("builtin").key == find_source(str(builtin)).key
    assert find_source("builtin?views=0-seq").key != find_source("builtin?views=1-seq").key
    plus = here / "a+b.txt"
    plus.write_text((here / "words.txt").read_text())
    assert split_parts(str(plus)) == [str(plus)] and split_parts("a+random:seq") == ["a", "random:seq"]
    assert find_source(str(plus)).key == find_source("words.txt").key
    over = find_source("random:seq@8?vectors=words.txt").key
    (here / "words.txt").write_text((here / "words.txt").read_text() + "sat 1 2 3 4 5 6 7 8\n")
    keys = {over, *(find_source(f"random:seq@8{w}").key for w in ("", "?vectors=words.txt"))}
    assert len(keys) == 3


def test_models_side_by_side_and_projected(here: Path) -> None:
    """A view of a joined model is that view of each of its parts."""
    names = ("words.txt", "bag:builtin", "builtin?views=1-seq")
    sentences = [["good", "bad"], ["zzz"], ["the", "cat"]]
    both, parts = open_model("+".join(names)), [open_model(name)(sentences) for name in names]
    np.testing.assert_array_equal(both(sentences), np.hstack(parts))
    np.testing.assert_allclose(both.encode(["good bad"]), both(sentences)[:1], atol=1e-6)
    assert both.name == "+".join(names) and both.dim == both(sentences).shape[1]
    small, again = (open_model("words.txt", project=16, seed=1) for _ in range(2))
    assert small(sentences).shape == (3, 16) and small.identity != open_model("words.txt").identity
    np.testing.assert_array_equal(small(sentences), again(sentences))
    model = MultiViewEncoder.load("builtin", "cpu")
    words = [model.word_vectors(one).mean(axis=0) for one in sentences]
    np.testing.assert_allclose(parts[1], words, rtol=1e-5)
    blocks = np.split(model.encode(sentences), 4, axis=1)
    np.testing.assert_allclose(parts[2], np.hstack([blocks[1], blocks[3]]), atol=1e-6)
