"""Vectors of a layer study: pooling, backbones and tree nodes against plain loops; the store on disk."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.support.errors import UserError
from multiview.encoders.stack import Reading
from multiview.model import MultiViewEncoder
from senteval_runner.towers.backbones import (
    TransformerBackbone,
    open_backbone,
    store_name,
    transformer_folder,
)
from senteval_runner.towers.layer_store import LayerStore
from senteval_runner.towers.node_states import TreeBackbone, pool_nodes
from senteval_runner.towers.pooling import POOLINGS, Frame, frame_of, pool
from senteval_runner.vectors.sources import find_source
from studies.layers.config import LayersConfig
from tests.studies.layers.transformers_tiny import build

SENTENCES = [
    text.split()
    for text in (
        "a", "the cat sat on the mat .", "bad", "good bright rich tall far near a the", "zzz cat", ".",
        "the the the the the the the the the the the the", "near far", "sat", "on mat",
    )
]  # fmt: skip
FAMILIES = ("bert", "roberta", "xlnet")


def loop_pool(rows: list[list[float]], frame: Frame, name: str, *, special_tokens: bool) -> list[float]:
    """One sentence without padding, in plain Python."""
    if name in ("cls", "sep"):
        return rows[getattr(frame, name)]
    kept = rows
    if not special_tokens and len(rows) > frame.prefix + frame.suffix:
        kept = rows[frame.prefix : len(rows) - frame.suffix]
    columns = list(zip(*kept, strict=True))
    if name == "mean":
        return [sum(column) / len(column) for column in columns]
    return [max(column) for column in columns]


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=5),
    frame=st.sampled_from(
        [
            Frame(prefix=1, suffix=1, cls=0, sep=-1),
            Frame(prefix=0, suffix=2, cls=-1, sep=-2),
            Frame(prefix=0, suffix=0, cls=0, sep=-1),
        ]
    ),
    left=st.booleans(),
    special_tokens=st.booleans(),
    seed=st.integers(0, 99),
)
def test_pooling_equals_a_loop(lengths, frame, left, special_tokens, seed) -> None:
    """Padding on either side holds values that would win every maximum and swamp every mean."""
    lengths = [max(n, frame.prefix + frame.suffix) for n in lengths]
    generator = torch.Generator().manual_seed(seed)
    T = max(lengths) + 2
    hidden = torch.full((len(lengths), T, 4), 1e9, dtype=torch.float64)
    mask = torch.zeros(len(lengths), T, dtype=torch.long)
    for row, n in enumerate(lengths):
        where = slice(T - n, T) if left else slice(0, n)
        hidden[row, where] = -torch.rand(n, 4, generator=generator, dtype=torch.float64)
        mask[row, where] = 1
    found = pool(hidden, mask, frame, POOLINGS, special_tokens=special_tokens)
    for name, vectors in zip(POOLINGS, found, strict=True):
        for row in range(len(lengths)):
            real = hidden[row][mask[row].bool()].tolist()
            expected = loop_pool(real, frame, name, special_tokens=special_tokens)
            np.testing.assert_allclose(vectors[row].numpy(), expected, rtol=0, atol=1e-12)


def backbone_of(folder: Path, **options) -> TransformerBackbone:
    return TransformerBackbone(find_source(str(folder)), LayersConfig(backbones=(), **options))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("transformers")
    root = tmp_path_factory.mktemp("families")
    return {family: build(root / family, family) for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_special_tokens_are_found(models, family) -> None:
    frame = backbone_of(models[family]).frame
    expected = {"bert": (1, 1, 0, -1), "roberta": (1, 1, 0, -1), "xlnet": (0, 2, -1, -2)}[family]
    assert (frame.prefix, frame.suffix, frame.cls, frame.sep) == expected and not frame.notes


def test_a_tokenizer_without_special_tokens() -> None:
    def bare(text, **_):
        return {"input_ids": [7, 8], "special_tokens_mask": [0, 0]}

    bare.cls_token_id, bare.sep_token_id = None, None  # type: ignore[attr-defined]
    frame = frame_of(bare)
    assert (frame.prefix, frame.suffix, frame.cls, frame.sep) == (0, 0, 0, -1) and len(frame.notes) == 2


@pytest.mark.parametrize("special_tokens", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_backbones_equal_a_loop(models, family, special_tokens) -> None:
    """Each sentence alone, float64, without padding, pooled in plain Python."""
    from transformers import AutoModel

    backbone = backbone_of(models[family], special_tokens=special_tokens, batch_size=4)
    found, cut = backbone.encode(SENTENCES)
    assert found.shape == (16, len(SENTENCES), 16) and found.dtype == np.float32 and not cut.any()
    assert backbone.layers == ("emb", "-3", "-2", "-1")
    oracle = AutoModel.from_pretrained(models[family]).double().eval()
    for place, tokens in enumerate(SENTENCES):
        ids = torch.tensor([backbone.tokenizer(" ".join(tokens))["input_ids"]])
        with torch.no_grad():
            states = oracle(ids, output_hidden_states=True).hidden_states
        for column, (layer, name) in enumerate(backbone.columns):
            rows = states[0 if layer == "emb" else int(layer)][0].tolist()
            expected = loop_pool(rows, backbone.frame, name, special_tokens=special_tokens)
            np.testing.assert_allclose(found[column, place], expected, atol=2e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_batches_do_not_matter(models, family) -> None:
    one, _ = backbone_of(models[family], batch_size=1).encode(SENTENCES)
    for size in (3, 64):
        np.testing.assert_allclose(
            backbone_of(models[family], batch_size=size).encode(SENTENCES)[0], one, atol=2e-5
        )
    backward, _ = backbone_of(models[family], batch_size=3).encode(SENTENCES[::-1])
    np.testing.assert_allclose(backward[:, ::-1], one, atol=2e-5)


def test_the_top_layer_is_the_models_output(models) -> None:
    backbone = backbone_of(models["bert"])
    found, _ = backbone.encode(SENTENCES)
    batch = backbone.tokenizer([" ".join(s) for s in SENTENCES], padding=True, return_tensors="pt")
    with torch.no_grad():
        top = backbone.model(**batch).last_hidden_state
    np.testing.assert_allclose(found[backbone.columns.index(("-1", "cls"))], top[:, 0].numpy(), atol=2e-5)


def test_long_sentences_are_cut_and_counted(models) -> None:
    backbone = backbone_of(models["bert"], max_length=6)
    _, cut = backbone.encode(SENTENCES)
    assert cut.tolist() == [len(s) + 2 > 6 for s in SENTENCES]
    assert "3 sentences cut at 6 pieces" in backbone.notes(3)[0]
    # RoBERTa's positions begin after the padding's: 64 of its 66 serve, and the longest text still fits
    backbone_of(models["roberta"], max_length=500).encode([["a"] * 200])


def test_only_the_wanted_columns_are_made(models) -> None:
    backbone = backbone_of(models["bert"])
    whole, _ = backbone.encode(SENTENCES)
    before = store_name(backbone, "float16")
    wanted = [("emb", "max"), ("-1", "cls"), ("-1", "mean")]
    places = [backbone.columns.index(column) for column in wanted]
    backbone.columns = wanted
    np.testing.assert_array_equal(backbone.encode(SENTENCES)[0], whole[places])
    assert store_name(backbone, "float16") not in (before, store_name(backbone, "float32"))


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
    found = open_backbone(str(tmp_path), LayersConfig(backbones=())).encode(SENTENCES)[0]
    np.testing.assert_array_equal(found, backbone_of(models["bert"]).encode(SENTENCES)[0])
    assert transformer_folder("bert-base-uncased") == "bert-base-uncased"


def test_tree_nodes_equal_a_loop() -> None:
    """All views, poolings and heights against the nodes of each sentence alone."""
    backbone = TreeBackbone(
        find_source("random:dep,const,seq"), LayersConfig(backbones=(), heights=(0, 1, 3))
    )
    found, cut = backbone.encode(SENTENCES)
    assert found.shape == (9, len(SENTENCES), 3 * 128) and not cut.any()
    np.testing.assert_allclose(
        found[backbone.columns.index(("all", "root"))], backbone.model.encode(SENTENCES), atol=1e-5
    )
    for place, tokens in enumerate(SENTENCES):
        (nodes,) = backbone.model.node_states([tokens])
        assert nodes.places.tolist() == [0]
        assert [len(v.h_ND) for v in nodes.views] == [len(tokens), 2 * len(tokens) - 1, len(tokens)]
        for column, (layer, name) in enumerate(backbone.columns):
            expected: list[float] = []
            for view in nodes.views:
                assert not view.sentence_N.any()
                rows = [
                    v.tolist()
                    for v, at in zip(view.h_ND, view.height_N, strict=True)
                    if layer in ("all", f"h{int(at)}")
                ]
                if name == "root" or not rows:
                    rows = [backbone.model.encode([tokens], views=[view.view])[0].tolist()]
                each = zip(*rows, strict=True)
                expected += [max(c) if name == "max" else sum(c) / len(c) for c in each]
            np.testing.assert_allclose(found[column, place], expected, atol=1e-5)


def test_the_columns_of_a_model_that_joins_pools_are_its_nodes(tmp_path: Path) -> None:
    """They do not depend on how the model's own sentence vectors are made."""
    encoder = MultiViewEncoder.untrained("dep,seq", dim=4, word_dim=3)
    encoder.save(tmp_path / "plain")
    (part,) = encoder.members
    part.network = part.network.as_read(Reading("root,mean,max", ("bag",), (0.5, 2.0, 3.0)))
    encoder.save(tmp_path / "wide")
    config = LayersConfig(backbones=(), heights=(0, 1))
    plain, wide = (
        TreeBackbone(find_source(str(tmp_path / name)), config).encode(SENTENCES)[0]
        for name in ("plain", "wide")
    )
    assert wide.shape[2] == plain.shape[2] + 3
    np.testing.assert_allclose(wide[:, :, :8], plain, atol=1e-6)


