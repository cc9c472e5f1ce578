"""Step 3 of 4 from a name to vectors: the encoder of a recipe is loaded and computes one kind of vectors.

:func:`computed_vectors` returns a function of sentences, :class:`ComputedVectors`, for ``encode`` or for
``features``. It calls :class:`MultiViewVectors` for a multi-view encoder and :class:`LibraryVectors` for any
other, then :func:`scaled` for ``?scale=`` and :func:`with_structure` for ``?structure=``. The :class:`Loader`
loads the encoder at the first sentence. :mod:`multiview.names.store` can keep the vectors, and step 4,
:mod:`multiview.names.opened`, concatenates those of several encoders.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from corpora.sentences import read_sentences
from multiview.encoders.meaning import Scale, sample_ranges
from multiview.folder.reading import SentenceReader, TextSource
from multiview.libraries.arrays import Float, check_vectors
from multiview.model import MultiViewEncoder
from multiview.model_config import VectorKind
from multiview.names.recipe import EncoderRecipe, Method
from multiview.structure.joining import append_structure
from parsing.names import absolute_name
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from runtime.process import cached_property
from runtime.products import ProductKind, products_in
from runtime.progress import progress

TreesOf = Callable[[MultiViewEncoder], TreeCache | None]
"""Returns a tree cache with the sentences of a loaded model, or None if there is none."""
Sentences = Sequence[str | Sequence[str]]
Compute = Callable[[Sentences | None, TreeCache | None, bool | None], Float]
"""Returns the vectors of sentences, or of all sentences of a tree cache if the first argument is None. The
last argument shows a progress bar; None shows it at a terminal."""
MULTIVIEW_BATCH = 128
"""Sentences that a model encodes at a time."""


STORED_TOGETHER = 2048
"""Sentences that are encoded and stored together, so that a killed process loses at most these."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Loader:
    """The encoder of a recipe, and the tree cache of its sentences; each is loaded when it is first used."""

    recipe: EncoderRecipe
    device: str | None = None
    """The device; None takes a GPU if there is one."""
    trees: TreesOf | None = None
    """Returns the tree cache in which a multi-view encoder finds parsed sentences."""
    parsers: Mapping[str, str] = field(default_factory=dict)
    """Names of the parsers of all other sentences, by annotation, if not the builtin ones."""
    products: ProductKind | None = None
    """The number format in which a CPU multiplies; None is the default of :meth:`MultiViewEncoder.load`."""

    def __post_init__(self) -> None:
        """Make the paths of parsers absolute, because the working folder may change before loading."""
        parsers = {kind: absolute_name(parser) for kind, parser in self.parsers.items()}
        object.__setattr__(self, "parsers", parsers)

    def key(self, method: Method) -> str:
        """Return a hex digest of all that decides the vectors of a method, with products and parsers."""
        products = ["int8"] if self.products == "int8" else []
        parsers = [dict(self.parsers)] if self.parsers else []
        return self.recipe.key(method, *products, *parsers)

    @property
    def loaded(self) -> Any:
        """The loaded encoder. If loading failed, each use raises the same UserError without a new attempt."""
        if isinstance(self._loaded_or_error, UserError):
            raise self._loaded_or_error
        return self._loaded_or_error

    @cached_property
    def _loaded_or_error(self) -> Any:
        try:
            return self._load()
        except UserError as error:
            return error  # not tried again: a look-up without a network takes over a minute

    def _load(self) -> Any:
        with products_in(self.products):
            encoder = self.recipe.load(self.device)
        if isinstance(encoder, MultiViewEncoder):
            encoder.reader.parser_names |= self.parsers
            if self.recipe.name.expand is not None:
                encoder.expand_vocabulary(self.recipe.name.expand)
            if self.recipe.has_structure:
                encoder = encoder.with_options(structure=self.recipe.name.structure)
        return encoder

    @cached_property
    def stored_trees(self) -> TreeCache | None:
        """The tree cache of an encoder that reads trees; None if there is none."""
        if self.trees is None or self.recipe.reads != "trees":
            return None
        return self.trees(self.loaded)

    @cached_property
    def structure_source(self) -> TextSource:
        """The parsers and word vectors by which structure is computed."""
        return TextSource.of(self.loaded if self.recipe.has_structure else None)


@dataclass(frozen=True, eq=False, kw_only=True)
class ComputedVectors:
    """A function of sentences that computes one kind of vectors at each call."""

    key: str
    label: str
    name: str
    """The encoder's name, for messages."""
    compute: Compute
    model: Loader | None = None
    """The loader of an encoder that reads trees; None for all others."""

    def __call__(
        self, sentences: Any, *, trees: TreeCache | None = None, show_progress_bar: bool | None = False
    ) -> Float:
        """Return the vectors, float32 [n, D], of strings or token lists; an empty sentence counts as ".".

        If ``sentences`` is None, all sentences of ``trees`` are encoded. Sentences in ``trees`` are not
        parsed again. Raises UserError if the encoder returns another shape than [n, D] or values that are not
        finite.
        """
        if sentences is None and self.model is None:
            sentences = [] if trees is None else trees.words()
        if sentences is not None:
            texts = read_sentences(sentences, "encode", spaces=True)
            if not texts:
                return self(["."])[:0]
            sentences = [text if "".join(text).strip() else "." for text in texts]
        return self.compute(sentences, trees, show_progress_bar)


