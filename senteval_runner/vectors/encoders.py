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

from corpora.support.errors import UserError
from multiview.pretrained import whole_model
from senteval_runner.protocol.features import Float
from senteval_runner.vectors.bags import Bag, BagSpec, lookup_of
from senteval_runner.vectors.embed import CombinedEncoder, LoadedEncoder, StoredEncoder, VectorStore
from senteval_runner.vectors.evaluation_trees import EvaluationTrees, open_trees
from senteval_runner.vectors.pretrained import pooled_model
from senteval_runner.vectors.random_encoders import RandomLSTM, RandomSpec, untrained_views
from senteval_runner.vectors.sources import Source, find_source, split_parts, split_views
from senteval_runner.vectors.starts import StartSpec, load_start

if TYPE_CHECKING:
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
    """Sentences encoded at a time; 256 by default."""


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

    @property
    def parts(self) -> list[StoredEncoder]:
        """Its encoders, one of each part of ``A+B``."""
        return self.vectors.parts if isinstance(self.vectors, CombinedEncoder) else [self.vectors]


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
        StoredEncoder(loader(source, options), VectorStore(cache and cache / source.key), source.name)
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
    model = open_model(spec, cache=None, **options)
    for part in model.parts:
        _ = part.loaded
    return model.vectors


def loader(source: Source, options: ModelOptions) -> Callable[[], LoadedEncoder]:
    """A function that loads a source's model."""
    device, batch_size = options.get("device"), options.get("batch_size", 256)

    def load() -> LoadedEncoder:
        if source.kind == "vectors":
            return LoadedEncoder(PrecomputedVectors(Path(source.spec)), tokens=False)
        if source.kind == "words":
            return LoadedEncoder(Bag(lookup_of(source.spec, seed=0, cache=VECTOR_CACHE)), tokens=True)
        if source.kind == "bag":
            bag = BagSpec.parse(source.spec)
            lookup = lookup_of(bag.words, seed=source.seed, cache=VECTOR_CACHE)
            return LoadedEncoder(Bag(lookup, bag.weighting, bag.corpus), tokens=True)
        quietly = {"batch_size": batch_size, "show_progress_bar": False, "convert_to_numpy": True}
        if source.kind == "sentence-transformers":
            return LoadedEncoder(whole_model(source.spec, device), tokens=False, options=quietly)
        if source.kind == "pooled":
            pooling, _, name = source.spec.partition(":")
            return LoadedEncoder(pooled_model(name, pooling, device), tokens=False, options=quietly)
        if source.kind == "lstm":
            spec = RandomSpec.parse(source.spec)
            lstm = RandomLSTM(spec, seed=source.seed, device=device, batch_size=batch_size)
            return LoadedEncoder(lstm, tokens=True)
        model, views = load_multiview(source, device), split_views(source.spec)[1]
        return tree_reading(model, options.get("trees"), batch_size, views=views or None)

    return load


def tree_reading(
    model: MultiViewEncoder,
    trees: EvaluationTrees | Path | None = None,
    batch_size: int = 256,
    *,
    views: Sequence[str] | None = None,
) -> LoadedEncoder:
    """A multi-view encoder with stored trees; sentences without one are parsed on the fly.

    Args:
        model: the encoder.
        trees: see :func:`senteval_runner.vectors.evaluation_trees.open_trees`. They are those of all views,
            so that a model and each of its views share them.
        batch_size: sentences encoded at a time.
        views: only these; None is all.
    """
    stored = open_trees(model, trees)
    options = {"batch_size": batch_size, "trees": stored, "show_progress_bar": False, "views": views}
    return LoadedEncoder(model, tokens=True, options=options)


def load_multiview(source: Source, device: str | None) -> MultiViewEncoder:
    """A model folder of ``multiview.train``, the same before its first step, or untrained encoders.

    The whole model, also where the source chooses views.
    """
    from multiview.model import MultiViewEncoder

    if source.kind == "start":
        return load_start(StartSpec.parse(source.spec), device)
    if source.kind == "random":
        return untrained_views(RandomSpec.parse(source.spec), seed=source.seed, device=device)
    return MultiViewEncoder.load(split_views(source.spec)[0], device)


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
