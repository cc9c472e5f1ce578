"""Model folders that others made, and changes of a folder that are killed."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from multiview import readout
from multiview.encoders.meaning import Readout, Scale
from multiview.folder.files import (
    load_model,
    model_sha256,
    save_model,
)
from multiview.model import MultiViewEncoder
from multiview.names import constructors
from multiview.training.fit import store_readout
from multiview.words.table import WordTable
from multiview.words.vectors import WordVectors
from multiview.words.vocabulary import Vocabulary
from runtime.errors import UserError
from runtime.files import lock_folder, read_json, read_record, write_record
from runtime.folders import current_folder
from tests.fixtures.kills import kills
from tests.fixtures.models import encoder_of, reseal, save_compact

NEW_WORDS = WordVectors(
    ["the", "cat", "dog", "sat"], np.array([[1, 0], [0, 1], [1, 1], [2, 1]], dtype=np.float32)
)


def unscaled(dim: int) -> Scale:
    """A scale of numbers that all have mean 0 and deviation 1."""
    return Scale(torch.zeros(dim), torch.ones(dim))


def trained(seed: int) -> MultiViewEncoder:
    """A model of one view with words of its own."""
    table = WordTable(Vocabulary(["the", "cat", "sat"], buckets=2), 6, views=1)
    table.initialise("bag", seed=seed)
    return MultiViewEncoder.untrained("seq", dim=4, words=table, seed=seed, device="cpu")


def fitted(encoder: MultiViewEncoder, seed: int) -> Readout:
    torch.manual_seed(seed)
    width = encoder.network.dim
    return Readout(torch.randn(3, width), torch.randn(3), f"fit {seed}")


def read_out(folder: Path) -> None:
    with lock_folder(folder):
        store_readout(folder, folder, fitted(trained(1), 1), unscaled(4), "", 0.2)


def expand(folder: Path) -> None:
    with lock_folder(folder):
        model = load_model(folder)
        model.network.words.expand(NEW_WORDS)
        save_model(model, folder, folder)


def weights(folder: Path):
    """All that a folder's model computes with."""
    encoder = MultiViewEncoder.load(folder, "cpu")
    words = encoder.network.words
    more = {"structure": encoder.structure, "words": words.vocabulary.words}
    fixed = {} if words.fixed_vectors is None else {"fixed": words.fixed_vectors[:].tolist()}
    return {name: value.tolist() for name, value in encoder.network.weights().items()} | more | fixed


@pytest.mark.parametrize(
    ("first", "change"),
    [
        (encoder_of(), lambda folder: trained(2).save(folder)),
        (trained(1), lambda folder: encoder_of().save(folder)),
        (trained(1), read_out),
        (trained(1), expand),
        (trained(1), lambda folder: save_model(trained(2).model, folder, card="# A\n")),
    ],
)
def test_a_killed_change_leaves_the_old_model_or_the_new(first, change, tmp_path) -> None:
    before, work, after = tmp_path / "before", tmp_path / "work", tmp_path / "after"
    first.save(before)
    shutil.copytree(before, after)
    change(after)
    old, new = weights(before), weights(after)
    assert old != new
    is_new = []
    for folder in kills(lambda: change(work), before, work):
        weights_now = weights(folder)
        is_new.append(weights_now == new)
        assert weights_now in (old, new)
        if len(is_new) % 4 == 0:  # the same command goes on
            change(folder)
            assert weights(folder) == new and current_folder(folder) == folder
    assert is_new == sorted(is_new) and len(set(is_new)) == 2 and len(is_new) > 10


def test_one_writer_at_a_time(tmp_path: Path, toy_trees: Path, refusal) -> None:
    trained(1).save(tmp_path / "m")
    before = weights(tmp_path / "m")
    with lock_folder(tmp_path / "m"):
        with pytest.raises(UserError, match="m: another run is writing here"):
            trained(2).save(tmp_path / "m")
        for output in ([], ["--output", tmp_path / "m"]):
            line = refusal(readout.cli, tmp_path / "m", toy_trees, "--dim", 2, *output)
            assert "m: another run is writing here" in line
    assert weights(tmp_path / "m") == before


