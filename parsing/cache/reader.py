"""Reading a tree cache: a batch of successive sentences is a few contiguous slices.

    cache = TreeCache.open("runs/trees/pydocs")
    batch = cache.read(0, 400)                      # every field, word types as strings
    batch = cache.read(400, 800, ("token", "head"), vocabulary)

A shard that is read sequentially, or a second time, is decoded whole and kept while it is among the
most recently used; batches are then slices of it. The first read from a shard out of sequence decodes
only the batch's range. Memory holds ``open_shards`` decoded shards (about 4 MB each), whatever the size
of the corpus. Use one object per thread.

Shapes: B sentences, N tokens.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from corpora.support.errors import UserError
from parsing.cache.files import Manifest, check_shard, decode_strings, open_shard
from parsing.cache.format import NODE_FIELDS, TOKEN_FIELDS, VIEW_FIELDS, Batch, WordIds, join, offsets_of
from parsing.trees.parsers import Int, Int32, Int64, UInt8

if TYPE_CHECKING:
    import h5py

OPEN_SHARDS = 16


class TreeCache:
    """A folder of shards with a manifest, read by sentence ranges."""

    def __init__(self, folder: Path, manifest: Manifest, open_shards: int = OPEN_SHARDS) -> None:
        self.folder = folder
        self.manifest = manifest
        self.open_shards = open_shards
        self.rows = manifest.prefix()
        self.relations, self.labels, self.tags = manifest.relations, manifest.labels, manifest.tags
        self._starts = offsets_of([row.sentences for row in self.rows])
        self._shards: OrderedDict[int, _Shard] = OrderedDict()
        self._checked: set[int] = set()
        self._next = 0  # where a sequential reader reads next
        held = {name for view, names in VIEW_FIELDS.items() if self.has(view) for name in names}
        self.fields = tuple(name for name in TOKEN_FIELDS + NODE_FIELDS if name in held | {"token"})
        """The fields :meth:`read` can return, in their canonical order."""

    @classmethod
    def open(
        cls, folder: Path | str, *, allow_partial: bool = False, open_shards: int = OPEN_SHARDS
    ) -> TreeCache:
        """Open a finished cache, or with ``allow_partial`` an interrupted one up to its first gap.

        Raises:
            UserError: no cache, another format version, an unfinished one, or one without a first shard.
        """
        folder = Path(folder)
        manifest = Manifest.read(folder)
        if not (manifest.complete or allow_partial) or not manifest.prefix():
            raise UserError(
                f"{folder}: unfinished, {len(manifest.prefix())} shards so far; the same parsing.run command "
                "finishes it"
            )
        return cls(folder, manifest, open_shards)

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

    def documents(self) -> Int64:
        """int64 [n_docs+1], the sentence at which each document starts, and the total."""
        parts = zip(self._columns("document_starts"), self._starts[:-1], strict=True)
        return np.concatenate([*(starts + first for (starts,), first in parts), self._starts[-1:]])

    def document_ids(self) -> list[str]:
        """The documents' identifiers, in order."""
        columns = self._columns("document_id_bytes", "document_id_offsets")
        return [name for blob, offsets in columns for name in decode_strings(blob, offsets)]

    def token_counts(self) -> Int32:
        """int32 [n], tokens per sentence (4 bytes per sentence of the corpus)."""
        return np.concatenate(
            [np.diff(offsets) for (offsets,) in self._columns("sentence_offsets")], dtype=np.int32
        )

    def flags(self) -> UInt8:
        """uint8 [n], flags per sentence."""
        return np.concatenate([flags for (flags,) in self._columns("flags")])

    def type_counts(self) -> Counter[str]:
        """How often each word type occurs in the corpus."""
        counts: Counter[str] = Counter()
        for blob, offsets, token in self._columns("type_bytes", "type_offsets", "token"):
            types = decode_strings(blob, offsets)
            counts.update(dict(zip(types, np.bincount(token, minlength=len(types)).tolist(), strict=True)))
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
        last = int(np.searchsorted(self._starts, stop, "left"))
        parts = []
        for index in range(first, last):
            low, high = self._starts[index : index + 2].tolist()
            shard = self._shard(index, start)
            parts.append(shard.read(max(start, low) - low, min(stop, high) - low, wanted, vocabulary))
        self._next = stop
        return replace(join(parts), relations=self.relations)

    def close(self) -> None:
        """Close the open shards; the next read opens them again."""
        while self._shards:
            self._shards.popitem()[1].file.close()

    def _shard(self, index: int, start: int) -> _Shard:
        """The open shard ``index``; closes the least recently used ones if too many are open."""
        shard = self._shards.get(index)
        if shard is None:
            while len(self._shards) >= self.open_shards:
                self._shards.popitem(last=False)[1].file.close()
            shard = self._shards[index] = _Shard(self._open(index), whole=start == self._next)
        else:
            shard.whole = True
        self._shards.move_to_end(index)
        return shard

    def _open(self, index: int) -> h5py.File:
        """Open a shard, whose file is checked the first time."""
        path = self.folder / self.rows[index].file
        if index not in self._checked:
            check_shard(path, self.rows[index])
            self._checked.add(index)
        return open_shard(path)

    def _columns(self, *names: str) -> Iterator[list[Any]]:
        """Whole arrays, shard by shard."""
        for index in range(len(self.rows)):
            with self._open(index) as file:
                yield [file[name][:] for name in names]


