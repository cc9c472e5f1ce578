"""Layers and poolings against plain loops, encoders taken whole, how long a text may be."""

import json

import numpy as np
import pytest
import torch

from multiview.names.constructors import encoder_of
from senteval_runner.evaluation_trees import open_model
from senteval_runner.towers import backbones
from senteval_runner.towers.backbones import (
    Backbone,
    TransformerBackbone,
    open_backbone,
    open_layers,
    special_positions,
    transformer_folder,
)
from senteval_runner.towers.transformer import load_tower
from tests.fixtures.transformers import build

pytest.importorskip("transformers")
TEXTS = [
    "a", "the cat sat on the mat .", "bad", "good bright rich tall far near a the", "zzz cat", ".",
    "the the the the the the the the the the the the", "near far", "sat", "on mat",
]  # fmt: skip
SENTENCES = [text.split() for text in TEXTS]
FAMILIES = ("bert", "roberta", "xlnet")


def loop_pool(rows: list[list[float]], positions: dict[str, int], name: str) -> list[float]:
    """One sentence without padding, in plain Python."""
    if name in positions:
        return rows[positions[name]]
    columns = list(zip(*rows, strict=True))
    return [sum(column) / len(column) if name == "mean" else max(column) for column in columns]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("families")
    return {family: str(build(root / family, family)) for family in FAMILIES}


def backbone_of(folder: str, **options) -> TransformerBackbone:
    return TransformerBackbone(encoder_of(folder), **options)


@pytest.mark.parametrize("family", FAMILIES)
def test_backbones_equal_a_loop(models, family, monkeypatch) -> None:
    """Each sentence alone, float64, without padding, pooled in plain Python."""
    from transformers import AutoModel

    monkeypatch.setattr(backbones, "BACKBONE_BATCH", 4)
    backbone = backbone_of(models[family])
    positions, missing = special_positions(backbone.model.tokenizer)
    assert tuple(positions.values()) == ((-1, -2) if family == "xlnet" else (0, -1)) and not missing
    vectors = backbone.encode(TEXTS)
    assert vectors.shape == (16, len(TEXTS), 16) and vectors.dtype == np.float32
    oracle = AutoModel.from_pretrained(models[family]).double().eval()
    for position, text in enumerate(TEXTS):
        ids = torch.tensor([backbone.model.tokenizer(text)["input_ids"]])
        with torch.no_grad():
            states = oracle(ids, output_hidden_states=True).hidden_states
        for column, (layer, name) in enumerate(backbone.columns):
            rows = states[0 if layer == "emb" else int(layer)][0].tolist()
            np.testing.assert_allclose(vectors[column, position], loop_pool(rows, positions, name), atol=2e-5)


def test_long_sentences_are_cut(models) -> None:
    backbone = backbone_of(models["bert"], max_length=6)
    vectors = backbone.encode([TEXTS[1], "the cat sat on"])
    np.testing.assert_allclose(vectors[:, 0], vectors[:, 1], atol=2e-5)
    assert "cut at 6 pieces" in backbone.notes()[0]
    # RoBERTa's positions begin after the padding's: 64 of its 66 serve, and the longest text still fits
    backbone_of(models["roberta"], max_length=500).encode(["a " * 200])
    assert load_tower(models["bert"], max_length=None).model.max_seq_length == 64
    assert load_tower(models["bert"], max_length=500).embed(["cat " * 200]).shape == (1, 16)


def test_a_sentence_transformers_folder(models, tmp_path) -> None:
    (tmp_path / "0_Transformer").symlink_to(models["bert"])
    modules = [
        {"idx": 0, "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    vectors = backbone_of(str(tmp_path)).encode(TEXTS)
    np.testing.assert_array_equal(vectors, backbone_of(models["bert"]).encode(TEXTS))
    assert transformer_folder("bert-base-uncased") == "bert-base-uncased"


def test_chosen_layers_are_those_of_the_backbone_side_by_side(models, tmp_path) -> None:
    def layers_of(layers: str, pooling: str):
        return open_layers(models["bert"], layers, pooling, max_length=256, device=None, cache=tmp_path)

    model, backbone = layers_of("top,bottom", "mean"), backbone_of(models["bert"])
    columns = backbone.encode(TEXTS)
    top, bottom = (columns[backbone.columns.index((layer, "mean"))] for layer in ("-1", "-3"))
    np.testing.assert_array_equal(model.encode(SENTENCES), np.concatenate([top, bottom], axis=1))
    assert model.name == "bert -1,-3 mean"
    second = layers_of("-1,-3", "mean")
    assert second.key() == model.key() and second.parts[0].store().positions  # two spellings
    for other in (layers_of("-1", "mean"), layers_of("-3,-1", "mean"), layers_of("top,bottom", "cls")):
        assert other.key() != model.key() and not other.parts[0].store().positions


def test_an_encoder_taken_whole_gives_its_own_vectors(models, tmp_path) -> None:
    words, bert = tmp_path / "words.txt", models["bert"]
    words.write_text("the 1 2 3\ncat 0 1 0\na 5 5 5\n")
    for spec, backbone in ((str(words), open_backbone(str(words))), (bert, Backbone(encoder_of(bert)))):
        backbone.open([(choice := ("whole", "own"))], None)
        vectors = backbone.encoder(choice).encode(SENTENCES)
        np.testing.assert_allclose(vectors, open_model(spec).encode(SENTENCES), atol=1e-6)
