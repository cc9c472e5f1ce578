"""Opens encoders by name: they give vectors of sentences, of lines of text and of tree caches.

    encoder = open_encoder("runs/models/mine+glove.txt")
    encoder([["A", "sentence", "."]])         # token lists, as evaluations have them; the vectors are kept
    encoder.encode(["A sentence."])           # raw texts, which the encoders tokenise themselves

:class:`SingleEncoder` is one encoder and its store of vectors; :class:`OpenedEncoder` has one of them or puts
several side by side. docs/senteval.md lists the names.

Legend of dimension suffixes: K vectors of a sentence (layers of an encoder; else 1), n sentences, D size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from corpora.sentences import read_sentences
from multiview.encoders.meaning import normalize_rows
from multiview.folder.reading import SentenceReader
from multiview.model import MultiViewEncoder
from multiview.names.grammar import split_parts
from multiview.names.sources import BoundModel, Source, TreesOf, find_source, source_of
from multiview.names.store import CHUNK, VectorStore
from multiview.pretrained import Encode, Float, check_vectors
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from runtime.files import json_digest
from runtime.progress import progress
from runtime.surroundings import cached_property

Tokens = list[str]
SentenceVectors = Callable[[Sequence[Tokens]], Float]
"""Tokenised sentences to float32 [n, D], one row each, in order."""


@runtime_checkable
class Encoder(Protocol):
    """Any sentence encoder.

    ``encode`` gets sentences as tokens joined by one space (an empty one as "."), or as token lists if the
    encoder has ``pretokenized = True``. It returns an array or tensor [n, D], one row per sentence.
    """

    def encode(self, sentences: Any, /) -> Any:
        """Return vectors [n, D]."""


def text_of(tokens: Sequence[str]) -> str:
    """Return a sentence as encoders get it: tokens joined by one space, an empty one as "."."""
    return " ".join(tokens) or "."


@dataclass(eq=False)
class SingleEncoder:
    """One encoder, loaded when it is first needed, and the vectors that it gave."""

    load: Callable[[], Encode]
    """Returns the function that encodes sentences."""
    _: KW_ONLY
    tokens: bool
    """Whether that function takes token lists; else it takes strings."""
    name: str = "encoder"
    store: VectorStore = field(default_factory=VectorStore)
    """Keeps the vectors, by default in memory."""
    source: Source | None = None
    """The meaning of the encoder's name, if it has one."""
    identity: Sequence[Any] = ()
    """Decides its vectors."""
    reader: SentenceReader = field(init=False, default_factory=lambda: SentenceReader({}))

    @cached_property
    def _function_or_error(self) -> Encode | UserError:
        try:
            return self.load()
        except UserError as error:
            return error  # which took over a minute if a name was looked up without a network

    @property
    def function(self) -> Encode:
        """The function that encodes; reading it raises the UserError of loading, which is tried once."""
        if isinstance(self._function_or_error, UserError):
            raise self._function_or_error
        return self._function_or_error

    def encode(self, sentences: Sequence[Any]) -> Float:
        """Return the vectors [K, n, D] of sentences as the encoder takes them; they are not kept.

        Another shape or dimension, or values that are not finite, are a UserError.
        """
        encode = self.function
        if not sentences:
            return self.encode([["."] if self.tokens else "."])[:, :0]
        return check_vectors(encode(sentences), sentences, self.name, self.store.dim, self.store.columns)

    def encode_texts(
        self, texts: Sequence[str | Sequence[str]] | None, trees: TreeCache | None, show: bool | None
    ) -> Float:
        """Encode raw texts, or all sentences of a cache, to [K, n, D]; see :meth:`OpenedEncoder.encode`."""
        encode = self.function
        if isinstance(encode, BoundModel):
            return encode.model.encode(texts, trees=trees, show_progress_bar=show, **encode.options)[None]
        if texts is None:
            texts = [] if trees is None else list(trees.words())
        sentences: list[Any]
        if self.tokens:
            sentences = [self.reader.tokens(text) for text in texts]
        else:
            sentences = [text if isinstance(text, str) else text_of(text) for text in texts]
        if not sentences:
            return self.encode(sentences)
        return np.concatenate([self.encode(chunk) for chunk in self._chunks(sentences, show)], axis=1)

    def fill(self, sentences: Sequence[Tokens]) -> list[str]:
        """Encode the sentences that the store lacks, and return all sentences as texts."""
        texts = [text_of(tokens) for tokens in sentences]
        missing = self.store.missing(texts)
        if missing:
            _ = self._function_or_error  # trees are parsed now, with a progress of their own
        for chunk in self._chunks(missing):
            inputs = [text.split(" ") for text in chunk] if self.tokens else chunk
            self.store.add(chunk, self.encode(inputs))
        return texts

    def _chunks(self, sentences: Sequence[Any], show: bool | None = None) -> Iterator[Sequence[Any]]:
        with progress(total=len(sentences), description=f"encode {self.name}", show=show) as bar:
            for start in range(0, len(sentences), CHUNK):
                chunk = sentences[start : start + CHUNK]
                yield chunk
                bar.update(len(chunk))