def test_a_model_is_not_written_over_something_else(tmp_path: Path, toy_trees: Path, refusal) -> None:
    trained(1).save(tmp_path / "m")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "config.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("letters", "file"):
        with pytest.raises(UserError, match=f"{name}: holds something other than a model"):
            trained(1).save(tmp_path / name)
    line = refusal(readout.cli, tmp_path / "m", toy_trees, "--dim", 2, "--output", tmp_path / "letters")
    assert "letters: holds something other than a model" in line
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["config.txt"]


@pytest.mark.parametrize(
    "name",
    ["../../payload.sh", "/etc/passwd", "sub/vocab.txt", "x" * 300, "payload.sh", "", ".", "a\0b", "a\nb"],
)
def test_names_in_a_folder_lead_nowhere(name: str, tmp_path: Path) -> None:
    encoder_of().save(tmp_path / "in" / "m")
    folder, record = tmp_path / "in" / "m", read_record(tmp_path / "in" / "m" / "config.json")
    (tmp_path / "payload.sh").write_text("mine")
    record["files"][name] = {"bytes": 4, "sha256": "0" * 64}
    write_record(folder / "config.json", record)
    for read in (
        load_model,
        model_sha256,
        lambda place: constructors.encoder_of(str(place)),
        lambda place: store_readout(place, tmp_path / "out" / "m", fitted(encoder_of(), 0), unscaled(10), ""),
        encoder_of().save,
    ):
        with pytest.raises(UserError, match=r"config\.json: files.*: must be 'model.safetensors'"):
            read(folder)
    assert (tmp_path / "payload.sh").read_text() == "mine" and not (tmp_path / "out").exists()


