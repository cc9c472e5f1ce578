"""Vectors of all columns (layer x pooling) on disk: written once per sentence, read column by column.

A store is a folder of immutable shards, ``*.vectors.npy`` ([K, n, D]: K columns, each one contiguous)
then ``*.digests.npy`` (uint8 [n, 17]: BLAKE2b of the text, 1 if it was shortened). A shard exists when
its digests do, so a kill at any instant loses at most the chunk being encoded. Shards are memory-mapped:
one column of one task is all that is ever in memory.

Disk space is sentences x K x D x bytes: 100,000 sentences of BERT base are 13 layers x 4 poolings x 768
dimensions x 2 bytes x 100,000 = 8.0 GB in float16, 2.0 GB with one pooling.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.support.errors import UserError
from corpora.support.files import atomic_path
from senteval_runner.embed import text_digest
from senteval_runner.features import Float

Stored = NDArray[np.floating]


class LayerStore:
    """Columns of vectors by text.

    Args:
        folder: where shards lie and go; the caller names it by all that decides the vectors.
        columns: K, vectors per sentence.
        dtype: ``float16`` or ``float32``.
    """

    def __init__(self, folder: Path, columns: int, dtype: str) -> None:
        self.folder, self.columns, self.dtype = folder, columns, np.dtype(dtype)
        self.shards: list[Stored] = []
        self.place: dict[bytes, tuple[int, int]] = {}
        self.cut = 0
        """Sentences that were shortened."""
        if folder.is_dir():
            for digests in sorted(folder.glob("*.digests.npy")):
                self._open(digests)

    def _open(self, digests: Path) -> None:
        path = digests.with_name(digests.name.replace(".digests.", ".vectors."))
        try:
            vectors, rows = np.load(path, mmap_mode="r"), np.load(digests)
            if vectors.dtype != self.dtype or vectors.shape[:2] != (self.columns, len(rows)):
                raise ValueError(f"{vectors.dtype} {list(vectors.shape)}")
        except (OSError, ValueError) as error:
            raise UserError(
                f"{path}: not a shard of vectors ({error}); delete {self.folder} to encode again"
            ) from None
        self.shards.append(vectors)
        self.cut += int(rows[:, 16].sum())
        for row, digest in enumerate(rows[:, :16]):
            self.place[digest.tobytes()] = len(self.shards) - 1, row

    def missing(self, texts: Sequence[str]) -> list[str]:
        """The distinct texts that have no vectors yet, in order."""
        return [text for text in dict.fromkeys(texts) if text_digest(text) not in self.place]

    def nbytes(self) -> int:
        """Bytes of the stored vectors."""
        return sum(shard.nbytes for shard in self.shards)

    def check_space(self, sentences: int, dim: int) -> None:
        """Refuse before hours of work what the disk cannot hold.

        Raises:
            UserError: the sentences to come need more than is free.
        """
        needed = sentences * self.columns * dim * self.dtype.itemsize
        folder = next(p for p in (self.folder, *self.folder.absolute().parents) if p.exists())
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise UserError(
                f"{self.folder}: {sentences:,} sentences need {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are "
                "free; use --limit, fewer --poolings or --layers, or another --cache"
            )

    def add(self, texts: Sequence[str], vectors_KND: Float, cut_n: NDArray[np.bool_]) -> None:
        """Keep the vectors of ``n`` distinct new texts, and which of these were shortened.

        Raises:
            UserError: a value is not finite, or too large for the number format.
        """
        stored = self._as_stored(vectors_KND)
        digests = np.frombuffer(b"".join(map(text_digest, texts)), dtype=np.uint8).reshape(-1, 16)
        rows = np.concatenate([digests, cut_n[:, None].astype(np.uint8)], axis=1)
        # The content is part of the name: two processes that share a folder do not overwrite each other.
        number = f"{len(self.shards):05d}-{sha256(rows.tobytes()).hexdigest()[:8]}"
        for name, array in (("vectors", stored), ("digests", rows)):
            path = self.folder / f"{number}.{name}.npy"
            with atomic_path(path) as temporary, open(temporary, "wb") as out:
                np.save(out, array, allow_pickle=False)
        self._open(path)

    def _as_stored(self, vectors_KND: Float) -> Stored:
        if not np.isfinite(vectors_KND).all():
            raise UserError(f"{self.folder}: the backbone gave NaN or infinity; its weights are unusable")
        with np.errstate(over="ignore"):
            stored: Stored = vectors_KND.astype(self.dtype)
        if not np.isfinite(stored).all():
            raise UserError(
                f"{self.folder}: values up to {np.abs(vectors_KND).max():.3g} do not fit {self.dtype}; "
                "use --storage float32"
            )
        return stored

    def get(self, texts: Sequence[str], column: int) -> Float:
        """One column of texts that are all in the store: float32 [n, D]."""
        places = np.array([self.place[text_digest(text)] for text in texts])
        out = np.empty((len(texts), self.shards[0].shape[2]), dtype=np.float32)
        for shard in np.unique(places[:, 0]):
            here = places[:, 0] == shard
            out[here] = self.shards[shard][column][places[here, 1]]
        return out