def computed_vectors(loader: Loader, method: Method) -> ComputedVectors:
    """Return the function of sentences that computes what a method of a loader's encoder returns."""
    recipe, kind = loader.recipe, loader.recipe.vector_kind(method)
    name, reads_trees = recipe.name, recipe.reads == "trees"
    compute: Compute = MultiViewVectors(loader, kind)
    if not reads_trees:
        has_own = recipe.has_features and kind == "features"
        compute = LibraryVectors(loader, "features" if has_own else "encode")
        if name.scale_trees is not None and kind == "features":
            compute = scaled(compute, name.scale_trees)
    has_structure = recipe.has_structure and kind in (None, "meaning") and not name.views
    if name.structure and not has_structure:
        compute = with_structure(compute, loader, name.structure)
    return ComputedVectors(
        key=loader.key(method),
        label=recipe.label_of(method),
        name=name.label,
        compute=compute,
        model=loader if reads_trees else None,
    )


@dataclass(frozen=True, eq=False)
class MultiViewVectors:
    """Computes one kind of vectors of a multi-view encoder; None is that of its ``encode``."""

    loader: Loader
    kind: VectorKind | None

    @cached_property
    def model(self) -> MultiViewEncoder:
        """The encoder; for features its scale is measured over the tree cache that the name gives."""
        model: MultiViewEncoder = self.loader.loaded
        scale_trees = self.loader.recipe.name.scale_trees
        if self.kind == "features" and scale_trees is not None:
            model.measure(TreeCache.open(scale_trees))
        return model

    def __call__(self, sentences: Any, trees: TreeCache | None, show: bool | None) -> Float:
        """Return the vectors of sentences, or of all sentences of ``trees``."""
        model, name, kind = self.model, self.loader.recipe.name, self.kind
        options: dict[str, Any] = {"batch_size": MULTIVIEW_BATCH, "show_progress_bar": show}
        options["trees"] = trees or self.loader.stored_trees
        if kind == "features":
            return model.features(sentences, views=name.views, **options)
        if kind == "raw" or (name.views and not kind):
            return model.view_vectors(sentences, name.views, **options)
        if kind == "meaning" and (model.readout is None or name.views):
            reason = "reads all views, not some" if model.readout else "was never fitted (multiview.readout)"
            raise UserError(f"model {name.full_name!r}: kind=meaning: that of {model.name} {reason}")
        return model.encode(sentences, **options)


@dataclass(frozen=True, eq=False)
class LibraryVectors:
    """Computes vectors by a method of an encoder of another library, or of any other object."""

    loader: Loader
    method: Method

    @cached_property
    def reader(self) -> SentenceReader:
        """The tokenizer of strings for encoders that take token lists."""
        return SentenceReader({})

    def __call__(self, sentences: Any, trees: TreeCache | None, show: bool | None) -> Float:
        """Return the vectors of sentences; ``trees`` is not used."""
        loaded, name = self.loader.loaded, self.loader.recipe.name.label
        encode = getattr(loaded, self.method, loaded)  # it may be a function itself
        blocks = chunks([*map(self._input, sentences)], f"encode {name}", show)
        return np.concatenate([check_vectors(encode(block), block, name)[0] for block in blocks])

    def _input(self, sentence: str | Sequence[str]) -> object:
        if self.loader.recipe.reads == "text":
            return text_of(sentence)
        return self.reader.tokens(sentence) if isinstance(sentence, str) else list(sentence)


def scaled(compute: Compute, text: Path) -> Compute:
    """Return ``compute`` with each number standardised over a sample of a tree cache."""

    @functools.cache
    def scale() -> Scale:
        trees = TreeCache.open(text)
        sentences = [*trees.words(sample_ranges([(0, len(trees))]))]
        firsts = range(0, len(sentences), STORED_TOGETHER)
        blocks = (sentences[first : first + STORED_TOGETHER] for first in firsts)
        return Scale.measure(torch.from_numpy(compute(block, None, False)) for block in blocks)

    return lambda *call: scale()(torch.from_numpy(compute(*call))).numpy()


def with_structure(compute: Compute, loader: Loader, share: float) -> Compute:
    """Return ``compute`` with structure concatenated to its vectors; λ is ``share``."""

    def joined(sentences: Sentences | None, trees: TreeCache | None, show: bool | None) -> Float:
        vectors = torch.from_numpy(compute(sentences, trees, show))
        if sentences is None:
            sentences = [] if trees is None else list(trees.words())
        return append_structure(vectors, loader.structure_source, sentences, share).numpy()

    return joined


def text_of(sentence: str | Sequence[str]) -> str:
    """Return a sentence as one string: its tokens joined by a space, or "." if there are none."""
    return (sentence if isinstance(sentence, str) else " ".join(sentence)) or "."


def chunks(sentences: Sequence[Any], title: str, show: bool | None = None) -> Iterator[Sequence[Any]]:
    """Yield sentences in chunks of :data:`STORED_TOGETHER`, with a progress bar."""
    with progress(total=len(sentences), description=title, show=show) as bar:
        for first in range(0, len(sentences), STORED_TOGETHER):
            chunk = sentences[first : first + STORED_TOGETHER]
            yield chunk
            bar.update(len(chunk))
