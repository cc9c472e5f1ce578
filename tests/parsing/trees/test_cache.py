"""The tree cache: what is written is read back, by any range; damage is named, and where verify finds it."""

import copy
import fcntl
import os
import pickle
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parsing import verify as command_verify
from parsing.show import cli as show
from parsing.trees.cache import Manifest, TreeCache
from parsing.trees.check import ShardRow
from parsing.trees.sentences import ParsedSentence, batch_sentences
from runtime.errors import UserError
from tests.parsing.pipeline.toy_parsers import SHARD, odd_sentences, toys, write_cache


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("cache")
    write_cache(path, odd_sentences(70), documents=(0, 5, 6, 40, 64))
    return path


def rows_of(batch) -> list[ParsedSentence]:
    return list(batch_sentences(batch, toys().inventories))


def test_any_range_in_any_order_equals_the_oracle(folder: Path) -> None:
    """The oracle is each sentence's arrays, parsed alone."""
    sentences, cache = odd_sentences(70), TreeCache.open(folder, open_shards=2)
    oracle = [row for tokens in sentences for row in rows_of(toys().parse_to_batch([tokens]))]
    random = np.random.default_rng(3)
    for _ in range(60):
        first, stop = sorted(random.choice(71, 2, replace=False).tolist())
        batch = cache.read(first, stop)
        assert rows_of(batch) == oracle[first:stop]
        for field in batch.fields:
            assert getattr(batch, field).dtype == np.int32
            getattr(batch, field)[:] = 0  # does not change the cache
    assert [row for first in range(0, 70, 7) for row in rows_of(cache.read(first, first + 7))] == oracle
    assert cache.documents().tolist() == [0, 5, 6, 40, 64, 70]
    assert cache.document_ids() == ["doc 0", "doc 5", "doc 6", "doc 40", "doc 64"]
    assert cache.token_counts().tolist() == [len(s) for s in sentences] and not cache.flags().any()
    assert cache.type_counts() == Counter(word for s in sentences for word in s)


def test_shards_are_found_from_any_working_folder(folder: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(folder.parent)
    cache = TreeCache.open(folder.name)
    monkeypatch.chdir(tmp_path)
    assert len(cache.read(0, 70)) == len(pickle.loads(pickle.dumps(cache)).read(0, 70)) == 70


def test_threads_and_copies_read_the_same(folder: Path) -> None:
    """With fewer shards open at once than threads ask for."""
    shared = TreeCache.open(folder, open_shards=1)
    ranges = [(first, min(first + 9, 70)) for first in range(0, 70, 3)]
    expected = [rows_of(TreeCache.open(folder).read(*one)) for one in ranges]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda one: rows_of(shared.read(*one)), ranges * 4))
    assert results == expected * 4
    for copied in (copy.copy(shared), copy.deepcopy(shared), pickle.loads(pickle.dumps(shared))):
        assert rows_of(copied.read(*ranges[0])) == expected[0] and len(copied) == 70


def test_views_absent_fields_and_long_sentences(tmp_path: Path) -> None:
    n = 40_000
    write_cache(tmp_path, [("short", "one"), ("w",) * n, ("last",)], views=("dep",))
    cache = TreeCache.open(tmp_path)
    assert cache.has("dep") and not cache.has("const")
    assert cache.fields == ("token", "head", "relation", "dep_height")
    with pytest.raises(UserError, match="has no 'left'"):
        cache.read(0, 2, ("left",))
    batch = cache.read(1, 2)
    assert batch.flags.tolist() == [1 | 4] and batch.head.tolist() == list(range(n))
    assert batch.dep_height.tolist() == batch.head.tolist()[::-1]


def test_unfinished_cache_is_refused_and_its_prefix_readable(tmp_path: Path) -> None:
    write_cache(tmp_path, odd_sentences(70))
    manifest = Manifest.read(tmp_path)
    shards = manifest.shards
    replace(manifest, format_version=7).write(tmp_path)
    with pytest.raises(UserError, match="format version 7"):
        TreeCache.open(tmp_path)
    for rows, readable in ((shards[:2] + shards[3:], 2 * SHARD), (shards[1:], 0)):
        replace(manifest, shards=rows, complete=False).write(tmp_path)
        with pytest.raises(UserError, match=f"unfinished, {readable // SHARD} shards so far"):
            TreeCache.open(tmp_path)
        if readable:
            assert len(TreeCache.open(tmp_path, allow_partial=True)) == readable


def test_a_lock_of_another_program_is_none_of_ours(folder: Path) -> None:
    with open(folder / "shard-000000.h5", "r+b") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        cache = TreeCache.open(folder, open_shards=1)
        for first in (0, 40, 0):  # the first shard is opened twice
            assert len(cache.read(first, first + 5)) == 5


