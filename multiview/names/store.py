"""Keeps vectors, so that every distinct sentence is encoded once, whichever run needs it.

A store is a folder of shards that never change: ``NAME.npy`` [K, n, D], memory-mapped when read, and
``NAME.json`` with the texts' digests and the array's size and SHA-256, which are checked when the store is
opened. A shard exists when its record does, so a kill loses at most the chunk that was being encoded.
:class:`Kept` is an encoder whose vectors are in stores.

Legend of dimension suffixes: K vectors of a sentence (layers of an encoder; else 1), n sentences, D size.
"""

import copy
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from multiview.pretrained import Float, check_vectors
from runtime.errors import UserError
from runtime.files import lock_folder, read_array, read_record, write_array, write_record
from runtime.process import shared_lock
from runtime.progress import progress

KEEPING = shared_lock()
"""A thread holds it while it adds vectors to a store."""
CHUNK = 2048
"""Sentences per shard, which is what a kill can lose."""


def text_of(sentence: str | Sequence[str]) -> str:
    """Return a sentence as encoders of text get it: tokens joined by one space, an empty one as "."."""
    return (sentence if isinstance(sentence, str) else " ".join(sentence)) or "."


def chunks(sentences: Sequence[Any], title: str, show: bool | None = None) -> Iterator[Sequence[Any]]:
    """Yield sentences chunk by chunk, with a progress bar."""
    with progress(total=len(sentences), description=title, show=show) as bar:
        for start in range(0, len(sentences), CHUNK):
            chunk = sentences[start : start + CHUNK]
            yield chunk
            bar.update(len(chunk))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class VectorStore:
    """Keeps K = ``columns`` vectors per text, one per layer for instance, as ``float32`` or ``float16``.

    The shards are in ``folder``, whose name the caller derives from everything that determines the vectors;
    without one they are in memory. A damaged shard, or one of another shape, is a UserError.
    """

    def __init__(self, folder: Path | None = None, columns: int = 1, dtype: str = "float32") -> None:
        self.folder = None if folder is None else folder.absolute()  # shards are added later
        self.columns = columns
        self.dtype = np.dtype(dtype)
        self.shards: list[NDArray[np.floating]] = []
        self.places: dict[str, tuple[int, int]] = {}
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
            self.places |= {digest: (shard, row) for row, digest in enumerate(digests)}

    @property
    def dim(self) -> int | None:
        """The size D of a vector; None before the first one."""
        return self.shards[0].shape[-1] if self.shards else None

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Return the distinct texts that have no vectors yet, in order."""
        return [text for text in dict.fromkeys(texts) if _digest(text) not in self.places]

    def add(self, texts: Sequence[str], vectors_KnD: Float) -> None:
        """Keep the vectors [K, n, D] of n distinct new texts, whose values fit the number format."""
        with np.errstate(over="ignore"):
            shard: NDArray[np.floating] = np.ascontiguousarray(vectors_KnD, dtype=self.dtype)
        if not np.isfinite(shard).all():
            raise UserError(f"values up to {np.abs(vectors_KnD).max():.3g} do not fit {self.dtype}")
        digests = [_digest(text) for text in texts]
        if self.folder is not None:
            # The content is part of the name: two processes that share a folder do not overwrite each other.
            content = hashlib.sha256("".join(digests).encode() + shard.tobytes()).hexdigest()
            path = self.folder / f"{len(self.shards):05d}-{content[:8]}.npy"
            with lock_folder(self.folder, wait=True):
                write_array(path, shard)
                write_record(path.with_suffix(".json"), {"texts": digests}, [path.name])
            shard = np.load(path, mmap_mode="r")
        self._index(shard, digests)

    def get(self, texts: Sequence[str], column: int = 0) -> Float:
        """Return one vector each of texts that are all in the store: float32 [n, D]."""
        places = np.array([self.places[_digest(text)] for text in texts]).reshape(-1, 2)
        vectors = np.empty((len(texts), self.dim or 0), dtype=np.float32)
        for shard in np.unique(places[:, 0]):
            is_in_shard = places[:, 0] == shard
            vectors[is_in_shard] = self.shards[shard][column][places[is_in_shard, 1]]
        return vectors


class Kept:
    """An encoder whose vectors are kept, one store for each key of the encoder's.

    The encoder has a ``label``, a ``key(output)``, and for each output a method of token lists; what it
    returns, [n, D] or K = ``columns`` vectors of a sentence [K, n, D], must be finite. Stores are subfolders
    of ``cache`` or, without one, in memory.
    """

    def __init__(
        self, encoder: Any, cache: Path | None = None, columns: int = 1, dtype: str = "float32"
    ) -> None:
        self.encoder = encoder
        self.columns: Sequence[int] = range(columns)
        """The columns that are read, side by side."""
        self._options = (columns, dtype)
        self._cache = cache
        self._stores: dict[str, VectorStore] = {}

    def __getattr__(self, name: str) -> Any:
        """Return another attribute of the encoder."""
        if name.startswith("__") or name == "encoder":  # copying asks before there is one
            raise AttributeError(name)
        return getattr(self.encoder, name)

    def reading(self, columns: Sequence[int]) -> Self:
        """Return the same stores, of which only these columns are read."""
        other = copy.copy(self)
        other.columns = columns
        return other

    def store(self, output: str) -> VectorStore:
        """Return the store of an output, ``encode`` or ``features``."""
        key = self.encoder.key(output)
        if key not in self._stores:
            self._stores[key] = VectorStore(self._cache and self._cache / key, *self._options)
        return self._stores[key]

    def fill(self, output: str, sentences: Sequence[Sequence[str]]) -> list[str]:
        """Encode the sentences that the store lacks, and return all sentences as texts."""
        store, texts = self.store(output), [text_of(tokens) for tokens in sentences]
        name, compute = self.encoder.label, getattr(self.encoder, output)
        missing = store.missing(texts)
        if missing:
            getattr(self.encoder, "trees", None)  # trees are parsed now, with a progress of their own
        for chunk in chunks(missing, f"encode {name}"):
            vectors = compute([text.split(" ") for text in chunk])
            store.add(chunk, check_vectors(vectors, chunk, name, store.dim, store.columns))
        return texts

    def encode(self, sentences: Sequence[str | Sequence[str]], **options: Any) -> Float:
        """Return the vectors [n, D] of sentences, to compare with; those of raw text are not kept."""
        return self._vectors("encode", sentences, options)

    def features(self, sentences: Sequence[str | Sequence[str]], **options: Any) -> Float:
        """Return the vectors [n, F] of sentences that classifiers get."""
        return self._vectors("features", sentences, options)

    def _vectors(
        self, output: str, sentences: Sequence[str | Sequence[str]], options: dict[str, Any]
    ) -> Float:
        if options or not len(sentences or ()) or any(isinstance(sentence, str) for sentence in sentences):
            vectors: Float = getattr(self.encoder, output)(sentences, **options)
            return vectors
        texts, store = self.fill(output, sentences), self.store(output)
        blocks = [store.get(texts, column) for column in self.columns]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
