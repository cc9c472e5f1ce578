"""From encoders to sentence vectors: every distinct sentence is encoded once, whichever run asks.

:class:`Part` is one encoder and its store of vectors; :class:`StoredEncoder`, what the evaluation calls, has
one part or puts several side by side.

A store is a folder of shards that never change: ``NAME.npy`` [K, n, D], memory-mapped when read, and
``NAME.json`` with the texts' digests and the array's size and SHA-256, which are checked when the store is
opened. A shard exists when its record does, so a kill at any instant loses at most the chunk that was being
encoded. Space: 100,000 sentences, 13 layers of 768 numbers, float16, take 2.0 GB.

Legend of dimension suffixes: K vectors of a sentence (layers of an encoder; else 1), n sentences, D size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from corpora.sentences import read_sentences
from multiview.pretrained import Encode, rows_of
from runtime.errors import UserError
from runtime.files import (
    check_file,
    file_record,
    read_array,
    read_record,
    sweep,
    write_array,
    write_record,
)
from runtime.progress import progress
from runtime.threads import shared_lock
from senteval_runner.protocol.features import Float, glorot_projection

Tokens = list[str]
KEEPING = shared_lock()
"""Held by who adds vectors to a store."""
CHUNK = 2048
"""Sentences per shard, which is what a kill can lose."""
SentenceVectors = Callable[[Sequence[Tokens]], Float]
"""Tokenised sentences to float32 [n, D], one row each, in order."""


@runtime_checkable
class Encoder(Protocol):
    """What the runner evaluates.

    ``encode`` gets sentences as tokens joined by one space (an empty one as "."), or as token lists if the
    encoder has ``pretokenized = True``. It returns an array or tensor [n, D], one row per sentence.
    """

    def encode(self, sentences: Any, /) -> Any:
        """Vectors [n, D]."""
        ...


def text_of(tokens: Sequence[str]) -> str:
    """A sentence as encoders get it: tokens joined by one space, an empty one as "."."""
    return " ".join(tokens) or "."


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class VectorStore:
    """K vectors per text.

    Args:
        folder: of the shards; None keeps them in memory. The caller derives its name from everything that
            determines the vectors.
        columns: K, e.g. one per layer.
        dtype: ``float32`` or ``float16``, in which vectors are kept.

    Raises:
        UserError: a damaged shard, or one of another shape than the store's.
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
        """Size D of a vector; None before the first one."""
        return self.shards[0].shape[-1] if self.shards else None

    def missing(self, texts: Sequence[str]) -> list[str]:
        """The distinct texts that have no vectors yet, in order."""
        return [text for text in dict.fromkeys(texts) if _digest(text) not in self.place]

    def add(self, texts: Sequence[str], vectors_KnD: Float) -> None:
        """Keep the vectors [K, n, D] of n distinct new texts.

        Raises:
            UserError: a value is too large for the number format.
        """
        with np.errstate(over="ignore"):
            stored: NDArray[np.floating] = np.ascontiguousarray(vectors_KnD, dtype=self.dtype)
        if not np.isfinite(stored).all():
            raise UserError(f"values up to {np.abs(vectors_KnD).max():.3g} do not fit {self.dtype}")
        digests = [_digest(text) for text in texts]
        if self.folder is not None:
            sweep(self.folder, shared=True)
            # The content is part of the name: two processes that share a folder do not overwrite each other.
            content = hashlib.sha256("".join(digests).encode() + stored.tobytes()).hexdigest()
            path = self.folder / f"{len(self.shards):05d}-{content[:8]}.npy"
            write_array(path, stored)
            write_record(path.with_suffix(".json"), {"texts": digests, "file": file_record(path)})
            stored = np.load(path, mmap_mode="r")
        self._index(stored, digests)

    def get(self, texts: Sequence[str], column: int = 0) -> Float:
        """One vector each of texts that are all in the store: float32 [n, D]."""
        places = np.array([self.place[_digest(text)] for text in texts]).reshape(-1, 2)
        out = np.empty((len(texts), self.dim or 0), dtype=np.float32)
        for shard in np.unique(places[:, 0]):
            here = places[:, 0] == shard
            out[here] = self.shards[shard][column][places[here, 1]]
        return out


class Part:
    """One encoder, loaded when it is first needed, and the vectors that it gave.

    ``load`` returns the function that encodes, of token lists or strings. Without a store one vector of each
    sentence is kept in memory. ``source`` is what the model was named as (:mod:`multiview.names.sources`).
    """

    def __init__(
        self,
        load: Callable[[], Encode],
        *,
        tokens: bool,
        name: str = "encoder",
        store: VectorStore | None = None,
        source: Any = None,
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
        if not sentences:
            return self.encode([["."] if self.tokens else "."])[:, :0]
        return rows_of(self._loaded(sentences), sentences, self.name, self.store.dim, self.store.columns)

    def fill(self, sentences: Sequence[Tokens]) -> list[str]:
        """Encode the sentences that the store lacks; returns all as texts."""
        texts = [text_of(tokens) for tokens in sentences]
        missing = self.store.missing(texts)
        if missing:
            _ = self._loaded  # trees are parsed now, with a progress of their own
        with progress(total=len(missing), description=f"encode {self.name}") as bar:
            for start in range(0, len(missing), CHUNK):
                chunk = missing[start : start + CHUNK]
                self.store.add(chunk, self.encode([t.split(" ") for t in chunk] if self.tokens else chunk))
                bar.update(len(chunk))
        return texts


class StoredEncoder:
    """Sentence vectors by one encoder, or by several side by side; all vectors of a part are joined.

    ``spec`` is how the user named it, ``project`` the size of a fixed Glorot random projection, the control
    for embedding size, ``identity`` all that decides the parts' vectors, and ``reading``, of a model that
    gives both, ``meaning`` or ``features``, with the share of structure.
    """

    def __init__(
        self,
        *parts: Part,
        name: str = "encoder",
        spec: str = "",
        project: int | None = None,
        seed: int = 0,
        identity: Sequence[Any] = (),
        reading: str = "",
    ) -> None:
        self.parts, self.name, self.spec, self.project, self.seed = parts, name, spec, project, seed
        self.reading = reading
        self.features = self
        """The encoder for classifiers, where the model has other vectors for them than for cosines."""
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

    def encode(self, texts: Iterable[str | Sequence[str]]) -> Float:
        """Vectors [n, D] of raw texts, which the encoders tokenise themselves; they are not kept."""
        read = [
            text_of(text) if isinstance(text, tuple) else text for text in read_sentences(texts, "encode")
        ]
        full = [text if text.strip() else "." for text in read]
        return self._joined([vectors for part in self.parts for vectors in part.encode(full)])

    def _joined(self, blocks: Sequence[Float]) -> Float:
        vectors: Float = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
        if self.project:
            vectors = vectors @ glorot_projection(vectors.shape[1], self.project, self.seed)
        return vectors


def as_vectors(encoder: Encoder | SentenceVectors) -> StoredEncoder:
    """Put an encoder, or a function of token lists, behind a store in memory.

    Raises:
        UserError: it is neither.
    """
    if isinstance(encoder, StoredEncoder):
        return encoder
    if isinstance(encoder, Encoder):
        return StoredEncoder(
            Part(lambda: encoder.encode, tokens=bool(getattr(encoder, "pretokenized", False)))
        )
    if callable(encoder):
        return StoredEncoder(Part(lambda: encoder, tokens=True))
    raise UserError(
        f"{encoder!r:.60} is no encoder: give an object with encode(sentences) or a function of token lists; "
        "either returns an array [sentences, dimensions]"
    )
