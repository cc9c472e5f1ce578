"""What a training run is made of: the cache it finds, its preset, its segments."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from corpora.support.errors import UserError
from multiview.config import TrainConfig, preset
from multiview.defaults import defaults_from, read_config
from multiview.folder.card import training_command
from multiview.train import main
from multiview.training.data import Split, cut, open_trees
from tests.fixtures.trees import changed
from tests.parsing.cache.test_reader import write_cache


def test_the_only_cache_is_found_and_several_are_listed(tmp_path: Path) -> None:
    write_cache(tmp_path / "one", [("a", "b")] * 4)
    assert len(open_trees(None, tmp_path)) == 4
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    with pytest.raises(UserError, match=r"one \| .*two"):
        open_trees(None, tmp_path)


def test_the_only_cache_is_named_in_the_output(
    tiny: TrainConfig, toy_trees: Path, tmp_path, monkeypatch, capfd
) -> None:
    (tmp_path / "runs" / "trees").mkdir(parents=True)
    (tmp_path / "runs" / "trees" / "mine").symlink_to(toy_trees)
    monkeypatch.chdir(tmp_path)
    main(changed(tiny, trees=None, loop={"max_steps": 1}))
    assert "runs/trees/mine (" in (said := capfd.readouterr().err)
    assert "the only tree cache under runs/trees" in said


def test_presets_and_repeating_a_configuration(tmp_path: Path) -> None:
    assert defaults_from(["--preset", "paper"]).encoder.dim == 1200
    assert defaults_from(["--preset=paper-2400"]).encoder.dim == 2400
    assert TrainConfig() == preset("laptop") and preset("gpu").preset == "gpu"
    assert defaults_from([]).preset == "laptop"
    path = tmp_path / "train.json"
    path.write_text(json.dumps({"config": {"loop": {"batch": 7}, "nonsense": 1}}))
    with pytest.raises(UserError, match="nonsense"):
        defaults_from(["--config", str(path)])
    path.write_text("[]")
    with pytest.raises(UserError, match=r"not the train\.json"):
        read_config(path)


def test_a_record_names_the_preset_whose_values_it_has(tiny: TrainConfig) -> None:
    named = TrainConfig(preset="paper")
    assert named.model_name == "dep-const-laptop" and "--preset laptop" in training_command(named)
    for name in ("laptop", "paper", "paper-2400", "gpu"):
        assert preset(name, seed=5).nearest_preset == name
    config = changed(tiny, preset="laptop", loop={"max_steps": 1})
    main(config)
    assert read_config(config.folder / "train.json").preset == "paper-2400"
    stored = json.loads((config.folder / "config.json").read_text())
    assert stored["training"]["config"]["preset"] == "paper-2400"


def test_split_and_segments_cover_whole_documents() -> None:
    documents = np.concatenate([[0], np.cumsum(np.random.default_rng(0).integers(1, 30, 400))])
    split = Split.of(documents, sentences=500, batch=50)
    held = {row for start, stop in split.validation for row in range(start, stop)}
    trained = {row for start, stop in split.training for row in range(start, stop)}
    assert held.isdisjoint(trained) and len(held) + len(trained) == documents[-1]
    assert 400 <= len(held) <= 900
    edges = {edge for span in split.validation for edge in span}
    assert edges <= set(documents.tolist())
    for epoch in range(3):
        rows = [row for start, stop in split.epoch(epoch, 50, seed=1) for row in range(start, stop)]
        assert len(rows) == len(set(rows)) and set(rows) <= trained
        assert len(rows) > 0.9 * len(trained)
    assert split.epoch(1, 50, 1) == split.epoch(1, 50, 1) != split.epoch(2, 50, 1)
    assert cut(10, 31, 10) == [(10, 20), (20, 30)]
    assert cut(10, 36, 10, offset=4) == [(14, 24), (24, 34)]
