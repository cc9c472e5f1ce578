"""A tree cache: a folder of HDF5 shards and the manifest that lists them.

    cache = TreeCache.open("runs/trees/books")
    batch = cache.read(0, 400)                      # every field, word types as strings
    batch = cache.read(400, 800, ("token", "head"), vocabulary)

A shard that is read in sequence, or a second time, is decoded as a whole, and batches are slices of it. The
first batch that is read out of sequence (training shuffles) decodes only its own range. The ``open_shards``
shards that were used last stay in memory (about 4 MB each), however large the corpus is.
Threads may share a cache object; a pickled copy opens the files again.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parsing.names import MANIFEST
from parsing.trees.batch import (
    ANNOTATIONS,
    NODE_FIELDS,
    TOKEN_FIELDS,
    Batch,
    Int,
    Int32,
    Int64,
    Inventories,
    UInt8,
    WordIds,
    flag_reasons,
    join_batches,
    narrow,
    offsets_of,
)
from parsing.trees.check import DATASET_CHUNK, ShardRow, open_shard
from runtime.cli import Count, config_from_json, config_to_json, configuration
from runtime.errors import UserError
from runtime.files import SEAL, atomic_path, path_of, read_record, write_text
from runtime.process import shared_lock

if TYPE_CHECKING:
    import h5py

FORMAT_VERSION = 2
SHARD_SENTENCES = 8192
OPEN_SHARDS = 16
READING = shared_lock()
"""The lock that a thread holds while it reads or closes shards."""
# The oldest and the newest layout of files: every later HDF5 reads it, and it is the same in all versions.
LIBVER = ("v108", "v108")


@configuration
class Manifest(Inventories):
    """The identity of a cache, the names of its ids, and its finished shards."""

    format_version: int = FORMAT_VERSION
    identity: dict[str, Any]
    """Corpus, parsers and options: everything that determines the content."""
    shard_sentences: Count = SHARD_SENTENCES
    complete: bool = False
    """Whether the whole corpus has been parsed."""
    shards: tuple[ShardRow, ...] = ()
    """The finished shards in order; there may be gaps until the run has finished."""

    def prefix(self) -> list[ShardRow]:
        """Return the rows from shard 0 up to the first gap."""
        gap = next((index for index, row in enumerate(self.shards) if row.index != index), None)
        return list(self.shards[:gap])

    def total(self, name: str) -> int:
        """Return the sum of a count (``sentences``, ``tokens``, ...) over the shards."""
        return sum(getattr(row, name) for row in self.shards)

    def describe(self, folder: Path) -> str:
        """Return indented lines on the content of the cache in ``folder``, and on its flagged sentences."""
        size = sum((folder / row.file).stat().st_size for row in self.shards)
        counts = {unit: self.total(f"{unit}s") for unit in ("sentence", "token", "document")}
        counts["shard"] = len(self.shards)
        reasons = sum((Counter(row.reasons) for row in self.shards), start=Counter[str]())
        return "\n".join([
            "  " + ", ".join(f"{n:,} {unit}" if n == 1 else f"{n:,} {unit}s" for unit, n in counts.items()),
            f"  {size / 1e6:.1f} MB, {size / counts['token']:.2f} bytes per token",
            f"  flagged: {self.total('flagged'):,} sentences",
            *(f"    {reason}: {count:,}" for reason, count in sorted(reasons.items())),
            f"  content sha256 {self.content_sha256()}",
        ])  # fmt: skip

    def content_sha256(self) -> str:
        """Return the hex SHA-256 over the identity and the shards' files, in order."""
        digest = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode())
        for row in self.shards:
            digest.update(f"\n{row.index} {row.sha256}".encode())
        return digest.hexdigest()

    def write(self, folder: Path) -> None:
        """Replace the manifest in ``folder`` atomically."""
        values = config_to_json(replace(self, shards=()))
        # The seal is the json_digest of the whole manifest. It is computed from rows that are kept as JSON,
        # because the manifest is written after every shard: for 5,000 shards 0.06 s instead of 0.6.
        lines = [row.line for row in self.shards]
        before, key, after = json.dumps(values, sort_keys=True).rpartition('"shards": [')
        values[SEAL] = hashlib.sha256(f"{before}{key}{', '.join(lines)}{after}".encode()).hexdigest()
        del values["shards"]
        text = json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False).removesuffix("\n}")
        rows = ",\n  ".join(lines)
        write_text(folder / MANIFEST, f'{text},\n "shards": [\n  {rows}\n ]\n}}\n')

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest of ``folder``. Raises UserError if it is damaged or of another format version."""
        path = Path(folder) / MANIFEST
        if not path.exists():
            raise UserError(f"{folder}: not a tree cache (no {MANIFEST}); make one by python -m parsing.run")
        values = read_record(path)
        if (version := values.get("format_version")) != FORMAT_VERSION:
            remedy = f"this program reads {FORMAT_VERSION}; parse again into another folder"
            raise UserError(f"{path}: format version {version}, {remedy}")
        manifest = config_from_json(cls, values, where=path)
        for key in ("corpus", *(each.parser for each in ANNOTATIONS.values())):
            if not isinstance(value := manifest.identity.get(key), dict | None):
                raise UserError(f"{path}: identity.{key} {value!r:.60}: must be an object or null")
        size = manifest.shard_sentences
        previous_index = -1
        for number, row in enumerate(manifest.shards, 1):
            is_last = number == len(manifest.shards)
            has_size = 0 < row.sentences <= size if is_last else row.sentences == size
            if row.index <= previous_index or row.file != shard_name(row.index) or not has_size:
                reason = f"is not a shard of {size} sentences"
                raise UserError(f"{path}: shards: row {number} ({row.file}) {reason}")
            previous_index = row.index
        return manifest


def shard_name(index: int) -> str:
    """Return the name of a shard's file."""
    return f"shard-{index:06d}.h5"


