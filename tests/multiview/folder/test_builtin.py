"""``builtin`` wherever a model is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from multiview import encode, explain, export, search
from multiview.folder.names import model_folder
from multiview.model import MultiViewEncoder
from multiview.sklearn import MultiViewTransformer

TEXTS = ["the cat rained", "stock prices fell !", "word"]
COMMANDS = {"search": search, "encode": encode, "explain": explain, "export": export}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "corpus.txt").write_text("\n".join(TEXTS) + "\n")
    return tmp_path / "corpus.txt"


def test_it_is_the_folder(builtin: Path, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = MultiViewEncoder.load("builtin")
    expected = MultiViewEncoder.load(builtin).encode(TEXTS)
    np.testing.assert_array_equal(encoder.encode(TEXTS), expected)
    assert encoder.name == "builtin" and encoder.folder == builtin
    assert model_folder("builtin") == model_folder(Path("builtin")) == builtin
    assert model_folder("./x/builtin") == Path("x/builtin")
    np.testing.assert_array_equal(MultiViewTransformer("builtin").fit_transform(TEXTS), expected)
    assert encode.cli(["builtin", str(corpus), "--output", str(corpus.parent / "v.npy")]) == 0
    np.testing.assert_array_equal(np.load(corpus.parent / "v.npy"), expected)
    assert "seq 8 + seq 8 + seq 8 + seq 8 = 32 dimensions" in repr(encoder)
    capsys.readouterr()
    assert search.cli(["builtin", str(corpus), "stock prices fell !", "--top", "1"]) == 0
    assert capsys.readouterr().out == f"1.0000        1  {TEXTS[1]}\n"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_it_is_exported_as_a_copy(builtin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer

    from multiview import sentence_transformers as adapter

    expected = MultiViewEncoder.load("builtin").encode(TEXTS)
    np.testing.assert_allclose(adapter.load("builtin").encode(TEXTS), expected, atol=1e-6)
    assert export.cli(["builtin"]) == 2
    assert "give --output FOLDER for a copy of it" in capsys.readouterr().err
    assert export.cli(["builtin", "--output", str(tmp_path / "copy")]) == 0
    model = SentenceTransformer(str(tmp_path / "copy"), trust_remote_code=True, device="cpu")
    np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-6)
    assert not (builtin / "modules.json").exists()


@pytest.mark.parametrize(
    ("removed", "told"),
    [("m0/model.safetensors", "model.safetensors: no such file"), ("", "has no builtin encoder")],
)
@pytest.mark.parametrize("command", ["search", "encode"])
def test_a_missing_or_damaged_one_is_one_line(
    builtin: Path,
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    removed: str,
    told: str,
    command: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(builtin, tmp_path / "copy")
    monkeypatch.setattr("multiview.folder.names.BUILTIN_FOLDER", tmp_path / "copy")
    path = tmp_path / "copy" / removed
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert COMMANDS[command].cli(["builtin", str(corpus), *(["cat"] if command == "search" else [])]) == 2
    shown = capsys.readouterr().err
    assert told in shown and shown.count("\n") == 1
