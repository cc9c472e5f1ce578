"""Damaged files never reach HDF5, which may loop over them for ever."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

import parsing.cache.checksums
from corpora.support.cli import Command
from corpora.support.errors import UserError
from parsing.cache.manifest import Manifest
from parsing.cache.reader import TreeCache
from parsing.info import cli as info
from parsing.verify import cli as verify
from parsing.verify import verify_shards
from tests.parsing.cache.test_reader import corpus_of, write_cache


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three shards; tests copy them."""
    folder = tmp_path_factory.mktemp("caches") / "whole"
    write_cache(folder, corpus_of(70))
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "cache"))


@pytest.mark.data
@pytest.mark.parametrize("command", [verify, info], ids=["verify", "info"])
@pytest.mark.timeout(100)
def test_the_bit_that_hangs_hdf5_is_one_line(
    data_folder: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command([str(data_folder / "faults" / "hang1bit")]) == 2
    error = capsys.readouterr().err.strip()  # its manifest has no hashes: no shard is opened
    assert "manifest.json: shards.0.file_bytes: Field required" in error and "\n" not in error


@pytest.mark.parametrize("at", [0, 9, 245, 2000, -1])
def test_every_flipped_bit_is_found_before_hdf5_opens_the_file(
    folder: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "shard-000001.h5"
    content = bytearray(path.read_bytes())
    content[at] ^= 16
    path.write_bytes(content)
    opened: list[str] = []
    monkeypatch.setattr("parsing.cache.shard_file.open_shard", lambda path: opened.append(path.name))
    with pytest.raises(UserError, match=r"shard-000001\.h5: damaged shard \(its SHA-256"):
        TreeCache.open(folder)._open(1)
    assert not opened


def test_a_file_is_hashed_once_per_process_and_again_when_it_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Path] = []

    def count(path: Path) -> str:
        hashed.append(path)
        return original(path)

    original = parsing.cache.checksums.sha256_file
    monkeypatch.setattr(parsing.cache.checksums, "sha256_file", count)
    for _ in range(3):
        TreeCache.open(folder, open_shards=1).read(0, 70)
    assert len(hashed) == 5
    path = folder / "shard-000000.h5"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match="damaged"):
        TreeCache.open(folder).read(0, 70)


@pytest.mark.parametrize("name", ["sentences", "tokens", "documents", "types", "flagged"])
def test_counts_are_checked_against_the_shard(folder: Path, name: str) -> None:
    manifest = Manifest.read(folder)
    row = manifest.rows[1]
    manifest.rows[1] = dataclasses.replace(row, **{name: getattr(row, name) + 1})
    manifest.write(folder)
    with pytest.raises(UserError, match=rf"shard-000001\.h5: has \d+ {name}, manifest\.json lists \d+"):
        TreeCache.open(folder).read(30, 40)
    with pytest.raises(UserError, match=rf"has \d+ {name}"):  # again: a refusal is not remembered as checked
        list(verify_shards(folder, Manifest.read(folder)))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("sentences", 71, "SHA-256 is not its content's"),
        ("relations", ["a"], "SHA-256 is not its content's"),
        ("tokens", 10**30, "tokens"),
        ("complete", "yes", "complete"),
        ("shards", [{"index": 0}], r"shards\.0"),
        ("identity", [], "identity"),
    ],
)
def test_a_changed_manifest_is_one_line(folder: Path, key: str, value: object, words: str) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(UserError, match=rf"manifest\.json: .*{words}") as refusal:
        TreeCache.open(folder)
    assert "\n" not in str(refusal.value)