def strings_of(file: h5py.File, name: str) -> list[str]:
    """Read the n strings of a shard's arrays ``NAME_bytes``, uint8 [bytes], and ``NAME_offsets`` [n+1]."""
    data = file[f"{name}_bytes"][:].tobytes()
    ends = file[f"{name}_offsets"][:].tolist()
    if data.isascii():  # every byte is a character, and one call is faster
        text = data.decode("ascii")
        return [text[first:end] for first, end in pairwise(ends)]
    return [data[first:end].decode("utf-8") for first, end in pairwise(ends)]


def write_shard(
    folder: Path, index: int, batch: Batch, document_starts: Sequence[int], document_ids: Sequence[str]
) -> ShardRow:
    """Write a shard and return its row for the manifest.

    Args:
        folder: the folder of the cache.
        index: the number of the shard.
        batch: its sentences and their trees.
        document_starts: the sentences of the shard at which documents start.
        document_ids: the identifiers of these documents.
    """
    import h5py

    assert batch.types is not None
    integers = {name: getattr(batch, name) for name in batch.fields}
    integers["sentence_offsets"] = batch.sentence_offsets
    integers["document_starts"] = np.array(document_starts, np.int64)
    arrays: dict[str, Int] = {"flags": batch.flags}
    for name, strings in (("type", batch.types), ("document_id", document_ids)):
        encodings = [string.encode("utf-8") for string in strings]
        arrays[f"{name}_bytes"] = np.frombuffer(b"".join(encodings), np.uint8)
        integers[f"{name}_offsets"] = offsets_of([len(encoding) for encoding in encodings])
    arrays |= {name: narrow(values) for name, values in integers.items()}
    # The file is made in memory first, because HDF5 crashes at the end of a process that could not close a
    # file (on a full disk). HDF5's own driver for files in memory does not serve: in 1.14 it gives the bytes
    # of a file that is still open a wrong checksum.
    image = io.BytesIO()
    with h5py.File(image, "w", libver=LIBVER) as file:
        for name, array in sorted(arrays.items()):
            little_endian = array.astype(array.dtype.newbyteorder("<"), copy=False)
            options: dict[str, Any] = {}
            if array.size:  # HDF5 has no empty chunk
                options = {
                    "chunks": (min(DATASET_CHUNK, array.size),),
                    "compression": "gzip",
                    "compression_opts": 4,
                }
                options["shuffle"] = array.dtype.itemsize > 1
            file.create_dataset(name, data=little_endian, track_times=False, **options)
    with atomic_path(folder / shard_name(index)) as temporary:
        temporary.write_bytes(image.getbuffer())
    return ShardRow(
        index=index,
        file=shard_name(index),
        sha256=hashlib.sha256(image.getbuffer()).hexdigest(),
        sentences=len(batch),
        tokens=len(batch.token),
        documents=len(document_ids),
        flagged=int(np.count_nonzero(batch.flags)),
        reasons=flag_reasons(batch.flags),
    )


