"""The command: results files, resumption, encoders by name."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from corpora.senteval.files import read_task
from corpora.support.cli import check
from corpora.support.errors import UserError
from senteval_runner import running
from senteval_runner.config import SentEvalConfig
from senteval_runner.protocol.config import get_protocol
from senteval_runner.report import tables
from senteval_runner.run import main as run_main
from senteval_runner.vectors import encoders


def config(tmp_path: Path, data: Path, *models: str, **options) -> SentEvalConfig:
    options = {"tasks": "CR,MRPC,SICK-R,WordContent", "protocol": "fast", **options}
    return SentEvalConfig(
        models=models, data=data, output=tmp_path / "report", cache=tmp_path / "cache", **options
    )


def test_results_and_resumption(tmp_path, data, words, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    first = config(tmp_path, data, str(words), "random:seq", seeds="1,2", tasks="CR,MPQA")
    calls: list[str] = []
    real = running.evaluate_task
    monkeypatch.setattr(
        running, "evaluate_task", lambda v, task, p, s: calls.append(task.name) or real(v, task, p, s)
    )
    assert running.run(first) == 0
    printed = capsys.readouterr().out
    assert "| words.txt |" in printed and "±" in printed and "mpqa.pos" in printed
    values = json.loads((tmp_path / "report/results.json").read_text())
    assert {(r["model"], r["seed"], r["task"]) for r in values["results"]} == {
        (model, seed, "CR") for model in ("words.txt", "random:seq") for seed in (1, 2)
    }
    assert values["versions"]["torch"] and values["models"]["words.txt"]["skipped"]["MPQA"]
    assert "average" not in values["models"]["words.txt"]["paper_table"][0]
    flat = list(csv.DictReader((tmp_path / "report/results.csv").read_text().splitlines()))
    assert {(r["model"], int(r["seed"]), r["task"], r["metric"], float(r["value"])) for r in flat} == {
        (r["model"], r["seed"], r["task"], metric, value)
        for r in values["results"]
        for metric, value in r["metrics"].items()
    }
    assert calls == ["CR"] * 4
    # the second run repeats nothing, and loads no model
    monkeypatch.setattr(encoders.Source, "load", lambda source, **_: None)
    assert running.run(first) == 0 and calls == ["CR"] * 4
    assert json.loads((tmp_path / "report/results.json").read_text()) == values


def test_a_killed_run_keeps_finished_tasks(tmp_path, data, words, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    real, done = running.evaluate_task, []

    def killed(vectors, task, protocol, seed):
        if len(done) == 1:
            raise KeyboardInterrupt
        done.append(task.name)
        return real(vectors, task, protocol, seed)

    monkeypatch.setattr(running, "evaluate_task", killed)
    with pytest.raises(KeyboardInterrupt):
        running.run(config(tmp_path, data, str(words), tasks="CR,MRPC"))
    counted: list[str] = []
    monkeypatch.setattr(
        running, "evaluate_task", lambda v, task, p, s: counted.append(task.name) or real(v, task, p, s)
    )
    assert running.run(config(tmp_path, data, str(words), tasks="CR,MRPC")) == 0
    assert counted == ["MRPC"]
    # changed data are not taken for finished
    path = data / "downstream/CR/custrev.pos"
    path.write_text(path.read_text() + "good good\n")
    assert running.run(config(tmp_path, data, str(words), tasks="CR,MRPC")) == 0
    assert counted == ["MRPC", "CR"]


def test_a_damaged_cell_is_computed_again(tmp_path, data, words, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = config(tmp_path, data, str(words), tasks="CR")
    assert running.run(options) == 0
    results = (tmp_path / "report/results.md").read_text()
    (cell,) = (tmp_path / "report/parts").rglob("CR.json")
    whole = cell.read_text()
    for damaged in ("", whole[:50], whole.replace('"acc": ', '"acc": 1', 1), "[]", '{"a": 1}'):
        assert damaged != whole
        cell.write_text(damaged)
        assert running.run(options) == 0
        again, first = json.loads(cell.read_text()), json.loads(whole)
        assert again["metrics"] == first["metrics"]
        assert (tmp_path / "report/results.md").read_text() == results


@pytest.mark.parametrize(("protocol", "library"), [("fast", "torch"), ("sklearn", "scikit-learn")])
def test_cells_of_another_library_are_computed_again(tmp_path, monkeypatch, protocol, library) -> None:
    def place(**of: str) -> Path:
        monkeypatch.setattr(running, "versions", lambda: {"torch": "1", "scikit-learn": "1"} | of)
        return running.cell_folder(tmp_path, "model", get_protocol(protocol), 1)

    other = ({"torch", "scikit-learn"} - {library}).pop()
    assert place() != place(**{library: "2"}) and place() == place(**{other: "2"})


def test_concatenation_projection_and_bad_vectors(tmp_path, data, words, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "few.npz", sentences=np.array(["a"]), vectors=np.ones((1, 3), dtype=np.float32))
    models = (f"{words}+random:seq", str(tmp_path / "few.npz"))
    assert running.run(config(tmp_path, data, *models, tasks="CR", project=5)) == 0
    values = json.loads((tmp_path / "report/results.json").read_text())
    assert [(r["model"], r["dim"]) for r in values["results"]] == [("words.txt+random:seq", 5)]
    assert "no vector for" in values["models"]["few.npz"]["skipped"]["CR"]


def test_a_model_that_cannot_be_loaded_is_tried_and_told_once(
    tmp_path, data, words, monkeypatch, capsys
) -> None:
    tried: list[str] = []

    def whole_model(name: str, device: str | None) -> None:
        tried.append(name)
        raise UserError(f"model {name!r}: is not there")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encoders, "whole_model", whole_model)
    assert running.run(config(tmp_path, data, str(words), "no-model", tasks="CR,MRPC,SICK-R,MPQA")) == 0
    assert tried == ["no-model"]
    said = capsys.readouterr().err
    assert said.count("model 'no-model': is not there") == 1
    assert "skipped MRPC of no-model: as before" in said
    report = (tmp_path / "report/results.md").read_text()
    assert "| CR, MRPC, SICKRelatedness | no-model | model 'no-model': is not there |" in report
    assert "| MPQA | every model | MPQA: no such file" in report
    skipped = json.loads((tmp_path / "report/results.json").read_text())["models"]["no-model"]["skipped"]
    assert skipped["CR"] == skipped["MRPC"] != skipped["MPQA"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": ("nothing.txt",)}, "no such file"),
        ({"tasks": "XX"}, "unknown task"),
        ({"tasks": ","}, "empty"),
        ({"seeds": "x"}, "whole numbers"),
        ({"data": Path("nowhere")}, "no such folder"),
        ({"project": 0}, "--project 0: must be at least 1"),
        ({"models": ()}, "at least one model"),
    ],
)
def test_wrong_options_are_one_line(tmp_path, data, words, options, message) -> None:
    wrong = dataclasses.replace(config(tmp_path, data, str(words)), **options)
    with pytest.raises(UserError, match=message) as caught:
        check(wrong)
        run_main(wrong)
    assert "\n" not in str(caught.value)


def test_paper_average() -> None:
    scores = {t: {"acc": 80.0} for t in ("MR", "CR", "SUBJ", "MPQA", "TREC")}
    scores["MRPC"] = {"acc": 70.0, "f1": 80.0}
    assert "average" not in tables.paper_row(scores)
    scores["SICKRelatedness"] = {"pearson": 0.8, "spearman": 0.7, "mse": 0.3}
    row = tables.paper_row(scores)
    assert row["SICK-R MSE"] == pytest.approx(30)
    assert row["average"] == pytest.approx((5 * 80 + 75 + (80 + 70 + 70) / 3) / 7)


def shortened(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_bad_data_leaves_the_other_tasks(tmp_path, data, words, monkeypatch, capsys) -> None:
    """Truncated, miscounted, misshapen files and vectors: a line each, the other tasks finish."""
    monkeypatch.chdir(tmp_path)
    shortened(data / "downstream/MRPC/msr_paraphrase_train.txt")  # still readable: the counts tell
    test = data / "downstream/MRPC/msr_paraphrase_test.txt"
    test.write_text(test.read_text() + "1\t1\t2\tcut inside a row")
    sick = data / "downstream/SICK/SICK_trial.txt"
    sick.write_text(sick.read_text().replace("\t", " ", 7))
    rows = (data / "probing/word_content.txt").read_bytes()
    (data / "probing/past_present.txt.gz").write_bytes(gzip.compress(rows)[:-9])
    (data / "downstream/TREC").mkdir()
    for name in ("train_5500.label", "TREC_10.label"):
        (data / "downstream/TREC" / name).write_text("")
    tasks = "CR,MRPC,SICK-R,TREC,MPQA,Tense,WordContent"
    assert running.run(config(tmp_path, data, str(words), tasks=tasks)) == 0
    values = json.loads((tmp_path / "report/results.json").read_text())
    assert {result["task"] for result in values["results"]} == {"CR", "WordContent"}
    skipped = values["models"]["words.txt"]["skipped"]
    assert set(skipped) == {"MRPC", "SICKRelatedness", "TREC", "MPQA", "Tense"}
    for name, message in {
        "MRPC": "msr_paraphrase_test.txt:22: expected 5 tab-separated columns",
        "SICKRelatedness": "SICK_trial.txt:",
        "TREC": "no rows in",
        "MPQA": "downstream/MPQA/mpqa.pos",
        "Tense": "past_present.txt.gz: cannot be read",
    }.items():
        assert message in skipped[name] and "\n" not in skipped[name]
    page = (tmp_path / "report/report.html").read_text()
    for text in ("get_transfer_data.bash", "every model", "CR all: 52 rows, published 3,775"):
        assert text in page and text in (tmp_path / "report/results.md").read_text()


@pytest.mark.parametrize("damage", ["nan", "rows", "pickle", "truncated"])
def test_bad_vectors_are_one_line(tmp_path, data, words, monkeypatch, damage) -> None:
    monkeypatch.chdir(tmp_path)
    lines = {
        " ".join(tokens) or "."
        for part in read_task("CR", data).splits.values()
        for tokens in part.sentences()
    }
    sentences = np.array(sorted(lines))
    vectors = np.random.RandomState(0).randn(len(sentences), 4).astype(np.float32)
    if damage == "nan":
        vectors[3, 1] = np.nan
    path = tmp_path / "given.npz"
    saved = {"pickle": vectors.astype(object), "rows": vectors[:-1]}.get(damage, vectors)
    np.savez(path, sentences=sentences, vectors=saved)
    if damage == "truncated":
        shortened(path)
    assert running.run(config(tmp_path, data, str(path), tasks="CR")) == 2
    models = json.loads((tmp_path / "report/results.json").read_text())["models"]
    reason = models["given.npz"]["skipped"]["CR"]
    assert "given.npz" in reason and "\n" not in reason
    # beside a good model the good one is scored
    assert running.run(config(tmp_path, data, str(path), str(words), tasks="CR")) == 0
