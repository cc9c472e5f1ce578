"""Keeps vectors in memory or on disk, so that every distinct sentence is encoded once, also by later runs.

:class:`KeptEncoder` wraps an encoder (:mod:`multiview.names.encoder`), and computes only what its
:class:`VectorStore` lacks. A store is a folder of shards that never change:
``NAME.npy`` [K, n, D], memory-mapped when read, and ``NAME.json`` with the texts' digests and the array's
size and SHA-256, which are checked when the store is opened. A shard exists when its record does, so a kill
loses at most the chunk that was being encoded.

Legend of dimension suffixes: K vectors of a sentence (layers of an encoder; else 1), n sentences, D size.
"""

import copy
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from multiview.libraries.arrays import Float, check_vectors
from multiview.names.encoder import BaseEncoder, LazyEncoder, Method, chunks, text_of
from runtime.errors import UserError
from runtime.files import lock_folder, read_array, read_record, write_array, write_record
from runtime.process import shared_lock

KEEPING = shared_lock()
"""The lock that a thread holds while it adds vectors to a store."""


def _key_of(tokens: Sequence[str]) -> str:
    """Return the text under which the vectors of a token list are kept."""
    # Tokens with spaces, as in a treebank, are no others than those that spaces separate.
    return "\x1f".join(tokens) if any(" " in token for token in tokens) else text_of(tokens)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class VectorStore:
    """Keeps K = ``columns`` vectors of each text, for instance one per layer, as ``float32`` or ``float16``.

    The shards are in ``folder``, whose name must depend on everything that decides the vectors; without a
    folder they are in memory. Raises UserError if a shard is damaged or has another shape.
    """

    def __init__(self, folder: Path | None = None, columns: int = 1, dtype: str = "float32") -> None:
        self.folder = folder and folder.absolute()  # the working folder may change before a shard is added
        self.columns = columns
        self.dtype = np.dtype(dtype)
        self.shards: list[NDArray[np.floating]] = []
        self.positions: dict[str, tuple[int, int]] = {}
        """Shard and row of each text, by its digest."""
        for record_path in sorted(folder.glob("*.json")) if folder is not None else ():
            array_path = record_path.with_suffix(".npy")
            try:
                record = read_record(record_path, [array_path.name])
                vectors = read_array(array_path, 3)
                expected_shape = (self.columns, len(record["texts"]), self.dim or vectors.shape[-1])
                is_usable = vectors.dtype == self.dtype and vectors.shape == expected_shape
                if not is_usable or not all(isinstance(text, str) for text in record["texts"]):
                    raise ValueError(f"{vectors.dtype} {list(vectors.shape)}")
            except (UserError, OSError, ValueError, LookupError, TypeError) as error:
                raise UserError(
                    f"{record_path}: not a shard of vectors ({error}); delete {folder} to encode again"
                ) from None
            self._index(vectors, record["texts"])

    def _index(self, vectors: NDArray[np.floating], digests: Sequence[str]) -> None:
        with KEEPING:
            shard = len(self.shards)
            self.shards.append(vectors)
            self.positions |= {digest: (shard, row) for row, digest in enumerate(digests)}

    @property
    def dim(self) -> int | None:
        """The size D of a vector; None before the first one."""
        return self.shards[0].shape[-1] if self.shards else None

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Return the distinct texts that have no vectors yet, in order."""
        return [text for text in dict.fromkeys(texts) if _digest(text) not in self.positions]

    def add(self, texts: Sequence[str], vectors_KnD: Float) -> None:
        """Keep the vectors [K, n, D] of n distinct new texts, whose values fit the number format."""
        with np.errstate(over="ignore"):
            shard: NDArray[np.floating] = np.ascontiguousarray(vectors_KnD, dtype=self.dtype)
        if not np.isfinite(shard).all():
            raise UserError(f"values up to {np.abs(vectors_KnD).max():.3g} do not fit {self.dtype}")
        digests = [_digest(text) for text in texts]
        if self.folder is not None:
            # The content is part of the name, so that two processes do not overwrite each other's shards.
            content = hashlib.sha256("".join(digests).encode() + shard.tobytes()).hexdigest()
            path = self.folder / f"{len(self.shards):05d}-{content[:8]}.npy"
            with lock_folder(self.folder, wait=True):
                write_array(path, shard)
                write_record(path.with_suffix(".json"), {"texts": digests}, [path.name])
            shard = np.load(path, mmap_mode="r")
        self._index(shard, digests)

    def get(self, texts: Sequence[str], column: int = 0) -> Float:
        """Return a vector of each text, float32 [n, D]; all texts must be in the store."""
        positions = np.array([self.positions[_digest(text)] for text in texts]).reshape(-1, 2)
        vectors = np.empty((len(texts), self.dim or 0), dtype=np.float32)
        for shard in np.unique(positions[:, 0]):
            is_in_shard = positions[:, 0] == shard
            vectors[is_in_shard] = self.shards[shard][column][positions[is_in_shard, 1]]
        return vectors


class KeptEncoder(BaseEncoder):
    """An encoder that computes the vectors of each token list once, and then reads them.

    They are kept in a subfolder of ``cache`` for each key, or in memory if that is None. ``encoder`` returns
    [n, D], or [K, n, D] for K = ``columns`` vectors of each sentence. Raises UserError if a value is not
    finite.
    """

    def __init__(
        self, encoder: BaseEncoder, cache: Path | None = None, columns: int = 1, dtype: str = "float32"
    ) -> None:
        self.encoder, self.name, self.cache = encoder, encoder.name, cache
        self.columns: Sequence[int] = range(columns)
        """The columns that :meth:`vectors` concatenates."""
        self._shape = (columns, dtype)
        self._stores: dict[str, VectorStore] = {}

    @property
    def members(self) -> list[LazyEncoder]:
        """The members of the encoder."""
        return self.encoder.members

    def key(self, method: Method = "encode") -> str:
        """Return the key of the encoder."""
        return self.encoder.key(method)

    def label(self, method: Method = "encode") -> str:
        """Return the label of the encoder."""
        return self.encoder.label(method)

    def store(self, method: Method = "encode") -> VectorStore:
        """Return the store of a method's vectors, which is opened when it is first used."""
        key = self.key(method)
        if key not in self._stores:
            self._stores[key] = VectorStore(self.cache and self.cache / key, *self._shape)
        return self._stores[key]

    def reading(self, columns: Sequence[int]) -> Self:
        """Return an encoder over the same stores that reads only these columns."""
        self.store()
        other = copy.copy(self)
        other.columns = columns
        return other

    def vectors(self, method: Method, sentences: Any, **options: Any) -> Float:
        """Return the vectors of sentences, as :meth:`BaseEncoder.vectors` does.

        Vectors of token lists are kept; those of raw text, and all with options, are computed at each call.
        """
        if options or not len(sentences or ()) or any(isinstance(sentence, str) for sentence in sentences):
            return self.encoder.vectors(method, sentences, **options)
        texts, store = [_key_of(tokens) for tokens in sentences], self.store(method)
        # A blank sentence is a token here: as a string, it would start the tokenizer.
        tokens = [words if "".join(words).strip() else ["."] for words in sentences]
        tokens_of = dict(zip(texts, tokens, strict=True))
        self._add(method, {text: tokens_of[text] for text in store.missing(texts)}, store)
        blocks = [store.get(texts, column) for column in self.columns]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)

    def _add(self, method: Method, tokens_of: Mapping[str, Any], store: VectorStore) -> None:
        """Compute the vectors of token lists and add them to the store under their texts, chunk by chunk."""
        if tokens_of:
            _ = [member.stored_trees for member in self.members]  # parses now, before the progress bar below
        for chunk in chunks([*tokens_of], f"encode {self.name}"):
            vectors = self.encoder.vectors(method, [tokens_of[text] for text in chunk])
            store.add(chunk, check_vectors(vectors, chunk, self.name, store.dim, store.columns))
