"""The files of a tree cache: ``manifest.json``, and the shards that it lists.

HDF5 can loop for ever over a file in which one bit has changed, inside a call that nothing interrupts. So the
manifest has the SHA-256 of every shard, which is checked before HDF5 opens it.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Ge, Lt

from corpora.support.cli import Count, config_from_json, config_to_json, configuration
from corpora.support.errors import UserError
from corpora.support.files import (
    SEAL,
    atomic_path,
    json_digest,
    read_json,
    read_record,
    sha256_file,
    write_text,
)
from parsing.cache.format import Batch, Inventories, flag_reasons, offsets_of
from parsing.trees.parsers import Int, Int64, UInt8

if TYPE_CHECKING:
    import h5py

NAME = "manifest.json"
FORMAT_VERSION = 2
SHARD_SENTENCES = 8192
REMEDY = "the command that made the cache makes again what is damaged or missing"

# A training batch (400 sentences) is about 8,000 tokens: a range read decodes two chunks per field.
CHUNK = 8192
# Files written today open with every later HDF5, and their layout does not change with the library.
LIBVER = ("v108", "v108")

Arrays = dict[str, Int]
"""Arrays of a shard by name."""

Number = Annotated[int, Ge(0), Lt(1 << 48)]
"""A count in a manifest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardRow:
    """A shard's line in the manifest."""

    index: Number
    file: str
    """Path inside the cache's folder."""
    sha256: str
    """Of the file, checked before HDF5 opens it."""
    sentences: Number
    tokens: Number
    documents: Number
    """Documents that start in this shard."""
    flagged: Number
    """Sentences with any flag."""
    reasons: dict[str, Number]
    """How many sentences were flagged, by reason."""


@configuration
class Manifest:
    """Identity, inventories and the finished shards of one cache."""

    format_version: int = FORMAT_VERSION
    identity: dict[str, Any]
    """Corpus, parsers and options: everything that determines the content."""
    relations: tuple[str, ...]
    labels: tuple[str, ...]
    tags: tuple[str, ...]
    shard_sentences: Count = SHARD_SENTENCES
    complete: bool = False
    """The whole corpus is parsed."""
    shards: tuple[ShardRow, ...] = ()
    """Finished shards in order; while a run is under way there may be gaps."""

    @property
    def inventories(self) -> Inventories:
        """Names of the trees' ids."""
        return Inventories(relations=self.relations, labels=self.labels, tags=self.tags)

    def prefix(self) -> list[ShardRow]:
        """The rows from shard 0 up to the first gap."""
        gap = next((place for place, row in enumerate(self.shards) if row.index != place), None)
        return list(self.shards[:gap])

    def total(self, name: str) -> int:
        """Sum of a count (``sentences``, ``tokens``, ...) over the shards."""
        return sum(getattr(row, name) for row in self.shards)

    def content_sha256(self) -> str:
        """Hex SHA-256 over the identity and the shards' files, in order."""
        digest = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode())
        for row in self.shards:
            digest.update(f"\n{row.index} {row.sha256}".encode())
        return digest.hexdigest()

    def write(self, folder: Path) -> None:
        """Replace the manifest in ``folder`` atomically."""
        head = config_to_json(self)
        rows = head.pop("shards")
        head[SEAL] = json_digest({**head, "shards": rows}, 64)
        # One line per shard: quick to write 5,000 times, and readable.
        lines = ",\n  ".join(json.dumps(row, sort_keys=True) for row in rows)
        text = json.dumps(head, indent=1, sort_keys=True, ensure_ascii=False).removesuffix("\n}")
        write_text(folder / NAME, f'{text},\n "shards": [\n  {lines}\n ]\n}}\n')

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest of ``folder``.

        Raises:
            UserError: there is none, or it is damaged or of another format version.
        """
        path = Path(folder) / NAME
        if not path.exists():
            raise UserError(f"{folder}: not a tree cache (no {NAME}); make one with python -m parsing.run")
        value = read_json(path)
        version = value.get("format_version") if isinstance(value, dict) else None
        if version != FORMAT_VERSION:
            raise UserError(
                f"{path}: format version {version}, this program reads {FORMAT_VERSION}; parse again into "
                "another folder"
            )
        return config_from_json(cls, read_record(path), where=path)


def difference(stored: Any, wanted: Any, at: str = "") -> str | None:
    """The first value in which two identities differ, as ``corpus.sha256: 'a' is now 'b'``."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        for key in sorted(set(stored) | set(wanted)):
            found = difference(stored.get(key), wanted.get(key), f"{at}.{key}" if at else key)
            if found:
                return found
        return None
    return None if stored == wanted else f"{at}: {stored!r} is now {wanted!r}"


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
    """Write sentences and trees, with word types, as shard ``index``; return its row for the manifest.

    ``document_starts`` are the sentences of the shard at which a document of ``document_ids`` starts.
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
    import h5py

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
        raise UserError(f"{path}: cannot be read ({error.strerror}); {REMEDY}") from None
    if found != row.sha256:
        raise UserError(f"{path}: damaged shard (its SHA-256 is not the one listed); {REMEDY}")


def open_shard(path: Path) -> h5py.File:
    """Open a shard, whose file was checked, for reading."""
    import h5py

    return h5py.File(path, "r", libver=LIBVER)
