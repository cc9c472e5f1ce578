"""A layer study: units, tables worked by hand, reduced tasks, the report, kill and resume, wrong input."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from corpora.senteval.files import Split, TaskData
from corpora.senteval.tasks import TASK_NAMES
from corpora.support.errors import UserError
from senteval_runner.towers.backbones import TransformerBackbone
from senteval_runner.towers.units import Unit, chosen_joins, chosen_layers, transformer_layers, units_of
from senteval_runner.vectors.embed import text_of
from studies.layers import report
from studies.layers import run as study
from studies.layers.config import LayersConfig
from studies.layers.subset import LEAST_PER_CLASS, limited
from studies.layers.tables import (
    TASK_GROUPS,
    Studied,
    best_of,
    difference_table,
    group_means,
    layer_table,
    normalised,
    pooling_table,
    tasks_of,
)
from tests.conftest import ROOT
from tests.fixtures import browser
from tests.studies.layers.transformers_tiny import build

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("bert") / "model-a", "bert")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("bert") / "model-b", "bert", seed=1)


def config(tmp_path: Path, data: Path, *backbones: Path, **options) -> LayersConfig:
    options = {
        "tasks": "CR,SICK-E,WordContent,MR",
        "protocol": "fast",
        "poolings": ("cls", "mean"),
        **options,
    }
    return LayersConfig(
        backbones=tuple(map(str, backbones)),
        data=data,
        output=tmp_path / "report",
        cache=tmp_path / "vectors",
        **options,
    )


def test_layers_are_counted_as_in_the_paper() -> None:
    layers = transformer_layers(12)
    assert layers[0] == "emb" and layers[1] == "-12" and layers[-1] == "-1" and len(layers) == 13
    assert chosen_layers("top,emb,-3", layers, "x") == ["emb", "-3", "-1"]
    assert chosen_joins(["top,bottom", "-1,-12", "-1,-6"], layers, "x") == [("-1", "-12"), ("-1", "-6")]
    assert chosen_joins(["-1,-2,-3", "top,-2,bottom"], layers, "x") == [
        ("-1", "-2", "-3"),
        ("-1", "-2", "-12"),
    ]
    assert chosen_joins(["top,bottom"], ("emb", "-1"), "x") == []
    assert chosen_joins(["top,bottom"], ("all", "h0"), "x") == []
    columns = [("all", "root"), ("all", "mean"), ("h0", "mean")]
    assert [u.name for u in units_of(columns, ["all", "h0"], [("all", "h0")], ["root", "mean"])] == [
        "all root", "all mean", "h0 mean", "all,h0 mean"]  # fmt: skip


@pytest.mark.parametrize("text", ["-13", "0", "1", "x", ""])
def test_no_such_layer(text: str) -> None:
    with pytest.raises(UserError, match="no layer"):
        chosen_layers(text, transformer_layers(12), "x")


@pytest.mark.parametrize("text", ["-1", "-1,-1", "-1,-2,-1", "top,-1"])
def test_no_such_pair(text: str) -> None:
    with pytest.raises(UserError, match=r"expected two|layer of x twice"):
        chosen_joins([text], transformer_layers(12), "x")


def studied(name: str, scores: dict[Unit, dict[str, float]]) -> Studied:
    return Studied(
        name=name,
        layers=("emb", "-2", "-1"),
        compared=("-2", "-1"),
        poolings=("cls", "mean"),
        units=tuple(scores),
        scores=scores,
    )


def test_groups_and_normalisation_by_hand() -> None:
    """Two tasks of one group, one of another; every figure below is worked out on paper."""
    one = studied(
        "one",
        {
            Unit(("emb",), "mean"): {"MR": 50, "CR": 60, "Length": 80},
            Unit(("-2",), "mean"): {"MR": 60, "CR": 70, "Length": 40},
            Unit(("-1",), "mean"): {"MR": 80, "CR": 70, "Length": 20},
            Unit(("-1", "-2"), "mean"): {"MR": 80, "CR": 80},
        },
    )
    two = studied("two", {Unit(("-1",), "mean"): {"MR": 100, "CR": 60, "Length": 30}})
    tasks, best = tasks_of([one, two]), best_of([one, two])
    assert tasks == ["MR", "CR", "Length"]
    assert best == {"MR": 100, "CR": 80, "Length": 80}
    assert normalised({"MR": 50, "CR": 60, "Length": 80}, best) == {"MR": 50, "CR": 75, "Length": 100}
    assert group_means({"MR": 80, "CR": 80}, tasks) == {"classification": 80}  # Length is missing
    assert group_means({"MR": 80, "Length": 1}, tasks) == {"surface": 1}  # no mean of MR alone
    # Table 1 leaves out the embedding output and the pair: MR, CR 60 70 and 80 70, Length 40 and 20
    assert pooling_table([one], tasks, None)[1] == (["one", "mean"], {"classification": 70, "surface": 30})
    # normalised: (60 + 87.5) / 2 and (80 + 87.5) / 2; 50 and 25
    assert pooling_table([one], tasks, best)[1][1] == {"classification": 78.75, "surface": 37.5}
    assert pooling_table([one], tasks, None)[0] == (["one", "cls"], {})
    rows = layer_table([one, two], tasks, "mean", None)
    assert rows[2] == (["one", "-1"], {"classification": 75, "surface": 20})
    assert rows[3] == (["one", "-1,-2"], {"classification": 80})
    assert difference_table(one, two, tasks, "mean") == [
        (["two − one", "-1"], {"classification": 5, "surface": 10})
    ]
    assert normalised({"MR": 3}, {"MR": -1}) == {}
    assert sorted(task for tasks in TASK_GROUPS.values() for task in tasks) == sorted(TASK_NAMES)


def task_of(counts: list[int], test: int = 30) -> TaskData:
    def split(sizes: list[int]) -> Split:
        y = [label for label, size in enumerate(sizes) for _ in range(size)]
        order = np.random.RandomState(0).permutation(len(y))
        return Split(a=[[f"w{i}"] for i in order], y=[y[i] for i in order])

    names = tuple(f"c{i}" for i in range(len(counts)))
    splits = {"train": split(counts), "test": split([test] * len(counts))}
    return TaskData(name="TREC", kind="single", splits=splits, classes=names)


def test_reduced_tasks_keep_shares_and_order() -> None:
    whole = task_of([900, 90, 30])
    task, lost = limited(whole, 340, seed=1)
    train = task.splits["train"]
    assert lost == "TREC: train 342 of 1,020"
    # a third of each class, but not fewer than twelve rows
    assert np.bincount(train.y).tolist() == [300, 30, LEAST_PER_CLASS]
    places = [whole.splits["train"].a.index(tokens) for tokens in train.a]
    assert places == sorted(places)
    assert all(whole.splits["train"].y[place] == y for place, y in zip(places, train.y, strict=True))
    assert limited(whole, 340, seed=1)[0] == task and limited(whole, 340, seed=2)[0] != task
    assert limited(whole, 5000, seed=1) == (whole, "")


def test_many_classes_become_fewer() -> None:
    task, lost = limited(task_of([50] * 100), 200, seed=1)
    assert "10 of 100 classes" in lost and len(task.classes) == 10
    assert np.bincount(task.splits["train"].y).tolist() == [20] * 10
    names = {"train": task_of([50] * 100).splits["train"]}
    kept = dict(zip(map(tuple, names["train"].a), names["train"].y, strict=True))
    for tokens, y in zip(task.splits["train"].a, task.splits["train"].y, strict=True):
        assert task.classes[y] == f"c{kept[tuple(tokens)]}"


def test_scores_are_drawn_without_classes() -> None:
    split = Split(a=[[str(i)] for i in range(100)], b=[["b"]] * 100, y=[i / 10 for i in range(100)])
    task, _ = limited(TaskData(name="STS12", kind="pair", splits={"x": split}), 40, seed=0)
    assert [float(tokens[0]) / 10 for tokens in task.splits["x"].a] == task.splits["x"].y
    assert len(task.splits["x"]) == len(task.splits["x"].b or []) == 40


def test_a_study_of_two_backbones(tmp_path, data, bert, other, monkeypatch, capsys) -> None:
    first = config(tmp_path, data, bert, other, concatenate=("-1,-3",))
    assert study.run(first) == 0
    printed = capsys.readouterr().out
    assert "model-b − model-a" in printed and "rt-polarity" in printed
    values = json.loads((tmp_path / "report/results.json").read_text())
    assert set(values["backbones"]) == {"model-a", "model-b"}
    scores = values["backbones"]["model-a"]["scores"]
    assert set(scores) == {f"{u} {p}" for u in ("emb", "-3", "-2", "-1", "-1,-3") for p in ("cls", "mean")}
    assert all(set(by_task) == {"CR", "SICKEntailment", "WordContent"} for by_task in scores.values())
    cells = values["backbones"]["model-a"]["cells"]
    assert all(cell["data_sha256"] and cell["rows"] for cell in cells) and len(cells) == 30
    assert {c["dim"] for c in cells} == {16, 32}
    assert (
        values["versions"]["transformers"]
        and "rt-polarity" in values["backbones"]["model-a"]["skipped"]["MR"]
    )
    best = max(s["CR"] for b in values["backbones"].values() for s in b["scores"].values())
    assert values["best"]["CR"] == best
    assert values["backbones"]["model-b"]["normalised"]["-1 cls"]["CR"] == pytest.approx(
        100 * values["backbones"]["model-b"]["scores"]["-1 cls"]["CR"] / best
    )
    page = (tmp_path / "report/report.html").read_text()
    assert page.count("<svg") == 3 and "http" not in page.split("</style>")[1]
    browser.look(page, tmp_path)
    # the second run repeats nothing, and loads no weights
    monkeypatch.setattr(study, "evaluate_task", None)
    monkeypatch.setattr(TransformerBackbone, "encode", None)
    assert study.run(first) == 0
    assert json.loads((tmp_path / "report/results.json").read_text()) == values


def test_cells_are_those_of_the_evaluation(tmp_path, data, bert) -> None:
    """A unit's figure is what the evaluation gives for an encoder of these vectors."""
    from senteval_runner import evaluate

    assert study.run(config(tmp_path, data, bert, storage="float32", tasks="CR,SICK-R")) == 0
    values = json.loads((tmp_path / "report/results.json").read_text())["backbones"]["model-a"]["scores"]
    backbone = TransformerBackbone(study.open_backbone(str(bert), LayersConfig(backbones=())).source,
                                   LayersConfig(backbones=()))  # fmt: skip

    class Pair:
        pretokenized = True

        def encode(self, sentences):
            vectors = backbone.encode(sentences)
            return np.concatenate(
                [vectors[backbone.columns.index((layer, "mean"))] for layer in ("-1", "-3")], axis=1
            )

    results = evaluate(Pair(), ["CR", "SICK-R"], data, "fast")
    assert values["-1,-3 mean"]["CR"] == pytest.approx(results["CR"]["acc"], abs=2.1)  # one row of 50
    assert values["-1,-3 mean"]["SICKRelatedness"] == pytest.approx(
        100 * results["SICKRelatedness"]["pearson"], abs=0.5
    )


