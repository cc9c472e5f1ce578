"""``builtin`` among the models of an evaluation, the towers and the studies."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from corpora.support.errors import UserError
from multiview.model import MultiViewEncoder
from senteval_runner.run import cli as run
from senteval_runner.towers.multiview import MultiViewTower
from senteval_runner.towers.transformer import load_tower, load_whole
from senteval_runner.vectors.bags import BagSpec
from senteval_runner.vectors.encoders import open_model, resolve_encoder
from senteval_runner.vectors.sources import find_source
from studies.finetune.backbone import is_here

TOKENS = [["the", "cat", "rained"], ["stock", "prices", "fell", "!"]]


def test_its_key_is_its_content(builtin: Path) -> None:
    source, folder = find_source("builtin"), find_source(str(builtin))
    assert source.kind == "multiview" and source.name == "builtin"
    assert source.key == folder.key and source.hours == folder.hours
    assert BagSpec.parse("bag:builtin").name == "bag:builtin"
    assert find_source("bag:builtin").key == find_source(f"bag:{builtin}").key
    assert is_here("builtin")


def test_its_vectors(builtin: Path) -> None:
    encoder = MultiViewEncoder.load(builtin)
    expected = encoder.encode(TOKENS)
    np.testing.assert_array_equal(resolve_encoder("builtin")(TOKENS), expected)
    np.testing.assert_array_equal(
        open_model("builtin+bag:builtin", cache=None).vectors(TOKENS)[:, :32], expected
    )
    words = [encoder.word_vectors(tokens).mean(axis=0) for tokens in TOKENS]
    np.testing.assert_allclose(resolve_encoder("bag:builtin")(TOKENS), words, rtol=1e-5)


def test_it_can_be_fine_tuned(builtin: Path, tmp_path: Path) -> None:
    """What is saved has the tuned weights exactly."""
    tower = load_tower("builtin", pooling="mean")
    assert isinstance(tower, MultiViewTower) and isinstance(load_whole("builtin"), MultiViewTower)
    for parameter in tower.parameters():
        parameter.data += 1e-3
    tower.save(tmp_path / "tuned")
    np.testing.assert_array_equal(
        MultiViewEncoder.load(tmp_path / "tuned").encode(TOKENS), tower.encoder.encode(TOKENS)
    )


def test_it_is_scored(builtin: Path, data: Path, tmp_path: Path) -> None:
    arguments = [
        "--data",
        str(data),
        "--tasks",
        "CR",
        "--protocol",
        "fast",
        "--output",
        str(tmp_path / "r"),
    ]
    assert run(["builtin", "bag:builtin", *arguments, "--cache", str(tmp_path / "c")]) == 0
    assert "builtin" in (tmp_path / "r" / "results.md").read_text()


def test_without_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("multiview.folder.names.BUILTIN_FOLDER", tmp_path)
    for spec in ("builtin", "bag:builtin"):
        with pytest.raises(UserError, match="no builtin encoder"):
            find_source(spec)


@pytest.mark.parametrize("spec", ["bultin", "Builtin", "bultin+bag:builtin", "bag:bultin", "cls:built-in"])
def test_a_misspelt_name_gets_the_right_one(
    builtin: Path, data: Path, tmp_path: Path, spec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, and before the hub is asked for it."""
    assert run([spec, "--data", str(data), "--tasks", "CR", "--output", str(tmp_path / "r")]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and shown.endswith("did you mean builtin?\n")


def test_what_only_resembles_it_is_a_name(
    builtin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for spec in ("bertin", "bert-base-uncased", "someone/bultin"):
        assert find_source(spec).kind == "sentence-transformers"
    for spec in ("bag:builtin", "builtin?views=seq", "builtin+bag:builtin"):
        assert open_model(spec, cache=None).name == spec
    monkeypatch.chdir(tmp_path)
    shutil.copytree(builtin, "bultin")
    assert find_source("bultin").kind == "multiview"


def test_a_misspelt_backbone() -> None:
    with pytest.raises(UserError, match=r"model 'bultin': .*did you mean builtin\?"):
        load_tower("bultin", pooling="mean")
