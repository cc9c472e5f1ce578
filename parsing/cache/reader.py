"""Reading a tree cache: a batch of successive sentences is a few contiguous slices.

    cache = TreeCache.open("runs/trees/pydocs")
    batch = cache.read(0, 400)                      # every field, word types as strings
    batch = cache.read(400, 800, ("token", "head"), vocabulary)

A shard that is read sequentially, or a second time, is decoded whole and kept while it is among the
most recently used; batches are then slices of it. The first read from a shard out of sequence decodes
only the batch's range. Memory holds ``open_shards`` decoded shards (about 4 MB each), whatever the size
of the corpus. Use one object per thread; it may be inherited by a forked process or pickled.

Shapes: B sentences, N tokens.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter, OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import h5py
import numpy as np
from numpy.typing import NDArray

from corpora.support.errors import UserError
from parsing.cache.checksums import remedy
from parsing.cache.format import (
    NODE_FIELDS,
    TOKEN_FIELDS,
    VIEW_FIELDS,
    Batch,
    WordIds,
    offsets_of,
)
from parsing.cache.manifest import Manifest
from parsing.cache.shard_file import DAMAGE, decode_strings, open_listed
from parsing.trees.parsers import Int32, Int64, UInt8

OPEN_SHARDS = 16


class TreeCache:
    """A folder of shards with a manifest, read by sentence ranges."""

    def __init__(self, folder: Path, manifest: Manifest, open_shards: int = OPEN_SHARDS) -> None:
        self.folder = folder
        self.manifest = manifest
        self.open_shards = open_shards
        self.rows = manifest.prefix()
        self._starts = offsets_of([row.sentences for row in self.rows])
        self._shards: OrderedDict[int, _Shard] = OrderedDict()
        self._pid = os.getpid()
        self._next = 0  # where a sequential reader reads next
        self.fields = tuple(
            name
            for name in TOKEN_FIELDS + NODE_FIELDS
            if name == "token" or any(self.has(view) and name in VIEW_FIELDS[view] for view in VIEW_FIELDS)
        )
        """The fields :meth:`read` can return, in their canonical order."""

    @classmethod
    def open(
        cls, folder: Path | str, *, allow_partial: bool = False, open_shards: int = OPEN_SHARDS
    ) -> TreeCache:
        """Open a finished cache.

        Args:
            folder: where ``parsing.run`` wrote it.
            allow_partial: also open one whose run was interrupted (its shards up to the first gap).
            open_shards: how many decoded shards to keep.

        Raises:
            UserError: no cache, another format version, an unfinished one, or one without a first shard.
        """
        folder = Path(folder)
        manifest = Manifest.read(folder)
        if not (manifest.complete or allow_partial):
            raise UserError(
                f"{folder}: unfinished, {len(manifest.rows)} shards so far; the same parsing.run command "
                "finishes it"
            )
        if not manifest.prefix():
            raise UserError(
                f"{folder}: its first shard is not there yet; the same parsing.run command makes it"
            )
        return cls(folder, manifest, open_shards)

    def __reduce__(self) -> tuple[Any, ...]:
        return TreeCache, (self.folder, self.manifest, self.open_shards)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def identity(self) -> dict[str, Any]:
        """Corpus, parsers and options the cache was made with, and its content hash."""
        return {**self.manifest.identity, "content_sha256": self.manifest.content_sha256()}

    def sentences_sha256(self) -> str:
        """Hash of what decides the sentences: the text, how it is read and cut; not the parsers."""
        decides = [self.manifest.identity.get("corpus"), len(self)]
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()

    def has(self, view: str) -> bool:
        """Whether the cache holds the trees of ``view`` (``dep`` or ``const``)."""
        key = {"dep": "dependency", "const": "constituency"}[view]
        return self.manifest.identity.get(key) is not None

    @property
    def relations(self) -> tuple[str, ...]:
        """Names of ``relation`` ids."""
        return self.manifest.inventories.relations

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of ``label`` and ``leaf_label`` ids."""
        return self.manifest.inventories.labels

    @property
    def tags(self) -> tuple[str, ...]:
        """Names of ``tag`` ids."""
        return self.manifest.inventories.tags

    def documents(self) -> Int64:
        """int64 [n_docs+1], the sentence at which each document starts, and the total."""
        starts = [np.zeros(0, np.int64)]
        for index, row in enumerate(self.rows):
            if row.documents:
                inside = self._array(index, "document_offsets").astype(np.int64)
                starts.append(inside[-1 - row.documents : -1] + self._starts[index])
        return np.append(np.concatenate(starts), len(self))

    def document_ids(self) -> list[str]:
        """The documents' identifiers, in order."""
        ids: list[str] = []
        for index, row in enumerate(self.rows):
            names = decode_strings(
                self._array(index, "document_id_bytes"), self._array(index, "document_id_offsets")
            )
            ids += names[len(names) - row.documents :]
        return ids

    def token_counts(self) -> Int32:
        """int32 [n], tokens per sentence (4 bytes per sentence of the corpus)."""
        counts = np.zeros(len(self), np.int32)
        for index in range(len(self.rows)):
            counts[self._starts[index] : self._starts[index + 1]] = np.diff(
                self._array(index, "sentence_offsets")
            )
        return counts

    def flags(self) -> UInt8:
        """uint8 [n], flags per sentence."""
        flags = np.zeros(len(self), np.uint8)
        for index in range(len(self.rows)):
            flags[self._starts[index] : self._starts[index + 1]] = self._array(index, "flags")
        return flags

    def type_counts(self) -> Counter[str]:
        """How often each word type occurs in the corpus."""
        counts: Counter[str] = Counter()
        for index in range(len(self.rows)):
            types = decode_strings(self._array(index, "type_bytes"), self._array(index, "type_offsets"))
            occurrences = np.bincount(self._array(index, "token"), minlength=len(types)).tolist()
            for word, count in zip(types, occurrences, strict=True):
                counts[word] += count
        return counts

    def read(
        self,
        start: int,
        stop: int,
        fields: Sequence[str] | None = None,
        vocabulary: WordIds | None = None,
    ) -> Batch:
        """The sentences ``start`` to ``stop`` (excluded) as one batch.

        Args:
            start: first sentence, from 0.
            stop: one past the last.
            fields: which arrays; by default all that the cache has.
            vocabulary: if given, ``token`` holds its ids instead of ids into ``types``.

        Raises:
            UserError: a field the cache does not hold, or a damaged shard.
            IndexError: the range is empty or not inside the corpus.
        """
        wanted = tuple(fields) if fields is not None else self.fields
        for field in wanted:
            if field not in self.fields:
                raise UserError(f"{self.folder}: has no {field!r} (it has {', '.join(self.fields)})")
        if not 0 <= start < stop <= len(self):
            raise IndexError(f"sentences {start} to {stop} of {len(self)}")
        first = int(np.searchsorted(self._starts, start, "right")) - 1
        last = int(np.searchsorted(self._starts, stop, "left")) - 1
        parts = []
        for index in range(first, last + 1):
            offset = int(self._starts[index])
            inside = max(start - offset, 0), min(stop, int(self._starts[index + 1])) - offset
            parts.append(self._shard(index, start).read(*inside, wanted, vocabulary))
        self._next = stop
        return parts[0] if len(parts) == 1 else _join(parts, wanted, vocabulary is not None)

    def close(self) -> None:
        """Close the open shards; the next read opens them again."""
        if self._pid == os.getpid():
            for shard in self._shards.values():
                shard.file.close()
        self._shards.clear()

    def _shard(self, index: int, start: int) -> _Shard:
        """The open shard ``index``; closes the least recently used ones if too many are open."""
        if self._pid != os.getpid():  # HDF5 handles do not survive a fork
            self._shards.clear()
            self._pid = os.getpid()
        shard = self._shards.get(index)
        if shard is None:
            while len(self._shards) >= self.open_shards:
                self._shards.popitem(last=False)[1].file.close()
            shard = self._shards[index] = _Shard(self._open(index))
            shard.whole = start == self._next
        else:
            shard.whole = True
        self._shards.move_to_end(index)
        return shard

    def _open(self, index: int) -> h5py.File:
        return open_listed(self.folder, self.rows[index])

    def _array(self, index: int, name: str) -> Any:
        with self._open(index) as file:
            return _load(file, name, slice(None))


