"""Which encoder a name on the command line means.

| name | encoder |
|---|---|
| a folder written by ``multiview.train`` | :class:`multiview.model.MultiViewEncoder` |
| a sentence-transformers folder, or any other name | ``SentenceTransformer`` |
| ``FILE.npz`` | given vectors: arrays ``sentences`` (tokens joined by one space) and ``vectors`` [n, d] |
| any other file | word vectors (GloVe or word2vec): the mean over a sentence's known words |
| ``random:dep,const`` | untrained encoders of these views |
| ``A+B`` | the vectors of A and B side by side |
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import read_json, sha256_file
from senteval_runner.protocol.features import Float
from senteval_runner.vectors.embed import Concatenation, Encoder, SentenceVectors, StoredEncoder, VectorStore
from senteval_runner.vectors.trees import EvaluationTrees, TreeReading

if TYPE_CHECKING:
    from multiview.model import MultiViewEncoder

Kind = Literal["multiview", "sentence-transformers", "vectors", "words", "random"]
MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.npy", "*.bin", "*.model")
VECTOR_CACHE = Path("runs/vectors")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A model by name, not yet loaded."""

    spec: str
    """As it was given."""
    kind: Kind
    key: str
    """Hex digest of the model's files; of a random encoder's or a hub's name with seed or library."""
    seed: int
    """Seed of random encoders."""

    @property
    def name(self) -> str:
        """Short name for tables: a path's last part."""
        path = Path(self.spec)
        return path.absolute().name if self.kind != "random" and path.exists() else self.spec

    def load(
        self,
        *,
        device: str | None = None,
        trees: EvaluationTrees | Path | None = None,
        batch_size: int = 128,
    ) -> Encoder:
        """Load the model.

        Args:
            device: default: a GPU if there is one.
            trees: where tree encoders find their trees (:class:`senteval_runner.vectors.trees.TreeReading`).
            batch_size: sentences encoded at a time.

        Raises:
            UserError: a file is missing or damaged.
        """
        if self.kind == "vectors":
            return GivenVectors(Path(self.spec))
        if self.kind == "words":
            return WordAverage(Path(self.spec))
        if self.kind == "sentence-transformers":
            return _sentence_transformer(self.spec, device, batch_size)
        return TreeReading(load_multiview(self, device), trees, batch_size)


class LazyEncoder:
    """Loads its model when a sentence is not in the store yet: what is finished needs no model."""

    def __init__(self, source: Source, **options: Any) -> None:
        self.pretokenized = source.kind not in ("vectors", "sentence-transformers")
        self._load = cache(lambda: source.load(**options))

    def encode(self, sentences: Any) -> Any:
        """Vectors [n, d]."""
        return self._load().encode(sentences)


def load_multiview(source: Source, device: str | None) -> MultiViewEncoder:
    """A model folder of ``multiview.train``, or untrained encoders."""
    from multiview.model import MultiViewEncoder

    if source.kind == "random":
        views = source.spec.removeprefix("random:")
        return MultiViewEncoder.untrained(views, seed=source.seed, device=device)
    return MultiViewEncoder.load(source.spec, device)


class WordAverage:
    """Mean of pre-trained word vectors; an unknown word counts in lower case if that is known, or not.

    A sentence without a known word is the zero vector.
    """

    pretokenized = True

    def __init__(self, path: Path, cache: Path = VECTOR_CACHE) -> None:
        from multiview.words.vectors import load_word_vectors

        loaded = load_word_vectors(path, cache)
        self.rows = {word: row for row, word in enumerate(loaded.words)}
        self.vectors = loaded.vectors

    def encode(self, sentences: Sequence[str | Sequence[str]]) -> Float:
        """Vectors [n, E] of strings (split at white space) or token lists."""
        out = np.zeros((len(sentences), self.vectors.shape[1]), dtype=np.float32)
        for index, sentence in enumerate(sentences):
            tokens = sentence.split() if isinstance(sentence, str) else sentence
            rows = [self.rows.get(token, self.rows.get(token.lower())) for token in tokens]
            known = [row for row in rows if row is not None]
            if known:
                out[index] = self.vectors[known].mean(axis=0)
        return out


