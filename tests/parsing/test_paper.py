"""The preset ``paper`` of parsing.run: the data of Simoulin & Crabbé 2021, section 3.1 and appendix A.1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parsing import run as command_module
from parsing.pipeline.workers import ParserFactories
from parsing.run import cli, defaults_from
from tests.parsing.pipeline.toy_parsers import ToyConstituencyParser, ToyDependencyParser


def test_the_values_of_the_preset() -> None:
    config = defaults_from(["umbc", "--preset", "paper"])
    assert config == defaults_from(["umbc", "--preset=paper"])
    assert (config.limit, config.tokenize, config.precision) == ("40M", "space", "fp32")  # 3.1
    assert (config.views, config.preset) == ("dep,const", "paper")
    assert defaults_from(["umbc"]).limit is None


def test_all_that_is_missing_is_listed_at_once(tmp_path: Path, capsys) -> None:
    command = ["umbc", "--preset", "paper", "--data", str(tmp_path), "--output", str(tmp_path / "out")]
    for more in ([], ["--dep-model", str(tmp_path / "no"), "--const-model", "benepar_en_none"]):
        assert cli([*command, *more]) == 2
        refused = capsys.readouterr().err
        for part in (
            "--data FOLDER",
            "ebiquity.umbc.edu",
            "--dep-model FOLDER",
            "github.com/yzhangcs/parser",
        ):
            assert part in refused
        assert "--const-model NAME" in refused and "self-attentive-parser" in refused
        assert "Traceback" not in refused
    assert cli([*command, "--views", "dep"]) == 2
    assert "--const-model" not in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.fixture
def umbc(tmp_path: Path) -> Path:
    (tmp_path / "webbase_all").mkdir()
    tagged = "A_DT cat_NN sat_VBD ._. It_PRP slept_VBD ._.\n"
    (tmp_path / "webbase_all" / "a.possf2").write_text(tagged * 3)
    return tmp_path


def test_with_both_checkpoints_it_parses(umbc: Path, monkeypatch, capsys) -> None:
    factories = ParserFactories(dependency=ToyDependencyParser, constituency=ToyConstituencyParser)
    monkeypatch.setattr(command_module, "parser_factories", lambda config: factories)
    for name in ("dep", "const"):
        (umbc / name).mkdir()
    command = [
        "umbc",
        "--preset",
        "paper",
        "--data",
        str(umbc),
        "--output",
        str(umbc / "out"),
        "--workers",
        "1",
    ]
    models = ["--dep-model", str(umbc / "dep"), "--const-model", str(umbc / "const")]
    assert cli([*command, *models, "--limit", "5"]) == 0
    said = capsys.readouterr().out
    assert "deviates   limit 5; the paper: 40M (section 3.1)" in said
    assert "deviates   max-tokens 128" in said and "deviates   tokenize" not in said
    assert "5 sentences" in said
    assert "--preset paper" in json.loads((umbc / "out" / "config.json").read_text())["command"]
