"""Every distinct sentence is encoded once per model: vectors stay in memory, or on disk across runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np

from corpora.support.errors import UserError
from corpora.support.progress import progress
from senteval_runner.protocol.features import Float, glorot_projection, unit
from senteval_runner.vectors.shards import Bytes, Shards, Stored, digest_rows, text_digest

Tokens = list[str]
CHUNK = 4096


def text_of(tokens: Sequence[str]) -> str:
    """A sentence as encoders get it: tokens joined by one space, an empty one as "."."""
    return " ".join(tokens) or "."


class Encoder(Protocol):
    """What the runner evaluates.

    ``encode`` gets sentences as tokens joined by one space (an empty one as "."), or as token lists when the
    encoder has ``pretokenized = True``, and returns an array or tensor [n, d], one row per sentence.
    """

    def encode(self, sentences: Any) -> Any:
        """Vectors [n, d]."""
        ...


class SentenceVectors(Protocol):
    """Tokenised sentences to float32 [n, d]: an encoder behind its cache, or several combined."""

    def __call__(self, sentences: Sequence[Tokens]) -> Float:
        """One row per sentence, in order."""
        ...


class VectorStore(Shards):
    """One vector per text, float32 [n, d] a shard; see :class:`~senteval_runner.vectors.shards.Shards`."""

    def __contains__(self, text: str) -> bool:
        return text_digest(text) in self.place

    def check(self, vectors: Stored, rows: Bytes) -> None:
        """See :class:`~senteval_runner.vectors.shards.Shards`."""
        dim = self.shards[0].shape[1] if self.shards else vectors.shape[-1]
        if vectors.shape != (len(rows), dim):
            raise ValueError(f"{list(vectors.shape)} for {len(rows)} texts, expected {[len(rows), dim]}")

    def add(self, texts: Sequence[str], vectors: Float) -> None:
        """Keep new vectors [n, d] of ``n`` distinct texts."""
        self._keep(vectors, digest_rows(texts))

    def get(self, texts: Sequence[str]) -> Float:
        """Vectors of texts that are all in the store: [n, d]."""
        return self._gather(texts, lambda shard: shard)


class StoredEncoder:
    """An encoder that is asked for every distinct sentence once.

    Args:
        encoder: see :class:`Encoder`.
        store: where its vectors are kept.
        name: how messages call the model.
    """

    def __init__(self, encoder: Encoder, store: VectorStore | None = None, name: str = "encoder") -> None:
        self.encoder, self.store, self.name = encoder, store or VectorStore(), name
        self.pretokenized = bool(getattr(encoder, "pretokenized", False))
        self.encoded = 0

    def __call__(self, sentences: Sequence[Tokens]) -> Float:
        """Vectors [n, d]; sentences the store lacks are encoded in chunks.

        Raises:
            UserError: the encoder returned another shape, another dimension or values that are not finite.
        """
        texts = [text_of(tokens) for tokens in sentences]
        missing = [text for text in dict.fromkeys(texts) if text not in self.store]
        with progress(total=len(missing), description=f"encode {self.name}") as bar:
            for start in range(0, len(missing), CHUNK):
                chunk = missing[start : start + CHUNK]
                self.store.add(chunk, self._encode(chunk))
                bar.update(len(chunk))
        self.encoded += len(missing)
        return self.store.get(texts)

    def _encode(self, texts: list[str]) -> Float:
        output = self.encoder.encode([text.split(" ") for text in texts] if self.pretokenized else texts)
        if hasattr(output, "detach"):
            output = output.detach().cpu().float().numpy()
        vectors = np.asarray(output)
        if vectors.ndim != 2 or len(vectors) != len(texts) or vectors.dtype.kind not in "fiu":
            raise UserError(
                f"{self.name}: encode() returned {vectors.dtype} {list(vectors.shape)} for {len(texts)} "
                "sentences; expected numbers [sentences, dimensions]"
            )
        known = self.store.shards[0].shape[1] if self.store.shards else vectors.shape[1]
        if vectors.shape[1] != known:
            raise UserError(
                f"{self.name}: encode() returned {vectors.shape[1]} dimensions for {texts[0][:80]!r}, "
                f"before {known}"
            )
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            bad = int(np.argmin(finite))
            raise UserError(
                f"{self.name}: encode() returned NaN or infinity for {int((~finite).sum())} of {len(texts)} "
                f"sentences, first {texts[bad][:80]!r}"
            )
        return vectors.astype(np.float32)


def as_vectors(encoder: Encoder | SentenceVectors) -> SentenceVectors:
    """An encoder behind a store in memory; what is callable on token lists already stays as it is."""
    if hasattr(encoder, "encode"):
        return StoredEncoder(cast(Encoder, encoder))
    return encoder


class Concatenation:
    """Several models side by side: [n, Σ d]; ``normalize`` scales each part's rows to length 1 first."""

    def __init__(self, parts: Sequence[SentenceVectors], *, normalize: bool = False) -> None:
        self.parts, self.normalize = parts, normalize

    def __call__(self, sentences: Sequence[Tokens]) -> Float:
        """One row per sentence, in order."""
        blocks = [part(sentences) for part in self.parts]
        if self.normalize:
            blocks = [unit(block) for block in blocks]
        return np.concatenate(blocks, axis=1)


class Projection:
    """A fixed Glorot random matrix applied to the vectors: the control for embedding size."""

    def __init__(self, inner: SentenceVectors, out: int, seed: int) -> None:
        if out < 1:
            raise UserError(f"the projection needs at least 1 dimension, not {out}")
        self.inner, self.out, self.seed = inner, out, seed

    def __call__(self, sentences: Sequence[Tokens]) -> Float:
        """One row per sentence, in order: [n, out]."""
        vectors = self.inner(sentences)
        projected: Float = vectors @ glorot_projection(vectors.shape[1], self.out, self.seed)
        return projected
