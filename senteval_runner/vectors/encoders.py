"""Encoders by name (see :mod:`senteval_runner.vectors.sources`), loaded on first use; vectors are kept.

encoder = resolve_encoder("runs/models/mine+glove.txt", normalize_parts=True)
encoder([["A", "sentence", "."]])         # token lists, as evaluations have them
encoder.encode(["A sentence."])           # raw texts
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np

from corpora.support.errors import MissingExtraError, UserError
from senteval_runner.protocol.features import Float
from senteval_runner.vectors.embed import CombinedEncoder, LoadedEncoder, StoredEncoder, VectorStore
from senteval_runner.vectors.evaluation_trees import EvaluationTrees, open_trees
from senteval_runner.vectors.sources import Source, find_source, split_parts

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from multiview.model import MultiViewEncoder

VECTOR_CACHE = Path("runs/vectors")


class ModelOptions(TypedDict, total=False):
    """How to open a model, apart from its name."""

    seed: int
    """Seed of random encoders and of the projection; 0 by default."""
    normalize_parts: bool
    """Scale the vectors of A and B to length 1 before ``A+B`` joins them."""
    project: int | None
    """Dimensions of a random projection; None does not project."""
    device: str | None
    """Device of the models; None is a GPU if there is one."""
    trees: EvaluationTrees | Path | None
    """Source of a tree encoder's trees, see :func:`senteval_runner.vectors.evaluation_trees.open_trees`."""
    batch_size: int
    """Sentences encoded at a time; 128 by default."""


@dataclass(frozen=True, kw_only=True)
class StoredModel:
    """A named model and the store of its vectors; it is loaded for the first sentence not in the store."""

    name: str
    """Name in tables."""
    spec: str
    """Name as given by the user."""
    sources: list[Source]
    identity: list[str | int | bool]
    """Everything that determines its vectors."""
    vectors: StoredEncoder | CombinedEncoder


def open_model(spec: str, *, cache: Path | None, **options: Unpack[ModelOptions]) -> StoredModel:
    """The model a name means.

    Args:
        spec: the name; ``A+B`` concatenates.
        cache: folder of stores, one subfolder per part; None keeps vectors in memory.
        options: see :class:`ModelOptions`.

    Raises:
        UserError: the name cannot mean any model.
    """
    seed, project = options.get("seed", 0), options.get("project")
    sources = [find_source(part, seed=seed) for part in split_parts(spec)]
    parts = [
        StoredEncoder(_loader(source, options), VectorStore(cache and cache / source.key), source.name)
        for source in sources
    ]
    identity: list[str | int | bool] = [source.key for source in sources]
    normalize = len(parts) > 1 and options.get("normalize_parts", False)
    if len(parts) > 1:
        identity.append(normalize)
    if project is not None:
        identity += ["project", project, seed]
    vectors: StoredEncoder | CombinedEncoder = parts[0]
    if len(parts) > 1 or project is not None:
        vectors = CombinedEncoder(parts, normalize=normalize, project=project, seed=seed)
    name = "+".join(source.name for source in sources)
    return StoredModel(name=name, spec=spec, sources=sources, identity=identity, vectors=vectors)


def resolve_encoder(spec: str, **options: Unpack[ModelOptions]) -> StoredEncoder | CombinedEncoder:
    """The encoder a name means, loaded now, its vectors kept in memory.

    Raises:
        UserError: no such model, or a damaged one.
    """
    vectors = open_model(spec, cache=None, **options).vectors
    for part in vectors.parts if isinstance(vectors, CombinedEncoder) else [vectors]:
        _ = part.loaded
    return vectors


def _loader(source: Source, options: ModelOptions) -> Callable[[], LoadedEncoder]:
    """A function that loads a source's model."""
    device, batch_size = options.get("device"), options.get("batch_size", 128)

    def load() -> LoadedEncoder:
        if source.kind == "vectors":
            return LoadedEncoder(PrecomputedVectors(Path(source.spec)), tokens=False)
        if source.kind == "words":
            return LoadedEncoder(WordAverage(Path(source.spec)), tokens=True)
        if source.kind == "sentence-transformers":
            quietly = {"batch_size": batch_size, "show_progress_bar": False, "convert_to_numpy": True}
            return LoadedEncoder(_sentence_transformer(source.spec, device), tokens=False, options=quietly)
        return tree_reading(load_multiview(source, device), options.get("trees"), batch_size)

    return load


def tree_reading(
    model: MultiViewEncoder, trees: EvaluationTrees | Path | None = None, batch_size: int = 128
) -> LoadedEncoder:
    """A multi-view encoder with stored trees; sentences without one are parsed on the fly."""
    options = {"batch_size": batch_size, "trees": open_trees(model, trees), "show_progress_bar": False}
    return LoadedEncoder(model, tokens=True, options=options)


def load_multiview(source: Source, device: str | None) -> MultiViewEncoder:
    """A model folder of ``multiview.train``, or untrained encoders."""
    from multiview.model import MultiViewEncoder

    if source.kind == "random":
        views = source.spec.removeprefix("random:")
        return MultiViewEncoder.untrained(views, seed=source.seed, device=device)
    return MultiViewEncoder.load(source.spec, device)


def _sentence_transformer(name: str, device: str | None) -> SentenceTransformer:
    quiet()
    from sentence_transformers import SentenceTransformer

    try:
        return SentenceTransformer(name, device=device, trust_remote_code=False)
    except (OSError, ValueError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise UserError(
            f"model {name!r}: neither a file or folder here nor a sentence-transformers model ({first})"
        ) from None


def quiet() -> None:
    """Switch off the progress bars of sentence-transformers and its libraries (one per file read).

    Raises:
        MissingExtraError: sentence-transformers is not installed.
    """
    try:
        import sentence_transformers  # noqa: F401
        from huggingface_hub.utils.tqdm import disable_progress_bars
        from transformers.utils import logging
    except ImportError:
        raise MissingExtraError("sentence-transformers", "burt") from None
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    disable_progress_bars()


class WordAverage:
    """Mean of pre-trained word vectors; unknown words are looked up in lower case, then ignored.

    The vector of a sentence without a known word is zero.
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


class PrecomputedVectors:
    """Vectors computed elsewhere, by sentence."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Opened here because numpy does not close a damaged archive.
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