def test_backbones_without_a_common_task_have_no_difference_to_draw() -> None:
    unit = Unit(("-1",), "mean")
    one, two = studied("one", {unit: {"MR": 50.0}}), studied("two", {unit: {"CR": 60.0}})
    drawn = list(report.heat_maps([one, two]))
    assert [bool(figure.svg) for figure in drawn] == [True, True, False] and drawn[2].caption == "two − one"


def test_a_killed_study_resumes(tmp_path, data, bert, monkeypatch) -> None:
    """SIGKILL once cells are there; the same study keeps them and ends like an undisturbed one."""
    killed = config(tmp_path / "killed", data, bert, threads=1, tasks="CR,SICK-E,WordContent")
    options = ["--data", data, "--tasks", killed.tasks, "--protocol", "fast", "--threads", 1]
    options += ["--poolings", "cls", "mean", "--output", killed.output, "--cache", killed.cache]
    process = subprocess.Popen(
        [sys.executable, "-m", "studies.layers", str(bert), *map(str, options)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 200
    while len(list((killed.output / "parts").rglob("[A-Z]*.json"))) < 5 and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait(20) == -signal.SIGKILL
    kept = {p: p.stat().st_mtime_ns for p in (killed.output / "parts").rglob("[A-Z]*.json")}
    shards = {p: p.stat().st_mtime_ns for p in killed.cache.rglob("*.npy")}
    assert len(kept) >= 5 and shards and not (killed.output / "results.json").exists()
    evaluated: list[str] = []
    real = study.evaluate_task
    monkeypatch.setattr(
        study, "evaluate_task", lambda v, task, p, s: evaluated.append(task.name) or real(v, task, p, s)
    )
    assert study.run(killed) == 0
    assert len(evaluated) == 3 * 10 - len(kept)
    assert all(path.stat().st_mtime_ns == time_ns for path, time_ns in (kept | shards).items())
    whole = dataclasses.replace(killed, output=tmp_path / "whole/report", cache=tmp_path / "whole/vectors")
    assert study.run(whole) == 0
    one, other = (json.loads((c.output / "results.json").read_text()) for c in (killed, whole))
    assert one["backbones"]["model-a"]["scores"] == other["backbones"]["model-a"]["scores"]


def test_encoding_resumes_at_the_chunk(tmp_path, data, bert, monkeypatch) -> None:
    monkeypatch.setattr("senteval_runner.vectors.embed.CHUNK", 8)
    real, sizes = TransformerBackbone.encode, []

    def stopping(self, sentences):
        if len(sizes) == 3:
            raise KeyboardInterrupt
        sizes.append(len(sentences))
        return real(self, sentences)

    monkeypatch.setattr(TransformerBackbone, "encode", stopping)
    with pytest.raises(KeyboardInterrupt):
        study.run(config(tmp_path, data, bert, tasks="CR"))
    counted: list[str] = []

    def counting(self, sentences):
        counted.extend(map(" ".join, sentences))
        return real(self, sentences)

    monkeypatch.setattr(TransformerBackbone, "encode", counting)
    assert study.run(config(tmp_path, data, bert, tasks="CR")) == 0
    task = study.read_task("CR", data)
    distinct = {text_of(tokens) for tokens in task.splits["all"].a}
    assert sizes == [8, 8, 8] and len(counted) == len(set(counted)) == len(distinct) - 24


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backbones": ()}, "no backbone: name Hugging Face encoders .bert-base-uncased is the paper's"),
        ({"backbones": ("./nowhere",)}, "no such file or folder"),
        ({"layers": "-9"}, "no layer '-9'; it has emb, -3, -2, -1"),
        ({"concatenate": ("-1,-9",)}, "no layer '-9'"),
        ({"poolings": ("median",)}, "no pooling 'median'"),
        ({"tasks": "XX"}, "unknown task"),
        ({"data": Path("nowhere")}, "no such folder"),
    ],
)
def test_wrong_options_are_one_line(tmp_path, data, bert, options, message) -> None:
    with pytest.raises(UserError, match=message) as caught:
        study.run(dataclasses.replace(config(tmp_path, data, bert), **options))
    assert "\n" not in str(caught.value)


def test_wrong_backbones_are_one_line(tmp_path, data, bert) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text('{"model_type": "no-such-type"}')
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "config.json").write_text("{}")
    (strange / "modules.json").write_text('[{"type": "sentence_transformers.models.BoW", "path": ""}]')
    for folder, told in (
        (empty, "no model here"),
        (broken, "cannot be loaded"),
        (strange, "not a transformer"),
    ):
        with pytest.raises(UserError, match=told) as caught:
            study.run(config(tmp_path, data, folder))
        assert "\n" not in str(caught.value)


def test_command_line(tmp_path, data, bert, command) -> None:
    done = command("studies.layers", bert, "--data", data, "--layers", "-9,-1", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "no layer '-9'" in done.stderr
    assert study.run(config(tmp_path, data, bert, tasks="MR")) == 2  # no task could be scored