class TreeCache:
    """A folder of shards with a manifest, read by sentence ranges."""

    def __init__(self, folder: Path, manifest: Manifest, open_shards: int = OPEN_SHARDS) -> None:
        # Absolute, because shards are opened later, perhaps from another working folder.
        self.folder, self.manifest, self.open_shards = Path(folder).absolute(), manifest, open_shards
        self.rows = manifest.prefix()
        self.relations, self.labels, self.tags = manifest.relations, manifest.labels, manifest.tags
        self._starts = offsets_of([row.sentences for row in self.rows])
        self._shards: OrderedDict[int, _Shard] = OrderedDict()
        self._checked_shards: set[int] = set()
        self._next_sentence = 0  # the next one, if reading is sequential
        annotations = [each for name, each in ANNOTATIONS.items() if self.has(name)]
        available = {"token"}.union(*(each.view_fields + each.other_fields for each in annotations))
        self.fields = tuple(name for name in TOKEN_FIELDS + NODE_FIELDS if name in available)
        """The fields that :meth:`read` can return, in their canonical order."""

    @classmethod
    def open(
        cls, folder: Path | str, *, allow_partial: bool = False, open_shards: int = OPEN_SHARDS
    ) -> TreeCache:
        """Open a finished cache, or with ``allow_partial`` an unfinished one up to its first gap."""
        folder = path_of(folder, "tree cache")
        manifest = Manifest.read(folder)
        if not (manifest.complete or allow_partial) or not manifest.prefix():
            remedy = "the same parsing.run command finishes it"
            raise UserError(f"{folder}: unfinished, {len(manifest.prefix())} shards so far; {remedy}")
        return cls(folder, manifest, open_shards)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __reduce__(self) -> tuple[type[TreeCache], tuple[Path, Manifest, int]]:
        return type(self), (self.folder, self.manifest, self.open_shards)

    @property
    def identity(self) -> dict[str, Any]:
        """The corpus, parsers and options that the cache was made with, and its content hash."""
        return {**self.manifest.identity, "content_sha256": self.manifest.content_sha256()}

    def has(self, annotation: str) -> bool:
        """Tell whether the cache holds the trees of ``dep`` or ``const``."""
        return self.manifest.identity.get(ANNOTATIONS[annotation].parser) is not None

    def documents(self) -> Int64:
        """Return the sentence at which each document starts, and the total: int64 [documents + 1]."""
        shards = zip(self.files(), self._starts[:-1], strict=True)
        starts = [file["document_starts"][:] + first_sentence for file, first_sentence in shards]
        return np.concatenate([*starts, [len(self)]])

    def document_ids(self) -> list[str]:
        """Return the documents' identifiers, in order."""
        return [name for file in self.files() for name in strings_of(file, "document_id")]

    def token_counts(self) -> Int32:
        """Return the number of tokens of each sentence: int32 [n]."""
        counts = [np.diff(file["sentence_offsets"][:]) for file in self.files()]
        return np.concatenate(counts, dtype=np.int32)

    def flags(self) -> UInt8:
        """Return the flags of each sentence: uint8 [n]."""
        return np.concatenate([file["flags"][:] for file in self.files()])

    def type_counts(self) -> Counter[str]:
        """Count how often each word type occurs in the corpus."""
        counts: Counter[str] = Counter()
        for file in self.files():
            types = strings_of(file, "type")
            counts_of_shard = np.bincount(file["token"][:], minlength=len(types))
            counts.update(dict(zip(types, counts_of_shard.tolist(), strict=True)))
        return counts

    def words(self, ranges: Iterable[tuple[int, int]] | None = None) -> Iterator[list[str]]:
        """Yield the sentences as token lists: all of them, or those of some ranges of sentences."""
        if ranges is None:
            ranges = ((first, min(first + 4096, len(self))) for first in range(0, len(self), 4096))
        for first, stop in ranges:
            yield from self.read(first, stop, ("token",)).words()

    def read(
        self, first: int, stop: int, fields: Sequence[str] | None = None, vocabulary: WordIds | None = None
    ) -> Batch:
        """Read successive sentences as one batch.

        Args:
            first: the first sentence.
            stop: one past the last sentence.
            fields: the arrays to read; None reads all that the cache holds.
            vocabulary: gives the ids of the tokens in the array ``row``; None leaves it empty.

        Raises UserError if the cache does not hold a field, or if a shard is damaged.
        """
        fields = self.fields if fields is None else tuple(fields)
        for field in fields:
            if field not in self.fields:
                raise UserError(f"{self.folder}: has no {field!r} (it has {', '.join(self.fields)})")
        if not 0 <= first < stop <= len(self):
            raise IndexError(f"sentences {first} to {stop} of {len(self)}")
        first_shard = int(np.searchsorted(self._starts, first, "right")) - 1
        end_shard = int(np.searchsorted(self._starts, stop, "left"))
        batches = []
        with READING:
            for index in range(first_shard, end_shard):
                low, high = self._starts[index : index + 2].tolist()
                shard = self._shard(index, first)
                batches.append(shard.read(max(first, low) - low, min(stop, high) - low, fields, vocabulary))
            self._next_sentence = stop
        return replace(join_batches(batches), relations=self.relations)

    def _shard(self, index: int, first: int) -> _Shard:
        """Return the open shard ``index``; closes the least recently used ones if too many are open."""
        if index in self._shards:
            self._shards[index].keeps_arrays = True
        else:
            while len(self._shards) >= self.open_shards:
                self._shards.popitem(last=False)[1].file.close()
            self._shards[index] = _Shard(self._open(index), keeps_arrays=first == self._next_sentence)
        self._shards.move_to_end(index)
        return self._shards[index]

    def _open(self, index: int) -> h5py.File:
        """Open a shard; its file and its content are checked the first time."""
        import h5py

        row = self.rows[index]
        path = self.folder / row.file
        if index in self._checked_shards:
            return h5py.File(path, "r", libver=LIBVER, locking=False)
        file = open_shard(path, row, int(self._starts[index]), self.manifest, self.fields)
        self._checked_shards.add(index)
        return file

    def files(self) -> Iterator[h5py.File]:
        """Yield the open file of each shard in turn; each is closed before the next is opened."""
        for index in range(len(self.rows)):
            with self._open(index) as file:
                yield file


