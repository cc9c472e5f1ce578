"""Vectors of a layer study: pooling, backbones and tree nodes against plain loops; the store on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.names.sources import find_source
from senteval_runner.towers import backbones
from senteval_runner.towers.backbones import (
    POOLINGS,
    Frame,
    TransformerBackbone,
    open_backbone,
    pool,
    transformer_folder,
)
from tests.studies.layers.transformers_tiny import build

SENTENCES = [
    text.split()
    for text in (
        "a", "the cat sat on the mat .", "bad", "good bright rich tall far near a the", "zzz cat", ".",
        "the the the the the the the the the the the the", "near far", "sat", "on mat",
    )
]  # fmt: skip
FAMILIES = ("bert", "roberta", "xlnet")


def loop_pool(rows: list[list[float]], frame: Frame, name: str) -> list[float]:
    """One sentence without padding, in plain Python."""
    if name in ("cls", "sep"):
        return rows[getattr(frame, name)]
    columns = list(zip(*rows, strict=True))
    if name == "mean":
        return [sum(column) / len(column) for column in columns]
    return [max(column) for column in columns]


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(2, 7), min_size=1, max_size=5),
    frame=st.sampled_from([Frame(0, -1), Frame(-1, -2)]),
    left=st.booleans(),
    seed=st.integers(0, 99),
)
def test_pooling_equals_a_loop(lengths, frame, left, seed) -> None:
    """Padding on either side holds values that would win every maximum and swamp every mean."""
    generator = torch.Generator().manual_seed(seed)
    T = max(lengths) + 2
    hidden = torch.full((len(lengths), T, 4), 1e9, dtype=torch.float64)
    mask = torch.zeros(len(lengths), T, dtype=torch.long)
    for row, n in enumerate(lengths):
        where = slice(T - n, T) if left else slice(0, n)
        hidden[row, where] = -torch.rand(n, 4, generator=generator, dtype=torch.float64)
        mask[row, where] = 1
    for name in POOLINGS:
        vectors = pool(hidden, mask, frame, name)
        for row in range(len(lengths)):
            real = hidden[row][mask[row].bool()].tolist()
            expected = loop_pool(real, frame, name)
            np.testing.assert_allclose(vectors[row].numpy(), expected, rtol=0, atol=1e-12)


def backbone_of(folder: Path, **options) -> TransformerBackbone:
    return TransformerBackbone(find_source(str(folder)), **options)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    return {family: build(root / family, family) for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
def test_backbones_equal_a_loop(models, family, monkeypatch) -> None:
    """Each sentence alone, float64, without padding, pooled in plain Python."""
    from transformers import AutoModel

    monkeypatch.setattr(backbones, "BATCH", 4)
    backbone = backbone_of(models[family])
    frame = backbone.frame
    assert (frame.cls, frame.sep) == ((-1, -2) if family == "xlnet" else (0, -1)) and not frame.notes
    found = backbone.encode(SENTENCES)
    assert found.shape == (16, len(SENTENCES), 16) and found.dtype == np.float32
    oracle = AutoModel.from_pretrained(models[family]).double().eval()
    for place, tokens in enumerate(SENTENCES):
        ids = torch.tensor([backbone.model.tokenizer(" ".join(tokens))["input_ids"]])
        with torch.no_grad():
            states = oracle(ids, output_hidden_states=True).hidden_states
        for column, (layer, name) in enumerate(backbone.columns):
            rows = states[0 if layer == "emb" else int(layer)][0].tolist()
            expected = loop_pool(rows, backbone.frame, name)
            np.testing.assert_allclose(found[column, place], expected, atol=2e-5)


def test_long_sentences_are_cut(models) -> None:
    backbone = backbone_of(models["bert"], max_length=6)
    found = backbone.encode([SENTENCES[1], SENTENCES[1][:4]])
    np.testing.assert_allclose(found[:, 0], found[:, 1], atol=2e-5)
    assert "cut at 6 pieces" in backbone.notes()[0]
    # RoBERTa's positions begin after the padding's: 64 of its 66 serve, and the longest text still fits
    backbone_of(models["roberta"], max_length=500).encode([["a"] * 200])


def test_a_sentence_transformers_folder(models, tmp_path) -> None:
    (tmp_path / "0_Transformer").mkdir()
    for path in models["bert"].iterdir():
        (tmp_path / "0_Transformer" / path.name).write_bytes(path.read_bytes())
    modules = [
        {"idx": 0, "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    assert transformer_folder(str(tmp_path)) == str(tmp_path / "0_Transformer")
    found = open_backbone(str(tmp_path)).encode(SENTENCES)
    np.testing.assert_array_equal(found, backbone_of(models["bert"]).encode(SENTENCES))
    assert transformer_folder("bert-base-uncased") == "bert-base-uncased"
