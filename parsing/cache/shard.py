"""One shard as an HDF5 file: its arrays in the narrowest type that holds them, its words as one text.

HDF5 can loop for ever over a file in which one bit has changed, inside a call that nothing interrupts. So
the manifest lists the SHA-256 of every file, which is checked before HDF5 opens it.
"""

from __future__ import annotations

import hashlib
import io
import itertools
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np

from corpora.support.errors import UserError
from corpora.support.files import atomic_path, sha256_file
from parsing.cache.format import Batch, flag_reasons, offsets_of
from parsing.cache.manifest import ShardRow, remedy
from parsing.trees.parsers import Int, Int64, UInt8

# A training batch (400 sentences) is about 8,000 tokens: a range read decodes two chunks per field.
CHUNK = 8192
# Files written today open with every later HDF5, and their layout does not change with the library.
LIBVER = ("v108", "v108")

Arrays = dict[str, Int]
"""Arrays of a shard by name."""


def narrow(values: Int) -> Int:
    """``values`` [n] in the narrowest signed type that holds all of them, which is quickest to decode."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    dtype = np.promote_types(np.min_scalar_type(min(low, -1)), np.min_scalar_type(min(-high - 1, -1)))
    return values.astype(dtype, copy=False)


def encode_strings(strings: Sequence[str]) -> tuple[UInt8, Int64]:
    """Encode n strings as one UTF-8 blob, uint8 [bytes], and byte offsets int64 [n+1]."""
    parts = [string.encode("utf-8") for string in strings]
    return np.frombuffer(b"".join(parts), np.uint8), offsets_of([len(part) for part in parts])


def decode_strings(blob: Int, offsets: Int) -> list[str]:
    """The n strings of one UTF-8 blob, uint8 [bytes], with byte offsets [n+1]."""
    data, ends = blob.tobytes(), offsets.tolist()
    if data.isascii():  # bytes are characters: one decode, then slices
        text = data.decode("ascii")
        return [text[a:b] for a, b in itertools.pairwise(ends)]
    return [data[a:b].decode("utf-8") for a, b in itertools.pairwise(ends)]


def write_shard(
    folder: Path, index: int, batch: Batch, document_starts: Sequence[int], document_ids: Sequence[str]
) -> ShardRow:
    """Write sentences and trees as shard ``index`` and return its manifest row (the caller lists it).

    Args:
        folder: of the cache.
        index: number of the shard.
        batch: its sentences, with word types.
        document_starts: the sentences of the shard at which a document starts.
        document_ids: identifiers of these documents.
    """
    assert batch.types is not None
    arrays = {name: getattr(batch, name) for name in batch.fields}
    arrays["sentence_offsets"] = batch.sentence_offsets
    arrays["document_starts"] = np.array(document_starts, np.int64)
    blobs = {}
    for name, strings in (("type", batch.types), ("document_id", document_ids)):
        blobs[f"{name}_bytes"], arrays[f"{name}_offsets"] = encode_strings(strings)
    stored = {name: narrow(values) for name, values in arrays.items()} | blobs | {"flags": batch.flags}
    name = f"shard-{index:06d}.h5"
    return ShardRow(
        index=index,
        file=name,
        sha256=write_arrays(folder / name, stored),
        sentences=len(batch),
        tokens=len(batch.token),
        documents=len(document_ids),
        flagged=int(np.count_nonzero(batch.flags)),
        reasons=flag_reasons(batch.flags),
    )


def write_arrays(path: Path, arrays: Arrays) -> str:
    """Write a shard's arrays atomically; return the SHA-256 of the file."""
    # In memory first: HDF5 crashes at the end of a process in which it could not close a file (a full disk).
    # Not by HDF5's in-memory driver: the image of a file that is still open has a wrong checksum in 1.14.
    image = io.BytesIO()
    with h5py.File(image, "w", libver=LIBVER) as file:
        for name, array in sorted(arrays.items()):
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            packed = {"chunks": (min(CHUNK, array.size),), "compression": "gzip", "compression_opts": 4}
            packed["shuffle"] = array.dtype.itemsize > 1
            # HDF5 has no empty chunk.
            file.create_dataset(name, data=little, track_times=False, **(packed if array.size else {}))
    with atomic_path(path) as temporary:
        temporary.write_bytes(image.getbuffer())
    return hashlib.sha256(image.getbuffer()).hexdigest()


def check_shard(path: Path, row: ShardRow) -> None:
    """Compare a shard's file with its row.

    Raises:
        UserError: missing, or not the file that was written.
    """
    try:
        found = sha256_file(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); {remedy(path.parent)}") from None
    if found != row.sha256:
        raise UserError(f"{path}: damaged shard (its SHA-256 is not the one listed); {remedy(path.parent)}")


def open_shard(path: Path) -> h5py.File:
    """Open a shard, whose file was checked, for reading."""
    return h5py.File(path, "r", libver=LIBVER)


def read_arrays(path: Path) -> Arrays:
    """All arrays of a shard."""
    with open_shard(path) as file:
        return {name: file[name][:] for name in file}