def test_node_pooling_in_double_precision() -> None:
    generator = torch.Generator().manual_seed(0)
    h = torch.randn(9, 3, generator=generator, dtype=torch.float64)
    root = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    sentence = torch.tensor([0, 0, 0, 2, 2, 3, 3, 3, 3])
    for name in ("mean", "max"):
        found = pool_nodes(root, h, sentence, name)
        for b in range(4):
            rows = [h[i] for i in range(9) if sentence[i] == b] or [root[b]]
            stacked = torch.stack(rows)
            expected = stacked.mean(0) if name == "mean" else stacked.amax(0)
            torch.testing.assert_close(found[b], expected, rtol=0, atol=1e-12)


def random_columns(n: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).randn(3, n, 5).astype(np.float32)


def test_the_store_gives_back_what_it_got(tmp_path) -> None:
    texts = [f"sentence {i}" for i in range(10)]
    vectors, cut = random_columns(10), np.arange(10) == 4
    store = LayerStore(tmp_path, 3, "float32")
    store.add(texts[:6], vectors[:, :6], cut[:6])
    store.add(texts[6:], vectors[:, 6:], cut[6:])
    for opened in (store, LayerStore(tmp_path, 3, "float32")):
        assert opened.missing(["new", texts[3], "new"]) == ["new"] and opened.cut == 1
        order = [7, 2, 2, 9]
        np.testing.assert_array_equal(opened.get([texts[i] for i in order], 1), vectors[1, order])
    half = LayerStore(tmp_path / "half", 3, "float16")
    half.add(texts, vectors, cut)
    np.testing.assert_array_equal(half.get(texts, 2), vectors[2].astype(np.float16).astype(np.float32))
    assert half.nbytes() == 3 * 10 * 5 * 2


