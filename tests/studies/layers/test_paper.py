"""EMP beside layers: encoders taken whole, the MLP, the Average Score, published rows, the preset."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from corpora.senteval.files import read_task
from corpora.senteval.tasks import TASK_NAMES
from corpora.support.errors import UserError
from corpora.support.presets import preset_defaults
from senteval_runner.towers.units import OWN, WHOLE, Unit
from senteval_runner.vectors.embed import text_of
from studies.layers import paper, published, report
from studies.layers import run as study
from studies.layers.config import LayersConfig
from studies.layers.tables import (
    NO_HIDDEN_LAYER,
    TASK_GROUPS,
    Studied,
    average_score,
    best_of,
    layer_table,
    likeness_table,
    pooling_table,
    readout_table,
    tasks_of,
)
from tests.studies.layers.transformers_tiny import build

pytest.importorskip("transformers")

WHOLE_UNIT = Unit((WHOLE,), OWN)


def layered(name: str, scores: dict[Unit, dict[str, float]], **more) -> Studied:
    return Studied(
        name=name,
        layers=("-2", "-1"),
        compared=("-2", "-1"),
        poolings=("mean",),
        units=tuple(scores),
        scores=scores,
        **more,
    )


def whole(name: str, scores: dict[str, float]) -> Studied:
    return Studied(
        name=name,
        layers=(WHOLE,),
        compared=(),
        poolings=(OWN,),
        units=(WHOLE_UNIT,),
        scores={WHOLE_UNIT: scores},
    )


TOP, LOW = Unit(("-1",), "mean"), Unit(("-2",), "mean")
ONE_PER_GROUP = ("STS12", "MR", "SICKEntailment", "Length", "Depth", "Tense")
"""A task of each of the six groups."""


def test_the_average_score_is_the_mean_of_six_groups() -> None:
    means = dict(zip(TASK_GROUPS, (10.0, 20.0, 30.0, 40.0, 50.0, 90.0), strict=True))
    assert average_score(means) == 40
    assert average_score({group: means[group] for group in list(means)[1:]}) is None


def test_published_averages_are_those_of_their_rows() -> None:
    """Tables 1 and 2: the last number of a row is the mean of the six before it."""
    assert tuple(TASK_GROUPS) == published.GROUPS
    for row in (*published.TABLE_1.values(), *published.TABLE_2.values()):
        assert average_score(dict(zip(published.GROUPS, row[:6], strict=True))) == pytest.approx(
            row[6], abs=0.06
        )
    assert len(published.TABLE_1) == 4 and len(published.TABLE_2) == 9


def test_the_majority_class_of_mrpc_fits_no_similarity_group() -> None:
    """[SEP] has 13.0 over that group; eight tasks with MRPC among them leave 2.6 for each of the others."""
    assert "MRPC" not in TASK_GROUPS["similarity"]
    majority = 1147 / 1725 / 0.773  # of the best published accuracy
    with_mrpc = len(TASK_GROUPS["similarity"]) + 1
    assert (13.0 * with_mrpc - 100 * majority) / (with_mrpc - 1) < 3


def test_an_encoder_taken_whole_counts_for_the_best_and_has_one_row() -> None:
    bert = layered("bert", {LOW: {"MR": 40.0, "CR": 80.0}, TOP: {"MR": 60.0, "CR": 40.0}})
    glove = whole("glove", {"MR": 80.0, "CR": 50.0})
    studied = [bert, glove]
    best = best_of(studied)
    assert best == {"MR": 80, "CR": 80}
    rows = layer_table(studied, tasks_of(studied), "mean", best)
    assert rows == [
        (["bert", "-2"], {"classification": 75}),
        (["bert", "-1"], {"classification": 62.5}),
        (["glove", "whole"], {"classification": 81.25}),
    ]
    # Table 1 compares poolings, of which a whole encoder has none to choose
    assert [labels for labels, _ in pooling_table(studied, tasks_of(studied), best)] == [["bert", "mean"]]
    assert [figure.caption for figure in report.heat_maps(studied)] == ["bert: % of each task's best"]


def test_the_mlp_is_compared_on_the_tasks_that_have_one() -> None:
    bert = layered(
        "bert",
        {TOP: {"MR": 60.0, "CR": 70.0, "STS12": 50.0, "Length": 30.0}},
        mlp={TOP: {"MR": 64.0, "CR": 68.0, "Length": 33.0}},
    )
    assert readout_table([bert, whole("glove", {"MR": 1.0})], "mean") == [
        (["bert", "-1"], {"classification": 1.0, "surface": 3.0})
    ]
    assert readout_table([bert], "cls") == []
    assert {"WordContent", "SICKRelatedness", "STS16"} <= set(
        NO_HIDDEN_LAYER
    ) and "MRPC" not in NO_HIDDEN_LAYER


def test_likeness_to_word_vectors_by_hand() -> None:
    """Three tasks, best 100 each: the bottom layer rises with the word vectors, the top falls."""
    bert = layered("bert", {LOW: {"MR": 10, "CR": 20, "TREC": 30}, TOP: {"MR": 100, "CR": 100, "TREC": 10}})
    glove = whole("glove", {"MR": 30, "CR": 60, "TREC": 100})
    best = {"MR": 100.0, "CR": 100.0, "TREC": 100.0}
    names, rows = likeness_table([bert, glove], best, "mean")
    x, y, z = (10, 20, 30), (100, 100, 10), (30, 60, 100)
    assert names == ["glove"] and [labels for labels, _ in rows] == [["bert", "-2"], ["bert", "-1"]]
    assert rows[0][1]["glove"] == pytest.approx(np.corrcoef(x, z)[0, 1])
    assert rows[1][1]["glove"] == pytest.approx(np.corrcoef(y, z)[0, 1])
    few = whole("few", {"MR": 1, "CR": 2})
    assert likeness_table([bert, few], best, "mean")[1][0][1] == {}  # two tasks make no correlation
    assert likeness_table([bert], best, "mean") == ([], [])


def test_published_rows_stand_below_the_normalised_tables() -> None:
    scores = dict.fromkeys(ONE_PER_GROUP, 50.0)
    bert = layered("bert", {TOP: scores, LOW: scores})
    text = report.page([bert], "mean", []).markdown()
    tables = {block.split("\n")[0]: block for block in text.split("### ")[1:]}
    one, two = (tables[name] for name in tables if "normalised" in name)
    assert "| bert | mean | **100.00** |" in one or "| bert | mean | 100.00 |" in one
    assert "*BERT* | *sep* | *13.00* | *88.90* | *66.10* | *42.80* | *72.20* | *86.70* | *61.60*" in one
    assert "*GloVe* | *whole* | *76.70*" in two and "*95.40*" in two
    assert all("Published, not computed here" in table for table in (one, two))
    assert all("Published" not in tables[name] for name in tables if "normalised" not in name)


def write_words(path: Path) -> Path:
    generator = np.random.default_rng(0)
    words = ["bad", "dull", "poor", "good", "bright", "rich", "tall", "far", "near"]
    path.write_text("".join(f"{w} {' '.join(f'{x:.3f}' for x in generator.normal(size=6))}\n" for w in words))
    return path


def write_vectors(path: Path, data: Path, *tasks: str) -> Path:
    """Vectors of another program, for all sentences of some tasks."""
    parts = [part for task in tasks for part in read_task(task, data).splits.values()]
    texts = list(dict.fromkeys(text_of(tokens) for part in parts for tokens in part.sentences()))
    vectors = np.random.default_rng(1).normal(size=(len(texts), 5)).astype(np.float32)
    np.savez(path, sentences=np.array(texts), vectors=vectors)
    return path


def test_a_study_with_word_vectors_and_a_sentence_encoder(tmp_path: Path, data: Path) -> None:
    bert = build(tmp_path / "bert", "bert")
    words = write_words(tmp_path / "words.txt")
    other = write_vectors(tmp_path / "use.npz", data, "CR", "SICK-E", "WordContent")
    config = LayersConfig(
        backbones=(str(bert), str(words)),
        encoders=(str(other), str(bert)),
        tasks="CR,SICK-E,WordContent",
        layers="-1",  # of bert alone: a whole encoder keeps its row
        poolings=("mean",),
        concatenate=("-1,-2,-3",),
        protocol="fast",
        mlp=3,
        data=data,
        output=tmp_path / "report",
        cache=tmp_path / "vectors",
    )
    assert study.run(config) == 0
    values = json.loads((tmp_path / "report/results.json").read_text())
    found = values["backbones"]
    assert {name: set(one["scores"]) for name, one in found.items()} == {
        str(bert): {"-1 mean", "-1,-2,-3 mean"},
        f"{bert} whole": {"whole own"},
        "words.txt": {"whole own"},
        "use.npz": {"whole own"},
    }
    assert values["best"]["CR"] == max(s["CR"] for one in found.values() for s in one["scores"].values())
    for one in found.values():
        assert all(set(by_task) == {"CR", "SICKEntailment"} for by_task in one["mlp"].values())
        assert {cell["nhid"] for cell in one["cells"]} == {0, 3}
    dims = {cell["dim"] for cell in found["words.txt"]["cells"]} | {
        cell["dim"] for cell in found["use.npz"]["cells"]
    }
    assert dims == {5, 6}
    text = (tmp_path / "report/results.md").read_text()
    assert "Multi-layer perceptron minus logistic regression" in text
    assert "| words.txt | whole |" in text and "| use.npz | whole |" in text


PAPER = paper.PRESETS["paper"]


def test_the_preset_has_the_papers_values() -> None:
    config = preset_defaults(LayersConfig, paper.PRESETS)(["--preset", "paper"])
    assert config.preset == "paper" and config.mlp > 0 and config.protocol == "default"
    assert (len(config.backbones), len(config.encoders)) == (3, 3)
    assert config.layers == "all" and config.poolings == () and config.concatenate == ("top,bottom",)
    assert set(study.expand_tasks(config.tasks)) == set(TASK_NAMES)
    assert config.table_pooling == "mean" and config.limit is None and config.special_tokens


def test_the_preset_lists_all_that_is_missing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("studies.finetune.backbone.is_here", lambda name: False)
    config = LayersConfig(**{**PAPER, "data": tmp_path})
    with pytest.raises(UserError) as caught:
        study.run(config)
    told = str(caught.value)
    assert "\n" not in told and told.startswith("--preset paper needs what is not here: ")
    for name in (
        *config.backbones,
        *config.encoders,
        "SNLI",
        "STS13",
        "OddManOut",
        "facebookresearch/SentEval",
    ):
        assert name in told


def test_the_preset_evaluates_the_papers_layers(tmp_path: Path, data: Path, capsys, monkeypatch) -> None:
    """A BERT of twelve layers, as small as it gets: 12 + emb + top with bottom, under four poolings."""
    models = [build(tmp_path / name, "bert", layers=12, width=4) for name in ("pt", "mnli", "snli")]
    others = [write_words(tmp_path / "glove.txt")]
    others += [write_vectors(tmp_path / f"{name}.npz", data, "CR") for name in ("use", "infersent")]
    values = {**PAPER, "backbones": tuple(map(str, models)), "encoders": tuple(map(str, others))}
    config = LayersConfig(**{**values, "tasks": "CR", "data": data, "cache": tmp_path / "vectors"})
    paper.refuse_missing_inputs(config)  # all is here
    assert [len(subject.units) for subject in study._open(config)] == [56, 56, 56, 1, 1, 1]
