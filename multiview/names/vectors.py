"""Vectors as functions of sentences: computed by an encoder, kept in a store, or several side by side.

An encoder has two such functions, ``encode`` and ``features`` (:mod:`multiview.names.recipe`). Each knows the
key under which its vectors are kept, and the label that says in tables which vectors they are.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from corpora.sentences import read_elements, read_sentences
from multiview.encoders.meaning import Scale, normalize_rows, sample_ranges
from multiview.folder.reading import SentenceReader
from multiview.libraries.arrays import Float, check_vectors
from multiview.model import MultiViewEncoder
from multiview.names.recipe import Loader, Method
from multiview.names.store import CHUNK, VectorStore, chunks, text_of
from multiview.structure.joining import put_beside
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from runtime.process import cached_property

Sentences = Sequence[str | Sequence[str]]
Compute = Callable[[Sentences | None, TreeCache | None, bool | None], Float]
"""Returns the vectors of sentences or, for None, of all those of the trees; the last argument shows a bar."""
BATCH = 128
"""Sentences that a model encodes at a time."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Computed:
    """Vectors that an encoder computes when it is called."""

    key: str
    label: str
    name: str
    """The encoder's, for messages."""
    compute: Compute
    model: Loader | None = None
    """The encoder, if it reads trees."""

    def __call__(
        self, sentences: Any, *, trees: TreeCache | None = None, show_progress_bar: bool | None = False
    ) -> Float:
        """Return the vectors [n, D] of raw text or of tokens; an empty sentence counts as ".".

        ``sentences`` None are all those of ``trees``, whose sentences are not parsed again. Another shape
        than [n, D], or values that are not finite, are a UserError.
        """
        if sentences is None and self.model is None:
            sentences = [] if trees is None else trees.words()
        if sentences is not None:
            texts = read_sentences(sentences, "encode", spaces=True)
            if not texts:
                return self(["."])[:0]
            sentences = [text if "".join(text).strip() else "." for text in texts]
        return self.compute(sentences, trees, show_progress_bar)


def computed_vectors(loader: Loader, method: Method) -> Computed:
    """Return the vectors of one kind as a loader's encoder computes them."""
    recipe, kind = loader.recipe, loader.recipe.vector_kind(method)
    name, reads_trees = recipe.name, recipe.reads == "trees"
    compute: Compute = ModelVectors(loader, kind)
    if not reads_trees:
        has_own = recipe.has_features and kind == "features"
        compute = OtherVectors(loader, "features" if has_own else "encode")
        if name.scale_trees is not None and kind == "features":
            compute = scaled(compute, name.scale_trees)
    has_structure = recipe.has_structure and kind in (None, "meaning") and not name.views
    if name.structure and not has_structure:
        compute = beside_structure(compute, loader, name.structure)
    return Computed(
        key=loader.key(method),
        label=recipe.label_of(method),
        name=name.label,
        compute=compute,
        model=loader if reads_trees else None,
    )


@dataclass(frozen=True, eq=False)
class ModelVectors:
    """Computes one kind of vectors of a multi-view encoder: raw, features or meaning; None: as ``encode``."""

    loader: Loader
    kind: str | None

    @cached_property
    def model(self) -> MultiViewEncoder:
        """The encoder; for features it takes the scale of a name."""
        model: MultiViewEncoder = self.loader.loaded
        scale_trees = self.loader.recipe.name.scale_trees
        if self.kind == "features" and scale_trees is not None:
            model.measure(TreeCache.open(scale_trees))
        return model

    def __call__(self, sentences: Any, trees: TreeCache | None, show: bool | None) -> Float:
        """Return the vectors of sentences, or of all those of the trees."""
        model, name, kind = self.model, self.loader.recipe.name, self.kind
        options: dict[str, Any] = {"batch_size": BATCH, "show_progress_bar": show}
        options["trees"] = trees or self.loader.stored_trees
        if kind == "features":
            return model.features(sentences, views=name.views, **options)
        if kind == "raw" or (name.views and not kind):
            return model.view_vectors(sentences, name.views, **options)
        if kind == "meaning" and (model.readout is None or name.views):
            reason = "reads all views, not some" if model.readout else "was never fitted (multiview.readout)"
            raise UserError(f"model {name.spec!r}: readout=meaning: that of {model.name} {reason}")
        return model.encode(sentences, **options)