class GivenVectors:
    """Vectors computed elsewhere, by sentence."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Opened here: numpy leaves a damaged archive open.
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
                sentences, self.vectors = arrays["sentences"], arrays["vectors"]
        except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
            raise UserError(
                f"{path}: expected arrays 'sentences' (strings) and 'vectors' [n, d] ({error})"
            ) from None
        if self.vectors.ndim != 2 or len(sentences) != len(self.vectors):
            raise UserError(
                f"{path}: {len(sentences)} sentences but vectors of shape {list(self.vectors.shape)}"
            )
        self.rows = {str(sentence): row for row, sentence in enumerate(sentences)}

    def encode(self, sentences: Sequence[str]) -> Float:
        """Vectors [n, d].

        Raises:
            UserError: a sentence has none.
        """
        missing = [sentence for sentence in sentences if sentence not in self.rows]
        if missing:
            raise UserError(
                f"{self.path}: no vector for {len(missing)} of {len(sentences)} sentences, "
                f"first {missing[0]!r}"
            )
        vectors: Float = self.vectors[[self.rows[sentence] for sentence in sentences]]
        return vectors


class _Transformer:
    """A sentence-transformers model, quiet."""

    def __init__(self, model: Any, batch_size: int) -> None:
        self.model, self.batch_size = model, batch_size

    def encode(self, sentences: Sequence[str]) -> Float:
        """Vectors [n, d]."""
        vectors: Float = self.model.encode(
            list(sentences), batch_size=self.batch_size, show_progress_bar=False, convert_to_numpy=True
        )
        return vectors


def _sentence_transformer(name: str, device: str | None, batch_size: int) -> Encoder:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise MissingExtraError("sentence-transformers", "burt") from None
    from senteval_runner.towers.transformer import quiet

    quiet()
    try:
        return _Transformer(SentenceTransformer(name, device=device), batch_size)
    except (OSError, ValueError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise UserError(
            f"model {name!r}: neither a file or folder here nor a sentence-transformers model ({first})"
        ) from None


def split_parts(spec: str) -> list[str]:
    """``A+B`` as its parts; a path that exists is one part whatever its name."""
    parts = [spec] if Path(spec).exists() else spec.split("+")
    if not all(parts):
        raise UserError(f"model {spec!r}: an empty part; write A+B")
    return parts


def distinct_names(names: Sequence[str], specs: Sequence[str]) -> list[str]:
    """Names of models; two of one name are told apart by how they were typed."""
    return [spec if names.count(name) > 1 else name for name, spec in zip(names, specs, strict=True)]


def find_source(spec: str, *, seed: int = 0) -> Source:
    """What a name means, without loading it; folders and files are hashed.

    Raises:
        UserError: the name cannot mean any model.
    """
    path = Path(spec)
    if spec.startswith("random:"):
        return Source(spec=spec, kind="random", key=_digest(f"{spec} {seed}"), seed=seed)
    if path.is_file():
        kind: Kind = "vectors" if path.suffix == ".npz" else "words"
        return Source(spec=spec, kind=kind, key=sha256_file(path)[:16], seed=seed)
    if path.is_dir():
        kind = "multiview" if _is_multiview(path) else "sentence-transformers"
        return Source(spec=spec, kind=kind, key=_folder_digest(path), seed=seed)
    if path.suffix in (".npz", ".txt", ".vec", ".gz", ".bin") or spec.startswith((".", "/", "runs/")):
        raise UserError(f"model {spec!r}: no such file or folder")
    try:
        key = _digest(f"{spec} {version('sentence-transformers')}")
    except ModuleNotFoundError:
        raise MissingExtraError("sentence-transformers", "burt") from None
    return Source(spec=spec, kind="sentence-transformers", key=key, seed=seed)


def _is_multiview(folder: Path) -> bool:
    """Whether ``multiview.train`` wrote it: its config.json has a format number, a transformer's has not."""
    config = folder / "config.json"
    if not config.exists():
        if (folder / "modules.json").exists():
            return False
        raise UserError(f"{folder}: no model here (neither config.json nor modules.json)")
    values = read_json(config)
    return isinstance(values, dict) and "format" in values and ("shape" in values or "members" in values)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _folder_digest(folder: Path) -> str:
    """Digest over the names and contents of a model folder's files, its log and checkpoints left out."""
    files = sorted({path for pattern in MODEL_FILES for path in folder.rglob(pattern) if path.is_file()})
    kept = [f for f in files if not {"checkpoints", "log.txt"} & set(f.relative_to(folder).parts)]
    return _digest("\n".join(f"{f.relative_to(folder)} {sha256_file(f)}" for f in kept))


