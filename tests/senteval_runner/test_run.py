"""The command: results files, resumption, damaged input, ``--expand``."""

import csv
import json
import re
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from corpora.senteval.files import read_task
from multiview import train
from multiview.model import MultiViewEncoder
from multiview.names import constructors
from multiview.names.encoder import LazyEncoder
from multiview.words.table import WordTable
from multiview.words.vocabulary import Vocabulary
from runtime.errors import UserError
from senteval_runner import result_store
from senteval_runner.protocol.config import get_protocol
from senteval_runner.result_store import ResultStore
from senteval_runner.run import SentEvalConfig, cli
from tests.fixtures.files import differing
from tests.fixtures.kills import run_with_interruptions
from tests.senteval_runner.runs import run as run


@pytest.fixture
def computed_tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of tasks, as soon as their computation begins."""
    evaluate_task, names = result_store.evaluate_task, []

    def evaluate_listed_task(vectors, task, *options):
        names.append(task.name)
        return evaluate_task(vectors, task, *options)

    monkeypatch.setattr(result_store, "evaluate_task", evaluate_listed_task)
    return names


def results_of(tmp_path: Path):
    return json.loads((tmp_path / "report/results.json").read_text())


def test_results_and_resumption(tmp_path, words, run, computed_tasks, monkeypatch, capsys) -> None:
    options = {"seeds": "1,2", "tasks": "CR,MPQA"}
    assert run(words, "random:seq", **options) == 0
    output = capsys.readouterr().out
    assert all(part in output for part in ("| words.txt |", "±", "mpqa.pos", "p < 0.05"))
    values = results_of(tmp_path)
    assert {(r["model"], r["seed"], r["task"]) for r in values["results"]} == {
        (model, seed, "CR") for model in ("words.txt", "random:seq") for seed in (1, 2)
    }
    assert values["models"]["words.txt"]["skipped"]["MPQA"]
    flat = list(csv.DictReader((tmp_path / "report/results.csv").read_text().splitlines()))
    assert {(r["model"], int(r["seed"]), r["task"], r["metric"], float(r["value"])) for r in flat} == {
        (r["model"], r["seed"], r["task"], metric, value)
        for r in values["results"]
        for metric, value in r["metrics"].items()
    }
    # the second run repeats nothing, and loads no model
    monkeypatch.setattr(LazyEncoder, "_loaded_or_error", None)
    assert run(words, "random:seq", **options) == 0 and computed_tasks == ["CR"] * 4
    assert results_of(tmp_path) == values


def test_a_random_bag_stands_beside_tasks_of_structure(tmp_path, words, run) -> None:
    assert run(words, tasks="Binding") == 0
    scores = {r["model"]: r["metrics"]["acc"] for r in results_of(tmp_path)["results"]}
    assert set(scores) == {"words.txt", "bag:random"} and scores["bag:random"] < 20


def test_every_command_has_a_report_of_its_own_and_keeps_it() -> None:
    def folder(*models: str, **options) -> Path:
        return SentEvalConfig(models=models, **options).folder

    report = folder("runs/models/mine", tasks="CR")
    assert report == folder("runs/models/mine", tasks="CR", device="cpu", cache=Path("else"))
    assert re.fullmatch(r"runs/reports/senteval/mine-CR-[0-9a-f]{6}", str(report))
    other_reports = (
        folder("runs/models/mine"),
        folder("runs/old/mine", tasks="CR"),
        folder("runs/models/mine", "bag:random", tasks="CR"),
        folder("runs/models/mine", tasks="CR", protocol="fast"),
        folder("runs/models/mine", tasks="CR", seeds="1,2"),
        folder("runs/models/mine?structure=0.1", tasks="CR"),
        folder("m" * 300),
    )
    assert len({report, *other_reports}) == 8
    assert all(len(other.name) < 70 for other in other_reports)
    assert folder("mine", output=Path("there")) == Path("there")


def test_random_words_and_the_start_stand_beside_a_trained_model(
    tmp_path, data, toy_trees, model, run
) -> None:
    """The start only where the tree cache of the training is still there; both are an option."""
    sizes = ["--encoder.dim", "4", "--table.dim", "4", "--loop.max-steps", "2", "--loop.batch", "8"]
    training = [
        "--start",
        "none",
        "--views",
        "seq,seq",
        "--trees",
        str(toy_trees),
        "--name",
        "mine",
        "--device",
        "cpu",
    ]
    assert train.cli([*training, *sizes]) == 0
    mine = "runs/models/mine"
    assert run(f"{mine}?views=0-seq", f"{model}+{mine}", baselines=True) == 0
    names, values = {"mine?views=0-seq", "mine+mine", "bag:random", "start:mine"}, results_of(tmp_path)
    assert set(values["models"]) == {result["model"] for result in values["results"]} == names
    log = (tmp_path / "report/log.txt").read_text()
    assert log.count("left out") == 1 and f"{model}: left out before its first step" in log
    assert run(mine) == 0 and set(results_of(tmp_path)["models"]) == {"mine"}
    # what is added does not count: nothing that was asked for has a score
    np.savez("x.npz", sentences=np.array(["other"]), vectors=np.ones((1, 2)))
    assert run("x.npz", baselines=True) == 2


def test_an_interrupted_run_leaves_the_files_of_a_whole_one(
    tmp_path, data, words, run, computed_tasks, monkeypatch
) -> None:
    folders = {"output": Path("report"), "cache": Path("cache")}
    evaluation = partial(run, words, "random:seq", tasks="CR,MRPC,SICK-R", seeds="1,2", **folders)
    whole, interrupted = tmp_path / "whole", tmp_path / "interrupted"
    for folder, before in ((whole, ()), (interrupted, (1, 2, 7))):
        calls = run_with_interruptions(
            evaluation, "senteval_runner.result_store.evaluate_task", before, folder
        )
        assert calls == 12, "each result is computed once"
    parts = {str(path.relative_to(whole)) for path in (whole / "report/parts").rglob("*.json")}
    assert differing(whole, interrupted) <= {"report/log.txt", "report/results.json", *parts}  # their times
    assert not differing(whole, interrupted, clocks=False)
    # changed data are not taken for finished
    path = data / "downstream/CR/custrev.pos"
    path.write_text(path.read_text() + "good good\n")
    monkeypatch.chdir(interrupted)
    computed_tasks.clear()
    assert evaluation() == 0 and computed_tasks == ["CR"] * 4


@pytest.mark.parametrize(("protocol", "library"), [("fast", "torch"), ("sklearn", "scikit-learn")])
def test_cells_of_another_library_are_computed_again(tmp_path, monkeypatch, protocol, library) -> None:
    def file_of_result(**versions: str) -> Path:
        monkeypatch.setattr(result_store, "versions", lambda: {"torch": "1", "scikit-learn": "1"} | versions)
        return ResultStore(tmp_path, get_protocol(protocol)).path("model", 1, "CR")

    (unused_library,) = {"torch", "scikit-learn"} - {library}
    assert file_of_result() != file_of_result(**{library: "2"}) and file_of_result() == file_of_result(
        **{unused_library: "2"}
    )


def test_a_folder_in_the_place_of_a_result_ends_the_run(tmp_path, words, run, computed_tasks, capsys) -> None:
    assert run(words, tasks="CR,MRPC") == 0
    [result] = (tmp_path / "report").rglob("CR.json")
    result.unlink()
    result.mkdir()
    options = ["--data", "data", "--output", "report", "--cache", "cache", "--protocol", "fast"]
    capsys.readouterr()
    assert cli([str(words), "--tasks", "CR,MRPC", *options, "--no-baselines"]) == 2
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert f"{Path(*result.parts[-4:])}: a folder or a pipe in the place of a finished result" in last_line
    assert computed_tasks == ["CR", "MRPC"]


def test_a_model_that_cannot_be_loaded_is_tried_once(tmp_path, words, run, monkeypatch) -> None:
    load = Mock(side_effect=UserError("model 'no-model': is not there"))
    monkeypatch.setattr(constructors, "load_pretrained", load)
    assert run(words, "no-model", tasks="CR,MRPC,SICK-R,MPQA") == 0
    assert [call.args for call in load.call_args_list] == [("no-model",)]
    report = (tmp_path / "report/results.md").read_text()
    assert "| CR, MRPC, SICKRelatedness | no-model | model 'no-model': is not there |" in report
    assert "| MPQA | every model | MPQA: no such file" in report


@pytest.mark.parametrize("damage", ["missing", "rows", "pickle", "truncated"])
def test_bad_vectors_are_one_line(tmp_path, data, words, run, damage) -> None:
    parts = read_task("CR", data).splits.values()
    lines = {" ".join(tokens) or "." for part in parts for tokens in part.sentences()}
    sentences = np.array(sorted(lines)[damage == "missing" :])
    vectors = np.random.RandomState(0).randn(len(sentences), 4).astype(np.float32)
    path = tmp_path / "given.npz"
    array = {"pickle": vectors.astype(object), "rows": vectors[:-1]}.get(damage, vectors)
    np.savez(path, sentences=sentences, vectors=array)
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert run(path) == 2
    reason = results_of(tmp_path)["models"]["given.npz"]["skipped"]["CR"]
    assert ("no vector for" if damage == "missing" else "given.npz") in reason and "\n" not in reason
    # beside a good model the good one is scored
    assert run(path, f"{words}+random:seq", tasks="CR", project=5) == 0
    assert [(r["model"], r["dim"]) for r in results_of(tmp_path)["results"]] == [("words.txt+random:seq", 5)]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Of trained words: all of ``words`` but "a" and "bright"; the vectors there have eight dimensions."""
    vocabulary = ["the", "bad", "good", "tall", "far", "dull", "poor", "near", "rich"]
    table = WordTable(Vocabulary(vocabulary, case="exact"), 3, views=2)
    table.initialise("xavier")
    MultiViewEncoder.untrained("seq,seq", dim=4, words=table, device="cpu").save(tmp_path / "models/mine")
    return tmp_path / "models/mine"


def test_every_model_of_trained_words_is_expanded(tmp_path, words, model, run) -> None:
    assert run(model, f"{model}?views=0-seq+{words}", tasks="CR,MRPC", expand=str(words)) == 0
    names = "mine?expand=words", "mine?views=0-seq?expand=words+words.txt"
    rows = results_of(tmp_path)["models"]
    assert [rows[name]["dim"] for name in names] == [8, 12]
