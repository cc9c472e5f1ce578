"""A store of vectors: every distinct sentence is encoded once, whichever run asks.

A store is a folder of shards that never change: ``NAME.npy`` [K, n, D], memory-mapped when read, and
``NAME.json`` with the texts' digests and the array's size and SHA-256, which are checked when the store is
opened. A shard exists when its record does, so a kill at any instant loses at most the chunk that was being
encoded. Space: 100,000 sentences, 13 layers of 768 numbers, float16, take 2.0 GB.

Legend of dimension suffixes: K vectors of a sentence (layers of an encoder; else 1), n sentences, D size.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multiview.pretrained import Float
from runtime.errors import UserError
from runtime.files import (
    check_file,
    file_record,
    read_array,
    read_record,
    remove_leftovers,
    write_array,
    write_record,
)
from runtime.surroundings import shared_lock

KEEPING = shared_lock()
"""Held by who adds vectors to a store."""
CHUNK = 2048
"""Sentences per shard, which is what a kill can lose."""


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class VectorStore:
    """Keeps K = ``columns`` vectors per text, one per layer for instance, as ``float32`` or ``float16``.

    The shards are in ``folder``, whose name the caller derives from everything that determines the vectors;
    without one they are in memory. A damaged shard, or one of another shape, is a UserError.
    """

    def __init__(self, folder: Path | None = None, columns: int = 1, dtype: str = "float32") -> None:
        self.folder, self.columns, self.dtype = folder, columns, np.dtype(dtype)
        self.shards: list[NDArray[np.floating]] = []
        self.place: dict[str, tuple[int, int]] = {}
        for record in sorted(folder.glob("*.json")) if folder is not None else ():
            try:
                written = read_record(record)
                check_file(record.with_suffix(".npy"), **written["file"])
                vectors = read_array(record.with_suffix(".npy"), 3)
                shape = (self.columns, len(written["texts"]), self.dim or vectors.shape[-1])
                kinds = {type(text) for text in written["texts"]}
                if (vectors.dtype, vectors.shape, kinds) != (self.dtype, shape, {str}):
                    raise ValueError(f"{vectors.dtype} {list(vectors.shape)}")
            except (UserError, OSError, ValueError, LookupError, TypeError) as error:
                raise UserError(
                    f"{record}: not a shard of vectors ({error}); delete {folder} to encode again"
                ) from None
            self._index(vectors, written["texts"])

    def _index(self, vectors: NDArray[np.floating], digests: Sequence[str]) -> None:
        with KEEPING:
            self.shards.append(vectors)
            self.place |= {digest: (len(self.shards) - 1, row) for row, digest in enumerate(digests)}

    @property
    def dim(self) -> int | None:
        """Gives the size D of a vector; None before the first one."""
        return self.shards[0].shape[-1] if self.shards else None

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Return the distinct texts that have no vectors yet, in order."""
        return [text for text in dict.fromkeys(texts) if _digest(text) not in self.place]

    def add(self, texts: Sequence[str], vectors_KnD: Float) -> None:
        """Keep the vectors [K, n, D] of n distinct new texts, whose values fit the number format."""
        with np.errstate(over="ignore"):
            stored: NDArray[np.floating] = np.ascontiguousarray(vectors_KnD, dtype=self.dtype)
        if not np.isfinite(stored).all():
            raise UserError(f"values up to {np.abs(vectors_KnD).max():.3g} do not fit {self.dtype}")
        digests = [_digest(text) for text in texts]
        if self.folder is not None:
            remove_leftovers(self.folder, shared=True)
            # The content is part of the name: two processes that share a folder do not overwrite each other.
            content = hashlib.sha256("".join(digests).encode() + stored.tobytes()).hexdigest()
            path = self.folder / f"{len(self.shards):05d}-{content[:8]}.npy"
            write_array(path, stored)
            write_record(path.with_suffix(".json"), {"texts": digests, "file": file_record(path)})
            stored = np.load(path, mmap_mode="r")
        self._index(stored, digests)

    def get(self, texts: Sequence[str], column: int = 0) -> Float:
        """Return one vector each of texts that are all in the store: float32 [n, D]."""
        places = np.array([self.place[_digest(text)] for text in texts]).reshape(-1, 2)
        out = np.empty((len(texts), self.dim or 0), dtype=np.float32)
        for shard in np.unique(places[:, 0]):
            here = places[:, 0] == shard
            out[here] = self.shards[shard][column][places[here, 1]]
        return out
