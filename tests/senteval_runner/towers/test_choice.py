"""Chosen layers as a model, encoders taken whole, and how long a text may be."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from corpora.support.errors import UserError
from senteval_runner.towers.backbones import WholeBackbone, open_backbone, open_layers
from senteval_runner.towers.transformer import load_tower, most_pieces
from senteval_runner.vectors.encoders import find_source, open_model
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
    for layers, pooling, told in (("-1,top", "mean", "tiny: -1,top: no layer"), ("-1", "root", "no pooling")):
        with pytest.raises(UserError, match=told):
            open_layers(bert, layers, pooling, **reading(None))


def test_an_encoder_taken_whole_gives_its_own_vectors(bert: str, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("the 1 2 3\ncat 0 1 0\na 5 5 5\n")
    for spec, backbone in ((str(words), open_backbone(str(words))), (bert, WholeBackbone(find_source(bert)))):
        np.testing.assert_allclose(backbone.encode(SENTENCES), [open_model(spec)(SENTENCES)], atol=1e-6)
        assert backbone.columns == [("whole", "own")]


def test_the_longest_text_by_family(bert: str) -> None:
    def most(model_type: str, positions: int | None, named: int) -> int | None:
        shape = SimpleNamespace(model_type=model_type, max_position_embeddings=positions, pad_token_id=1)
        return most_pieces(shape, SimpleNamespace(model_max_length=named))

    assert most("bert", 512, 512) == most("bert", 512, 10**30) == 512
    assert most("roberta", 514, 10**30) == 512  # its positions start behind the padding's
    assert most("bert", 512, 128) == 128
    assert most("t5", None, 10**30) is most("xlnet", -1, 10**30) is None
    assert most("t5", None, 300) == 300
    assert load_tower(bert, max_length=None).model.max_seq_length == 64  # type: ignore[union-attr]
    longer = load_tower(bert, max_length=500)
    assert longer.embed([" ".join(["cat"] * 200)]).shape == (1, 16)  # type: ignore[operator]
