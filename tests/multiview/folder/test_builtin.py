"""``builtin`` wherever a model is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from corpora.support.errors import UserError
from multiview import encode, explain, export, info, search
from multiview.folder.names import model_folder
from multiview.model import MultiViewEncoder
from multiview.sklearn import MultiViewTransformer

TEXTS = ["the cat rained", "stock prices fell !", "word"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "corpus.txt").write_text("\n".join(TEXTS) + "\n")
    return tmp_path / "corpus.txt"


def test_it_is_the_folder(builtin: Path) -> None:
    encoder = MultiViewEncoder.load("builtin")
    expected = MultiViewEncoder.load(builtin).encode(TEXTS)
    np.testing.assert_array_equal(encoder.encode(TEXTS), expected)
    assert encoder.name == "builtin" and encoder.folder == builtin
    assert model_folder("builtin") == model_folder(Path("builtin")) == builtin
    assert model_folder("./x/builtin") == Path("x/builtin")
    np.testing.assert_array_equal(MultiViewTransformer("builtin").fit_transform(TEXTS), expected)


def test_commands_take_it(builtin: Path, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vectors = MultiViewEncoder.load(builtin).encode(TEXTS)
    assert encode.cli(["builtin", str(corpus), "--output", str(corpus.parent / "v.npy")]) == 0
    np.testing.assert_array_equal(np.load(corpus.parent / "v.npy"), vectors)
    assert info.cli(["builtin"]) == 0
    assert capsys.readouterr().out.count("storage    float32") == 2
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


def without_a_file(folder: Path) -> str:
    (folder / "0-m0" / "model.safetensors").unlink()
    return "model.safetensors: no such file"


def with_a_flipped_bit(folder: Path) -> str:
    path = folder / "1-m1" / "vocab.txt"
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(data)
    return "vocab.txt: damaged"


def without_anything(folder: Path) -> str:
    shutil.rmtree(folder)
    return "builtin: this installation has no builtin encoder"


@pytest.mark.parametrize("damage", [without_a_file, with_a_flipped_bit, without_anything])
@pytest.mark.parametrize("arguments", [["{}", "cat"], ["{}", "--output", "v.npy"]])
def test_a_missing_or_damaged_one_is_one_line(
    builtin: Path,
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], str],
    arguments: Sequence[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(builtin, tmp_path / "copy")
    monkeypatch.setattr("multiview.folder.names.BUILTIN_FOLDER", tmp_path / "copy")
    message = damage(tmp_path / "copy")
    command = search.cli if "cat" in arguments else encode.cli
    assert command(["builtin", *(argument.format(corpus) for argument in arguments)]) == 2
    shown = capsys.readouterr().err
    assert message in shown and shown.count("\n") == 1


def test_there_may_be_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("multiview.folder.names.BUILTIN_FOLDER", tmp_path)
    with pytest.raises(UserError, match="no builtin encoder; give a model folder"):
        MultiViewEncoder.load("builtin")
    for command in (info, export):
        assert command.cli(["builtin"]) == 2


@pytest.mark.parametrize(
    "command",
    [
        "search bultin corpus.txt cat",
        "encode bultin corpus.txt",
        "info bultin",
        "explain built-in a b",
    ],
)
def test_a_misspelt_name_is_one_line_with_the_right_one(
    builtin: Path,
    corpus: Path,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(corpus.parent)
    name, *arguments = command.split()
    clis = {module.__name__.rpartition(".")[2]: module.cli for module in (encode, explain, info, search)}
    assert clis[name](arguments) == 2
    shown = capsys.readouterr().err
    assert "did you mean builtin?" in shown and shown.count("\n") == 1


def test_a_misspelt_folder_is_found_beside(builtin: Path, tmp_path: Path) -> None:
    shutil.copytree(builtin, tmp_path / "dep-const-laptop")
    with pytest.raises(UserError, match=r"dep-const-latop: no model .*; did you mean dep-const-laptop\?"):
        MultiViewEncoder.load(tmp_path / "dep-const-latop")
    with pytest.raises(UserError, match=r"bultin: no model here \(no config.json\); train one"):
        MultiViewEncoder.load(tmp_path / "bultin")  # builtin is a name, not a path
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty: no model here \(no config.json\); train one"):
        MultiViewEncoder.load(tmp_path / "empty")
