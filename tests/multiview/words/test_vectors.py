"""``--vectors``: files, gensim's skip-grams, words as a sentence encoder encodes them."""

import gzip
import json
import shutil
import struct
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from multiview.config import NewViewsConfig
from multiview.folder.files import load_model
from multiview.train import main
from multiview.training.data import open_trees
from multiview.words.sources import PASSES, WordSource, distilled_vectors
from multiview.words.vectors import load_word_vectors
from multiview.words.vocabulary import corpus_words
from runtime.errors import UserError
from tests.fixtures.transformers import save_sentence_encoder
from tests.fixtures.trees import changed
from tests.parsing.pipeline.toy_parsers import write_cache

TEXT = "the 0.5 1\nNew York 2 3\ncat -1e-3 4\nthe 9 9\n"
VECTORS = np.array([[0.5, 1], [2, 3], [-1e-3, 4]], dtype=np.float32)


def binary(words: list[bytes], vectors: np.ndarray, newline: bytes = b"\n") -> bytes:
    head = f"{len(words)} {vectors.shape[1]}\n".encode()
    return head + b"".join(
        w + b" " + struct.pack(f"<{len(v)}f", *v) + newline for w, v in zip(words, vectors, strict=True)
    )


FORMATS = {
    "glove.txt": TEXT.encode(),
    "glove.txt.gz": gzip.compress(TEXT.encode(), mtime=0),
    "word2vec.txt": f"4 2\n{TEXT}".encode(),
    "fasttext.txt": f"4 2\n{TEXT}".replace("\n", " \n").encode(),  # a space ends its lines
    "with-newlines.bin": binary([b"the", b"New_York", b"cat"], VECTORS),
    "without.bin": binary([b"the", b"New_York", b"cat"], VECTORS, b""),
}


@pytest.mark.parametrize("name", FORMATS)
def test_readers_agree(tmp_path: Path, name: str) -> None:
    if name.endswith("bin"):
        pytest.importorskip("gensim")
    (tmp_path / name).write_bytes(FORMATS[name])
    loaded = load_word_vectors(tmp_path / name, tmp_path / "cache")
    assert [word.replace("_", " ") for word in loaded.words] == ["the", "New York", "cat"]
    assert isinstance(loaded.vectors, np.memmap) and loaded.dim == 2
    np.testing.assert_array_equal(loaded.vectors, VECTORS)
    assert load_word_vectors(tmp_path / name, tmp_path / "cache", limit=2).words == loaded.words[:2]


def test_the_limit_holds_for_binary_files(tmp_path: Path) -> None:
    reader = pytest.importorskip("gensim.models").KeyedVectors
    (tmp_path / "v.bin").write_bytes(FORMATS["without.bin"])
    name = "load_word2vec_format"
    with patch.object(reader, name, wraps=getattr(reader, name)) as load:
        assert load_word_vectors(tmp_path / "v.bin", tmp_path / "cache", limit=2).words == ["the", "New_York"]
    assert load.call_args.kwargs["limit"] == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", b"the 1 2\ncat 1 x\n", r"v\.txt, line 2: .*cat"),
        ("v.txt", b"the 1 2\ncat nan 1\n", r"v\.txt: the vector of 'cat' is not finite"),
        ("v.txt", b"1000 2\nthe 1 2\ncat 3 4\n", "says 1000 words, it has 2"),
        ("v.txt", b"2 " + b"9" * 30 + b"\nthe 1 2\n", "line 1: .* is not a word and its numbers"),
        ("v.txt.gz", gzip.compress(TEXT.encode(), mtime=0)[:-9], "is the file whole"),
        ("v.bin", binary([b"a", b"b"], np.ones((2, 3), np.float32), b"")[:-2], "not word2vec's binary"),
        ("v.bin", struct.pack("<ii", 793712314, 12) + bytes(40), r"not word2vec's binary.*\.vec file"),
    ],
)
def test_bad_files_are_one_line(tmp_path, name: str, content: bytes, message: str) -> None:
    if name.endswith("bin"):
        pytest.importorskip("gensim")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        load_word_vectors(tmp_path / name, tmp_path)
    assert len(str(caught.value)) < 300


def test_a_conversion_that_was_killed_or_damaged_is_repeated(tmp_path, monkeypatch) -> None:
    (tmp_path / "v.txt").write_text("the 1 2\ncat 3 4\n")
    load_word_vectors(tmp_path / "v.txt", tmp_path)
    with monkeypatch.context() as patch, pytest.raises(TypeError):
        patch.setattr("runtime.folders.write_record", None)
        load_word_vectors(tmp_path / "v.txt", tmp_path, limit=1)
    assert load_word_vectors(tmp_path / "v.txt", tmp_path).words == ["the", "cat"]
    (folder,) = tmp_path.glob("*.vectors")
    for name in ("vectors.npy", "words.txt", "source.json"):
        whole = (folder / name).read_bytes()
        place = len(whole) * 2 // 3
        flipped = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        for damaged in (flipped, whole[:-3], b""):
            (folder / name).write_bytes(damaged)
            vectors = load_word_vectors(tmp_path / "v.txt", tmp_path)
            assert vectors.words == ["the", "cat"] and vectors.vectors.tolist() == [[1, 2], [3, 4]]
            assert (folder / name).read_bytes() == whole