class _Combined:
    """``A+B`` as one encoder."""

    pretokenized = True

    def __init__(self, vectors: Concatenation) -> None:
        self.vectors = vectors

    def encode(self, sentences: Sequence[str | Sequence[str]]) -> Float:
        """Vectors [n, Σ d] of strings (split at white space) or token lists."""
        return self.vectors([s.split() if isinstance(s, str) else list(s) for s in sentences])


def resolve_encoder(
    spec: str,
    *,
    seed: int = 0,
    normalize_parts: bool = False,
    device: str | None = None,
    trees: EvaluationTrees | Path | None = None,
    batch_size: int = 128,
) -> Encoder:
    """Load the encoder a name means (see the module's table).

    Args:
        spec: the name; ``A+B`` concatenates.
        seed: of random encoders.
        normalize_parts: scale the parts of ``A+B`` to length 1 first.
        device: default: a GPU if there is one.
        trees: where tree encoders find their trees (:class:`senteval_runner.vectors.trees.TreeReading`).
        batch_size: sentences encoded at a time.

    Raises:
        UserError: no such model, or a damaged one.
    """
    loaded = [
        find_source(part, seed=seed).load(device=device, trees=trees, batch_size=batch_size)
        for part in split_parts(spec)
    ]
    if len(loaded) == 1:
        return loaded[0]
    return _Combined(Concatenation([StoredEncoder(part) for part in loaded], normalize=normalize_parts))


@dataclass(frozen=True, kw_only=True)
class StoredModel:
    """A model by name behind a store of its vectors on disk; loaded when a sentence is not there yet."""

    name: str
    """For tables."""
    spec: str
    """As it was given."""
    sources: list[Source]
    identity: list[Any]
    """JSON values of all that decides its vectors."""
    vectors: SentenceVectors


def open_model(
    spec: str,
    *,
    cache: Path,
    seed: int = 0,
    normalize_parts: bool = False,
    device: str | None = None,
    trees: EvaluationTrees | Path | None = None,
    batch_size: int = 128,
) -> StoredModel:
    """The model a name means (see the module's table), its vectors kept in ``cache``.

    Args:
        spec: the name; ``A+B`` concatenates.
        cache: folder of stores, one subfolder per part.
        seed: of random encoders.
        normalize_parts: scale the parts of ``A+B`` to length 1 first.
        device: default: a GPU if there is one.
        trees: where tree encoders find their trees (:class:`senteval_runner.vectors.trees.TreeReading`).
        batch_size: sentences encoded at a time.

    Raises:
        UserError: the name cannot mean any model.
    """
    sources = [find_source(part, seed=seed) for part in split_parts(spec)]
    identity: list[Any] = [source.key for source in sources]
    if len(sources) > 1:
        identity.append(normalize_parts)
    options = {"device": device, "trees": trees, "batch_size": batch_size}
    parts = [
        StoredEncoder(LazyEncoder(source, **options), VectorStore(cache / source.key), source.name)
        for source in sources
    ]
    vectors = Concatenation(parts, normalize=normalize_parts) if len(parts) > 1 else parts[0]
    name = "+".join(source.name for source in sources)
    return StoredModel(name=name, spec=spec, sources=sources, identity=identity, vectors=vectors)