@dataclass(frozen=True, eq=False)
class OtherVectors:
    """Computes the vectors that a method of another encoder gives."""

    loader: Loader
    method: Method

    @cached_property
    def reader(self) -> SentenceReader:
        """Tokenises text for encoders that take tokens."""
        return SentenceReader({})

    def __call__(self, sentences: Any, trees: TreeCache | None, show: bool | None) -> Float:
        """Return the vectors of sentences; trees are not read."""
        loaded, name = self.loader.loaded, self.loader.recipe.name.label
        encode = getattr(loaded, self.method, loaded)  # it may be a function itself
        blocks = chunks([*map(self._input, sentences)], f"encode {name}", show)
        return np.concatenate([check_vectors(encode(block), block, name)[0] for block in blocks])

    def _input(self, sentence: str | Sequence[str]) -> object:
        if self.loader.recipe.reads == "text":
            return text_of(sentence)
        return self.reader.tokens(sentence) if isinstance(sentence, str) else list(sentence)


def scaled(compute: Compute, text: Path) -> Compute:
    """Bring each number to one scale over a text, whose tree cache is given."""

    @functools.cache
    def scale() -> Scale:
        trees = TreeCache.open(text)
        sentences = [*trees.words(sample_ranges([(0, len(trees))]))]
        firsts = range(0, len(sentences), CHUNK)
        blocks = (sentences[first : first + CHUNK] for first in firsts)
        return Scale.measure(torch.from_numpy(compute(block, None, False)) for block in blocks)

    return lambda *call: scale()(torch.from_numpy(compute(*call))).numpy()


def beside_structure(compute: Compute, loader: Loader, share: float) -> Compute:
    """Put structure beside the vectors, λ is ``share``: the encoder's, or that of ``builtin``."""

    def joined(sentences: Sentences | None, trees: TreeCache | None, show: bool | None) -> Float:
        vectors = torch.from_numpy(compute(sentences, trees, show))
        if sentences is None:
            sentences = [] if trees is None else list(trees.words())
        return put_beside(vectors, loader.structure_source, sentences, share).numpy()

    return joined


class StoredVectors:
    """Vectors of token lists that are kept, in a subfolder of ``cache`` or, without one, in memory.

    What is computed, [n, D] or K = ``columns`` vectors of a sentence [K, n, D], must be finite.
    """

    def __init__(
        self, computed: Computed, cache: Path | None = None, columns: int = 1, dtype: str = "float32"
    ) -> None:
        self.computed, self.key, self.label = computed, computed.key, computed.label
        self.columns: Sequence[int] = range(columns)
        """The columns that are read, side by side."""
        self._options = (cache and cache / computed.key, columns, dtype)

    @cached_property
    def store(self) -> VectorStore:
        """The vectors that are there."""
        return VectorStore(*self._options)

    def reading(self, columns: Sequence[int]) -> Self:
        """Return the same store, of which only these columns are read."""
        _, other = self.store, copy.copy(self)
        other.columns = columns
        return other

    def __call__(self, sentences: Any, **options: Any) -> Float:
        """Return the vectors of sentences, as :class:`Computed` does; those of raw text are not kept."""
        if options or not len(sentences or ()) or any(isinstance(sentence, str) for sentence in sentences):
            return self.computed(sentences, **options)
        texts, store = [text_of(tokens) for tokens in sentences], self.store
        self._add(store.missing(texts), store)
        blocks = [store.get(texts, column) for column in self.columns]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)

    def _add(self, texts: Sequence[str], store: VectorStore) -> None:
        """Compute the vectors of texts, and add them to the store."""
        computed, name = self.computed, self.computed.name
        if texts and computed.model is not None:
            _ = computed.model.stored_trees  # they are parsed now, with a progress of their own
        for chunk in chunks(texts, f"encode {name}"):
            vectors = computed([text.split(" ") for text in chunk])
            store.add(chunk, check_vectors(vectors, chunk, name, store.dim, store.columns))


Vectors = Computed | StoredVectors
"""Vectors of one encoder, with their key and label."""


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Vectors of several encoders, or of one, side by side."""

    parts: Sequence[Vectors]
    project: int | None = None
    """Size of a fixed Glorot random projection, the control for embedding size."""
    seed: int = 0
    """Seed of the projection."""

    @property
    def label(self) -> str:
        """Which vectors of its models these are."""
        return " + ".join(filter(None, (part.label for part in self.parts)))

    def __call__(self, sentences: Any, *, normalize: bool = False, **options: Any) -> Float:
        """Return the vectors of sentences, as :class:`Computed` does, at length 1 with ``normalize``."""
        if sentences is not None:
            sentences = read_elements(sentences, "encode", "sentences")  # a generator serves all parts
        blocks = [part(sentences, **options) for part in self.parts]
        vectors = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
        if self.project:
            shape = (vectors.shape[1], self.project)
            bound = np.sqrt(6.0 / sum(shape))  # Glorot's
            projection = np.random.RandomState(self.seed).uniform(-bound, bound, shape)
            vectors = vectors @ projection.astype(np.float32)
        return normalize_rows(torch.from_numpy(vectors)).numpy() if normalize else vectors
