"""The preset ``paper`` against the text of Simoulin & Crabbé 2021, and what the command says of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from multiview import paper
from multiview.config import options_of, preset
from multiview.model import MultiViewEncoder
from multiview.train import cli
from tests.fixtures.trees import toy_corpus
from tests.multiview.words.test_expansion import write_vectors

STATED = {
    "views": ("dep,const", "3.4"),  # the pair of the highest average
    "words": ("both", "3.2"),
    "vocabulary.size": (50_000, "3.2"),
    "vocabulary.vector-words": (2_000_000, "3.2"),
    "vocabulary.expand": (2_000_000, "3.2"),
    "table.init": ("xavier", "3.2"),
    "table.dropout": (0.0, "A.2"),
    "encoder.forget-bias": (0.0, "A.2"),
    "encoder.pooling": ("root", "2.2"),
    "objective.denominator": ("paper", "2.1"),
    "objective.score": ("bilinear", "2.1"),
    "objective.direction": ("forward", "2.1"),
    "objective.self-score": ("minus-inf", "2.1"),
    "objective.negatives": ("segment", "3.1"),
    "optimiser.learning-rate": (5e-4, "A.2"),
    "loop.batch": (400, "A.2"),
}
READ = {
    "vocabulary.case": "exact",
    "table.dim": 300,
    "encoder.dim": 1200,
    "objective.boundary": "none",
    "loop.epochs": 1,
    "loop.precision": "float32",
}
OFF = {
    "init": None,
    "vocabulary.min-count": 1,
    "vocabulary.buckets": 0,
    "table.equal": False,
    "table.identity": 0.0,
    "table.rate": 1.0,
    "table.update": "dense",
    "encoder.recurrent-scale": 1.0,
    "encoder.equal-inputs": False,
    "optimiser.warmup-steps": 0,
    "optimiser.schedule": "constant",
    "optimiser.clip": 0.0,
    "loop.segments": 1,
    "loop.max-steps": 0,
    "loop.max-minutes": 0.0,
    "validation.sentences": 0,
    "validation.patience": 0,
    "validation.select": "recall",
    "table.dropout-views": "shared",
    "objective.same": 0.0,
    "objective.duplicates": "negatives",
    "objective.temperature": 0.05,  # of a cosine score
    "objective.learn-temperature": False,
    "teacher.vectors": None,
    "teacher.contrast": 1.0,  # of a teacher
    "teacher.similarity": 10.0,
    "teacher.temperature": 0.05,
}
HOW = {
    *("preset", "config", "trees", "vectors", "name", "output", "fresh", "dry-run", "device", "seed"),
    *("encoder.engine", "loop.micro-batch", "loop.threads", "loop.prefetch", "loop.checkpoint-every"),
    *("loop.keep", "loop.read-every", "validation.every"),
}
"""Options that change nothing of what is computed, beyond rounding and the order of batches."""


@pytest.mark.parametrize("name", [*STATED, *READ, *OFF])
def test_every_value_of_the_preset(name: str) -> None:
    value = STATED[name][0] if name in STATED else {**READ, **OFF}[name]
    assert options_of(preset("paper"))[name] == value
    if name in STATED:
        assert paper.SECTIONS[name].startswith(STATED[name][1])


def test_no_option_is_left_unexplained() -> None:
    assert {*STATED, *READ, *OFF, *HOW} == set(options_of(preset("paper")))
    assert (set(paper.SECTIONS), set(paper.READINGS), set(paper.ABSENT)) == (set(STATED), set(READ), set(OFF))


def test_both_readings_of_the_4800_dimensions() -> None:
    one, other = preset("paper"), preset("paper-2400")
    assert one.dimensions == other.dimensions == paper.DIMENSIONS
    differing = {k for k, v in options_of(one).items() if options_of(other)[k] != v}
    assert differing == {"preset", "words", "encoder.dim"}


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    words = sorted({word for sentence in toy_corpus()[0] for word in sentence})
    drawn = np.random.default_rng(0).normal(size=(len(words) + 1, 4)).round(3)
    return write_vectors(tmp_path / "glove.txt", dict(zip([*words, "zyzzyva"], drawn, strict=True)))


SMALL = ["--encoder.dim", "8", "--table.dim", "4", "--loop.batch", "20", "--device", "cpu"]


def test_one_command_trains_both_models_and_expands_the_trained_one(
    toy_trees: Path, glove: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["--preset", "paper", "--trees", str(toy_trees), "--vectors", str(glove), *SMALL]
    assert cli(command) == 0
    said = capsys.readouterr().out
    folder = tmp_path / "runs/models/dep-const-paper"
    encoder = MultiViewEncoder.load(folder)
    assert encoder.views == ["dep", "const"] * 2 and encoder.get_sentence_embedding_dimension() == 32
    assert [m.network.words.expanded for m in encoder.members] == [1, 0]
    training = json.loads((folder / "trained" / "config.json").read_text())["training"]
    assert training["best"]["anchors"] == 0
    assert json.loads((folder / "trained" / "time.json").read_text())["seconds"] > 0
    assert training["step"] == training["best"]["step"] == 13  # the last weights, nothing is held out
    assert "deviates   loop.batch 20; the paper: 400 (section A.2)" in said
    assert "deviates   corpus" in said and "deviates   optimiser" not in said
    assert "expanded   1 words" in said
    before = (folder / "trained" / "config.json").stat().st_mtime_ns
    assert cli(command) == 0  # finished: nothing is trained or expanded again
    assert (folder / "trained" / "config.json").stat().st_mtime_ns == before


def test_what_is_missing_is_listed_at_once(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--trees", "nowhere", "--vectors", "nowhere.txt"]):
        assert cli(["--preset", "paper", *more]) == 2
        refused = capsys.readouterr().err
        assert "--trees FOLDER" in refused and "parsing.run umbc --preset paper" in refused
        assert "ebiquity.umbc.edu" in refused
        assert "--vectors FILE" in refused and "nlp.stanford.edu/projects/glove" in refused
        assert "Traceback" not in refused
    assert not list(tmp_path.iterdir())


def test_a_dry_run_says_what_would_be_trained(dry_run, toy_trees: Path, glove: Path, capsys) -> None:
    shown = dry_run(
        cli,
        "--preset",
        "paper",
        "--trees",
        toy_trees,
        "--vectors",
        glove,
        *SMALL[2:],
        "--optimiser.clip",
        "5",
    )
    assert "dimensions 4,800 = 2 models x 2 views x 1,200 (our reading" in shown
    assert "deviates   optimiser.clip 5.0; the paper has nothing of the kind (0.0)" in shown
    assert '"learning_rate": 0.0005' in shown and "fixed vectors" in shown
    assert cli(["--preset", "paper", "--dry-run"]) == 2
    both = capsys.readouterr()
    assert "dimensions 4,800" in both.out and "--vectors FILE" in both.err


def test_deviations_follow_the_options() -> None:
    assert list(paper.deviations(preset("paper"))) == list(paper.deviations(preset("paper-2400"))) == []
    changed = preset("paper", views="seq,seq")
    assert list(paper.deviations(changed)) == ["views seq,seq; the paper: dep,const (section 3.4, table 2)"]
