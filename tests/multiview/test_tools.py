"""Search, the encode and info commands, vocabulary expansion, the sentence-transformers adapter."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from corpora.support.errors import UserError
from multiview import encode, export, info, search, train
from multiview.model import MultiViewEncoder
from multiview.search import semantic_search
from tests.fixtures.trees import TINY, changed, toy_corpus


@pytest.fixture(scope="module")
def folder(toy_trees: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of sequences only, which needs no parser."""
    out = tmp_path_factory.mktemp("models")
    assert train.main(changed(TINY, trees=toy_trees, output=out, name="m", views="seq,seq")) == 0
    return out / "m"


def test_search_equals_sorting_everything() -> None:
    random = np.random.default_rng(0)
    queries, corpus = random.normal(size=(3, 5)), random.normal(size=(40, 5))
    corpus[7] = corpus[20]
    for query, hits in zip(queries, semantic_search(queries, corpus, top_k=6), strict=True):
        cosine = corpus @ query / np.linalg.norm(corpus, axis=1) / np.linalg.norm(query)
        assert [hit.corpus_id for hit in hits] == np.argsort(-cosine, kind="stable")[:6].tolist()
        assert [hit.score for hit in hits] == pytest.approx(sorted(cosine, reverse=True)[:6], abs=1e-6)
    assert len(semantic_search(queries[0], corpus, top_k=99)[0]) == 40


def test_encode_command(folder: Path, tmp_path: Path, toy_trees: Path, capsys) -> None:
    lines = ["the cat rained", "", "stock prices fell !"]
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n")
    expected = MultiViewEncoder.load(folder).encode(lines)
    assert encode.cli([str(folder), str(tmp_path / "in.txt"), "--output", str(tmp_path / "out.npy")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)
    assert json.loads((tmp_path / "out.npy.json").read_text())["model"] == str(folder)
    assert "3 x 16" in capsys.readouterr().out
    assert encode.cli([str(folder), str(toy_trees), "--output", str(tmp_path / "trees.npy")]) == 0
    texts = toy_corpus()[0]
    np.testing.assert_allclose(
        np.load(tmp_path / "trees.npy"), MultiViewEncoder.load(folder).encode(texts), atol=1e-5
    )


def test_vectors_that_do_not_fit_are_one_line(
    folder: Path, tmp_path: Path, toy_trees: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        code = encode.cli([str(folder), str(toy_trees), "--output", str(tmp_path / "v.npy")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    message = capsys.readouterr().err.splitlines()[-1]
    assert code == 2 and "v.npy: no space left on the disk" in message
    assert not list(tmp_path.iterdir())


def test_search_command(folder: Path, tmp_path: Path, toy_trees: Path, monkeypatch, capsys) -> None:
    lines = ["the cat rained", "", "stock prices fell !"]
    corpus = tmp_path / "in.txt"
    corpus.write_text("\n".join(lines) + "\n")
    assert search.cli([str(folder), str(corpus), lines[2], "--top", "2"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split(maxsplit=2) == ["1.0000", "2", lines[2]]
    assert float(second.split()[0]) < 1
    # Several queries, from standard input, against stored vectors of the corpus.
    assert encode.cli([str(folder), str(corpus), "--output", str(tmp_path / "v.npy")]) == 0
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{lines[2]}\n\n{lines[0]}\n"))
    assert search.cli([str(folder), str(corpus), "--top", "1", "--vectors", str(tmp_path / "v.npy")]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.rpartition("  ")[2] for line in out] == [lines[2], lines[2], lines[0], lines[0]]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"fine\ncaf\xe9\n"), "utf-8"))
    assert search.cli([str(folder), str(corpus), "--vectors", str(tmp_path / "v.npy")]) == 2
    assert "standard input: not UTF-8" in capsys.readouterr().err
    # A tree cache: sentence 3 is its own nearest.
    words = " ".join(toy_corpus()[0][3])
    assert search.cli([str(folder), str(toy_trees), words, "--top", "1"]) == 0
    score, _, text = capsys.readouterr().out.split(maxsplit=2)
    assert score == "1.0000" and text.strip() == words


def test_search_command_errors(folder: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "good.txt").write_text("fine\n")
    (tmp_path / "empty.txt").write_text("")
    np.save(tmp_path / "other.npy", np.zeros((3, 2), dtype=np.float32))
    (tmp_path / "text.npy").write_text("no vectors")
    good = tmp_path / "good.txt"
    cases = {
        "none.txt: no such file": [folder, tmp_path / "none.txt", "q"],
        "empty.txt: empty": [folder, tmp_path / "empty.txt", "q"],
        "--top 0": [folder, good, "q", "--top", "0"],
        "holds 3 x 2 numbers": [folder, good, "q", "--vectors", tmp_path / "other.npy"],
        "not vectors": [folder, good, "q", "--vectors", tmp_path / "text.npy"],
        "multiview.encode makes it": [folder, good, "q", "--vectors", tmp_path / "none.npy"],
    }
    for message, args in cases.items():
        assert search.cli([str(arg) for arg in args]) == 2
        errors = capsys.readouterr().err
        assert message in errors and len(errors.strip().splitlines()) == 1, errors


def test_encode_command_errors(folder: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "bad.txt").write_bytes(b"fine\n\xff\xfe\n")
    (tmp_path / "good.txt").write_text("fine\n")
    cases = {
        "bad.txt, line 2: not UTF-8": [folder, tmp_path / "bad.txt"],
        "no such file": [folder, tmp_path / "none.txt"],
        "no model here": [tmp_path, tmp_path / "good.txt"],
        "must end in .npy": [folder, tmp_path / "good.txt", "--output", tmp_path / "x.csv"],
        "view 'dep'": [folder, tmp_path / "good.txt", "--views", "dep"],
    }
    for message, args in cases.items():
        assert encode.cli([str(arg) for arg in args]) == 2
        errors = capsys.readouterr().err
        assert message in errors and len(errors.strip().splitlines()) == 1, errors


def test_info_command(folder: Path, tmp_path: Path, capsys) -> None:
    assert info.cli([str(folder)]) == 0
    out = capsys.readouterr().out
    for word in ("views seq, seq", "16 dimensions", "recall@1", "progress", "resumable"):
        assert word in out
    assert info.cli([str(tmp_path)]) == 2


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sentence_transformers_adapter(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer

    from multiview import sentence_transformers as st_adapter

    texts = ["the cat rained", "stock prices fell !", "word"]
    expected = MultiViewEncoder.load(folder).encode(texts)
    own = st_adapter.load(folder)
    np.testing.assert_allclose(own.encode(texts, show_progress_bar=False), expected, atol=1e-5)
    assert export.cli([str(folder)]) == 0
    model = SentenceTransformer(str(folder), trust_remote_code=True, device="cpu")
    np.testing.assert_allclose(model.encode(texts, batch_size=2), expected, atol=1e-5)
    assert model.encode(texts[0]).shape == (16,)
    model.save(str(tmp_path / "copy"))
    np.testing.assert_allclose(MultiViewEncoder.load(tmp_path / "copy").encode(texts), expected, atol=1e-6)


def test_an_unknown_device_and_a_foreign_configuration_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="device 'xyz'"):
        MultiViewEncoder.untrained("seq,seq", dim=4, word_dim=4, device="xyz")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="model format None"):
        info.main(info.InfoConfig(run=tmp_path))
