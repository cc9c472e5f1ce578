"""The comparison of views: its commands, what it reads back, its tables against counting by hand."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tyro

from benchmarks import views
from benchmarks.views import PAIRS, QUICKTHOUGHT, System, ViewsConfig, all_systems
from corpora.support.files import read_json
from multiview.config import TrainConfig
from multiview.train import defaults_from
from tests.fixtures.senteval import data as data
from tests.fixtures.trees import toy_trees as toy_trees


def options(system: System) -> TrainConfig:
    words = system.options()
    config: TrainConfig = tyro.cli(TrainConfig, args=words, default=defaults_from(words))
    config.check()
    return config


def test_pairs_differ_in_their_views_alone() -> None:
    systems = all_systems(["trained", "fixed"], [0, 1, 2], 7)
    assert len({system.label for system in systems}) == len(systems) == 2 * 3 * (7 + 4)
    trained = {s.name: options(s) for s in systems if s.trained and s.words == "trained" and s.seed == 2}
    assert set(trained) == {*PAIRS, QUICKTHOUGHT} and len(PAIRS) == 6
    same = [tyro.cli(TrainConfig, args=["--views", "seq,seq"], default=trained[pair]) for pair in PAIRS]
    assert same == same[:1] * 6
    assert trained[QUICKTHOUGHT].objective.denominator == "quickthought"
    assert same[0].seed == 2 and same[0].loop.max_steps == 7


def test_a_system_is_trained_scored_and_read_once(
    toy_trees: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(views, "TASKS", ("CR", "SICKRelatedness"))
    monkeypatch.setattr(views, "SIMILARITY", ("MRPC",))
    out = tmp_path / "out"
    config = ViewsConfig(trees=toy_trees, data=data, parsed=tmp_path / "parsed", output=out)
    system = System(words="trained", name="seq,seq", seed=3, steps=2)
    views.run(config, system)
    scores = views.read(config, [system])
    [folder] = (out / "scores").iterdir()
    written = {row["task"]: row["metrics"] for row in read_json(folder / "results.json")["results"]}
    found = scores.loc[("trained", "seq,seq", 3)]
    assert found["CR"] == written["CR"]["acc"]
    assert found["SICKRelatedness"] == 100 * written["SICKRelatedness"]["pearson"]
    assert found["mean"] == (found["CR"] + found["SICKRelatedness"]) / 2
    assert not (folder / "vectors").exists()
    shutil.rmtree(out / "models")
    views.run(config, system)  # finished: neither trained nor scored again
    assert not (out / "models").exists()
