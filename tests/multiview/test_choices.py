"""What a training run is made of: its preset, the cache it finds, its segments, its threads."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from multiview.config import ContinueConfig, NewViewsConfig, TrainConfig, options_of, preset
from multiview.encoders.meaning import SentenceRange
from multiview.folder.card import training_command
from multiview.model import MultiViewEncoder
from multiview.names.grammar import split_parts
from multiview.train import cli, main, open_trainer
from multiview.training.data import OPEN_SHARDS, Split, cut_span
from parsing.trees.cache import SHARD_SENTENCES, TreeCache
from runtime import device as threads
from runtime.errors import UserError
from tests.fixtures.trees import changed
from tests.parsing.pipeline.toy_parsers import write_cache

PAPER = {  # Simoulin & Crabbé 2021: what is stated (with its section), how we read the rest, what is off
    "views": "dep,const",  # 3.4: the pair of the highest average
    "words": "both",  # 3.2
    "table.size": 50_000,  # 3.2
    "table.expand": 2_000_000,  # 3.2
    "table.dropout": 0.0,  # A.2
    "encoder.init": "xavier",  # A.2, 3.2
    "encoder.pooling": "root",  # 2.2
    "objective.denominator": "paper",  # 2.1
    "objective.score": "bilinear",  # 2.1
    "objective.direction": "forward",  # 2.1
    "loop.learning-rate": 5e-4,  # A.2
    "loop.batch": 400,  # A.2
    **{"table.case": "exact", "table.dim": 300, "encoder.dim": 1200, "objective.boundary": "none"},
    **{"loop.epochs": 1, "loop.precision": "float32", "loop.schedule": "constant"},
    **{"table.buckets": 0, "table.rate": 1.0, "table.update": "dense", "objective.same": 0.0},
    **{"loop.segments": 0, "loop.max-steps": 0, "loop.max-minutes": 0.0, "loop.validation": 0},
    "objective.teacher": None,
}


def test_presets_and_the_paper_s_values(tmp_path: Path) -> None:
    paper = preset("paper")
    values = options_of(paper)
    assert {name: values[name] for name in PAPER} == PAPER and paper.table.min_count == 1
    assert len(paper.view_list) * 2 * paper.encoder.dim == 4800  # of two models
    for wrong in ("nothing", "/dev/zero", ""):
        with pytest.raises(UserError, match="choose one of laptop"):
            preset(wrong)
    assert ContinueConfig() == preset("laptop") and preset("gpu").preset == "gpu"
    assert TrainConfig().resolve() == ContinueConfig()
    mine = tmp_path / "mine.toml"
    mine.write_text("start = 'none'\nwords = 'fixed'\n[loop]\nbatch = 7\n")
    config = preset(str(mine))
    assert (config.words, config.loop.batch, config.model_name) == ("fixed", 7, "dep-const-mine")
    assert "--trees 'my trees'" in training_command(preset("gpu", trees=Path("my trees")))


def test_one_command_trains_the_paper_s_two_models_and_expands_the_trained_one(
    toy_trees: Path, toy_glove: Path, tmp_path: Path, capsys, dry_run
) -> None:
    command = ["--preset", "paper", "--trees", str(toy_trees), "--vectors", toy_glove.name, "--device", "cpu"]
    command += ["--encoder.dim", "8", "--table.dim", "4", "--loop.batch", "20"]
    output = dry_run(cli, *command)
    for word in ("parameters", "sentences/s", "13 steps at", "for validation", "cpu, 1 threads"):
        assert word in output
    assert cli(command) == 0
    output = capsys.readouterr().out
    assert "expanded   1 words" in output
    [name] = re.findall(r"^model +(\S+\+\S+), the name of both", output, re.MULTILINE)
    folder = tmp_path / "runs/models/dep-const-paper"
    assert split_parts(name) == ["runs/models/dep-const-paper/trained", "runs/models/dep-const-paper/fixed"]
    encoders = [MultiViewEncoder.load(part) for part in split_parts(name)]
    assert [encoder.views for encoder in encoders] == [["dep", "const"]] * 2
    assert [encoder.network.words.added_word_count for encoder in encoders] == [1, 0]
    trained = folder / "trained" / "config.json"
    training, before = json.loads(trained.read_text())["training"], trained.stat().st_mtime_ns
    assert training["best"]["anchors"] == 0
    assert json.loads((folder / "trained" / "time.json").read_text())["seconds"] > 0
    assert training["step"] == training["best"]["step"] == 13  # the last weights, nothing is held out
    assert cli(command) == 0  # finished: nothing is trained or expanded again
    assert trained.stat().st_mtime_ns == before


def test_what_the_paper_costs_is_said_without_its_data(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    for module in ("multiview.train", "parsing.costs"):
        monkeypatch.setattr(f"{module}.SAMPLE", 60)
    small = ["--encoder.dim", "8", "--table.dim", "4", "--loop.batch", "10", "--device", "cpu"]
    assert cli(["--preset", "paper", "--dry-run", *small]) == 2
    output, errors = capsys.readouterr()
    message = errors.splitlines()[-1]
    for part in (
        "60 sentences of books, for 40,000,000",
        "MB on disk",
        "4,000,000 steps",
        "memory ",
        "time         about ",
    ):
        assert part in output
    assert "--trees: needed" in message and "need --vectors" in message
    assert message.endswith(output.splitlines()[0])  # said before the estimate, too
    assert not list(tmp_path.iterdir())


def test_a_run_keeps_its_threads_and_gives_torch_s_back(tiny: NewViewsConfig) -> None:
    with threads.torch_threads(3):
        assert main(tiny) == 0
        assert torch.get_num_threads() == 3
    trainer = open_trainer(tiny)
    trainer.threads = 7  # another machine
    assert trainer.run() == 0 and trainer.threads == 1


def rows_of(spans: list[SentenceRange]) -> list[int]:
    return [row for first, stop in spans for row in range(first, stop)]


def test_split_and_segments_cover_whole_documents() -> None:
    documents = np.concatenate([[0], np.cumsum(np.random.default_rng(0).integers(1, 30, 400))])
    split = Split.of(documents, sentences=500, batch=50)
    validation_rows, training_rows = rows_of(split.validation), rows_of(split.training)
    assert sorted(validation_rows + training_rows) == [*range(documents[-1])]
    assert 400 <= len(validation_rows) <= 900
    assert {edge for span in split.validation for edge in span} <= set(documents.tolist())
    for epoch in range(3):
        rows = rows_of(split.shuffle_segments(epoch, 50, 1, SHARD_SENTENCES))
        assert len(rows) == len(set(rows)) > 0.9 * len(training_rows) and set(rows) <= set(training_rows)
    segments = [split.shuffle_segments(epoch, 50, 1, SHARD_SENTENCES) for epoch in (1, 1, 2)]
    assert segments[0] == segments[1] != segments[2]
    assert cut_span(10, 31, 10) == [(10, 20), (20, 30)]
    assert cut_span(10, 36, 10, offset=4) == [(14, 24), (24, 34)]


@pytest.mark.parametrize("size", [4096, SHARD_SENTENCES])
def test_a_large_corpus_is_shuffled_by_groups_of_shards(size: int) -> None:
    """Each segment comes once, and a group of segments reads no more shards than are kept open."""
    shards = 3 * OPEN_SHARDS
    split = Split([(0, shards * size)], [])
    segments = split.shuffle_segments(0, 1024, 1, size)
    assert sorted(segments) == cut_span(0, shards * size, 1024)
    groups = np.split(np.array([first for first, _ in segments]) // size, 3)
    assert [len(set(group.tolist())) for group in groups] == [OPEN_SHARDS] * 3
    assert all(np.ptp(group) > shards / 2 for group in groups), "drawn from the whole corpus"


def test_an_epoch_opens_each_shard_once_whatever_its_size(
    tiny: NewViewsConfig, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("multiview.training.data.OPEN_SHARDS", 3)
    write_cache(tmp_path / "small", [("a", "b")] * 480, documents=range(0, 480, 40), shard=40)
    trainer = open_trainer(changed(tiny, trees=tmp_path / "small", loop={"epochs": 1, "validation": 0}))
    opened: list[int] = []
    open_shard = TreeCache._open
    monkeypatch.setattr(
        TreeCache, "_open", lambda cache, shard: (opened.append(shard), open_shard(cache, shard))[1]
    )
    for job in trainer.jobs():
        job()
    assert sorted(opened) == [*range(12)]


def test_of_long_documents_parts_are_held_out() -> None:
    split = Split.of(np.array([0, 9_000, 20_000, 28_000]), sentences=2_000, batch=200)
    assert sum(stop - first for first, stop in split.validation) == 2_000
    assert len(split.validation) == 10 and len(split.training) == 11
