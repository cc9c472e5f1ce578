"""Vectors of all columns (layer x pooling) on disk: written once per sentence, read column by column.

A shard (:class:`~senteval_runner.vectors.shards.Shards`) is [K, n, D]: K columns, each contiguous, so only
one column of one task is ever in memory. A row of its digests ends in a 17th byte, 1 if the sentence was
shortened.

Disk space is sentences x K x D x bytes: 100,000 sentences of BERT base are 13 layers x 4 poolings x 768
dimensions x 2 bytes x 100,000 = 8.0 GB in float16, 2.0 GB with one pooling.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.support.errors import UserError
from senteval_runner.protocol.features import Float
from senteval_runner.vectors.shards import DIGEST, Bytes, Shards, Stored, digest_rows, text_digest


class LayerStore(Shards):
    """Columns of vectors by text.

    Args:
        folder: folder of the shards; the caller derives its name from everything that determines the vectors.
        columns: K, vectors per sentence.
        dtype: ``float16`` or ``float32``.
    """

    folder: Path

    def __init__(self, folder: Path, columns: int, dtype: str) -> None:
        self.columns, self.dtype = columns, np.dtype(dtype)
        self.cut = 0
        """Sentences that were shortened."""
        super().__init__(folder)

    def check(self, vectors: Stored, rows: Bytes) -> None:
        """See :class:`~senteval_runner.vectors.shards.Shards`."""
        if vectors.dtype != self.dtype or vectors.shape[:2] != (self.columns, len(rows)):
            raise ValueError(f"{vectors.dtype} {list(vectors.shape)}")

    def _index(self, vectors: Stored, rows: Bytes) -> None:
        super()._index(vectors, rows)
        self.cut += int(rows[:, DIGEST].sum())

    def missing(self, texts: Sequence[str]) -> list[str]:
        """The distinct texts that have no vectors yet, in order."""
        return [text for text in dict.fromkeys(texts) if text_digest(text) not in self.place]

    def nbytes(self) -> int:
        """Bytes of the stored vectors."""
        return sum(shard.nbytes for shard in self.shards)

    def check_space(self, sentences: int, dim: int) -> None:
        """Check the disk before hours of work.

        Raises:
            UserError: the sentences need more space than is free.
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
        """Keep the vectors of n distinct new texts; ``cut_n`` [n] says which were shortened.

        Raises:
            UserError: a value is not finite, or too large for the number format.
        """
        stored = self._as_stored(vectors_KND)
        self._keep(stored, np.concatenate([digest_rows(texts), cut_n[:, None].astype(np.uint8)], axis=1))

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
        return self._gather(texts, lambda shard: shard[column])
