"""Every name that SentEval takes, the commands take: the same vectors, of text and of a tree cache."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from multiview import encode
from multiview.names.opened import open_encoder
from multiview.search import __main__ as search
from parsing.names import BUILTIN_FOLDERS
from parsing.trees.cache import TreeCache
from senteval_runner.evaluation_trees import open_model
from tests.fixtures.transformers import save_sentence_encoder

LINES = ("the good cat", "a dull rich dog", "bad .")


@pytest.fixture
def workplace(tmp_path: Path, words: Path, toy_trees: Path, monkeypatch) -> Path:
    """A working directory with word vectors, vectors by sentence, a transformer, a cache and a text."""
    pytest.importorskip("sentence_transformers")
    monkeypatch.chdir(tmp_path)
    Path("trees").symlink_to(toy_trees)
    save_sentence_encoder(tmp_path).rename("tiny")
    vectors = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    np.savez("given.npz", sentences=np.array(LINES), vectors=vectors)
    Path("in.txt").write_text("\n".join(LINES), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "builtin",
        "builtin?views=bag",
        "words.txt",
        "given.npz",
        "bag:random?dim=5",
        "bag:ngrams?dim=5?structure=0.2",
        "sif:builtin?corpus=trees",
        "random:lstm?dim=8",
        "random:seq?dim=8?structure=0.1",
        "tiny",
        "cls:tiny",
        "builtin+words.txt+tiny",
    ],
)
def test_every_name_of_senteval_s_gives_a_command_the_same_vectors(
    workplace: Path, name: str, capsys
) -> None:
    assert encode.cli([name, "in.txt", "--output", "out.npy", "--device", "cpu"]) == 0
    expected = open_model(name, device="cpu").encode([line.split() for line in LINES])
    np.testing.assert_allclose(np.load("out.npy"), expected, atol=1e-5)
    capsys.readouterr()
    assert search.cli([name, "in.txt", LINES[1], "--top", "1", "--device", "cpu"]) == 0
    assert capsys.readouterr().out.split(maxsplit=2) == ["1.0000", "1", f"{LINES[1]}\n"]


RELATIVE = ("given.npz", "bag:words.txt", "sif:words.txt?corpus=trees", "random:lstm?dim=8?vectors=words.txt")


@pytest.mark.parametrize("name", [*RELATIVE, "cls:tiny", "bag:random?dim=5?scale=trees", "random:dep?dim=4"])
def test_what_is_opened_by_a_relative_name_is_found_from_another_folder(
    workplace: Path, name: str, monkeypatch
) -> None:
    shutil.copytree(BUILTIN_FOLDERS["dep"], "parser")
    places = {"parsers": {"dep": "parser"}, "device": "cpu"}
    expected, encoder = open_encoder(name, **places).features(LINES), open_encoder(name, **places)
    key, spec = encoder.key(), encoder.full_name
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    np.testing.assert_allclose(encoder.features(LINES), expected, atol=1e-6)
    assert encoder.key() == key and encoder.full_name == spec == name


@pytest.mark.parametrize("name", ["random:dep,const?dim=8", "bag:random?dim=5", "tiny", "tiny+words.txt"])
def test_a_tree_cache_is_its_sentences(workplace: Path, name: str) -> None:
    trees = TreeCache.open("trees")
    sentences = [" ".join(words) for words in trees.read(0, len(trees), ("token",)).words()]
    encoder = open_encoder(name, device="cpu")
    vectors = encoder.encode(None, trees=trees)
    np.testing.assert_allclose(vectors, encoder.encode(sentences, trees=trees), atol=1e-5)
    assert vectors.dtype == np.float32 and len(vectors) == len(trees)


def test_options_are_part_of_the_name(workplace: Path) -> None:
    assert encode.cli(["tiny+builtin", "in.txt", "--structure", "0.1", "--normalize"]) == 0
    expected = open_encoder("tiny?structure=0.1+builtin?structure=0.1").encode(LINES, normalize=True)
    np.testing.assert_allclose(np.load("in.txt.npy"), expected, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, atol=1e-5)


def test_a_bag_reads_raw_text_as_tokens(workplace: Path) -> None:
    bag = open_encoder("words.txt")
    np.testing.assert_array_equal(bag.encode(["the good, bad cat."]), bag.encode(["the good , bad cat ."]))


def test_no_sentences_and_a_generator_of_them(workplace: Path) -> None:
    both = open_model("words.txt+bag:random?dim=5", device="cpu")
    assert both.encode([]).shape == (0, 13) == open_encoder("words.txt+bag:random?dim=5").encode([]).shape
    np.testing.assert_array_equal(both.encode(iter(LINES)), both.encode(list(LINES)))
