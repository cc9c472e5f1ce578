"""Chosen layers as a model, encoders taken whole, and how long a text may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from multiview.names.sources import find_source
from senteval_runner.towers.backbones import WholeBackbone, open_backbone, open_layers
from senteval_runner.towers.transformer import load_tower
from senteval_runner.vectors.models import open_model
from tests.studies.layers.transformers_tiny import build

pytest.importorskip("transformers")

SENTENCES = [text.split() for text in ("a", "the cat sat on the mat .", "good bright rich a the")]


def reading(cache: Path | None) -> dict[str, Any]:
    return {"max_length": 256, "device": None, "cache": cache}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build(tmp_path_factory.mktemp("bert") / "tiny", "bert"))


def test_chosen_layers_are_those_of_the_backbone_side_by_side(bert: str, tmp_path: Path) -> None:
    model = open_layers(bert, "top,bottom", "mean", **reading(tmp_path))
    backbone = open_backbone(bert)
    columns = backbone.encode(SENTENCES)
    top, bottom = (columns[backbone.columns.index((layer, "mean"))] for layer in ("-1", "-3"))
    np.testing.assert_array_equal(model(SENTENCES), np.concatenate([top, bottom], axis=1))
    assert model.name == "tiny -1,-3 mean"
    kept = open_layers(bert, "-1,-3", "mean", **reading(tmp_path))
    assert kept.identity == model.identity and kept.parts[0].store.place  # one choice, two spellings
    for layers, pooling in (("-1", "mean"), ("-3,-1", "mean"), ("top,bottom", "cls")):
        other = open_layers(bert, layers, pooling, **reading(tmp_path))
        assert other.identity != model.identity and not other.parts[0].store.place


def test_an_encoder_taken_whole_gives_its_own_vectors(bert: str, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("the 1 2 3\ncat 0 1 0\na 5 5 5\n")
    for spec, backbone in ((str(words), open_backbone(str(words))), (bert, WholeBackbone(find_source(bert)))):
        np.testing.assert_allclose(backbone.encode(SENTENCES), [open_model(spec)(SENTENCES)], atol=1e-6)
        assert backbone.columns == [("whole", "own")]


def test_a_text_is_at_most_as_long_as_the_model_reads(bert: str) -> None:
    assert load_tower(bert, max_length=None).model.max_seq_length == 64  # type: ignore[union-attr]
    longer = load_tower(bert, max_length=500)
    assert longer.embed([" ".join(["cat"] * 200)]).shape == (1, 16)  # type: ignore[operator]
