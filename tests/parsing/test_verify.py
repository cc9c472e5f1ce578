"""verify finds every kind of damage and says where; info counts what is there."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from corpora.support.errors import UserError
from parsing.cache.format import ShardResult
from parsing.cache.manifest import Manifest
from parsing.cache.reader import TreeCache
from parsing.cache.shard_file import read_shard, write_shard
from parsing.info import as_json, as_text, gather, plot
from parsing.verify import verify_shards
from tests.parsing.cache.test_reader import corpus_of, write_cache


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sentences = corpus_of(40)
    sentences[20] = ("w",) * 140
    write_cache(tmp_path / "cache", sentences, documents=(0, 7, 30))
    return tmp_path / "cache"


def verify(folder: Path, *, quick: bool = False) -> int:
    return sum(row.sentences for row in verify_shards(folder, Manifest.read(folder), quick=quick))


def rewrite(folder: Path, name: str, at: int, value: int) -> None:
    """Change one value of shard 1 and list it as if it were right."""
    manifest = Manifest.read(folder)
    arrays, header = read_shard(folder / "shard-000001.h5")
    if value > 127 and arrays[name].dtype == np.int8:
        arrays[name] = arrays[name].astype(np.int16)
    arrays[name][at] = value
    row = manifest.rows[1]
    result = ShardResult(
        index=1, arrays=arrays, continues=json.loads(header)["continues"], reasons=row.reasons
    )
    manifest.rows[1] = write_shard(
        folder, result, identity=manifest.identity, inventories=manifest.inventories
    )
    manifest.write(folder)


def test_a_sound_cache_passes(folder: Path) -> None:
    assert verify(folder) == 40


@pytest.mark.parametrize(
    ("name", "at", "value", "what"),
    [
        ("head", 0, 99, "a head lies outside the sentence"),
        ("head", slice(None), 0, "not exactly one root"),
        ("relation", 5, 77, "relation 77 is not one of 4"),
        ("tag", 5, -1, "tag -1 is not one of 4"),
        ("label", 5, 6, "label 6 is not one of 6"),
        ("dep_height", 3, 55, "a height is not one more than its highest child's"),
        ("const_height", 3, 55, "a height is not one more than its highest child's"),
        ("left", 0, 99, "a child is not made before its parent"),
        ("token", 4, 5000, "token 5000 is not one of"),
        ("sentence_offsets", 2, 0, "a sentence without a token"),
        ("document_offsets", 1, 0, "document offsets do not fit"),
        ("flags", 0, 1, "flagged as a fallback, but the tree is another"),
        ("type_bytes", 0, 255, "not UTF-8"),
    ],
)
def test_a_broken_invariant_is_named_with_shard_and_row(folder, name, at, value, what) -> None:
    rewrite(folder, name, at, value)
    with pytest.raises(UserError, match=rf"shard-000001\.h5: row \d+ \(sentence \d+ of .*{what}"):
        verify(folder)


def test_the_row_is_the_right_one(folder: Path) -> None:
    cache = TreeCache.open(folder)
    start = int(cache.read(16, 25).sentence_offsets[-1])
    rewrite(folder, "dep_height", start, 44)
    with pytest.raises(UserError, match=r"row 9 \(sentence 25 of the corpus\)"):
        verify(folder)


def test_a_flipped_bit_changes_the_hash(folder: Path) -> None:
    with h5py.File(folder / "shard-000001.h5", "r+") as file:
        file["head"][3] = file["head"][3] ^ 1
    with pytest.raises(UserError, match="damaged shard"):
        verify(folder)


@pytest.mark.parametrize("seed", range(6))
def test_flipped_bits_in_the_file_are_found_or_harmless(folder: Path, seed: int) -> None:
    """A bit may lie in padding; anywhere else it is a clear message, never other trees."""
    path = folder / "shard-000001.h5"
    data = bytearray(path.read_bytes())
    random = np.random.default_rng(seed)
    data[int(random.integers(len(data)))] ^= 1 << int(random.integers(8))
    path.write_bytes(bytes(data))
    try:
        assert verify(folder) == 40
    except UserError as error:
        assert "shard-000001.h5" in str(error)


def test_quick_compares_files_and_leaves_trees_unread(folder: Path) -> None:
    rewrite(folder, "head", 0, 99)  # listed as if it were right
    assert verify(folder, quick=True) == 40
    path = folder / "shard-000001.h5"
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"shard-000001\.h5: (not a readable|damaged) shard"):
            verify(folder, quick=True)


def test_a_truncated_shard_is_named(folder: Path) -> None:
    path = folder / "shard-000002.h5"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"shard-000002\.h5: not a readable shard"):
        verify(folder)


def test_a_shard_of_another_cache_is_named(folder: Path, tmp_path: Path) -> None:
    write_cache(tmp_path / "other", corpus_of(40, seed=1), views=("dep",))
    (folder / "shard-000000.h5").write_bytes((tmp_path / "other" / "shard-000000.h5").read_bytes())
    with pytest.raises(UserError, match=r"shard-000000\.h5: (not a readable|damaged) shard"):
        verify(folder)
    manifest = Manifest.read(folder)
    manifest.identity["corpus"] = {"name": "else"}
    manifest.rows = {1: manifest.rows[1]}
    manifest.complete = False
    manifest.write(folder)
    with pytest.raises(UserError, match="belongs to another cache"):
        verify(folder)


def test_wrong_counts_and_missing_rows_in_the_manifest(folder: Path) -> None:
    manifest = Manifest.read(folder)
    row = manifest.rows[1]
    manifest.rows[1] = dataclasses.replace(row, tokens=row.tokens + 1)
    manifest.write(folder)
    with pytest.raises(UserError, match=r"shard-000001\.h5: has \d+ tokens, manifest\.json lists"):
        verify(folder)
    del manifest.rows[1]
    manifest.write(folder)
    with pytest.raises(UserError, match="does not list every shard"):
        verify(folder)


def test_statistics_against_a_loop(folder: Path, tmp_path: Path) -> None:
    cache = TreeCache.open(folder)
    statistics = gather(cache)
    sentences = list(cache.read(0, 40).words())
    assert statistics.sentences == 40 and statistics.documents == 3
    assert statistics.tokens == sum(map(len, sentences))
    assert statistics.types == len({word for s in sentences for word in s})
    assert statistics.flags["too long"] == 1
    for n in range(len(statistics.histograms["tokens"])):
        assert statistics.histograms["tokens"][n] == sum(len(s) == n for s in sentences)
    for name in ("dep_height", "const_height"):
        highest = [getattr(cache.read(i, i + 1), name).max(initial=0) for i in range(40)]
        assert statistics.histograms[name].tolist() == np.bincount(highest).tolist()
    assert sum(statistics.names["label"].values()) == statistics.tokens - 40
    assert "too long 1" in as_text(cache, statistics, 5)
    assert json.loads(as_json(cache, statistics))["sentences"] == 40
    plot(statistics, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_commands(folder: Path, command, tmp_path: Path) -> None:
    done = command("parsing.verify", folder)
    assert done.returncode == 0 and "all sound; complete" in done.stdout, done.stderr
    done = command("parsing.verify", folder, "--quick")
    assert done.returncode == 0 and "every file as written; complete" in done.stdout, done.stderr
    done = command("parsing.info", folder)
    assert done.returncode == 0 and "40 sentences" in done.stdout, done.stderr
    done = command("parsing.show", folder, "--sentence", 20)
    assert done.returncode == 0 and "too long" in done.stdout, done.stderr
    done = command("parsing.show", folder, "--sentence", 40)
    assert done.returncode == 2 and "no sentence 40; it has 0 to 39" in done.stderr
    for arguments, complaint in (
        (("parsing.show", folder, "--count", 0), "--count 0: must be at least 1"),
        (("parsing.info", folder, "--top", -3), "--top -3: must be at least 0"),
    ):
        done = command(*arguments)
        assert done.returncode == 2 and complaint in done.stderr, done.stderr
    done = command("parsing.verify", tmp_path / "nowhere")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
