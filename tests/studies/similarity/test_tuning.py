"""SemEval-2013 5(a) with the encoder trained, and the poolings of a transformer as rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from corpora.pairs.phrases import WordPhrasePairs
from corpora.support.errors import UserError
from senteval_runner.towers.transformer import load_tower
from senteval_runner.vectors.embed import as_vectors
from studies.finetune.config import LoopConfig, TinyConfig
from studies.finetune.tiny import build_tiny
from studies.similarity.config import SimilarityConfig, TuneConfig
from studies.similarity.models import models_of
from studies.similarity.run import run
from studies.similarity.tuning import fine_tuned

COLOURS = ["red", "blue", "green", "white"]
THINGS = ["car", "house", "tree", "dog", "boat", "hat"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = [f"{colour} {thing}" for colour in COLOURS for thing in THINGS] * 2
    config = TinyConfig(layers=1, hidden=32, vocabulary=200)
    return build_tiny(tmp_path_factory.mktemp("tiny") / "bert", texts, config, seed=1)


def pairs() -> WordPhrasePairs:
    """A colour means a phrase that begins with it."""
    rows = [
        (one, f"{other} {thing}", int(one == other))
        for one in COLOURS
        for other in COLOURS
        for thing in THINGS
    ]
    same = [row for row in rows if row[2]]
    different = [row for row in rows if not row[2]][::3]
    kept = same + different
    return WordPhrasePairs(
        words=[row[0] for row in kept], phrases=[row[1] for row in kept], same=[row[2] for row in kept]
    )


def test_encoder_and_classifier_are_trained_together(bert: Path) -> None:
    tower = load_tower(str(bert), dropout=0.0)
    before = {name: weight.detach().clone() for name, weight in tower.named_parameters()}
    config = TuneConfig(epochs=30, loop=LoopConfig(learning_rate=3e-3))
    scores = fine_tuned(tower, pairs(), pairs(), config, seed=1)
    assert scores.acc > 90 and scores.f1 > 90 and scores.pairs == len(pairs())
    moved = [name for name, weight in tower.named_parameters() if not torch.equal(weight, before[name])]
    assert any("layer.0.attention" in name for name in moved)
    one = WordPhrasePairs(words=["a"], phrases=["b"], same=[1])
    with pytest.raises(UserError, match="of one class"):
        fine_tuned(tower, one, one, config, seed=1)


def test_poolings_are_rows_of_their_own(bert: Path, tmp_path: Path) -> None:
    words = tmp_path / "vectors.txt"
    words.write_text("red 1 0\nblue 0 1\ngreen 1 1\n")
    (tmp_path / "EN-SIMLEX-999.txt").write_text("red car 1\nred blue 2\ngreen hat 3\n")
    config = SimilarityConfig(
        models=(str(bert), str(words)),
        words=tmp_path,
        poolings=("cls", "max", "mean"),
        output=tmp_path / "out",
    )
    rows = models_of(config)
    assert [row.name for row in rows] == [f"{bert} CLS", f"{bert} MAX", f"{bert} MEAN", str(words)]
    assert [row.tunable for row in rows] == [True, True, True, False], "word vectors stay fixed, as in BURT"
    vectors = [as_vectors(row.encoder(0))([["red", "car"]]) for row in rows[:3]]
    tower = load_tower(str(bert)).eval()
    with torch.inference_mode():
        for pooling, vector in zip(("cls", "max", "mean"), vectors, strict=True):
            expected = tower.embed(["red car"], pooling).numpy()  # type: ignore[operator]
            np.testing.assert_allclose(vector, expected, atol=1e-6)
    run(config)
    assert len(json.loads((tmp_path / "out/results.json").read_text())["results"]) == 4


def test_fine_tuning_needs_its_data(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--fine-tune needs --semeval2013"):
        run(SimilarityConfig(models=("x",), words=tmp_path, fine_tune=True))
