"""A task of a known kind is a row of ``tasks.tsv`` and a reader; scores and tables follow."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from corpora.senteval import files, tasks
from corpora.senteval.files import Split, by_split
from corpora.senteval.tasks import TASKS, Task, read_tasks_table
from corpora.tables import read_table
from senteval_runner import evaluate
from senteval_runner.report.tables import headline
from senteval_runner.run import cli
from tests.fixtures.senteval import text
from tests.senteval_runner.encoders import RandomBag

HEADER = Path(tasks.__file__).with_name("tasks.tsv").read_text(encoding="utf-8").split("\n")[0]
CELLS = ("Phrases", "PHR", "cosine", "phrases", "sts", "all.spearman.mean", "sts", "", "test", "40")
ROW = "\t".join((*CELLS, "phrases/phrases.tsv"))
ROW_OF_REGRESSION = [
    "\t".join(["Graded", "", "graded", "phrases", "regression", "pearson", "", "", "train", "", "g/a.tsv"]),
    *("\t".join(["Graded", *[""] * 7, split, "", f"g/{split}.tsv"]) for split in ("dev", "test")),
]


def read_phrases(task: Task, path: Path) -> Split:
    rows = [row.cells for row in read_table(path, ("first", "second", "score"))]
    return Split(
        a=[a.split() for a, _, _ in rows], b=[b.split() for _, b, _ in rows], y=[float(y) for *_, y in rows]
    )


def write_phrases(path: Path) -> None:
    rng = random.Random(3)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [f"{text(rng, row % 3)}\t{text(rng, 1)}\t{1 + row % 9 / 2}" for row in range(40)]
    path.write_text("\n".join(["first\tsecond\tscore", *rows]) + "\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data of two new tasks, which are known by their rows and a reader alone."""
    for name, task in read_tasks_table([HEADER, ROW, *ROW_OF_REGRESSION]).items():
        monkeypatch.setitem(TASKS, name, task)
    monkeypatch.setitem(files.READERS, "phrases", by_split(read_phrases))
    for file in ("phrases/phrases.tsv", "g/a.tsv", "g/dev.tsv", "g/test.tsv"):
        write_phrases(tmp_path / "data" / file)
    return tmp_path


def test_a_graded_task_of_two_sentences_is_a_row_and_a_reader(folder: Path, capsys) -> None:
    report = folder / "report"
    words = ["bag:random?dim=8", "--tasks", "phr", "--data", str(folder / "data"), "--output", str(report)]
    assert cli([*words, "--cache", str(folder / "cache"), "--no-baselines"]) == 0
    (result,) = json.loads((report / "results.json").read_text())["results"]
    assert result["task"] == "Phrases" and result["rows"] == {"test": 40} and not result["notes"]
    table = (report / "results.md").read_text()
    assert "## Similarity" in table and "PHR all" in table and "PHR mean" in table
    score = headline("Phrases", result["metrics"])
    assert score == 100 * result["metrics"]["all.spearman.mean"] and f"{score:.2f}" in table


def test_a_task_that_trains_a_regression_too(folder: Path) -> None:
    results = evaluate(RandomBag(8), "graded", folder / "data", "fast")
    metrics = results["Graded"].metrics
    assert {"pearson", "cosine.spearman"} <= metrics.keys()
    assert headline("Graded", metrics) == 100 * metrics["pearson"]


def test_missing_files_of_a_new_task_are_named(folder: Path) -> None:
    (folder / "data/phrases/phrases.tsv").unlink()
    results = evaluate(RandomBag(8), ["Phrases"], folder / "data", "fast")
    assert "phrases/phrases.tsv" in results.skipped["Phrases"]


def test_a_file_of_queries_is_a_task(tmp_path: Path) -> None:
    """Each row finds itself; one sentence is relevant to two queries, one to none."""
    rows = [("a cat", "the cat sat", "no answer"), ("a dog", "the dog ran", ""), ("the cat sat", "a cat", "")]
    lines = ["query\trelevant\tnegative", *map("\t".join, rows), "cats\tthe cat sat\t"]
    (tmp_path / "queries.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def encode(sentences: list[list[str]]) -> np.ndarray:
        words = ["cat", "dog", "cats", "answer", "sat"]
        return np.array([[word in tokens for word in words] for tokens in sentences], dtype=np.float32)

    result = evaluate(encode, "queries", tmp_path, protocol="fast").tasks["Queries"]
    assert result.rows == {"queries": 4, "collection": 5}
    # "a dog" and "the cat sat" find theirs first; "a cat" finds itself, "cats" nothing that is near.
    assert result.metrics["acc"] == pytest.approx(100 * sum(result.predictions["queries"]) / 4)
    assert result.predictions["queries"][1] == 1.0 and result.metrics["recall@10"] == 100.0
    assert any(note.startswith("TF-IDF: P@1") for note in result.notes)
