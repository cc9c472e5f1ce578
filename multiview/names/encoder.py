"""The methods of every encoder (:class:`BaseEncoder`), and encoders that are loaded at the first sentence.

An encoder returns two kinds of vectors: ``encode`` returns those that are compared by cosine, ``features``
those that classifiers are trained on. For most encoders they are the same. A model with a read-out, a share
of structure or a scale has *features*, which are standardised numbers; by cosine its meanings are compared,
or the vectors of its views if no read-out was fitted. With ``?kind=`` in a name, both methods return the
same kind.

The encoder of one name is a :class:`LazyEncoder` of one of two classes: :class:`TreeEncoder` for a multi-view
model, :class:`TextEncoder` for any other encoder. :mod:`multiview.names.store` can keep their vectors, and
:mod:`multiview.names.opened` concatenates those of several encoders.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from corpora.sentences import read_sentences
from multiview.encoders.meaning import FEATURE_LENGTH, Scale, sample_ranges
from multiview.folder.files import model_folder, model_record
from multiview.folder.reading import SentenceReader, TextSource
from multiview.libraries.arrays import Float, check_vectors
from multiview.model import MultiViewEncoder
from multiview.model_config import VectorKind
from multiview.names.grammar import NO_SCALE, Name
from multiview.structure.joining import append_structure
from parsing.names import absolute_name
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from runtime.files import json_digest
from runtime.process import cached_property
from runtime.products import ProductKind, products_in
from runtime.progress import progress

Method = Literal["encode", "features"]
"""The two methods of an encoder that return vectors."""
TreesOf = Callable[[MultiViewEncoder], TreeCache | None]
"""Returns a tree cache with the sentences of a loaded model, or None if there is none."""
MULTIVIEW_BATCH = 128
"""Sentences that a model encodes at a time."""
STORED_TOGETHER = 2048
"""Sentences that are encoded and stored together, so that a killed process loses at most these."""


class BaseEncoder(ABC):
    """An encoder of sentences with two methods: ``encode`` for cosines and ``features`` for classifiers.

    Both call :meth:`vectors`, which the subclasses define.
    """

    name: str
    """The short name, for tables and messages."""

    @property
    @abstractmethod
    def members(self) -> list[LazyEncoder]:
        """The encoders of single names of which this encoder consists."""

    @abstractmethod
    def key(self, method: Method = "encode") -> str:
        """Return a hex digest of everything that decides the vectors of a method."""

    def label(self, method: Method = "encode") -> str:
        """Return a label such as ``meaning, structure 0.15``; "" if the encoder has one kind of vectors."""
        return ""

    @abstractmethod
    def vectors(
        self,
        method: Method,
        sentences: Any,
        *,
        trees: TreeCache | None = None,
        show_progress_bar: bool | None = False,
    ) -> Float:
        """Return the vectors of sentences by one of the two methods, float32 [n, D].

        Args:
            method: The method, ``encode`` or ``features``.
            sentences: Strings or token lists; an empty one counts as ".". None means all of ``trees``.
            trees: A tree cache. Sentences in it are not parsed again.
            show_progress_bar: Whether a progress bar is shown; None shows it at a terminal.

        Raises UserError if the encoder returns another shape than [n, D] or values that are not finite.
        """

    @property
    def has_features(self) -> bool:
        """Whether :meth:`features` returns other vectors than :meth:`encode`."""
        return self.key("features") != self.key("encode")

    def encode(self, sentences: Any, **options: Any) -> Float:
        """Return the vectors for cosines, float32 [n, D]; ``options`` are those of :meth:`vectors`."""
        return self.vectors("encode", sentences, **options)

    def features(self, sentences: Any, **options: Any) -> Float:
        """Return the vectors for classifiers, float32 [n, F]; ``options`` are those of :meth:`vectors`."""
        return self.vectors("features", sentences, **options)


@dataclass(frozen=True, eq=False, kw_only=True)
class LazyEncoder(BaseEncoder):
    """The encoder of one name, or of an object, which is loaded when it encodes its first sentence."""

    reads_trees: ClassVar[bool]
    """Whether it is a multi-view model, which reads sentences with their trees."""
    parsed: Name
    family: str
    """The family of encoders: ``multiview``, ``words``, ``bag`` and so on; ``object`` has no name."""
    load: Callable[[str | None], Any] = field(repr=False)
    """Loads the encoder on a device: it returns a :class:`MultiViewEncoder`, another object with
    ``encode(sentences)``, or a function of sentences."""
    identity: Sequence[object] = ()
    """JSON values that decide the vectors."""
    has_own_features: bool = False
    """Whether ``features`` of what is loaded returns other vectors than its ``encode``."""
    has_meaning: bool = False
    """Whether ``encode`` returns meanings, not raw numbers."""
    share: float = 0.0
    """λ, the share of structure in what ``encode`` returns if the name does not give one."""
    device: str | None = None
    """The device; None takes a GPU if there is one."""
    trees: TreesOf | None = None
    """Returns the tree cache in which a multi-view model finds parsed sentences."""
    parsers: Mapping[str, str] = field(default_factory=dict)
    """Names of the parsers of all other sentences, by annotation, if not the builtin ones."""
    products: ProductKind | None = None
    """The number format in which a CPU multiplies; None is the default of :meth:`MultiViewEncoder.load`."""
    name: str = field(init=False)

    def __post_init__(self) -> None:
        """Set the name, and make paths absolute, because the working folder may change before loading."""
        parsers = {kind: absolute_name(parser) for kind, parser in self.parsers.items()}
        object.__setattr__(self, "parsers", parsers)
        object.__setattr__(self, "name", self.parsed.label)

    @property
    def members(self) -> list[LazyEncoder]:
        """This encoder alone."""
        return [self]

    @property
    def has_structure(self) -> bool:
        """Whether the encoder computes structure by itself; for all others ``builtin`` computes it."""
        return self.reads_trees and self.family != "random"

    @property
    def has_trained_words(self) -> bool:
        """Whether it is a multi-view model that trained its word vectors."""
        folder = model_folder(self.parsed.base)
        return self.family == "multiview" and model_record(folder).words.mode == "trained"

    def kind(self, method: Method) -> VectorKind | None:
        """Return the kind of vectors that a method returns; None is the default of the encoder."""
        parsed = self.parsed
        has_features = not parsed.kind and (self.has_own_features or parsed.scale_trees)
        kind: VectorKind | None = "features" if method == "features" and has_features else parsed.kind
        return "raw" if kind == "features" and parsed.scale == NO_SCALE else kind

    def key(self, method: Method = "encode") -> str:
        """Return a hex digest of everything that decides the vectors of a method."""
        products = ["int8"] if self.products == "int8" else []
        parsers = [self.parsers] if self.parsers else []
        return json_digest([self.identity, self.kind(method), FEATURE_LENGTH, *products, *parsers], 16)

    def label(self, method: Method = "encode") -> str:
        """Return a label such as ``meaning, structure 0.15``; "" if the encoder has one kind of vectors."""
        parsed, kind = self.parsed, self.kind(method)
        if not (self.has_own_features or parsed.kind or parsed.scale_trees):
            return ""
        share = parsed.structure
        if share is None:
            share = 0.0 if kind in ("features", "raw") else self.share
        label = kind or ("meaning" if self.has_meaning else "raw")
        return f"{label}, structure {share:g}" if share else label

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
            return self.load(self.device)

    @cached_property
    def stored_trees(self) -> TreeCache | None:
        """The tree cache of an encoder that reads trees; None if there is none."""
        return self.trees(self.loaded) if self.trees is not None and self.reads_trees else None

    @cached_property
    def structure_source(self) -> TextSource:
        """The parsers and word vectors by which structure is computed."""
        return TextSource.of(self.loaded if self.has_structure else None)

    def vectors(
        self,
        method: Method,
        sentences: Any,
        *,
        trees: TreeCache | None = None,
        show_progress_bar: bool | None = False,
    ) -> Float:
        """Return the vectors of sentences, as :meth:`BaseEncoder.vectors` does; nothing is kept."""
        parsed = self.parsed
        if sentences is None and not self.reads_trees:
            sentences = [] if trees is None else trees.words()
        texts = None if sentences is None else read_texts(sentences)
        if texts is not None and not texts:
            return self.vectors(method, ["."])[:0]
        vectors = self._compute(method, texts, trees, show_progress_bar)
        is_meaning = self.kind(method) in (None, "meaning") and not parsed.views
        if not parsed.structure or (self.has_structure and is_meaning):
            return vectors
        if texts is None:
            texts = [] if trees is None else list(trees.words())
        source = self.structure_source
        return append_structure(torch.from_numpy(vectors), source, texts, parsed.structure).numpy()

    @abstractmethod
    def _compute(self, method: Method, sentences: Any, trees: TreeCache | None, show: bool | None) -> Float:
        """Return the vectors without structure that is appended here.

        ``sentences`` are those of ``trees`` if they are None, which only an encoder that reads trees gets.
        """


class TreeEncoder(LazyEncoder):
    """A multi-view model."""

    reads_trees = True

    def _load(self) -> MultiViewEncoder:
        encoder: MultiViewEncoder = super()._load()
        encoder.reader.parser_names |= self.parsers
        if self.parsed.expand is not None:
            encoder.expand_vocabulary(self.parsed.expand)
        return encoder.with_options(structure=self.parsed.structure) if self.has_structure else encoder

    @cached_property
    def _scaled(self) -> MultiViewEncoder:
        """The loaded model, after its scale was measured over the tree cache that the name gives."""
        model: MultiViewEncoder = self.loaded
        if self.parsed.scale_trees is not None:
            model.measure(TreeCache.open(self.parsed.scale_trees))
        return model

    def _compute(self, method: Method, sentences: Any, trees: TreeCache | None, show: bool | None) -> Float:
        kind, views = self.kind(method), self.parsed.views
        model: MultiViewEncoder = self._scaled if kind == "features" else self.loaded
        options: dict[str, Any] = {"batch_size": MULTIVIEW_BATCH, "show_progress_bar": show}
        options["trees"] = trees or self.stored_trees
        if kind == "features":
            return model.features(sentences, views=views, **options)
        if kind == "raw" or (views and not kind):
            return model.view_vectors(sentences, views, **options)
        if kind == "meaning" and (model.readout is None or views):
            reason = "reads all views, not some" if model.readout else "was never fitted (multiview.readout)"
            raise UserError(f"model {self.parsed.full_name!r}: kind=meaning: that of {model.name} {reason}")
        return model.encode(sentences, **options)


@dataclass(frozen=True, eq=False, kw_only=True)
class TextEncoder(LazyEncoder):
    """An encoder of another library, or any other object or function, of strings or of token lists."""

    reads_trees = False
    reads_text: bool = False
    """Whether it encodes strings, the tokens of a sentence joined by spaces; otherwise token lists."""

    @cached_property
    def _reader(self) -> SentenceReader:
        """The tokenizer of strings for encoders of token lists."""
        return SentenceReader({})

    @cached_property
    def _scale(self) -> Scale | None:
        """The mean and the deviation of each number over a sample of the tree cache that the name gives."""
        if self.parsed.scale_trees is None:
            return None
        trees = TreeCache.open(self.parsed.scale_trees)
        sentences = [*trees.words(sample_ranges([(0, len(trees))]))]
        blocks = chunks(sentences, "", show=False)
        return Scale.measure(torch.from_numpy(self._call("encode", block, False)) for block in blocks)

    def _compute(self, method: Method, sentences: Any, trees: TreeCache | None, show: bool | None) -> Float:
        scale = self._scale if self.kind(method) == "features" else None
        vectors = self._call(method if self.has_own_features else "encode", sentences, show)
        return vectors if scale is None else scale(torch.from_numpy(vectors)).numpy()

    def _call(self, method: Method, sentences: Sequence[Any], show: bool | None) -> Float:
        """Return what a method of the loaded encoder returns for sentences."""
        encode = getattr(self.loaded, method, self.loaded)  # it may be a function itself
        blocks = chunks([*map(self._input, sentences)], f"encode {self.name}", show)
        return np.concatenate([check_vectors(encode(block), block, self.name)[0] for block in blocks])

    def _input(self, sentence: str | Sequence[str]) -> object:
        if self.reads_text:
            return text_of(sentence)
        return self._reader.tokens(sentence) if isinstance(sentence, str) else list(sentence)


def read_texts(sentences: object) -> list[str | Sequence[str]]:
    """Return the sentences of a list as strings or tokens, a blank one as ".".

    Raises UserError if it is no list of sentences.
    """
    texts = read_sentences(sentences, "encode", spaces=True)
    return [text if "".join(text).strip() else "." for text in texts]


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
