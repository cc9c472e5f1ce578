"""From encoders to sentence vectors: every distinct sentence is encoded once.

:class:`Part` is one encoder and its store of vectors; :class:`StoredEncoder`, what the evaluation calls, has
one part or puts several side by side.

Legend of dimension suffixes: K vectors of a sentence (layers of an encoder; else 1), n sentences, D size.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np

from corpora.support.errors import UserError
from corpora.support.progress import progress
from senteval_runner.protocol.features import Float, glorot_projection
from senteval_runner.vectors.store import VectorStore

if TYPE_CHECKING:
    from senteval_runner.vectors.sources import Source

Tokens = list[str]
CHUNK = 2048
"""Sentences per shard, which is what a kill can lose."""
Encode = Callable[[Sequence[Any]], Any]
"""Sentences to an array or tensor [n, D], or [K, n, D]."""


def text_of(tokens: Sequence[str]) -> str:
    """A sentence as encoders get it: tokens joined by one space, an empty one as "."."""
    return " ".join(tokens) or "."


@runtime_checkable
class Encoder(Protocol):
    """What the runner evaluates.

    ``encode`` gets sentences as tokens joined by one space (an empty one as "."), or as token lists if the
    encoder has ``pretokenized = True``. It returns an array or tensor [n, D], one row per sentence.
    """

    def encode(self, sentences: Any, /) -> Any:
        """Vectors [n, D]."""
        ...


class SentenceVectors(Protocol):
    """Tokenised sentences to float32 [n, D]."""

    def __call__(self, sentences: Sequence[Tokens]) -> Float:
        """One row per sentence, in order."""
        ...


class Part:
    """One encoder, loaded when it is first needed, and the vectors that it gave.

    Args:
        load: returns the function that encodes.
        tokens: whether that function takes token lists, not strings.
        name: of the model, in messages.
        store: where vectors are kept; None keeps one per sentence in memory.
        source: what the model was named as.
    """

    def __init__(
        self,
        load: Callable[[], Encode],
        *,
        tokens: bool,
        name: str = "encoder",
        store: VectorStore | None = None,
        source: Source | None = None,
    ) -> None:
        self.load, self.tokens, self.name, self.source = load, tokens, name, source
        self.store = store or VectorStore()

    @cached_property
    def _loaded(self) -> Encode | UserError:
        try:
            return self.load()
        except UserError as error:
            return error

    def encode(self, sentences: Sequence[Any]) -> Float:
        """Vectors [K, n, D] of sentences as the encoder takes them; they are not kept.

        Raises:
            UserError: the encoder cannot be loaded (it is not tried again: a name that is looked up without a
                network takes over a minute to fail), or it returned another shape, another dimension or
                values that are not finite.
        """
        if isinstance(self._loaded, UserError):
            raise self._loaded
        output = self._loaded(sentences)
        if hasattr(output, "detach"):
            output = output.detach().cpu().float().numpy()
        vectors = np.asarray(output)
        count, first = len(sentences), str(sentences[0])[:80] if sentences else ""
        shapes = [(count,), (self.store.columns, count)]
        if vectors.ndim < 2 or vectors.shape[:-1] not in shapes or vectors.dtype.kind not in "fiu":
            raise UserError(
                f"{self.name}: encode() returned {vectors.dtype} {list(vectors.shape)} for {count} "
                "sentences; expected numbers [sentences, dimensions]"
            )
        if self.store.dim not in (None, vectors.shape[-1]):
            raise UserError(
                f"{self.name}: encode() returned {vectors.shape[-1]} dimensions for {first!r}, "
                f"before {self.store.dim}"
            )
        finite = np.isfinite(vectors).all(axis=-1).reshape(-1, count).all(axis=0)
        if not finite.all():
            raise UserError(
                f"{self.name}: encode() returned NaN or infinity for {int((~finite).sum())} of {count} "
                f"sentences, first {str(sentences[int(np.argmin(finite))])[:80]!r}"
            )
        return vectors.astype(np.float32, copy=False).reshape(-1, count, vectors.shape[-1])

    def fill(self, sentences: Sequence[Tokens]) -> list[str]:
        """Encode the sentences that the store lacks; returns all as texts."""
        texts = [text_of(tokens) for tokens in sentences]
        missing = self.store.missing(texts)
        with progress(total=len(missing), description=f"encode {self.name}") as bar:
            for start in range(0, len(missing), CHUNK):
                chunk = missing[start : start + CHUNK]
                self.store.add(chunk, self.encode([t.split(" ") for t in chunk] if self.tokens else chunk))
                bar.update(len(chunk))
        return texts


class StoredEncoder:
    """Sentence vectors by one encoder, or by several side by side; all vectors of a part are joined.

    Args:
        parts: the encoders.
        name: in tables.
        spec: as the user named it.
        project: dimensions of a fixed Glorot random projection, the control for embedding size; None does
            not project.
        seed: of the projection.
        identity: everything that determines the parts' vectors, for digests.
    """

    def __init__(
        self,
        *parts: Part,
        name: str = "encoder",
        spec: str = "",
        project: int | None = None,
        seed: int = 0,
        identity: Sequence[Any] = (),
    ) -> None:
        self.parts, self.name, self.spec, self.project, self.seed = parts, name, spec, project, seed
        self.identity = [*identity, *(("project", project, seed) if project else ())]

    @property
    def dim(self) -> int | None:
        """Size D of a vector; None before the first one."""
        sizes = [part.store.columns * (part.store.dim or 0) for part in self.parts]
        return (self.project or sum(sizes)) if all(sizes) else None

    def __call__(self, sentences: Sequence[Tokens]) -> Float:
        """Vectors [n, D] of token lists, kept.

        Raises:
            UserError: see :meth:`Part.encode`.
        """
        blocks = []
        for part in self.parts:
            texts = part.fill(sentences)
            blocks += [part.store.get(texts, column) for column in range(part.store.columns)]
        return self._joined(blocks)

    def encode(self, texts: Sequence[str]) -> Float:
        """Vectors [n, D] of raw texts, which the encoders tokenise themselves; they are not kept."""
        texts = [text if text.strip() else "." for text in texts]
        return self._joined([vectors for part in self.parts for vectors in part.encode(texts)])

    def _joined(self, blocks: Sequence[Float]) -> Float:
        vectors = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
        if self.project is None:
            return vectors
        projected: Float = vectors @ glorot_projection(vectors.shape[1], self.project, self.seed)
        return projected


class SentEvalBatcher(Protocol):
    """The original toolkit's ``batcher``."""

    def __call__(self, params: Any, batch: list[Tokens], /) -> Any:
        """Vectors [n, D] of token lists, n at most ``params.batch_size``."""
        ...


def as_vectors(encoder: Encoder | SentenceVectors | SentEvalBatcher) -> SentenceVectors:
    """Put an encoder or a batcher behind a store in memory; sentence vectors are returned unchanged.

    A batcher is called with at most 128 sentences, as by the original toolkit; its ``params`` hold
    ``batch_size`` alone.

    Raises:
        UserError: it is none of these.
    """
    if isinstance(encoder, StoredEncoder):
        return encoder
    if isinstance(encoder, Encoder):
        tokens = bool(getattr(encoder, "pretokenized", False))
        return StoredEncoder(Part(lambda: encoder.encode, tokens=tokens))
    needed = _arguments(encoder) if callable(encoder) else 0
    if needed == 1:
        return cast(SentenceVectors, encoder)
    if needed == 2:
        batcher, params = cast(SentEvalBatcher, encoder), SimpleNamespace(batch_size=128)

        def encode(sentences: Sequence[Tokens]) -> Float:
            parts = range(0, len(sentences), params.batch_size)
            return np.concatenate([batcher(params, list(sentences[i : i + 128])) for i in parts])

        return StoredEncoder(Part(lambda: encode, tokens=True))
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
