"""Compact storage: the bound on every number, the same bytes twice, damaged folders."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from corpora.support.errors import UserError
from corpora.support.files import read_record
from multiview.config import Bits
from multiview.folder.files import load_members, save_member, save_members
from multiview.folder.names import model_folder
from multiview.folder.storage import pack, quantise, quantise_to_4, unpack
from multiview.info import cli as info
from multiview.model import MultiViewEncoder
from multiview.train import main
from parsing.cache.reader import TreeCache
from tests.fixtures.trees import TINY, changed, toy_corpus
from tests.multiview.test_model import reseal


@pytest.fixture(scope="module")
def both(toy_trees: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two models, ``trained`` and ``fixed``."""
    out = tmp_path_factory.mktemp("models")
    words = sorted({word for sentence in toy_corpus()[0] for word in sentence})
    random = np.random.default_rng(0)
    lines = [f"{word} {' '.join(map(str, random.normal(size=5).round(3)))}\n" for word in words[4:]]
    (out / "v.txt").write_text("".join(lines))
    loop = {"epochs": 1}
    main(
        changed(
            TINY, trees=toy_trees, output=out, name="m", words="both", vectors=str(out / "v.txt"), loop=loop
        )
    )
    return out / "m"


@pytest.fixture(scope="module")
def small(both: Path, toy_trees: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both, compact, their parts scaled to length 1."""
    out = tmp_path_factory.mktemp("small") / "small"
    for number, name in enumerate(("trained", "fixed")):
        (member,) = load_members(both / name)
        save_member(out / f"{number}-{name}", member, card="# A model\n", training={}, storage="compact")
    save_members(out, ["0-trained", "1-fixed"], card="# Two models\n", normalize_parts=True)
    return out


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False), min_size=1, max_size=8),
    st.sampled_from([1e-20, 1e-3, 1.0, 1e4]),
)
def test_no_number_is_off_by_more_than_half_a_step(row: list[float], factor: float) -> None:
    x = torch.tensor([row], dtype=torch.float32) * factor
    q, scale = quantise(x)
    assert q.dtype == torch.int8 and scale.dtype == torch.bfloat16
    back = q.double() * scale.double()[:, None]
    assert ((x.double() - back).abs() <= scale.double() / 2 * (1 + 1e-6) + 1e-37).all()


def test_the_bound_is_a_bound_of_size() -> None:
    """The step is a 127th of the row's largest number, up to the rounding of bfloat16."""
    x = torch.randn(500, 64, generator=torch.Generator().manual_seed(0)) * torch.logspace(-6, 3, 500)[:, None]
    _, scale = quantise(x)
    np.testing.assert_allclose(scale.float(), x.abs().amax(dim=1) / 127, rtol=2**-8)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=1, max_size=5))
def test_four_bits_are_the_best_of_three_steps(rows: list[list[float]]) -> None:
    """Against the numbers one by one, in pairs of a byte; an odd row is filled up."""
    x = torch.tensor(rows, dtype=torch.float32)
    pairs, scale = quantise_to_4(x)
    assert pairs.dtype == torch.uint8 and pairs.shape == (len(rows), 2)
    values, _ = unpack({"words.a": pairs, "words.a.scale": scale}, fixed=False)
    for row, found, step in zip(x.numpy(), values["words.a"].numpy(), scale.tolist(), strict=True):
        errors = []
        for fraction in (1.0, 0.85, 0.7):
            size = torch.tensor(np.abs(row).max() / 7 * np.float32(fraction)).bfloat16().item()
            wanted = np.clip(np.round(row / size), -7, 7) * size if size else row * 0
            errors.append(np.square(wanted - row.astype(np.float64)).sum())
        np.testing.assert_allclose(found / (step or 1), np.round(found / (step or 1)), atol=1e-4)
        assert np.square(found - row.astype(np.float64)).sum() <= min(errors) * (1 + 1e-3) + 1e-30


@pytest.mark.parametrize("bits", [8, 4])
def test_unpacked_and_packed_again_is_the_same(bits: Bits) -> None:
    generator = torch.Generator().manual_seed(0)
    tables = torch.randn(300, 7, generator=generator)
    tables[5] = 0
    weights = {"words.tables.0": tables, "encoders.0.w": torch.randn(4, 3, generator=generator)}
    fixed = torch.randn(9, 5, generator=generator).numpy()
    once = pack(weights, fixed, bits)
    values, vectors = unpack(once, fixed=True)
    assert values.keys() == weights.keys() and not values["words.tables.0"][5].any()
    np.testing.assert_allclose(vectors, fixed, atol=float(np.abs(fixed).max()) / (250 if bits == 8 else 3))
    twice = pack(values, vectors, bits)
    assert once.keys() == twice.keys()
    assert all(torch.equal(once[name], twice[name]) for name in once)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e6])
def test_numbers_that_cannot_be_stored_are_refused(value: float) -> None:
    with pytest.raises(UserError, match=r"weights encoders\.0\.w: not finite, or beyond"):
        pack({"encoders.0.w": torch.tensor([[1.0, value]])}, None)


def vectors_of(folder: Path, trees: Path) -> np.ndarray:
    cache = TreeCache.open(trees)
    return MultiViewEncoder.load(folder, "cpu").encode(None, trees=cache, show_progress_bar=False)