def test_a_shard_without_its_record_does_not_exist(tmp_path) -> None:
    store = LayerStore(tmp_path, 3, "float16")
    none = np.zeros(2, dtype=bool)
    store.add(["a", "b"], random_columns(2), none)
    store.add(["c", "d"], random_columns(2, 1), none)
    next(tmp_path.glob("00001-*.json")).unlink()  # killed before it
    store = LayerStore(tmp_path, 3, "float16")
    assert store.missing(["a", "b", "c"]) == ["c"]
    store.add(["c", "e"], random_columns(2, 2), none)
    np.testing.assert_allclose(
        LayerStore(tmp_path, 3, "float16").get(["c"], 0)[0], random_columns(2, 2)[0, 0], atol=2e-3
    )


def test_two_processes_may_share_a_store(tmp_path) -> None:
    one, two = (LayerStore(tmp_path, 3, "float32") for _ in range(2))
    none = np.zeros(2, dtype=bool)
    one.add(["a", "b"], random_columns(2), none)
    two.add(["b", "c"], random_columns(2, 1), none)
    opened = LayerStore(tmp_path, 3, "float32")
    assert opened.missing(["a", "b", "c"]) == []
    np.testing.assert_array_equal(
        opened.get(["a", "c"], 2), [random_columns(2)[2, 0], random_columns(2, 1)[2, 1]]
    )


def test_damaged_and_foreign_shards_are_named(tmp_path) -> None:
    LayerStore(tmp_path, 3, "float16").add(["a"], random_columns(1), np.zeros(1, dtype=bool))
    with pytest.raises(UserError, match=r"\.json: not a shard"):
        LayerStore(tmp_path, 4, "float16")
    with pytest.raises(UserError, match="delete"):
        LayerStore(tmp_path, 3, "float32")
    next(tmp_path.glob("*.vectors.npy")).write_bytes(b"nothing")
    with pytest.raises(UserError, match="not a shard"):
        LayerStore(tmp_path, 3, "float16")


def test_numbers_that_cannot_be_stored(tmp_path, monkeypatch) -> None:
    none = np.zeros(1, dtype=bool)
    with pytest.raises(UserError, match="use --storage float32"):
        LayerStore(tmp_path, 3, "float16").add(["a"], random_columns(1) * 1e6, none)
    with pytest.raises(UserError, match="NaN or infinity"):
        LayerStore(tmp_path, 3, "float32").add(["a"], random_columns(1) * np.nan, none)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(UserError, match=r"need 0\.0 GB"):
        LayerStore(tmp_path / "deep/er", 3, "float16").check_space(100, 5)