@pytest.mark.parametrize("name", ["manifest.json", "shard-000000.h5"])
@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "/dev/full"])
def test_a_file_that_is_none_is_refused_before_it_is_opened(folder, tmp_path, name: str, kind: str) -> None:
    path = shutil.copytree(folder, tmp_path / "cache") / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(kind)
    with pytest.raises(UserError, match=f"{name}: a pipe or a device"):
        TreeCache.open(tmp_path / "cache").read(0, 1)


def test_rows_of_a_manifest_become_json_once(tmp_path: Path, monkeypatch) -> None:
    """A long run writes the manifest after each of its 5,000 shards."""
    rows_written: list[int] = []
    real = ShardRow.line.function  # type: ignore[attr-defined]

    def line(row: ShardRow) -> str:
        rows_written.append(row.index)
        return real(row)

    monkeypatch.setattr(ShardRow.line, "function", line)
    names = ('"shards": [', "é", "\n")
    manifest = Manifest(identity={"shards": [], "corpus": {}}, relations=names, labels=names, tags=names)
    counts = {"sentences": 8192, "tokens": 9000, "documents": 1, "flagged": 2, "reasons": {'"too long"': 2}}
    for count in range(4):
        row = ShardRow(index=count, file=f"shard-{count:06d}.h5", sha256="0" * 64, **counts)
        manifest = replace(manifest, shards=(*manifest.shards, row))
        manifest.write(tmp_path)
        assert Manifest.read(tmp_path) == manifest
    assert rows_written == [0, 1, 2, 3]


@pytest.mark.parametrize("damage", [0, 245, -1, None])
def test_a_damaged_file_is_found_before_hdf5_opens_it(folder, tmp_path, damage, monkeypatch) -> None:
    cache = TreeCache.open(shutil.copytree(folder, tmp_path / "cache"))
    path = cache.folder / "shard-000001.h5"
    content = bytearray(path.read_bytes())
    monkeypatch.setattr("h5py.File", None)
    if damage is None:
        path.unlink()
    else:
        content[damage] ^= 16
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"shard-000001\.h5: (damaged shard|no such file; the command)"):
        cache.read(20, 30)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [('"complete": true', '"complete": false', "its values do not match its seal"), ("}", "", "not JSON")],
)
def test_a_changed_manifest_is_one_line(folder: Path, tmp_path: Path, old, new, words: str) -> None:
    with pytest.raises(UserError, match="not a tree cache"):
        TreeCache.open(tmp_path)
    text = (folder / "manifest.json").read_text()
    assert old in text
    (tmp_path / "manifest.json").write_text(text.replace(old, new))
    with pytest.raises(UserError, match=rf"manifest\.json: .*{words}"):
        TreeCache.open(tmp_path)


@pytest.mark.data
def test_a_cache_in_which_a_bit_makes_hdf5_hang_is_one_line(data_folder: Path) -> None:
    with pytest.raises(UserError, match=r"hang1bit/manifest\.json: "):
        TreeCache.open(data_folder / "faults/hang1bit")


@pytest.fixture
def long_cache(tmp_path: Path) -> Path:
    sentences = odd_sentences(40)
    sentences[20] = ("w",) * 140
    write_cache(tmp_path / "cache", sentences, documents=(0, 7, 30))
    return tmp_path / "cache"


def verify(folder: Path) -> None:
    command_verify.main(command_verify.VerifyConfig(cache=folder))


def test_a_wrong_manifest_is_named(long_cache: Path) -> None:
    manifest = Manifest.read(long_cache)
    first, row, *others = manifest.shards
    replace(manifest, shards=(first, replace(row, tokens=row.tokens + 1), *others)).write(long_cache)
    with pytest.raises(UserError, match=r"shard-000001\.h5: token: is int8 \[\d+\]; by its row"):
        verify(long_cache)
    replace(manifest, shards=(first, *others)).write(long_cache)
    with pytest.raises(UserError, match="does not list every shard"):
        verify(long_cache)
    elsewhere = replace(row, file="../other/shard-000001.h5")
    replace(manifest, shards=(first, elsewhere, *others)).write(long_cache)
    with pytest.raises(UserError, match=r"manifest.json: shards: row 2 \(\.\./other/shard"):
        verify(long_cache)


def test_verify_and_show_say_what_a_cache_holds(long_cache: Path, tmp_path: Path, capsys) -> None:
    for cli, words, code, message in (
        (command_verify.cli, [long_cache], 0, "40 sentences, all sound; complete\n  40 sentences, "),
        (show, [long_cache, "--sentence", 20], 0, "too long"),
        (show, [long_cache, "--sentence", 40], 2, "no sentence 40; it has 0 to 39"),
        (command_verify.cli, [tmp_path / "nowhere"], 2, "not a tree cache"),
    ):
        assert cli([*map(str, words)]) == code
        assert message in "".join(capsys.readouterr())
