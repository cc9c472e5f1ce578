"""``senteval_runner.run --expand``: end to end, made once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from corpora.support.errors import UserError
from multiview.config import EncoderConfig
from multiview.encoders.registry import ViewStack
from multiview.folder.files import Member, save_member
from multiview.words.table import Vocabulary, WordTable
from senteval_runner import running
from senteval_runner.running import expand_models
from tests.senteval_runner.test_run import config

TRAINED = ["the", "bad", "good", "tall", "far", "dull", "poor", "near", "rich"]
"""All but "a" and "bright": the vectors of the fixture have eight dimensions."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    words = WordTable(Vocabulary(TRAINED, case="exact"), 3, views=2)
    words.initialise("xavier")
    stack = ViewStack(("seq", "seq"), words, EncoderConfig(dim=4))
    folder = tmp_path / "models" / "mine"
    save_member(folder, Member(stack), card="# Mine\n", training={})
    (folder / "time.json").write_text('{"seconds": 9000}')
    return folder


def test_expand_end_to_end(tmp_path: Path, data: Path, words: Path, model: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    run = config(tmp_path, data, str(model), f"{model}+{words}", tasks="CR,MRPC", expand=str(words))
    assert running.run(run) == 0
    said = capsys.readouterr().out
    made = model.with_name("mine-expanded-words")
    results = json.loads((tmp_path / "report" / "results.json").read_text())
    assert set(results["models"]) == {"mine-expanded-words", "mine-expanded-words+words.txt"}
    row = results["models"]["mine-expanded-words"]
    assert (row["dim"], row["hours"]) == (8, 2.5)
    assert results["models"]["mine-expanded-words+words.txt"]["hours"] is None
    assert "| mine-expanded-words | 8 | 2.50 |" in said
    stamp = (made / "model.safetensors").stat().st_mtime_ns
    assert running.run(run) == 0
    assert (made / "model.safetensors").stat().st_mtime_ns == stamp


def test_chosen_views_are_those_of_the_expanded_model(
    words: Path, model: Path, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = model.with_name("mine-expanded-words")
    assert expand_models([f"{model}?views=0-seq+{model}"], str(words)) == [f"{folder}?views=0-seq+{folder}"]


def test_nothing_to_expand(tmp_path: Path, data: Path, words: Path, model: Path) -> None:
    with pytest.raises(UserError, match="no model here is a multi-view model with trained words"):
        running.run(config(tmp_path, data, str(words), "random:seq", expand=str(words)))
    made = model.with_name("mine-expanded-words")
    made.mkdir()
    (made / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="holds something else"):
        running.run(config(tmp_path, data, str(model), expand=str(words)))
