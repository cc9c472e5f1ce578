"""A teacher's matrix: of any encoder, refused with another corpus, and learned from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from corpora.support.errors import UserError
from multiview import teacher as matrix
from multiview.config import TrainConfig
from multiview.teacher import TeacherMatrix
from multiview.train import cli as train
from multiview.train import main
from multiview.training.log import read_log
from parsing.cache.reader import TreeCache
from parsing.run import cli as parse
from senteval_runner.vectors.encoders import open_model
from tests.fixtures.teacher import write_teacher
from tests.fixtures.trees import changed
from tests.multiview.test_train import assert_same_bits, killed_after, newest

TEACHER = "bag:random@6"


@pytest.fixture
def taught(toy_trees: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The vectors of all toy sentences, in four parts."""
    monkeypatch.setattr(matrix, "PART", 64)
    return write_teacher(TEACHER, toy_trees, tmp_path / "teacher")


def test_rows_are_the_encoders_vectors_at_unit_length(taught: Path, toy_trees: Path) -> None:
    cache = TreeCache.open(toy_trees)
    sentences = [list(words) for words in cache.read(0, len(cache), ("token",)).words()]
    wanted = open_model(TEACHER)(sentences)
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    numbers = np.array([259, 0, 63, 64, 64, 200])
    rows = TeacherMatrix.open(taught, cache).rows(numbers)
    assert rows.dtype == torch.float16 and rows.shape == (6, 6)
    np.testing.assert_allclose(rows.float().numpy(), wanted[numbers], atol=1e-3)


@pytest.mark.parametrize("fault", ["other corpus", "cut off", "a part is missing", "not finished"])
def test_a_matrix_that_does_not_fit_is_one_line(
    fault: str, taught: Path, toy_trees: Path, tiny: TrainConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    if fault == "other corpus":
        wanted = "made of other sentences"
        record = matrix.read_record(taught / "teacher.json")
        matrix.write_record(taught / "teacher.json", {**record, "text": "0" * 64})
    elif fault == "cut off":
        wanted = "damaged"
        part = taught / "part-000002.npy"
        part.write_bytes(part.read_bytes()[:-4])
    elif fault == "a part is missing":
        wanted = "part-000003.npy: no such file"
        (taught / "part-000003.npy").unlink()
    else:
        wanted = "no teacher.json here"
        (taught / "teacher.json").unlink()
    with pytest.raises(UserError, match=wanted):
        main(changed(tiny, teacher={"vectors": taught}))
    assert train(["--trees", str(toy_trees), "--teacher.vectors", str(taught), "--name", "x"]) == 2
    error = capsys.readouterr().err
    assert len(error.strip().splitlines()) == 1 and wanted in error


def test_training_learns_from_the_teacher_and_resumes_to_the_same_bits(
    taught: Path, tiny: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = changed(
        tiny,
        teacher={"vectors": taught},
        objective={"score": "cosine", "same": 1.0, "duplicates": "masked"},
        table={"dropout": 0.2, "dropout_views": "each"},
        encoder={"pooling": "root+mean"},
        loop={"epochs": 12},
    )
    assert main(config) == 0
    lines = [line for line in read_log(config.folder / "log.jsonl") if line["kind"] == "train"]
    for term in ("loss/teacher", "loss/similarity", "loss/same"):
        first, last = (np.mean([x[term] for x in part]) for part in (lines[:5], lines[-5:]))
        assert last < 0.95 * first, term
    again = changed(config, name="again")
    killed_after(again, 10, monkeypatch)
    assert main(again) == 0
    assert_same_bits(newest(config), newest(again))


def test_the_same_sentences_parsed_otherwise_keep_their_teacher(tmp_path: Path) -> None:
    texts = {
        "one": "It rained all night.\nNobody believed her.\n",
        "two": "It rained.\nNobody did.\n",
    }
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "corpus.txt").write_text(text)
    caches = {}
    for text, views in (("one", "dep"), ("one", "const"), ("two", "dep")):
        folder = tmp_path / text / views
        other = {"dep": "--const-model", "const": "--dep-model"}[views]
        command = [str(tmp_path / text / "corpus.txt"), other, "none", "--output", str(folder)]
        assert parse([*command, "--workers", "1"]) == 0
        caches[text, views] = TreeCache.open(folder)
    vectors = write_teacher(TEACHER, tmp_path / "one" / "dep", tmp_path / "teacher")
    assert TeacherMatrix.open(vectors, caches["one", "const"]).sentences == 2
    with pytest.raises(UserError, match=r"made of other sentences than .*two/dep has"):
        TeacherMatrix.open(vectors, caches["two", "dep"])