def test_loaded_weights_are_the_dequantised_ones(both: Path, small: Path) -> None:
    """By numpy from the file's own numbers."""
    for source, name in (("trained", "0-trained"), ("fixed", "1-fixed")):
        (member,) = load_members(small / name)
        stored = load_file(small / name / "model.safetensors")
        tables = ["words.fixed"] if source == "fixed" else ["words.tables.0", "words.tables.1"]
        for place, table in enumerate(tables):
            q, scale = stored[table].numpy(), stored[f"{table}.scale"].float().numpy()
            expected = q.astype(np.float32) * scale[:, None]
            if source == "fixed":
                loaded = member.network.words.fixed
                np.testing.assert_array_equal(member.network.words.fixed_rows(np.array([3])), expected[[2]])
                original = np.load(both / "fixed" / "vectors.npy")
            else:
                loaded = member.network.tables[place].detach().numpy()
                original = load_file(both / "trained" / "model.safetensors")[table].numpy()
            np.testing.assert_array_equal(loaded, expected)
            assert (np.abs(original - expected) <= scale[:, None] * 0.5001).all()
        for key, value in member.network.weights().items():
            assert value.dtype == torch.float32
            if key.startswith("encoders."):
                assert torch.equal(value, stored[key].float()) and stored[key].dtype == torch.float16


def test_parts_are_scaled_and_joined(both: Path, small: Path, toy_trees: Path) -> None:
    parts = [vectors_of(small / name, toy_trees) for name in ("0-trained", "1-fixed")]
    expected = np.hstack([part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts])
    found = vectors_of(small, toy_trees)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    whole = np.hstack([vectors_of(both / name, toy_trees) for name in ("trained", "fixed")])
    assert not np.allclose(found, whole, atol=1e-2)  # lengths are not 1 by themselves
    encoder = MultiViewEncoder.load(small, "cpu")
    only = encoder.encode(None, trees=TreeCache.open(toy_trees), views="dep")
    lengths = [np.linalg.norm(part, axis=1) for part in np.hsplit(only, 2)]
    np.testing.assert_allclose(lengths, 1, atol=1e-6)


def test_an_older_folder_loads(both: Path, toy_trees: Path, tmp_path: Path) -> None:
    shutil.copytree(both, tmp_path / "old")
    for name in ("", "trained", "fixed"):
        record = read_record(tmp_path / "old" / name / "config.json")
        record.pop("storage", None)
        record.pop("normalize_parts", None)
        _write(tmp_path / "old" / name, record)
    np.testing.assert_array_equal(vectors_of(tmp_path / "old", toy_trees), vectors_of(both, toy_trees))


def _write(folder: Path, record: dict[str, object]) -> None:
    from corpora.support.files import write_record

    write_record(folder / "config.json", record)


@pytest.mark.parametrize(
    ("part", "removed", "message"),
    [
        ("0-trained", "words.tables.0.scale", "words.tables.0 is int8 .* without a scale per row"),
        ("0-trained", "words.tables.1", "asks for words.tables.1"),
        ("1-fixed", "words.fixed", "words.fixed is missing"),
        ("1-fixed", "words.fixed.scale", "words.fixed is int8"),
    ],
)
def test_damaged_compact_folders_are_one_line(
    small: Path, tmp_path: Path, part: str, removed: str, message: str
) -> None:
    copy = tmp_path / "m"
    shutil.copytree(small, copy)
    path = copy / part / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    with pytest.raises(UserError, match=r"model\.safetensors: damaged: \d+ bytes"):
        MultiViewEncoder.load(copy)
    path.write_bytes(whole)
    save_file({name: value for name, value in load_file(path).items() if name != removed}, path)
    reseal(copy / part)
    with pytest.raises(UserError, match=message):
        MultiViewEncoder.load(copy)


def test_a_scale_too_many_is_named(small: Path, tmp_path: Path) -> None:
    shutil.copytree(small / "1-fixed", tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    stored = load_file(path)
    save_file(stored | {"words.fixed.scale": stored["words.fixed.scale"][1:].clone()}, path)
    reseal(tmp_path / "m")
    with pytest.raises(UserError, match="without a scale per row"):
        MultiViewEncoder.load(tmp_path / "m")
    save_file(
        stored | {name: stored[name][1:].clone() for name in ("words.fixed", "words.fixed.scale")}, path
    )
    reseal(tmp_path / "m")
    with pytest.raises(UserError, match=r"model\.safetensors: \(.*\) numbers for"):
        MultiViewEncoder.load(tmp_path / "m")


def test_info_says_what_a_folder_is(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert info([str(small)]) == 0
    shown = capsys.readouterr().out
    assert "0-trained + 1-fixed, each scaled to length 1, concatenated" in shown
    assert shown.count("storage    compact, 0.0 MB") == 2


def test_the_builtin_encoder_of_this_tree() -> None:
    """What the wheel will hold: at most 20 MB, and it says where its data come from."""
    folder = model_folder("builtin")
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= 20e6
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "CC BY-SA 3.0" in card and "public domain" in card and "Apache-2.0" in card
    (member,) = load_members(folder)
    assert member.network.views == ("dep", "const", "seq", "bag", "hash") and member.network.dim == 7616
