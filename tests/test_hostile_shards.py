"""Shards of tree caches whose hashes are right and whose content is not: one line, or sound trees."""

import io
import re
import shutil
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from multiview.train import cli as train
from parsing.export_trees import cli as export
from parsing.trees.cache import Manifest, TreeCache
from parsing.verify import cli as verify
from runtime.errors import UserError
from runtime.files import sha256_file

SHARD = "shard-000001.h5"


@pytest.fixture(scope="module")
def arrays(toy_trees: Path) -> dict[str, np.ndarray]:
    """Those of the second shard; of int64 but for bytes."""
    with h5py.File(toy_trees / SHARD) as file:
        datasets = {name: file[name][:] for name in file}
    return {name: v if v.dtype == np.uint8 else v.astype(np.int64) for name, v in datasets.items()}


def put(
    source: Path, target: Path, arrays: dict[str, Any], change: Callable[[h5py.File], object] = bool
) -> None:
    """A copy of a cache with another second shard, listed as if it were right."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    image = io.BytesIO()
    with h5py.File(image, "w") as file:
        for name, values in arrays.items():
            file[name] = values
        change(file)
    (target / SHARD).write_bytes(image.getvalue())
    manifest = Manifest.read(source)
    shards = list(manifest.shards)
    shards[1] = replace(shards[1], sha256=sha256_file(target / SHARD))
    replace(manifest, shards=tuple(shards)).write(target)


WRONG: dict[str, tuple[str, Callable[[np.ndarray], Any], str]] = {
    "two roots": ("head", lambda v: np.where(v == 1, 0, v), "not exactly one root"),
    "beyond": ("head", lambda v: np.where(v == 0, 99, v), "a head lies outside the sentence"),
    "cyclic": ("head", np.copy, "the heads have a cycle"),
    "negative": ("head", lambda v: -v, "a head lies outside the sentence"),
    "wide": ("head", lambda v: v + (1 << 40), "head: a number of more than 32 bits"),
    "2-d": ("head", lambda v: v[:, None], r"head: is int64 \[\d+, 1\]"),
    "floats": ("head", lambda v: v.astype(float), "head: is float64"),
    "no dataset": ("head", lambda v: h5py.SoftLink("/gone"), "head: is no dataset"),
    "elsewhere": ("head", lambda v: h5py.ExternalLink("/dev/zero", "x"), "head: is no dataset"),
    "no space": ("head", lambda v: h5py.Empty("i4"), r"head: is int32 \[\]"),
    "falling": ("sentence_offsets", lambda v: v[::-1], "sentence_offsets: do not rise from 0 to"),
    "repeated": ("sentence_offsets", lambda v: np.append(v[0], v[:-1]), "sentence_offsets: do not rise"),
    "left": ("left", lambda v: v + 50, "a child is not made before its parent"),
    "crossing": ("left", lambda v: v[::-1], "a child|one parent|in order"),
    "height": ("const_height", lambda v: v + 1, "a height is not one more"),
    "depth": ("dep_height", lambda v: v + 1, "a height is not one more"),
    "relation": ("relation", lambda v: v + 100, "relation: an id that is not one of"),
    "token": ("token", lambda v: v - 1, "token: an id that is not one of"),
    "words": ("type_offsets", lambda v: v[::-1], "type_offsets: do not rise"),
    "bytes": ("type_bytes", lambda v: v | 0x80, "can't decode byte"),
    "documents": ("document_starts", lambda v: v - 100, "document starts do not fit"),
    "flags": ("flags", lambda v: v[1:], "flags: is uint8"),
}


@pytest.mark.parametrize("case", WRONG)
def test_train_verify_and_export_refuse_shards_alike(
    case: str, toy_trees: Path, arrays, tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, change, message = WRONG[case]
    values = change(arrays[name])
    if case == "cyclic":  # of a sentence, two words lead to each other and all else to the third
        offsets = arrays["sentence_offsets"]
        long = np.argmax(np.diff(offsets) > 2)
        values[slice(*offsets[long : long + 2])] = 3
        values[offsets[long] :][:3] = 2, 1, 0
    put(toy_trees, Path("trees"), {**arrays, name: values})
    messages = set()
    for cli, words in (
        (train, ["--device", "cpu", "--start", "none", "--vectors", "none", "--trees"]),
        (verify, []),
        (export, ["--ptb", "x", "--conllu", "y"]),
    ):
        assert cli([*words, "trees"]) == 2
        messages.add(capsys.readouterr().err.strip().splitlines()[-1].partition(": ")[2])
    (line,) = messages
    assert f"trees/{SHARD}: " in line and re.search(message, line)
    assert [path.name for path in tmp_path.iterdir()] == ["trees"]


def packed(
    content: Callable[[bytes], bytes] = bytes, mask: int = 0, **how: Any
) -> Callable[[h5py.File], None]:
    """Stores the heads by filters and chunks of its own, the first chunk with wrong content."""

    def change(file: h5py.File) -> None:
        values = file["head"][:].astype("<i4")
        del file["head"]
        data = file.create_dataset("head", data=values, **{"chunks": values.shape, **how})
        if content is not bytes or mask:
            _, right = data.id.read_direct_chunk((0,))
            data.id.write_direct_chunk((0,), content(right), mask)

    return change


def elsewhere(file: h5py.File) -> None:
    length = len(file["head"])
    del file["head"]
    file.create_dataset("head", (length,), "<i4", external=[("/dev/zero", 0, 4 * length)])


def virtual(file: h5py.File) -> None:
    length = len(file["head"])
    del file["head"]
    layout = h5py.VirtualLayout((length,), "<i4")
    layout[:] = h5py.VirtualSource("/dev/zero", "x", (length,))
    file.create_virtual_dataset("head", layout)


STORAGE: dict[str, tuple[Callable[[h5py.File], None], str]] = {
    "checksums": (packed(lambda right: b"ab", fletcher32=True), "not packed as"),
    "lzf": (packed(compression="lzf"), "not packed as"),
    "rounded": (packed(scaleoffset=3), "not packed as"),
    "szip": (packed(compression=307, compression_opts=(1,), allow_unknown_filter=True), "not packed as"),
    "small chunks": (packed(chunks=(1,), compression="gzip"), "not packed as"),
    "large chunks": (packed(chunks=(1 << 20,), maxshape=(None,)), "not packed as"),
    "too short": (packed(lambda right: zlib.compress(b"abc"), compression="gzip"), "a chunk is not"),
    "too long": (packed(lambda right: zlib.compress(bytes(10**7)), compression="gzip"), "a chunk is not"),
    "cut": (packed(lambda right: right[:-5], compression="gzip", shuffle=True), "a chunk is not"),
    "no deflate": (packed(lambda right: b"junk", compression="gzip"), "incorrect header"),
    "plain and short": (packed(lambda right: b"abc"), "a head lies outside"),
    "not packed": (packed(lambda right: b"abc", mask=0xFFFFFFFF, compression="gzip"), "a chunk is not"),
    "in another file": (elsewhere, "head: is no dataset"),
    "virtual": (virtual, "head: is no dataset"),
}


@pytest.mark.parametrize("case", STORAGE)
def test_a_shard_that_is_packed_otherwise_is_refused_unread(case, toy_trees, arrays, tmp_path) -> None:
    """HDF5 1.14 dies over some of these, and reads memory that is not the file's over others."""
    change, message = STORAGE[case]
    put(toy_trees, tmp_path / "trees", arrays, change)
    with pytest.raises(UserError, match=message):
        TreeCache.open(tmp_path / "trees").flags()
