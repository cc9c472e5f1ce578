"""A layer study: representations, tables worked by hand, kill and resume, the preset, wrong input."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from corpora.senteval.files import read_task
from multiview.names.encoder import text_of
from runtime.errors import UserError
from senteval_runner.protocol.config import get_protocol
from senteval_runner.towers.backbones import OWN_POOLING, WHOLE_ENCODER, TransformerBackbone
from studies.layers import evaluate
from studies.layers.config import LayersConfig
from studies.layers.evaluate import (
    AVERAGE,
    TASK_GROUPS,
    difference,
    frame,
    group_means,
    layer_table,
    likeness,
    normalise,
    pooling_table,
)
from studies.layers.evaluate import evaluate as layers
from studies.runner import StudyRun, read_presets, read_published, run_study
from tests.fixtures.senteval import PUBLISHED_TASKS, write_word_vectors
from tests.fixtures.transformers import WORDS, build


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("bert")
    return [build(root / "model-a", "bert"), build(root / "model-b", "bert", seed=1)]


def options(tmp_path: Path, data: Path, *backbones: Path, **changes: Any) -> LayersConfig:
    values: dict[str, Any] = {
        "backbones": tuple(map(str, backbones)),
        "tasks": "CR,WordContent",
        "protocol": "fast",
        "poolings": ("cls", "mean"),
        "data": data,
        "output": tmp_path / "report",
        "cache": tmp_path / "vectors",
    }
    return LayersConfig(**{**values, **changes})


def run(config: LayersConfig) -> dict[str, dict[str, Any]]:
    """Figures by cell of a study that ends well."""
    assert run_study(config, layers) == 0
    cells = json.loads((config.output / "results.json").read_text())["cells"]
    return {cell["cell"]: cell for cell in cells}


def cells(table: pd.DataFrame) -> dict[Any, dict[str, float]]:
    """The numbers of a frame by row, without those that are missing."""
    return {index: row.dropna().to_dict() for index, row in table.iterrows()}


ONE = {
    ("one", "emb", "mean"): {"MR": 50, "CR": 60, "Length": 80},
    ("one", "-2", "mean"): {"MR": 60, "CR": 70, "Length": 40},
    ("one", "-1", "mean"): {"MR": 80, "CR": 70, "Length": 20},
    ("one", "-1,-2", "mean"): {"MR": 80, "CR": 80},
}
TWO = {("two", "-1", "mean"): {"MR": 100, "CR": 60, "Length": 30}}


def test_groups_and_normalisation_by_hand() -> None:
    scores = frame({**ONE, **TWO})
    assert list(scores.columns) == ["MR", "CR", "Length"]
    share = normalise(scores)
    assert cells(share)["one", "emb", "mean"] == {"MR": 50, "CR": 75, "Length": 100}
    assert cells(group_means(scores))["one", "-1,-2", "mean"] == {"classification": 80}  # Length is missing
    # Table 1 leaves out the embedding output and the pair: MR, CR 60 70 and 80 70, Length 40 and 20
    assert cells(pooling_table(scores))["one", "mean"] == {"classification": 70, "surface": 30}
    # normalised: (60 + 87.5) / 2 and (80 + 87.5) / 2; 50 and 25
    assert cells(pooling_table(share))["one", "mean"] == {"classification": 78.75, "surface": 37.5}
    assert cells(layer_table(scores)) == {
        ("one", "emb"): {"classification": 55, "surface": 80},
        ("one", "-2"): {"classification": 65, "surface": 40},
        ("one", "-1"): {"classification": 75, "surface": 20},
        ("one", "-1,-2"): {"classification": 80},
        ("two", "-1"): {"classification": 80, "surface": 30},
    }
    change = layer_table(difference(scores, "one", "two"))
    assert cells(change) == {("two − one", "-1"): {"classification": 5, "surface": 10}}
    assert {task for tasks in TASK_GROUPS.values() for task in tasks} == PUBLISHED_TASKS


def test_an_encoder_taken_whole_counts_for_the_best_and_has_one_row() -> None:
    bert = {("bert", "-2", "mean"): {"MR": 40, "CR": 80}, ("bert", "-1", "mean"): {"MR": 60, "CR": 40}}
    scores = frame({**bert, ("glove", WHOLE_ENCODER, OWN_POOLING): {"MR": 80, "CR": 50}})
    assert cells(layer_table(normalise(scores))) == {
        ("bert", "-2"): {"classification": 75},
        ("bert", "-1"): {"classification": 62.5},
        ("glove", WHOLE_ENCODER): {"classification": 81.25},
    }
    # Table 1 compares poolings, of which a whole encoder has none to choose
    assert list(cells(pooling_table(scores))) == [("bert", "mean")]
    assert [one.caption for one in evaluate.heat_maps(scores)] == ["bert: % of each task's best"]


SIX = ("STS12", "MR", "SNLI", "Length", "Depth", "Tense")
"""A task of each group."""


def test_published_averages_are_those_of_their_rows() -> None:
    """Tables 1 and 2: the last number of a row is the mean of the six before it."""
    for name, rows in (("poolings", 4), ("layers", 9)):
        table = pd.DataFrame(read_published(Path(evaluate.__file__).with_name(f"published-{name}.csv"))).T
        assert len(table) == rows and list(table) == [*TASK_GROUPS, AVERAGE]
        np.testing.assert_allclose(table[[*TASK_GROUPS]].mean(axis=1), table[AVERAGE], atol=0.06)
    row = ("bert", "-1", "mean")
    ones = dict(zip(SIX, (10, 20, 30, 40, 50, 90), strict=True))
    assert cells(group_means(frame({row: ones})))[row][AVERAGE] == 40
    del ones["Tense"]
    assert AVERAGE not in cells(group_means(frame({row: ones})))[row]


def test_likeness_to_word_vectors_by_hand() -> None:
    """Three tasks, best 100 each: the bottom layer rises with the word vectors, the top falls."""
    rows = {"-2": (20, 50, 100), "-1": (100, 100, 20)}
    tasks, glove = ("MR", "CR", "TREC"), (30, 60, 100)
    bert = {("bert", layer, "mean"): dict(zip(tasks, row, strict=True)) for layer, row in rows.items()}
    word_vectors = {("glove", WHOLE_ENCODER, OWN_POOLING): dict(zip(tasks, glove, strict=True))}
    two_tasks = {("few", WHOLE_ENCODER, OWN_POOLING): {"MR": 1, "CR": 2}}  # they make no correlation
    correlations = cells(likeness(frame({**bert, **word_vectors, **two_tasks})))
    for layer, row in rows.items():
        assert correlations["bert", layer] == {"glove": pytest.approx(np.corrcoef(row, glove)[0, 1])}


@pytest.mark.usefixtures("drawings")
def test_published_rows_stand_below_the_normalised_tables() -> None:
    ones = dict.fromkeys(SIX, 50.0)
    scores = frame({("bert", layer, "mean"): ones for layer in ("-2", "-1")})
    text = evaluate.page(scores, frame({}), []).markdown()
    tables = {block.split("\n")[0]: block for block in text.split("### ")[1:]}
    one, two = (tables[name] for name in tables if "normalised" in name)
    assert "| BERT † | sep | 13.00 | 88.90 | 66.10 | 42.80 | 72.20 | 86.70 | 61.60 |" in one
    assert "| GloVe † | whole | 76.70" in two and "| BERT + SNLI † | -1,-12 |" in two


def write_vectors(path: Path, data: Path, *tasks: str) -> Path:
    """Vectors of another program, for all sentences of some tasks."""
    parts = [part for task in tasks for part in read_task(task, data).splits.values()]
    texts = list(dict.fromkeys(text_of(tokens) for part in parts for tokens in part.sentences()))
    vectors = np.random.default_rng(1).normal(size=(len(texts), 5)).astype(np.float32)
    np.savez(path, sentences=np.array(texts), vectors=vectors)
    return path


@pytest.mark.usefixtures("fake_device")
def test_a_study_of_layers_word_vectors_and_a_sentence_encoder(
    tmp_path: Path, data: Path, models: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = write_word_vectors(tmp_path / "words.txt", WORDS, dim=3)
    vectors = write_vectors(tmp_path / "use.npz", data, "CR", "WordContent")
    config = options(tmp_path, data, *models, words, encoders=(str(vectors), str(models[0])), mlp=3, limit=40)
    protocol = lambda name, **options: replace(get_protocol(name, **options), kfold=2, max_epoch=4)  # noqa: E731
    monkeypatch.setattr(evaluate, "get_protocol", protocol)
    figures = run(config)
    # two BERTs with five choices of layers, two poolings; three whole encoders; two tasks, one twice
    assert len(figures) == (2 * 5 * 2 + 3) * (2 + 1)
    assert {cell["dim"] for cell in figures.values()} == {3, 5, 16, 32}
    text = (tmp_path / "report/report.md").read_text()
    assert "Multi-layer perceptron minus logistic regression" in text and "model-b − " in text
    assert "| words.txt | whole |" in text and "--limit, not comparable" in text
    # the second run repeats nothing, and loads no weights
    monkeypatch.setattr(evaluate, "evaluate_task", None)
    monkeypatch.setattr(TransformerBackbone, "encode", None)
    assert run(config) == figures


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backbones": ("./nowhere",)}, "no such file or folder"),
        ({"tasks": "MR"}, "rt-polarity"),
        ({"concatenate": ("-1",)}, "--concatenate '-1': expected two or more"),
        ({"concatenate": ("-1,-1",)}, "-1,-1"),
        ({"poolings": ("top",)}, "no pooling 'top'; it has cls, sep, mean, max"),
    ],
)
def test_wrong_options_are_one_line(
    tmp_path: Path, data: Path, models: list[Path], changes: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run_study(replace(options(tmp_path, data, models[0]), **changes), layers)


def test_the_preset_reads_every_layer_for_the_papers_tasks(tmp_path: Path) -> None:
    """Of a BERT of twelve layers, as small as it gets: 12 + emb + top with bottom, under four poolings."""
    config = LayersConfig(**read_presets(LayersConfig)["paper"])
    assert set(evaluate.expand_tasks(config.tasks)) == PUBLISHED_TASKS
    bert = build(tmp_path / "bert", "bert", layers=12, width=4)
    (backbone,) = evaluate.open_backbones(replace(config, backbones=(str(bert),)), StudyRun(tmp_path / "log"))
    assert len(backbone.choices) == 56 and backbone.choices[-1] == ("-1,-12", "max")