def _load(file: h5py.File, name: str, where: slice) -> Any:
    try:
        return file[name][where]
    except DAMAGE as error:
        raise UserError(
            f"{file.filename}: damaged at {name!r} ({error}); {remedy(Path(file.filename))}"
        ) from None


class _Shard:
    """An open shard file and its decoded arrays."""

    def __init__(self, file: h5py.File) -> None:
        self.file = file
        self.whole = False
        self.offsets: Int64 = _load(file, "sentence_offsets", slice(None)).astype(np.int64)
        self.sentence_flags: UInt8 = _load(file, "flags", slice(None))
        self.sentence_flags.setflags(write=False)  # batches hold views of it
        self._decoded: dict[str, NDArray[np.integer]] = {}
        self._lookups: dict[str, Int32] = {}
        self._type_table: tuple[UInt8, Int32] | None = None
        self._types: list[str] | None = None

    def read(self, a: int, b: int, fields: tuple[str, ...], vocabulary: WordIds | None) -> Batch:
        """Sentences ``a`` to ``b`` of the shard."""
        offsets = self.offsets[a : b + 1]
        low, high = int(offsets[0]), int(offsets[-1])
        arrays: dict[str, Any] = {}
        for field in fields:
            if field == "token":
                arrays["token"], arrays["types"] = self._tokens(low, high, vocabulary)
            elif field in NODE_FIELDS:
                arrays[field] = self._slice(field, low - a, high - b)
            else:
                arrays[field] = self._slice(field, low, high)
        return Batch(sentence_offsets=offsets - low, flags=self.sentence_flags[a:b], fields=fields, **arrays)

    def _slice(self, name: str, low: int, high: int) -> Int32:
        decoded = self._decoded.get(name)
        if decoded is None:
            if not self.whole:
                return cast(Int32, _load(self.file, name, slice(low, high)).astype(np.int32))
            # Kept as narrow as it is stored: widening a batch at a time is cheaper than a shard at once.
            decoded = self._decoded[name] = _load(self.file, name, slice(None))
        return decoded[low:high].astype(np.int32)

    def _tokens(self, low: int, high: int, vocabulary: WordIds | None) -> tuple[Int32, list[str] | None]:
        """Tokens of a range as ids into the returned types; with a vocabulary, as its ids and no types."""
        token = self._slice("token", low, high)
        if not self.whole:  # decode and look up only the types of this range
            used, places = np.unique(token, return_inverse=True)
            token, types = places.astype(np.int32), self._type_names(used)
            if vocabulary is None:
                return token, types
            return vocabulary.lookup(types)[token], None
        if self._types is None:
            self._types = self._type_names()
        if vocabulary is None:
            return token, self._types
        ids = self._lookups.get(vocabulary.key)
        if ids is None:
            ids = self._lookups[vocabulary.key] = vocabulary.lookup(self._types)
        return ids[token], None

    def _type_names(self, which: Int32 | None = None) -> list[str]:
        """Word types of the shard by number; None means all of them."""
        if self._type_table is None:
            blob = _load(self.file, "type_bytes", slice(None))
            offsets = _load(self.file, "type_offsets", slice(None))
            if offsets[0] != 0 or offsets[-1] != len(blob) or (np.diff(offsets) < 0).any():
                path = Path(self.file.filename)
                raise UserError(f"{path}: damaged at 'type_offsets'; {remedy(path)}")
            self._type_table = blob, offsets
        blob, offsets = self._type_table
        if which is None:
            return decode_strings(blob, offsets)
        data, pairs = blob.tobytes(), zip(offsets[which].tolist(), offsets[which + 1].tolist(), strict=True)
        return [data[a:b].decode("utf-8") for a, b in pairs]


def _join(parts: list[Batch], fields: tuple[str, ...], mapped: bool) -> Batch:
    """Batches of neighbouring shards as one."""
    arrays: dict[str, Any] = {}
    for field in fields:
        arrays[field] = np.concatenate([getattr(part, field) for part in parts])
    if "token" in fields and not mapped:
        types: list[str] = []
        shifted = []
        for part in parts:
            shifted.append(part.token + np.int32(len(types)))
            types = types + (part.types or [])
        arrays["token"], arrays["types"] = np.concatenate(shifted), types
    offsets = offsets_of(np.concatenate([np.diff(part.sentence_offsets) for part in parts]))
    flags = np.concatenate([part.flags for part in parts])
    return Batch(sentence_offsets=offsets, flags=flags, fields=fields, **arrays)
