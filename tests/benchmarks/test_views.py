"""The comparison of views: its commands, what it reads back, its tables against counting by hand."""

from __future__ import annotations

import csv
import shutil
import statistics
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import tyro

from benchmarks.views import running, tables
from benchmarks.views.__main__ import ViewsConfig, run_all
from benchmarks.views.__main__ import main as compare
from benchmarks.views.running import TASKS, Runner, Scores
from benchmarks.views.systems import AVERAGE, PAIRS, QUICKTHOUGHT, RANDOM, System, all_systems
from corpora.support.errors import UserError
from corpora.support.files import read_json
from multiview.config import TrainConfig
from multiview.train import defaults_from
from senteval_runner.protocol.results import TaskResult
from tests.fixtures.senteval import data as data
from tests.fixtures.trees import toy_trees as toy_trees


def options(system: System) -> TrainConfig:
    words = system.options()
    config: TrainConfig = tyro.cli(TrainConfig, args=words, default=defaults_from(words))
    config.check()
    return config


def test_pairs_differ_in_their_views_alone() -> None:
    systems = all_systems(["trained", "fixed"], [0, 1, 2], 7)
    assert len({system.label for system in systems}) == len(systems) == 2 * 3 * (7 + 3) + 1
    trained = {s.name: options(s) for s in systems if s.trained and s.words == "trained" and s.seed == 2}
    assert set(trained) == {*PAIRS, QUICKTHOUGHT} and len(PAIRS) == 6
    first = tyro.cli(TrainConfig, args=["--views", "seq,seq"], default=trained["dep,const"])
    assert all(
        tyro.cli(TrainConfig, args=["--views", "seq,seq"], default=trained[pair]) == first for pair in PAIRS
    )
    quick = trained[QUICKTHOUGHT]
    assert (quick.objective.score, quick.objective.denominator) == ("dot", "quickthought")
    assert first.objective.score == "bilinear" and first.seed == 2 and first.loop.max_steps == 7
    fixed = options(System(words="fixed", name="dep,const", seed=0, steps=7))
    assert (fixed.words, fixed.vectors) == ("fixed", "train")


def test_controls_are_made_from_the_trained_models() -> None:
    one = System(words="trained", name="start of seq,seq", seed=1, steps=5)
    assert one.spec(Path("m"), Path("t")) == "start:m/trained-seq-seq-steps5-seed1?corpus=t"
    assert one.of(AVERAGE).spec(Path("m"), Path("t")) == "bag:m/trained-dep-const-steps5-seed1"
    assert one.of(RANDOM).spec(Path("m"), Path("t")) == "bag:random"


def test_a_system_is_trained_scored_and_read_once(
    toy_trees: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "TASKS", ("CR", "SICKRelatedness"))
    monkeypatch.setattr(running, "SIMILARITY", ("MRPC",))
    out = tmp_path / "out"
    runner = Runner(trees=toy_trees, data=data, parsed=tmp_path / "parsed", output=out, protocol="fast")
    system = System(words="trained", name="seq,seq", seed=3, steps=2)
    runner.run(system)
    scores = runner.read(system)
    [folder] = (out / "scores" / "fast").iterdir()
    written = {row["task"]: row["metrics"] for row in read_json(folder / "results.json")["results"]}
    assert {task: result.metrics for task, result in scores.results.items()} == written
    assert len(scores.results["CR"].predictions["all"]) == 52
    assert not (folder / "vectors").exists()
    shutil.rmtree(out / "models")
    runner.run(system)  # finished: neither trained nor scored again
    assert not (out / "models").exists()


def test_what_fails_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def run(runner: Runner, system: System) -> None:
        begun.append(system.label)
        time.sleep(0.2)  # as if it did something
        raise UserError("no such cache")

    monkeypatch.setattr(Runner, "run", run)
    runner = Runner(trees=tmp_path, data=tmp_path, parsed=tmp_path, output=tmp_path, protocol="fast")
    with pytest.raises(UserError, match="no such cache"):
        run_all(runner, all_systems(["trained"], [0, 1], 3), 1)
    assert len(begun) < 5
    with pytest.raises(UserError, match="not a tree cache"):
        compare(ViewsConfig(trees=tmp_path / "none", data=tmp_path))


def scored(rng: np.random.Generator, right: float) -> Scores:
    results: dict[str, TaskResult] = {}
    for task in TASKS:
        gold = np.arange(400) % 2 if task != "SICKRelatedness" else np.linspace(1, 5, 400)
        wrong = rng.random(400) > right
        given = np.where(wrong, 1 - gold, gold) if task != "SICKRelatedness" else gold + 3 * wrong
        pearson = float(np.corrcoef(gold, given)[0, 1])
        metrics = {"acc": 100 * float((gold == given).mean()), "pearson": pearson}
        values = {"gold": {"test": gold.tolist()}, "predictions": {"test": given.tolist()}}
        results[task] = TaskResult(task=task, metrics=metrics, dim=1, rows={}, **values)
    return Scores(results=results, similarity=50.0)


def test_tables_and_figure() -> None:
    rng = np.random.default_rng(0)
    rates = {"dep,const": 0.8, "seq,seq": 0.7, RANDOM: 0.8}
    systems = {name: {seed: scored(rng, rate) for seed in (0, 1)} for name, rate in rates.items()}
    del systems[RANDOM][1]
    rows = {row[0]: row for row in tables.difference_table(systems, "").rows}
    ours, theirs = systems["dep,const"], systems["seq,seq"]
    ahead = [tables.mean_of_tasks(ours[seed]) - tables.mean_of_tasks(theirs[seed]) for seed in (0, 1)]
    assert rows["seq,seq"][1].value == pytest.approx(statistics.mean(ahead))
    assert rows["seq,seq"][1].deviation == pytest.approx(statistics.stdev(ahead))
    assert rows["seq,seq"][2] < 0.01 and rows["seq,seq"][3] == "2 of 2"
    assert rows[RANDOM][2] > 0.05 and rows[RANDOM][3].endswith("of 1")
    [first, *_] = tables.score_table(systems, "").rows
    assert first[0] == "dep,const" and first[-2].value == pytest.approx(
        statistics.mean(tables.mean_of_tasks(one) for one in ours.values())
    )
    lines = list(csv.DictReader(tables.scores_csv({"trained": systems}).splitlines()))
    assert [(line["system"], line["seed"]) for line in lines] == [
        (name, str(seed)) for name, seeds in systems.items() for seed in seeds
    ]
    of_ours = [float(line["mean of six"]) for line in lines if line["system"] == "dep,const"]
    assert of_ours == pytest.approx([tables.mean_of_tasks(ours[seed]) for seed in (0, 1)], abs=0.005)
    assert float(lines[0]["TREC"]) == pytest.approx(ours[0].results["TREC"]["acc"], abs=0.005)
    drawing = tables.figure({"trained": systems, "fixed": systems})
    assert "dep,const" in "".join(ET.fromstring(drawing).itertext())
