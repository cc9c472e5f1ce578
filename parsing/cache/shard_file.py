"""One shard as an HDF5 file: written under a temporary name, reopened, verified, renamed.

The content hash is over names, types, shapes and bytes of the arrays and over the header, never
over the file: another zlib build compresses to other bytes of the same content.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from corpora.support.errors import UserError
from corpora.support.files import atomic_path, parse_json, sha256_file
from parsing.cache.checksums import check_file, passed, remedy
from parsing.cache.format import (
    FORMAT_VERSION,
    Arrays,
    Inventories,
    ShardResult,
    ShardRow,
    offsets_of,
    shard_name,
)
from parsing.trees.parsers import Int, UInt8

# A training batch (400 sentences) is about 8,000 tokens: a range read decodes two chunks per field.
CHUNK = 8192
# Files written today open with every later HDF5, and their layout does not change with the library.
LIBVER = ("v108", "v108")
HEADER = "header"


def narrow(values: Int) -> Int:
    """``values`` [n] in the narrowest signed type that holds all of them.

    A byte is enough for most fields of most shards, and decodes in 11 ms a shard against 16 ms for
    two bytes (the files are no smaller: compression removes the zeros).
    """
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    for dtype in (np.int8, np.int16, np.int32):
        limits = np.iinfo(dtype)
        if limits.min <= low and high <= limits.max:
            return values.astype(dtype, copy=False)
    return values.astype(np.int64, copy=False)


def encode_strings(strings: Sequence[str]) -> tuple[UInt8, NDArray[np.int64]]:
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


def make_header(identity: dict[str, Any], inventories: Inventories, result: ShardResult) -> bytes:
    """The shard's identity, inventories and place as canonical JSON."""
    header = {
        "format_version": FORMAT_VERSION,
        "identity": identity,
        "relations": inventories.relations,
        "labels": inventories.labels,
        "tags": inventories.tags,
        "index": result.index,
        "continues": result.continues,
    }
    return json.dumps(header, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def content_sha256(arrays: Arrays, header: bytes) -> str:
    """Hex SHA-256 over the header and, by name, each array's type, length and little-endian bytes."""
    digest = hashlib.sha256(header)
    for name in sorted(arrays):
        array = arrays[name].astype(arrays[name].dtype.newbyteorder("<"), copy=False)
        digest.update(f"\0{name} {array.dtype.str} {array.size}\0".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def write_shard(
    folder: Path, result: ShardResult, *, identity: dict[str, Any], inventories: Inventories
) -> ShardRow:
    """Write ``result`` into ``folder`` and return its manifest row (the caller lists it).

    Raises:
        UserError: the disk is full or the folder cannot be written.
    """
    header = make_header(identity, inventories, result)
    sha256 = content_sha256(result.arrays, header)
    path = folder / shard_name(result.index)
    try:
        with atomic_path(path) as temporary:
            file_bytes, file_sha256 = _write(temporary, result.arrays, header, sha256)
            if sha256_file(temporary) != file_sha256 or content_sha256(*read_shard(temporary)) != sha256:
                raise UserError(f"{path}: what was read back differs from what was written; check the disk")
    except OSError as error:  # h5py reports a full disk as a plain OSError with HDF5's own text
        raise UserError(f"{path}: cannot be written ({_one_line(error)}); what is listed is kept") from None
    return make_row(result, sha256, file_bytes, file_sha256)


def make_row(result: ShardResult, sha256: str, file_bytes: int, file_sha256: str) -> ShardRow:
    """The manifest row of a shard with content hash ``sha256`` in a file of this size and hash."""
    arrays = result.arrays
    return ShardRow(
        index=result.index,
        sha256=sha256,
        sentences=len(arrays["flags"]),
        tokens=len(arrays["token"]),
        documents=len(arrays["document_offsets"]) - 1 - int(result.continues),
        types=len(arrays["type_offsets"]) - 1,
        flagged=int(np.count_nonzero(arrays["flags"])),
        reasons=dict(sorted(result.reasons.items())),
        file_bytes=file_bytes,
        file_sha256=file_sha256,
    )


def _write(path: Path, arrays: Arrays, header: bytes, sha256: str) -> tuple[int, str]:
    """Write a shard's file; return its size and SHA-256."""
    # In memory first: HDF5 crashes at the end of a process in which it could not close a file (a full disk).
    # Not by HDF5's in-memory driver: the image of a file that is still open has a wrong checksum in 1.14.
    image = io.BytesIO()
    with h5py.File(image, "w", libver=LIBVER) as file:
        file.attrs["format_version"] = FORMAT_VERSION
        file.attrs["sha256"] = sha256
        # A dataset, because an HDF5 attribute of this version ends at 64 KiB.
        for name, array in {**arrays, HEADER: np.frombuffer(header, np.uint8)}.items():
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            if array.size == 0:  # HDF5 has no empty chunk
                file.create_dataset(name, data=little, track_times=False)
                continue
            file.create_dataset(
                name,
                data=little,
                chunks=(min(CHUNK, array.size),),
                compression="gzip",
                compression_opts=4,
                shuffle=array.dtype.itemsize > 1,
                fletcher32=False,
                track_times=False,
            )
    content = image.getbuffer()
    path.write_bytes(content)
    return len(content), hashlib.sha256(content).hexdigest()


def read_shard(path: Path) -> tuple[Arrays, bytes]:
    """All arrays of a shard file and its header.

    Raises:
        UserError: missing, truncated or not a shard of this format.
    """
    with open_shard(path) as file:
        try:
            arrays = {name: file[name][:] for name in file if name != HEADER}
            return arrays, file[HEADER][:].tobytes()
        except DAMAGE as error:
            raise UserError(f"{path}: damaged shard ({_one_line(error)}); {remedy(path)}") from None


# What h5py raises on damaged files, depending on where the damage lies.
DAMAGE = (OSError, KeyError, RuntimeError, ValueError)


def open_shard(path: Path) -> h5py.File:
    """Open a shard for reading.

    Raises:
        UserError: missing, truncated, or of another format version.
    """
    try:
        file = h5py.File(path, "r", libver=LIBVER)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file, though the manifest lists it; {remedy(path)}") from None
    except DAMAGE as error:
        raise UserError(f"{path}: not a readable shard ({_one_line(error)}); {remedy(path)}") from None
    try:
        version, _ = file.attrs.get("format_version"), file.attrs["sha256"]
    except DAMAGE as error:
        file.close()
        raise UserError(f"{path}: not a readable shard ({_one_line(error)}); {remedy(path)}") from None
    if version != FORMAT_VERSION:
        file.close()
        raise UserError(f"{path}: format version {version}, this program reads {FORMAT_VERSION}")
    return file


def open_listed(folder: Path, row: ShardRow) -> h5py.File:
    """Open the shard that a row of the manifest lists.

    Its bytes and its counts are checked once per process.

    Raises:
        UserError: missing, damaged, another shard, or of other counts than the row's.
    """
    path = folder / row.file
    check = check_file(path, row)
    file = open_shard(path)
    try:
        if file.attrs["sha256"] != row.sha256:
            raise UserError(f"{path}: not the shard that manifest.json lists; {remedy(path)}")
        if check is not None:
            _check_counts(file, row)
            passed(check)
    except BaseException:
        file.close()
        raise
    return file


def _check_counts(file: h5py.File, row: ShardRow) -> None:
    """Refuse a row whose counts are not the shard's."""
    path = Path(file.filename)
    try:
        continues = bool(parse_json(file[HEADER][:].tobytes(), where=path)["continues"])
        counts = {
            "sentences": file["flags"].size,
            "tokens": file["token"].size,
            "documents": file["document_offsets"].size - 1 - continues,
            "types": file["type_offsets"].size - 1,
            "flagged": int(np.count_nonzero(file["flags"][:])),
        }
    except DAMAGE as error:
        raise UserError(f"{path}: damaged shard ({_one_line(error)}); {remedy(path)}") from None
    for name, count in counts.items():
        listed = getattr(row, name)
        if listed != count:
            raise UserError(f"{path}: has {count:,} {name}, manifest.json lists {listed:,}; {remedy(path)}")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