@dataclass(eq=False, kw_only=True)
class OpenedEncoder:
    """Sentence vectors by one encoder, or by several side by side; all vectors of a part are joined."""

    parts: Sequence[SingleEncoder]
    name: str = "encoder"
    """For tables."""
    spec: str = ""
    """The name as the user gave it."""
    project: int | None = None
    """Size of a fixed Glorot random projection, the control for embedding size."""
    seed: int = 0
    """Seed of the projection."""
    feature_parts: Sequence[SingleEncoder] = ()
    """The parts as classifiers get them (:attr:`Source.for_classifiers`), where those differ."""
    columns: Sequence[int] = ()
    """Which of each part's K vectors are read; none given is all."""

    @property
    def for_classifiers(self) -> OpenedEncoder:
        """This encoder as classifiers get it, which may be itself."""
        return replace(self, parts=self.feature_parts, feature_parts=()) if self.feature_parts else self

    @property
    def vector_label(self) -> str:
        """Which vectors of its models these are."""
        return " + ".join(source.vector_label for source in self.sources if source.vector_label)

    @property
    def identity(self) -> list[Any]:
        """Everything that decides its vectors."""
        of_projection = [("project", self.project, self.seed)] if self.project else []
        return [*(value for part in self.parts for value in part.identity), *of_projection, *self.columns]

    @property
    def key(self) -> str:
        """A digest of everything that decides its vectors."""
        return json_digest(self.identity, 16)

    @property
    def dim(self) -> int | None:
        """The size D of a vector; None before the first one."""
        sizes = [(len(self.columns) or part.store.columns) * (part.store.dim or 0) for part in self.parts]
        return (self.project or sum(sizes)) if all(sizes) else None

    @property
    def sources(self) -> list[Source]:
        """The sources of those of its parts that have a name."""
        return [part.source for part in self.parts if part.source is not None]

    def __call__(self, sentences: Sequence[Tokens]) -> Float:
        """Return the vectors [n, D] of token lists, kept; errors are those of :meth:`encode`."""
        blocks = []
        for part in self.parts:
            texts = part.fill(sentences)
            blocks += [part.store.get(texts, column) for column in self.columns or range(part.store.columns)]
        return self._joined(blocks)

    def encode(
        self,
        texts: Iterable[str | Sequence[str]] | None,
        *,
        trees: TreeCache | None = None,
        normalize: bool = False,
        show_progress_bar: bool | None = False,
    ) -> Float:
        """Return the vectors [n, D] of raw texts, or of all sentences of a cache; they are not kept.

        The encoders themselves tokenise the texts. Where one reads trees, sentences found in ``trees`` are
        not parsed again. ``normalize`` scales every vector but zero to length 1. With ``show_progress_bar``
        None a bar is shown in notebooks and commands alone.
        """
        sentences = None
        if texts is not None:
            inputs = read_sentences(texts, "encode")
            strings = [text if isinstance(text, str) else text_of(text) for text in inputs]
            sentences = [string if string.strip() else "." for string in strings]
        blocks: list[Float] = []
        for part in self.parts:
            vectors_KnD = part.encode_texts(sentences, trees, show_progress_bar)
            blocks += [vectors_KnD[column] for column in self.columns or range(len(vectors_KnD))]
        vectors = self._joined(blocks)
        return normalize_rows(torch.from_numpy(vectors)).numpy() if normalize else vectors

    def _joined(self, blocks: Sequence[Float]) -> Float:
        vectors: Float = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
        if self.project:
            shape = (vectors.shape[1], self.project)
            bound = np.sqrt(6.0 / sum(shape))  # Glorot's
            projection = np.random.RandomState(self.seed).uniform(-bound, bound, shape)
            vectors = vectors @ projection.astype(np.float32)
        return vectors


