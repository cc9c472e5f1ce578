"""verify finds every kind of damage and says where; info counts what is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corpora.support.errors import UserError
from parsing import verify as command_verify
from parsing.show import cli as show
from parsing.show import id_counts
from parsing.trees.cache import Manifest, TreeCache, open_shard, write_arrays
from tests.parsing.trees.test_cache import corpus_of, write_cache


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sentences = corpus_of(40)
    sentences[20] = ("w",) * 140
    write_cache(tmp_path / "cache", sentences, documents=(0, 7, 30))
    return tmp_path / "cache"


def verify(folder: Path) -> int:
    return sum(command_verify.verify(TreeCache.open(folder)))


def rewrite(folder: Path, name: str, at: int, value: int) -> None:
    """Change one value of shard 1 and list it as if it were right."""
    manifest = Manifest.read(folder)
    with open_shard(folder / "shard-000001.h5") as file:
        arrays = {key: file[key][:] for key in file}
    if arrays[name].dtype == np.int8:
        arrays[name] = arrays[name].astype(np.int16)
    arrays[name][at] = value
    sha256 = write_arrays(folder / "shard-000001.h5", arrays)
    first, row, *others = manifest.shards
    replace(manifest, shards=(first, replace(row, sha256=sha256), *others)).write(folder)


ROW = r"row \d+ \(sentence \d+ of the corpus\): .*"


@pytest.mark.parametrize(
    ("name", "at", "value", "what"),
    [
        ("head", 0, 99, ROW + "a head lies outside the sentence"),
        ("head", slice(None), 0, ROW + "not exactly one root"),
        ("relation", 5, 77, ROW + "relation: an id that is not one of 4"),
        ("tag", 5, -1, ROW + "tag: an id that is not one of 4"),
        ("label", 5, 6, ROW + "label: an id that is not one of 6"),
        ("dep_height", 3, 55, ROW + "a height is not one more than its highest child's"),
        ("const_height", 3, 55, ROW + "a height is not one more than its highest child's"),
        ("left", 0, 99, ROW + "a child is not made before its parent"),
        ("token", 4, 5000, ROW + "token: an id that is not one of"),
        ("sentence_offsets", 2, 0, ROW + "a sentence without a token"),
        ("type_bytes", 0, 0xFF, "type: .* is not UTF-8"),
        ("document_id_bytes", 0, 0xFF, "document_id: .* is not UTF-8"),
    ],
)
def test_a_broken_invariant_is_named_with_shard_and_row(folder, name, at, value, what) -> None:
    rewrite(folder, name, at, value)
    with pytest.raises(UserError, match=rf"shard-000001\.h5: {what}"):
        verify(folder)


def test_a_wrong_manifest_is_named(folder: Path) -> None:
    manifest = Manifest.read(folder)
    first, row, *others = manifest.shards
    replace(manifest, shards=(first, replace(row, tokens=row.tokens + 1), *others)).write(folder)
    with pytest.raises(UserError, match=r"shard-000001\.h5: its counts are not those"):
        verify(folder)
    replace(manifest, shards=(first, *others)).write(folder)
    with pytest.raises(UserError, match="does not list every shard"):
        verify(folder)
    manifest.write(folder)
    rewrite(folder, "document_starts", 0, 40)
    with pytest.raises(UserError, match="document starts do not fit"):
        verify(folder)


def test_statistics_against_a_loop(folder: Path) -> None:
    cache = TreeCache.open(folder)
    counts = id_counts(cache)
    for name in ("relation", "label"):
        found = np.concatenate([getattr(cache.read(i, i + 1), name) for i in range(40)])
        names, seen = counts[name]
        assert seen.tolist() == np.bincount(found, minlength=len(names)).tolist()


def test_commands(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for cli, words, code, told in (
        (command_verify.cli, [folder], 0, "40 sentences, all sound; complete"),
        (show, [folder], 0, "40 sentences"),
        (show, [folder], 0, "too long 1"),
        (show, [folder, "--sentence", 20], 0, "too long"),
        (show, [folder, "--sentence", 40], 2, "no sentence 40; it has 0 to 39"),
        (command_verify.cli, [tmp_path / "nowhere"], 2, "not a tree cache"),
    ):
        assert cli([*map(str, words)]) == code
        assert told in "".join(capsys.readouterr())
