"""From encoders to sentence vectors, in two steps.

:class:`StoredEncoder` asks an encoder for every distinct sentence once and keeps the vectors, in memory or
on disk across runs; :class:`CombinedEncoder` puts several side by side and projects them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Protocol, cast, runtime_checkable

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


@runtime_checkable
class Encoder(Protocol):
    """What the runner evaluates.

    ``encode`` gets sentences as tokens joined by one space (an empty one as "."), or as token lists if the
    encoder has ``pretokenized = True``. It returns an array or tensor [n, d], one row per sentence.
    """

    def encode(self, sentences: Any, /) -> Any:
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


@dataclass(frozen=True)
class LoadedEncoder:
    """An encoder and how to call it."""

    encoder: Encoder
    tokens: bool
    """Whether evaluation sentences go in as token lists, not as strings."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of ``encode``."""

    def encode(self, sentences: Sequence[Any]) -> Any:
        """The encoder's own output, [n, d]."""
        return self.encoder.encode(sentences, **self.options)


class StoredEncoder:
    """An encoder that is loaded when it is first needed and that encodes every distinct sentence once.

    Args:
        encoder: see :class:`Encoder`; or a function that loads one, called when a vector is missing.
        store: where vectors are kept; None keeps them in memory.
        name: name of the model in messages.
    """

    def __init__(
        self,
        encoder: Encoder | Callable[[], LoadedEncoder],
        store: VectorStore | None = None,
        name: str = "encoder",
    ) -> None:
        self.given, self.store, self.name = encoder, store or VectorStore(), name

    @property
    def loaded(self) -> LoadedEncoder:
        """The encoder, loaded on first use.

        Raises:
            UserError: it cannot be loaded. It is not tried again: a name that is looked up without a network
                takes over a minute to fail, and would at every task.
        """
        if isinstance(self._loaded, UserError):
            raise self._loaded
        return self._loaded

    @cached_property
    def _loaded(self) -> LoadedEncoder | UserError:
        if isinstance(self.given, Encoder):
            return LoadedEncoder(self.given, bool(getattr(self.given, "pretokenized", False)))
        try:
            return self.given()
        except UserError as error:
            return error

    @property
    def dim(self) -> int | None:
        """Size d of a vector; None before the first one."""
        return self.store.shards[0].shape[1] if self.store.shards else None

    def __call__(self, sentences: Sequence[Tokens]) -> Float:
        """Vectors [n, d] of token lists; sentences the store lacks are encoded in chunks.

        Raises:
            UserError: the encoder returned another shape, another dimension or values that are not finite.
        """
        texts = [text_of(tokens) for tokens in sentences]
        missing = [text for text in dict.fromkeys(texts) if text not in self.store]
        with progress(total=len(missing), description=f"encode {self.name}") as bar:
            for start in range(0, len(missing), CHUNK):
                chunk = missing[start : start + CHUNK]
                inputs = [text.split(" ") for text in chunk] if self.loaded.tokens else chunk
                self.store.add(chunk, self._checked(self.loaded.encode(inputs), chunk))
                bar.update(len(chunk))
        return self.store.get(texts)

    def encode(self, texts: Sequence[str]) -> Float:
        """Vectors [n, d] of raw texts, which the encoder tokenises itself; they are not kept.

        Raises:
            UserError: as for token lists.
        """
        texts = [text if text.strip() else "." for text in texts]
        return self._checked(self.loaded.encode(texts), texts)

    def _checked(self, output: Any, texts: Sequence[str]) -> Float:
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


class CombinedEncoder:
    """Several encoders side by side, [n, Σ d], or a projection of that.

    Args:
        parts: the encoders.
        normalize: scale each part's rows to length 1 first.
        project: dimensions of a fixed Glorot random projection, the control for embedding size; None does
            not project.
        seed: of the projection.
    """

    def __init__(
        self,
        parts: Sequence[StoredEncoder],
        *,
        normalize: bool = False,
        project: int | None = None,
        seed: int = 0,
    ) -> None:
        self.parts, self.normalize, self.project, self.seed = list(parts), normalize, project, seed

    @property
    def dim(self) -> int | None:
        """Size of a vector; None before the first one."""
        sizes = [part.dim for part in self.parts]
        return self.project or (None if None in sizes else sum(filter(None, sizes)))

    def __call__(self, sentences: Sequence[Tokens]) -> Float:
        """Vectors [n, d] of token lists."""
        return self._combined([part(sentences) for part in self.parts])

    def encode(self, texts: Sequence[str]) -> Float:
        """Vectors [n, d] of raw texts."""
        return self._combined([part.encode(texts) for part in self.parts])

    def _combined(self, blocks: list[Float]) -> Float:
        if self.normalize:
            blocks = [unit(block) for block in blocks]
        vectors: Float = np.concatenate(blocks, axis=1)
        if self.project is None:
            return vectors
        projected: Float = vectors @ glorot_projection(vectors.shape[1], self.project, self.seed)
        return projected


class SentEvalBatcher(Protocol):
    """The original toolkit's ``batcher``."""

    def __call__(self, params: Any, batch: list[Tokens], /) -> Any:
        """Vectors [n, d] of token lists, n at most ``params.batch_size``."""
        ...


class BatchedEncoder:
    """A batcher of the original toolkit as an encoder.

    Args:
        batcher: called with at most 128 sentences, as there; its ``params`` hold ``batch_size`` alone.
    """

    pretokenized = True

    def __init__(self, batcher: SentEvalBatcher) -> None:
        self.batcher, self.params = batcher, SimpleNamespace(batch_size=128)

    def encode(self, sentences: Sequence[Tokens]) -> Float:
        """Vectors [n, d] of token lists."""
        size = self.params.batch_size
        parts = range(0, len(sentences), size)
        blocks = [np.asarray(self.batcher(self.params, list(sentences[i : i + size]))) for i in parts]
        return np.concatenate(blocks)


def as_vectors(encoder: Encoder | SentenceVectors | SentEvalBatcher) -> SentenceVectors:
    """Put an encoder or a batcher behind a store in memory; sentence vectors are returned unchanged.

    Raises:
        UserError: it is none of these.
    """
    if isinstance(encoder, StoredEncoder | CombinedEncoder):
        return encoder
    if isinstance(encoder, Encoder):
        return StoredEncoder(encoder)
    needed = _arguments(encoder) if callable(encoder) else 0
    if needed == 2:
        return StoredEncoder(BatchedEncoder(cast(SentEvalBatcher, encoder)))
    if needed == 1:
        return cast(SentenceVectors, encoder)
    raise UserError(
        f"{encoder!r:.60} is no encoder: give an object with encode(sentences), a function of token lists, "
        "or SentEval's batcher(params, batch); each returns an array [sentences, dimensions]"
    )


def _arguments(function: Callable[..., object]) -> int:
    """Positional arguments that a call must give; 1 where the function does not say."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # compiled
        return 1
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in positional)
    takes_any = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    return needed or int(bool(positional) or takes_any)