@pytest.mark.parametrize("how", ["gone", "latin-1", "link", "fifo", "folder"])
def test_a_card_is_copied_if_it_is_one(how: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    trained(1).save(tmp_path / "m")
    card = tmp_path / "m" / "README.md"
    loaded = MultiViewEncoder.load(tmp_path / "m", "cpu")
    card.unlink()
    if how == "latin-1":
        card.write_bytes(b"na\xefve")
    elif how == "link":
        card.symlink_to(tmp_path / "secret")
        (tmp_path / "m" / "time.json").symlink_to(tmp_path / "secret.json")
    elif how == "fifo":
        os.mkfifo(card)
    elif how == "folder":
        card.mkdir()
    loaded.save(tmp_path / "other")
    store_readout(tmp_path / "m", tmp_path / "read", fitted(loaded, 0), unscaled(4), "# Card")
    for name in ("other", "read"):
        assert (tmp_path / name / "README.md").read_text().startswith("# ")
    assert weights(tmp_path / "other") == weights(tmp_path / "m")


def save_expanded(folder: Path) -> None:
    encoder = trained(1)
    encoder.network.words.expand(NEW_WORDS)
    encoder.network.half()  # a folder has float32 all the same
    encoder.save(folder)


MAPS, PLACES = "words.expansion.maps", "words.expansion.places"
WORDS, SCALE = "words.fixed", "words.fixed.scale"
FOUR_ROWS, FOUR_SCALES = torch.ones(4, 3).to(torch.uint8), torch.ones(4).bfloat16()


@pytest.mark.parametrize(
    ("save", "change", "message"),
    [
        (save_expanded, lambda t: {PLACES: t[PLACES].float()}, PLACES),
        (save_expanded, lambda t: {PLACES: t[PLACES] - 9}, PLACES),
        (save_expanded, lambda t: {PLACES: t[PLACES] + 9}, PLACES),
        (save_expanded, lambda t: {PLACES: t[PLACES][:0]}, PLACES),
        (save_expanded, lambda t: {PLACES: None}, PLACES),
        (save_expanded, lambda t: {MAPS: t[MAPS].half()}, MAPS),
        (save_expanded, lambda t: {MAPS: torch.cat([t[MAPS], t[MAPS]])}, MAPS),
        (save_expanded, lambda t: {MAPS: t[MAPS][:, :1].contiguous()}, MAPS),
        (save_expanded, lambda t: {MAPS: t[MAPS] / 0}, MAPS),
        (
            save_expanded,
            lambda t: {name: v.long() for name, v in t.items()},
            r"of torch\.float32, model\.safetensors has .* of torch\.int64",
        ),
        (save_compact, lambda t: {WORDS: None}, r"cannot be loaded \('words\.fixed'\)"),
        (save_compact, lambda t: {SCALE: FOUR_SCALES}, "without a scale per row"),
        (save_compact, lambda t: {WORDS: torch.ones(5, 6).to(torch.int8)}, "torch.int8 .* without a scale"),
        (save_compact, lambda t: {WORDS: torch.ones(5, 6).half()}, "is no pairs of 4 bits"),
        (save_compact, lambda t: {WORDS: FOUR_ROWS, SCALE: FOUR_SCALES}, r"\(4, 6\) numbers .* for 5 words"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_when_they_are_read(save, change, message, tmp_path) -> None:
    save(tmp_path / "m")
    load_model(tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    stored = load_file(path)
    changed = stored | change(stored)
    save_file({name: value for name, value in changed.items() if value is not None}, path)
    reseal(tmp_path / "m")
    with pytest.raises(UserError, match=message):
        load_model(tmp_path / "m")


LONG = {"bytes": 2_400_000_000, "sha256": "0" * 64}
LARGE = {"mode": "trained", "buckets": 10**30, "case": "exact"}


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"words": {"expanded": 2}}, r"config\.json: asks for words\.expansion\.places \[2\]"),
        ({"words": {"expanded": 99}}, r"config\.json: asks for words\.expansion\.places \[99\]"),
        ({"words": {"expanded": -1}}, "expanded -1: must be at least 0"),
        ({"words": {"expanded": 1, "mode": "fixed"}}, "fixed ones have no expansion"),
        ({"words": {"expanded": 0, "mode": "fixed", "buckets": 10**9}}, "at most 268,435,456 numbers"),
        ({"words": {"expanded": 0, "mode": "fixed"}, "files": {"vectors.npy": None}}, "does not list"),
        ({"words": LARGE}, "config.json: "),
        ({"encoder": {"dim": 10**30}}, "sizes out of range|must be"),
        ({"files": {"vocab.txt": LONG}}, r"vocab\.txt: damaged: 16 bytes, 2400000000 were written"),
        ({"format": 9}, "model format 9"),
        ({"extra": 1}, "extra"),
        *(({"structure": share}, "structure") for share in ([], "0.1", 2)),
        ({"readout": {"dim": 3}}, "origin"),
    ],
)
def test_what_config_json_only_claims(claims, message: str, tmp_path: Path) -> None:
    save_expanded(tmp_path / "m")
    path = tmp_path / "m" / "config.json"
    record = read_record(path)
    for part, claim in claims.items():
        if isinstance(claim, dict) and record.get(part):
            claim = {name: value for name, value in (record[part] | claim).items() if value is not None}
        record[part] = claim
    write_record(path, record)
    with pytest.raises(UserError, match=message):
        load_model(path.parent)
    path.write_text(json.dumps({**read_json(path), "seal": "0" * 64}))
    for read in (load_model, lambda folder: constructors.encoder_of(str(folder))):
        with pytest.raises(UserError, match=r"model format 9|do not match its seal"):
            read(path.parent)


def test_vectors_are_those_of_the_model_not_of_a_file_that_took_their_name(tmp_path: Path) -> None:
    encoder_of().save(tmp_path / "m")
    loaded = MultiViewEncoder.load(tmp_path / "m", "cpu")
    np.save(tmp_path / "other.npy", np.ones((5, 6), np.float32))
    os.replace(tmp_path / "other.npy", tmp_path / "m" / "vectors.npy")
    save_model(loaded.model, tmp_path / "copy")
    np.testing.assert_array_equal(
        load_model(tmp_path / "copy").network.words.fixed_vectors,
        encoder_of().network.words.fixed_vectors,
    )
