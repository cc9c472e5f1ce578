"""The command encode: what it reads and writes, in pieces too, and what it refuses."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from multiview import encode, sentence_input
from multiview.model import MultiViewEncoder
from runtime import large_arrays
from tests.fixtures.builtin import LINES
from tests.fixtures.trees import toy_corpus


def test_encode_takes_a_text_a_pipe_and_a_tree_cache(
    seq_model: Path, corpus: Path, tmp_path: Path, toy_trees, monkeypatch, capsys
) -> None:
    encoder = MultiViewEncoder.load(seq_model)
    assert encode.cli([str(seq_model), str(corpus), "--output", str(tmp_path / "out.npy")]) == 0
    # A blank line ends a document and is no sentence.
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), encoder.encode([LINES[0], LINES[2]]))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(corpus.read_bytes())))
    assert encode.cli([str(seq_model), "-", "--output", str(tmp_path / "piped.npy")]) == 0
    assert (tmp_path / "piped.npy").read_bytes() == (tmp_path / "out.npy").read_bytes()
    assert json.loads((tmp_path / "out.npy.json").read_text())["model"] == str(seq_model)
    assert "2 x 16" in capsys.readouterr().out
    assert encode.cli([str(seq_model), str(toy_trees), "--output", str(tmp_path / "trees.npy")]) == 0
    expected = encoder.encode(toy_corpus()[0])
    np.testing.assert_allclose(np.load(tmp_path / "trees.npy"), expected, atol=1e-5)


@pytest.mark.parametrize("source", ["in.txt", "trees"])
def test_many_sentences_are_encoded_in_pieces(
    source: str, seq_model: Path, tmp_path: Path, toy_trees, monkeypatch, capsys
) -> None:
    """What is needed is said first; a killed run goes on; the vectors are those of one call."""
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("\n".join(LINES * 2), encoding="utf-8")
    path = str(toy_trees) if source == "trees" else source
    assert encode.cli([str(seq_model), path, "--output", "once.npy"]) == 0
    for module in (large_arrays, sentence_input):
        monkeypatch.setattr(module, "PIECE", 2)
    real, calls = MultiViewEncoder.encode, list[int]()

    def dying(self, *inputs, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, *inputs, **options)

    monkeypatch.setattr(MultiViewEncoder, "encode", dying)
    assert encode.cli([str(seq_model), path, "--output", "v.npy"]) == 130
    assert not Path("v.npy").exists()
    capsys.readouterr()
    assert encode.cli([str(seq_model), path, "--output", "v.npy"]) == 0
    assert "vectors of 16 numbers: 0.0 GB of disk" in capsys.readouterr().err
    np.testing.assert_allclose(np.load("v.npy"), np.load("once.npy"), atol=1e-5)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=0))
    assert encode.cli([str(seq_model), path, "--output", "w.npy"]) == 2
    assert "GB of disk, and 0.0 are free" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("MODEL bad.txt", "bad.txt, line 2: not UTF-8"),
        ("none in.txt --output x.csv", "must end in .npy"),
        ("none in.txt --output in.txt/x.npy", "in.txt/x.npy: is not a regular file in a folder"),
        ("MODEL v.npy.json --output v.npy", "would replace v.npy.json, which is read"),
        ("given.npz in.txt --views dep", "expected MODEL, MODEL?views=VIEWS"),
        ("given.npz in.txt", "no vector for 1 of 2 sentences, first 'stock prices fell !'"),
        ("given.npz in.txt --expand in.txt", "given.npz?expand=in.txt': expected MODEL"),
        ("start:builtin in.txt", "expected start:MODEL?corpus=runs/trees/NAME"),
        ("nan.npz in.txt", "NaN or infinity for 1 of 2 sentences, first 'stock prices fell !'"),
    ],
)
def test_what_cannot_be_encoded_is_one_line(
    seq_model: Path, corpus: Path, monkeypatch, words: str, message: str, refusal
) -> None:
    monkeypatch.chdir(corpus.parent)
    Path("bad.txt").write_bytes(b"fine\n\xff\xfe\n")
    Path("v.npy.json").write_text("fine\n")
    np.savez("given.npz", sentences=LINES[:1], vectors=np.ones((1, 2)))
    np.savez("nan.npz", sentences=LINES[::2], vectors=np.array([[1.0], [np.nan]]))
    before = set(Path().iterdir())
    assert message in refusal(encode.cli, *words.replace("MODEL", str(seq_model)).split())
    assert set(Path().iterdir()) == before