class _Shard:
    """An open shard file and its decoded arrays."""

    def __init__(self, file: h5py.File, *, whole: bool) -> None:
        self.file = file
        self.whole = whole
        self.offsets: Int64 = file["sentence_offsets"][:].astype(np.int64)
        self.flags: UInt8 = file["flags"][:]
        self.flags.setflags(write=False)  # batches hold views of it
        self._decoded: dict[str, Int] = {}
        self._lookups: dict[str, Int32] = {}
        self._types: list[str] | None = None

    def read(self, a: int, b: int, fields: tuple[str, ...], vocabulary: WordIds | None) -> Batch:
        """Sentences ``a`` to ``b`` of the shard."""
        offsets = self.offsets[a : b + 1]
        low, high = int(offsets[0]), int(offsets[-1])
        arrays: dict[str, Any] = {}
        for field in fields:
            nodes = field in NODE_FIELDS
            arrays[field] = self._slice(field, low - a * nodes, high - b * nodes)
        if "token" in arrays:
            arrays["token"], arrays["types"] = self._words(arrays["token"], vocabulary)
        return Batch(sentence_offsets=offsets - low, flags=self.flags[a:b], fields=fields, **arrays)

    def _slice(self, name: str, low: int, high: int) -> Int32:
        if self.whole and name not in self._decoded:
            # Kept as narrow as it is stored: widening a batch at a time is cheaper than a shard at once.
            self._decoded[name] = self.file[name][:]
        source = self._decoded.get(name)
        values: Int32 = (self.file[name] if source is None else source)[low:high].astype(np.int32)
        return values

    def _words(self, token: Int32, vocabulary: WordIds | None) -> tuple[Int32, list[str] | None]:
        """Tokens as ids into the types that are returned; with a vocabulary, as its ids and no types."""
        if self._types is None:
            self._types = decode_strings(self.file["type_bytes"][:], self.file["type_offsets"][:])
        if vocabulary is None:
            return token, self._types
        if self.whole and vocabulary.key not in self._lookups:
            self._lookups[vocabulary.key] = vocabulary.lookup(self._types)
        if vocabulary.key in self._lookups:
            return self._lookups[vocabulary.key][token], None
        used, places = np.unique(token, return_inverse=True)  # look up only the types of this range
        return vocabulary.lookup([self._types[t] for t in used])[places.astype(np.int32)], None
