"""The command: results files, resumption, damaged input, ``--expand``."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from corpora.senteval.files import read_task
from multiview import train
from multiview.model import MultiViewEncoder
from multiview.names import sources
from multiview.words.table import Vocabulary, WordTable
from runtime.errors import UserError
from senteval_runner import cells
from senteval_runner.cells import Cells
from senteval_runner.protocol.config import get_protocol
from senteval_runner.run import SentEvalConfig, main
from tests.fixtures.files import differing

Run = Callable[..., int]
FAST = {"tasks": "CR", "protocol": "fast", "baselines": False}


def config(tmp_path: Path, data: Path, *named: str, **options) -> SentEvalConfig:
    places = {"data": data, "output": tmp_path / "report", "cache": tmp_path / "cache"}
    return SentEvalConfig(**{"models": named, **places, **FAST, **options})


@pytest.fixture
def run(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs models with options in ``tmp_path``."""
    monkeypatch.chdir(tmp_path)
    return lambda *models, **options: main(config(tmp_path, data, *map(str, models), **options))


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tasks in the order in which they are computed."""
    real, names = cells.evaluate_task, []

    def evaluate_task(vectors, task, *rest):
        result = real(vectors, task, *rest)
        names.append(task.name)
        return result

    monkeypatch.setattr(cells, "evaluate_task", evaluate_task)
    return names


def written(tmp_path: Path):
    return json.loads((tmp_path / "report/results.json").read_text())


def test_results_and_resumption(tmp_path, words, run, scored, monkeypatch, capsys) -> None:
    first = {"seeds": "1,2", "tasks": "CR,MPQA"}
    assert run(words, "random:seq", **first) == 0
    printed = capsys.readouterr().out
    assert "| words.txt |" in printed and "±" in printed and "mpqa.pos" in printed and "p < 0.05" in printed
    values = written(tmp_path)
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
    monkeypatch.setattr(sources.Source, "open", lambda source, **_: None)
    assert run(words, "random:seq", **first) == 0 and scored == ["CR"] * 4
    assert written(tmp_path) == values


def test_a_random_bag_stands_beside_tasks_of_structure(tmp_path, words, run) -> None:
    assert run(words, tasks="Binding") == 0
    scores = {r["model"]: r["metrics"]["acc"] for r in written(tmp_path)["results"]}
    assert set(scores) == {"words.txt", "bag:random"} and scores["bag:random"] < 20


def test_every_command_has_a_report_of_its_own_and_keeps_it() -> None:
    def folder(*models: str, **options) -> Path:
        return SentEvalConfig(models=models, **options).folder

    asked = folder("runs/models/mine", tasks="CR")
    assert asked == folder("runs/models/mine", tasks="CR", device="cpu", cache=Path("else"))
    assert re.fullmatch(r"runs/reports/senteval/mine-CR-[0-9a-f]{6}", str(asked))
    others = (
        folder("runs/models/mine"),
        folder("runs/old/mine", tasks="CR"),
        folder("runs/models/mine", "bag:random", tasks="CR"),
        folder("runs/models/mine", tasks="CR", protocol="fast"),
        folder("runs/models/mine", tasks="CR", seeds="1,2"),
        folder("runs/models/mine?structure=0.1", tasks="CR"),
        folder("m" * 300),
    )
    assert len({asked, *others}) == 8 and all(len(other.name) < 70 for other in others)
    assert folder("mine", output=Path("there")) == Path("there")


def test_random_words_and_the_start_stand_beside_a_trained_model(
    tmp_path, data, toy_trees, model, run
) -> None:
    """The start only where the tree cache of the training is still there; both are an option."""
    sizes = ["--encoder.dim", "4", "--table.dim", "4", "--loop.max-steps", "2", "--loop.batch", "8"]
    trained = ["--views", "seq,seq", "--trees", str(toy_trees), "--name", "mine", "--device", "cpu", *sizes]
    assert train.cli(trained) == 0
    mine = "runs/models/mine"
    assert run(f"{mine}?views=0-seq", f"{model}+{mine}", baselines=True) == 0
    scored = {"mine?views=0-seq", "mine+mine", "bag:random", "start:mine"}
    assert set(written(tmp_path)["models"]) == {r["model"] for r in written(tmp_path)["results"]} == scored
    log = (tmp_path / "report/log.txt").read_text()
    assert log.count("left out") == 1 and f"{model}: left out before its first step" in log
    assert run(mine) == 0 and set(written(tmp_path)["models"]) == {"mine"}
    # what is added does not count: nothing that was asked for has a score
    np.savez("x.npz", sentences=np.array(["other"]), vectors=np.ones((1, 2)))
    assert run("x.npz", baselines=True) == 2


def test_an_interrupted_run_leaves_the_files_of_a_whole_one(
    tmp_path, data, words, run, scored, monkeypatch
) -> None:
    counting, options = cells.evaluate_task, {"tasks": "CR,MRPC,SICK-R", "seeds": "1,2"}
    options |= {"output": Path("report"), "cache": Path("cache")}

    def killed(*of):
        if len(scored) in stops:
            stops.remove(len(scored))
            raise KeyboardInterrupt
        return counting(*of)

    monkeypatch.setattr(cells, "evaluate_task", killed)
    for name, stops in (("whole", []), ("killed", [1, 2, 7])):
        scored.clear()
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        for _ in list(stops):
            with pytest.raises(KeyboardInterrupt):
                run(words, "random:seq", **options)
        assert run(words, "random:seq", **options) == 0 and len(scored) == 12, "each cell is computed once"
    whole, again = tmp_path / "whole", tmp_path / "killed"
    parts = {str(path.relative_to(whole)) for path in (whole / "report/parts").rglob("*.json")}
    assert differing(whole, again) <= {"report/log.txt", "report/results.json", *parts}  # how long it took
    assert not differing(whole, again, clocks=False)
    # changed data are not taken for finished
    path = data / "downstream/CR/custrev.pos"
    path.write_text(path.read_text() + "good good\n")
    assert run(words, **options) == 0 and scored[12:] == ["CR"] * 2


@pytest.mark.parametrize(("protocol", "library"), [("fast", "torch"), ("sklearn", "scikit-learn")])
def test_cells_of_another_library_are_computed_again(tmp_path, monkeypatch, protocol, library) -> None:
    def place(**of: str) -> Path:
        monkeypatch.setattr(cells, "versions", lambda: {"torch": "1", "scikit-learn": "1"} | of)
        return Cells(tmp_path, get_protocol(protocol)).path("model", 1, "CR")

    other = ({"torch", "scikit-learn"} - {library}).pop()
    assert place() != place(**{library: "2"}) and place() == place(**{other: "2"})


def test_a_model_that_cannot_be_loaded_is_tried_once(tmp_path, words, run, monkeypatch) -> None:
    tried: list[str] = []

    def load_pretrained(name: str, **options: object) -> None:
        tried.append(name)
        raise UserError(f"model {name!r}: is not there")

    monkeypatch.setattr(sources, "load_pretrained", load_pretrained)
    assert run(words, "no-model", tasks="CR,MRPC,SICK-R,MPQA") == 0
    assert tried == ["no-model"]
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
    saved = {"pickle": vectors.astype(object), "rows": vectors[:-1]}.get(damage, vectors)
    np.savez(path, sentences=sentences, vectors=saved)
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert run(path) == 2
    reason = written(tmp_path)["models"]["given.npz"]["skipped"]["CR"]
    assert ("no vector for" if damage == "missing" else "given.npz") in reason and "\n" not in reason
    # beside a good model the good one is scored
    assert run(path, f"{words}+random:seq", tasks="CR", project=5) == 0
    assert [(r["model"], r["dim"]) for r in written(tmp_path)["results"]] == [("words.txt+random:seq", 5)]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Of trained words: all of ``words`` but "a" and "bright"; the vectors there have eight dimensions."""
    trained = ["the", "bad", "good", "tall", "far", "dull", "poor", "near", "rich"]
    table = WordTable(Vocabulary(trained, case="exact"), 3, views=2)
    table.initialise("xavier")
    MultiViewEncoder.untrained("seq,seq", dim=4, words=table, device="cpu").save(tmp_path / "models/mine")
    return tmp_path / "models/mine"


def test_every_model_of_trained_words_is_expanded(tmp_path, words, model, run) -> None:
    assert run(model, f"{model}?views=0-seq+{words}", tasks="CR,MRPC", expand=str(words)) == 0
    names = "mine?expand=words", "mine?views=0-seq?expand=words+words.txt"
    rows = written(tmp_path)["models"]
    assert [rows[name]["dim"] for name in names] == [8, 12]