def distinct_names(names: Sequence[str], specs: Sequence[str]) -> list[str]:
    """Return names for models: their own, but the specs of those that share a name."""
    return [spec if names.count(name) > 1 else name for name, spec in zip(names, specs, strict=True)]


def as_vectors(encoder: Encoder | SentenceVectors, trees: TreesOf | None = None) -> OpenedEncoder:
    """Put an encoder, or a function of token lists, behind a store in memory; refuse anything else."""
    if isinstance(encoder, OpenedEncoder):
        return encoder
    if isinstance(encoder, MultiViewEncoder):
        return _open_sources([source_of(encoder)], trees=trees)
    is_encoder = isinstance(encoder, Encoder)
    if not is_encoder and not callable(encoder):
        raise UserError(
            f"{encoder!r:.60} is no encoder: give an object with encode(sentences) or a function of token "
            "lists; either returns an array [sentences, dimensions]"
        )
    load = functools.partial(getattr, encoder, "encode" if is_encoder else "__call__")
    takes_tokens = bool(getattr(encoder, "pretokenized", not is_encoder))
    return OpenedEncoder(parts=[SingleEncoder(load, tokens=takes_tokens)])


def open_encoder(
    spec: str,
    *,
    cache: Path | None = None,
    seed: int = 0,
    project: int | None = None,
    device: str | None = None,
    trees: TreesOf | None = None,
    parsers: Mapping[str, str] | None = None,
) -> OpenedEncoder:
    """Return the encoder a name means, ``A+B`` both side by side; loaded when the first vector is missing.

    ``cache`` is a folder of stores, one subfolder per part; without, vectors are kept in memory. ``seed`` is
    that of random encoders and of the projection to ``project`` dimensions. Without ``device`` a GPU is taken
    if there is one. ``trees`` finds the trees of a multi-view encoder's sentences; others are parsed, by
    ``parsers`` where, by annotation, they are not the builtin ones.
    """
    sources = [find_source(part, seed=seed) for part in split_parts(spec)]
    encoder = _open_sources(sources, cache, device=device, trees=trees, parsers=parsers)
    return replace(encoder, spec=spec, project=project, seed=seed)


def _open_sources(sources: Sequence[Source], cache: Path | None = None, **options: Any) -> OpenedEncoder:
    """Return the encoders of sources side by side; ``options`` are those of :meth:`Source.open`."""
    feature_sources = [source.for_classifiers for source in sources]

    def open_parts(sources: Sequence[Source]) -> list[SingleEncoder]:
        return [
            SingleEncoder(
                functools.partial(source.open, **options),
                tokens=source.takes_tokens,
                name=source.name.label,
                store=VectorStore(cache and cache / source.key),
                source=source,
                identity=[source.key],
            )
            for source in sources
        ]

    # Joined encoders compare by features: beside larger vectors a meaning, whose length is 1, hardly counts.
    differ = len(sources) == 1 and feature_sources != list(sources)
    return OpenedEncoder(
        parts=open_parts(sources if differ else feature_sources),
        feature_parts=open_parts(feature_sources) if differ else (),
        name="+".join(source.name.label for source in sources),
    )