def test_the_vectors_are_gensims_and_made_once(tiny: NewViewsConfig, tmp_path: Path, monkeypatch) -> None:
    """Gensim by itself, on lists of words and counting on its own; no two words occur equally often."""
    word2vec = pytest.importorskip("gensim.models").Word2Vec
    config = changed(tiny, words="fixed", vectors="train", table={"case": "lower"}, seed=5)
    tokens = [f"Word{number}" for number in range(20) for _ in range(21 - number)]
    np.random.default_rng(0).shuffle(tokens)
    sentences = [tuple(tokens[first : first + 7]) for first in range(0, len(tokens), 7)]
    write_cache(tmp_path / "trees", sentences, shard=32)
    trees = open_trees(tmp_path / "trees")
    lower = [[word.lower() for word in words] for words in sentences]
    for factor, passes in ((100, 20), (5, 5), (1, 3)):
        monkeypatch.setitem(PASSES, "words", factor * len(tokens))
        theirs = word2vec(
            lower, vector_size=6, window=5, sg=1, negative=5, min_count=2, epochs=passes, seed=5, workers=1
        ).wv
        ours = WordSource.of(config, trees, tmp_path).vectors()
        assert ours.words == theirs.index_to_key == [f"word{number}" for number in range(20)]
        np.testing.assert_array_equal(ours.vectors, theirs.vectors)
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    np.testing.assert_array_equal(WordSource.of(config, trees, tmp_path).vectors().vectors, ours.vectors)
    for other in ({"seed": 6}, {"table": {"dim": 5}}, {"table": {"size": 4}}):
        with pytest.raises(UserError, match=r"gensim is not installed: .*pip install .*\[vectors\]"):
            WordSource.of(changed(config, **other), trees, tmp_path).vectors()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with mean pooling, as sentence-transformers saves it."""
    pytest.importorskip("sentence_transformers")
    return save_sentence_encoder(tmp_path_factory.mktemp("teacher"))


@pytest.fixture
def distilled(tiny: NewViewsConfig, encoder: Path) -> NewViewsConfig:
    return changed(tiny, words="fixed", vectors=f"distil:{encoder}", table={"case": "lower", "buckets": 0})


def by_svd(encoded_WT: np.ndarray, counts_W: np.ndarray, dim: int, a: float = 1e-3) -> np.ndarray:
    """PCA by the singular value decomposition, unit mean square, a / (a + p); signs are arbitrary."""
    centred = encoded_WT.astype(np.float64) - encoded_WT.mean(axis=0, dtype=np.float64)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    projected = left[:, :dim] * values[:dim]
    projected /= np.sqrt((projected**2).sum() / projected.size)
    return projected * (a / (a + counts_W / counts_W.sum()))[:, None]


def test_the_corpus_words_are_encoded_one_by_one(distilled, encoder: Path, tmp_path, monkeypatch) -> None:
    from sentence_transformers import SentenceTransformer

    trees, dim = open_trees(distilled.trees), distilled.table.dim
    words, counts_W = corpus_words(trees.type_counts(), distilled.table)
    ours = WordSource.of(distilled, trees, tmp_path).vectors()
    assert ours.words == words
    model = SentenceTransformer(str(encoder), device="cpu")
    encoded = np.stack([model.encode(word, show_progress_bar=False) for word in words])
    theirs = by_svd(encoded, counts_W, dim)
    signs = np.sign((ours.vectors * theirs).sum(axis=0))
    np.testing.assert_allclose(ours.vectors, theirs * signs, rtol=1e-3, atol=1e-4)
    mirrored = distilled_vectors(-encoded, counts_W, dim)  # the axes do not depend on where the vectors point
    np.testing.assert_allclose(mirrored, -distilled_vectors(encoded, counts_W, dim), rtol=1e-4, atol=1e-5)
    moved_config = changed(distilled, vectors=f"distil:{tmp_path / 'moved'}")
    shutil.copytree(encoder, tmp_path / "moved")
    with monkeypatch.context() as patch:
        patch.setattr("multiview.words.sources.load_pretrained", None)  # the content counts, not the place
        moved = WordSource.of(moved_config, trees, tmp_path)
        np.testing.assert_array_equal(moved.vectors().vectors, ours.vectors)
    other = json.loads((tmp_path / "moved/config.json").read_text()) | {"layer_norm_eps": 1e-1}
    (tmp_path / "moved/config.json").write_text(json.dumps(other))
    assert not np.array_equal(WordSource.of(moved_config, trees, tmp_path).vectors().vectors, ours.vectors)


def test_a_run_reads_them_and_its_card_says_so(distilled: NewViewsConfig) -> None:
    """Expanded by the words of the corpus that training leaves out."""
    config = changed(distilled, words="trained", table={"size": 12, "expand": 20}, loop={"max_steps": 2})
    with pytest.raises(UserError, match=r"--table\.expand 20: --vectors train adds no words"):
        changed(config, vectors="train").check()
    assert main(config) == 0
    words = load_model(config.folder).network.words
    table = changed(distilled, table={"size": 20}).table
    ranked, _ = corpus_words(open_trees(distilled.trees).type_counts(), table)
    assert words.vocabulary.words == ranked and words.added_word_count == 8
    assert f"--vectors {distilled.vectors}" in (config.folder / "README.md").read_text()