class _Shard:
    """An open shard file, with those of its arrays that are kept in memory."""

    def __init__(self, file: h5py.File, *, keeps_arrays: bool) -> None:
        self.file, self.keeps_arrays = file, keeps_arrays
        self.offsets: Int64 = file["sentence_offsets"][:].astype(np.int64)
        self.flags: UInt8 = file["flags"][:]
        self.flags.setflags(write=False)  # batches hold views of it
        self._arrays: dict[str, Int] = {}
        self._ids_of_types: dict[str, Int32] = {}
        self._types: list[str] | None = None

    def read(self, first: int, stop: int, fields: Sequence[str], vocabulary: WordIds | None) -> Batch:
        """Read the sentences ``first`` to ``stop`` (excluded) of the shard."""
        offsets = self.offsets[first : stop + 1]
        tokens = slice(int(offsets[0]), int(offsets[-1]))
        nodes = slice(tokens.start - first, tokens.stop - stop)
        arrays: dict[str, Any] = {}
        for field in fields:
            # Kept in the narrow type of the file, because a batch is cheaper to widen than the whole shard.
            if self.keeps_arrays and field not in self._arrays:
                self._arrays[field] = self.file[field][:]
            values = self._arrays[field] if field in self._arrays else self.file[field]
            arrays[field] = values[nodes if field in NODE_FIELDS else tokens].astype(np.int32)
        if "token" in arrays:
            self._types = arrays["types"] = self._types or strings_of(self.file, "type")
            if vocabulary is not None:
                arrays["row"] = self._vocabulary_ids(arrays["token"], self._types, vocabulary)
        flags = self.flags[first:stop]
        return Batch(sentence_offsets=offsets - tokens.start, flags=flags, fields=tuple(fields), **arrays)

    def _vocabulary_ids(self, token: Int32, types: list[str], vocabulary: WordIds) -> Int32:
        if self.keeps_arrays and vocabulary.key not in self._ids_of_types:
            self._ids_of_types[vocabulary.key] = vocabulary.lookup(types)
        if vocabulary.key in self._ids_of_types:
            return self._ids_of_types[vocabulary.key][token]
        type_ids, inverse = np.unique(token, return_inverse=True)  # the types of this range alone
        return vocabulary.lookup([types[type_id] for type_id in type_ids])[inverse.astype(np.int32)]
