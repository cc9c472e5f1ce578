"""Folders of immutable shards: vectors by text, written once and memory-mapped when read.

A shard is ``NAME.vectors.npy``, ``NAME.digests.npy``, one row per text whose first 16 bytes are the BLAKE2b
of the text, and ``NAME.json`` with sizes and SHA-256 of both, which are checked when the store is opened. A
shard exists when its record does, so a kill at any instant loses at most the chunk that was being encoded.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.support.errors import UserError
from corpora.support.files import check_file, file_record, read_record, sweep, write_array, write_record
from senteval_runner.protocol.features import Float

Stored = NDArray[np.floating]
Bytes = NDArray[np.uint8]
DIGEST = 16
KINDS = ("vectors", "digests")
"""The two arrays of a shard."""


def text_digest(text: str) -> bytes:
    """The 16-byte digest of a text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST).digest()


def digest_rows(texts: Sequence[str]) -> Bytes:
    """Digests of texts: uint8 [n, 16]."""
    return np.frombuffer(b"".join(map(text_digest, texts)), dtype=np.uint8).reshape(-1, DIGEST)


class Shards(ABC):
    """Base class of the vector stores: their files, and the place of each text.

    Args:
        folder: folder of the shards; None keeps them in memory. The caller derives its name from everything
            that determines the vectors.

    Raises:
        UserError: a damaged shard, or one of another shape than the store's.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.shards: list[Stored] = []
        self.place: dict[bytes, tuple[int, int]] = {}
        if folder is not None and folder.is_dir():
            for record in sorted(folder.glob("*.json")):
                self._open(record)

    @abstractmethod
    def check(self, vectors: Stored, rows: Bytes) -> None:
        """Raise ValueError if a shard does not belong to this store.

        Args:
            vectors: [n, d], or [K, n, d] of a store with K vectors per text.
            rows: digests, uint8 [n, 16 or more].
        """

    def _open(self, record: Path) -> None:
        files = {kind: record.with_name(f"{record.stem}.{kind}.npy") for kind in KINDS}
        try:
            written = read_record(record)
            for kind, path in files.items():
                check_file(path, **written[kind])
            vectors, rows = np.load(files["vectors"], mmap_mode="r"), np.load(files["digests"])
            self.check(vectors, rows)
        except (UserError, OSError, ValueError, LookupError, TypeError) as error:
            raise UserError(
                f"{record}: not a shard of vectors ({error}); delete {self.folder} to encode again"
            ) from None
        self._index(vectors, rows)

    def _index(self, vectors: Stored, rows: Bytes) -> None:
        self.shards.append(vectors)
        for row, digest in enumerate(rows[:, :DIGEST]):
            self.place[digest.tobytes()] = len(self.shards) - 1, row

    def _keep(self, vectors: Stored, rows: Bytes) -> None:
        """Add a shard, on disk if the store has a folder."""
        if self.folder is None:
            self._index(vectors, rows)
            return
        sweep(self.folder, shared=True)
        # The content is part of the name: two processes that share a folder do not overwrite each other.
        content = hashlib.sha256(rows.tobytes())
        content.update(np.ascontiguousarray(vectors).data)
        name = f"{len(self.shards):05d}-{content.hexdigest()[:8]}"
        files = {kind: self.folder / f"{name}.{kind}.npy" for kind in KINDS}
        for kind, array in zip(KINDS, (vectors, rows), strict=True):
            write_array(files[kind], array)
        write_record(self.folder / f"{name}.json", {kind: file_record(path) for kind, path in files.items()})
        self._index(np.load(files["vectors"], mmap_mode="r"), rows)

    def _gather(self, texts: Sequence[str], part: Callable[[Stored], Stored]) -> Float:
        """Vectors [n, D] of texts that are all in the store; ``part`` selects [m, D] from a shard."""
        places = np.array([self.place[text_digest(text)] for text in texts])
        out = np.empty((len(texts), self.shards[0].shape[-1]), dtype=np.float32)
        for shard in np.unique(places[:, 0]):
            here = places[:, 0] == shard
            out[here] = part(self.shards[shard])[places[here, 1]]
        return out
